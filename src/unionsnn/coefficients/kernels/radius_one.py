"""The kernel for radius 1: from an undirected edge to its raw quantities.

Trees take their value from a table of double stars. Small quotient matrices are looked up by their
full key in a table of values seen before; the value is always computed from the key's own order of
classes, so a hit and a miss give the same bits. A new key replaces an old one in its slot, which
bounds the memory.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from unionsnn.coefficients.kernels.arguments import Csr
from unionsnn.coefficients.kernels.jit import kernel
from unionsnn.coefficients.kernels.path_matrices import double_star_coefficient, path_coefficient
from unionsnn.coefficients.kernels.routes import KNOWN, choose_hub
from unionsnn.coefficients.kernels.spectra import OWN_SOLVER_LIMIT
from unionsnn.coefficients.kernels.substructures import (
    COLORS,
    KEY,
    KINDS,
    MEMBERS,
    RANK,
    REDUCED,
    ROWS,
    SCRATCH_ROWS,
    SIZES,
    SORTED_KINDS,
    SORTED_ROWS,
    SORTED_SIZES,
    WORD,
    Word,
    induced_lists,
    induced_rows,
    mix,
    popcount,
    reduced_rows,
    sort_classes,
    twin_classes_of_lists,
    twin_classes_of_rows,
    union_nodes,
)

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
NodeArray = npt.NDArray[np.int32]

_STAR_TABLE = 64
_MAX_SLOTS = 1 << 18

# A key holds 16 bits of adjacency, 7 bits of size and 1 bit of kind for each of 16 classes.
_KEY_CLASSES = 16
_KEY_WORDS = 6


class Workspace(NamedTuple):
    """Workspace of one thread.

    ``local`` maps nodes to positions in the current subgraph, -1 outside, and is restored after
    each edge; ``stars`` holds a of double stars by end degrees, NaN where not yet computed;
    ``keys`` and ``known`` are the table of quotient matrices seen before. The last two rows of
    ``matrix`` are the diagonals that the eigenvalue solver works on.
    """

    local: NodeArray
    nodes: NodeArray
    scratch: IntArray
    matrix: FloatArray
    stars: FloatArray
    keys: IntArray
    known: FloatArray


def new_workspace(num_nodes: int, max_degree: int, num_edges: int) -> Workspace:
    """Allocate the workspace of one thread for a graph of the given sizes."""
    slots = min(_MAX_SLOTS, 1 << max(6, (num_edges // 4).bit_length()))
    stars = min(_STAR_TABLE, max_degree + 1)
    return Workspace(
        local=np.full(num_nodes, -1, np.int32),
        nodes=np.empty(2 * max_degree, np.int32),
        scratch=np.empty((SCRATCH_ROWS, WORD), np.int64),
        matrix=np.empty((OWN_SOLVER_LIMIT + 2, OWN_SOLVER_LIMIT)),
        stars=np.full((stars, stars), np.nan),
        keys=np.zeros((slots, _KEY_WORDS), np.int64),
        known=np.empty(slots),
    )


@kernel
def compute_chunk(
    graph: Csr,
    begin: int,
    end: int,
    routes: NodeArray,
    classes: NodeArray,
    work: Workspace,
    wanted: IntArray,
    values: FloatArray,
) -> None:
    """Compute the wanted quantities of the edges begin..end-1, except a of edges left to a hub.

    Shapes:
        routes [M] (in: `KNOWN` or `DIRECT`, out: the hub where a is left NaN), classes [N] or [0]
        (of `hub_classes`), wanted [4] (output column of a, a_tree, nodes
        and edges, or -1), values [M, C].
    """
    indptr, indices, edges = graph.indptr, graph.indices, graph.edges
    column_a, column_tree, column_nodes, column_edges = wanted
    local, nodes, rows = work.local, work.nodes, work.scratch[ROWS]
    for i in range(begin, end):
        if routes[i] == KNOWN:
            continue
        v, u = edges[0, i], edges[1, i]
        degree_v, degree_u = indptr[v + 1] - indptr[v], indptr[u + 1] - indptr[u]
        if column_tree >= 0:
            values[i, column_tree] = _tree_coefficient(degree_v, degree_u, work.stars, work.matrix)
        if column_a < 0 and column_nodes < 0 and column_edges < 0:
            continue
        count = union_nodes(indptr, indices, v, u, nodes)
        if column_nodes >= 0:
            values[i, column_nodes] = count
        if column_a < 0 and column_edges < 0:
            continue
        for k in range(count):
            local[nodes[k]] = k
        if count <= WORD:
            num_edges = induced_rows(indptr, indices, nodes, count, local, rows)
            starts, neighbors = indptr[:0], nodes[:0]
        else:
            starts, neighbors = induced_lists(indptr, indices, nodes, count, local)
            num_edges = neighbors.shape[0] // 2
        for k in range(count):
            local[nodes[k]] = -1
        if column_edges >= 0:
            values[i, column_edges] = num_edges
        if column_a < 0:
            continue
        if num_edges == count - 1:
            a = _tree_coefficient(degree_v, degree_u, work.stars, work.matrix)
        elif count <= WORD:
            a = _small_coefficient(count, work.scratch, work.matrix, work.keys, work.known)
        else:
            members, sizes, kinds, quotient = twin_classes_of_lists(starts, neighbors)
            order = members.shape[0]
            routes[i] = choose_hub(classes, v, u, degree_v, degree_u, count, order)
            if routes[i] >= 0:
                a = np.nan
            else:
                a = path_coefficient(
                    quotient, sizes, kinds, order, work.matrix, work.matrix[-2], work.matrix[-1]
                )
        values[i, column_a] = a


@kernel
def _tree_coefficient(degree_v: int, degree_u: int, stars: FloatArray, matrix: FloatArray) -> float:
    """Look up or compute the coefficient of the double star with the given end degrees."""
    if max(degree_v, degree_u) >= _STAR_TABLE:
        return double_star_coefficient(degree_v, degree_u, matrix, matrix[-2], matrix[-1])
    if np.isnan(stars[degree_v, degree_u]):
        stars[degree_v, degree_u] = double_star_coefficient(
            degree_v, degree_u, matrix, matrix[-2], matrix[-1]
        )
    return stars[degree_v, degree_u]


@kernel
def _small_coefficient(
    count: int, scratch: IntArray, matrix: FloatArray, keys: IntArray, known: FloatArray
) -> float:
    """Return the coefficient of a union subgraph of at most 64 nodes, given as bit rows."""
    classes = twin_classes_of_rows(
        scratch[ROWS], count, scratch[MEMBERS], scratch[SIZES], scratch[KINDS]
    )
    reduced_rows(scratch[ROWS], scratch[MEMBERS], classes, scratch[REDUCED])
    _color_classes(classes, scratch)
    sort_classes(scratch[COLORS], classes, scratch)
    slot = np.int64(-1)
    if classes <= _KEY_CLASSES:
        slot = _write_key(classes, scratch) & (known.shape[0] - 1)
        hit = True
        for k in range(_KEY_WORDS):
            hit = hit and keys[slot, k] == scratch[KEY, k]
        if hit:
            return known[slot]
    a = path_coefficient(
        scratch[SORTED_ROWS].reshape(WORD, 1),
        scratch[SORTED_SIZES],
        scratch[SORTED_KINDS],
        classes,
        matrix,
        matrix[-2],
        matrix[-1],
    )
    if slot >= 0:
        known[slot] = a
        for k in range(_KEY_WORDS):
            keys[slot, k] = scratch[KEY, k]
    return a


@kernel
def _color_classes(classes: int, scratch: IntArray) -> None:
    """Colour the classes by their own and their neighbours' structure."""
    rows, looks = scratch[REDUCED], scratch[RANK]
    for k in range(classes):
        looks[k] = mix((popcount(rows[k]) << 8) | (scratch[SIZES, k] << 1) | scratch[KINDS, k])
    for k in range(classes):
        color = 3 * looks[k]
        row = rows[k]
        while row != 0:
            color += looks[popcount((row & -row) - 1)]
            row &= row - 1
        scratch[COLORS, k] = color


@kernel
def _write_key(classes: int, scratch: IntArray) -> Word:
    """Pack the sorted classes into the key and return its hash.

    A class has at most 64 members, which 7 bits hold. A size is at least 1, so the key also
    determines the number of classes and is never zero.
    """
    key = scratch[KEY]
    for k in range(_KEY_WORDS):
        key[k] = 0
    for k in range(classes):
        key[k >> 2] |= scratch[SORTED_ROWS, k] << ((k & 3) << 4)
        packed = (scratch[SORTED_SIZES, k] << 1) | scratch[SORTED_KINDS, k]
        key[4 + (k >> 3)] |= packed << ((k & 7) << 3)
    digest: Word = np.int64(0)
    for k in range(_KEY_WORDS):
        digest = mix(digest ^ key[k])
    return digest
