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
from unionsnn.coefficients.kernels.path_matrices import (
    fill_double_star,
    fill_path_quotient,
)
from unionsnn.coefficients.kernels.routes import (
    ALONE,
    ALONE_ORDER,
    DIRECT,
    KNOWN,
    Hubs,
    choose_hub,
)
from unionsnn.coefficients.kernels.spectra import OWN_SOLVER_LIMIT, positive_eigenvalue_sum
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
    work: Workspace,
    wanted: IntArray,
    values: FloatArray,
) -> int:
    """Compute the wanted quantities but a_tree of the edges begin..end-1 of at most 64 nodes.

    Shapes:
        routes [M] (`KNOWN` or `DIRECT`), wanted [4] (output column of a, a_tree, nodes and edges,
        or -1), values [M, C].

    Returns:
        Number of edges whose a and edges are left to `compute_large`.
    """
    indptr, indices, edges = graph.indptr, graph.indices, graph.edges
    column_a, column_nodes, column_edges = wanted[0], wanted[2], wanted[3]
    local, nodes, scratch, stars = work.local, work.nodes, work.scratch, work.stars
    matrix, keys, known = work.matrix, work.keys, work.known
    rows, sizes, kinds = scratch[ROWS], scratch[SORTED_SIZES], scratch[SORTED_KINDS]
    quotient, diagonal, squared = scratch[SORTED_ROWS].reshape(WORD, 1), matrix[-2], matrix[-1]
    left = 0
    for i in range(begin, end):
        if routes[i] == KNOWN:
            continue
        v, u = edges[0, i], edges[1, i]
        degree_v, degree_u = indptr[v + 1] - indptr[v], indptr[u + 1] - indptr[u]
        count = union_nodes(indptr, indices, v, u, nodes)
        if column_nodes >= 0:
            values[i, column_nodes] = count
        if column_a < 0 and column_edges < 0:
            continue
        if count > WORD:
            left += 1
            continue
        for k in range(count):
            local[nodes[k]] = k
        num_edges = induced_rows(indptr, indices, nodes, count, local, rows)
        for k in range(count):
            local[nodes[k]] = -1
        if column_edges >= 0:
            values[i, column_edges] = num_edges
        if column_a < 0:
            continue
        # One call of the solver for all: each would be compiled into this function again.
        a, order, slot = np.nan, 0, np.int64(-1)
        in_table = degree_v < _STAR_TABLE and degree_u < _STAR_TABLE
        if num_edges == count - 1:
            if in_table:
                a = stars[degree_v, degree_u]
            if np.isnan(a):
                order = fill_double_star(degree_v, degree_u, matrix)
        else:
            in_table = False
            classes = _sort_small_classes(count, scratch)
            if classes <= _KEY_CLASSES:
                slot = _write_key(classes, scratch) & (known.shape[0] - 1)
                hit = True
                for k in range(_KEY_WORDS):
                    hit = hit and keys[slot, k] == scratch[KEY, k]
                if hit:
                    a = known[slot]
            if np.isnan(a):
                fill_path_quotient(quotient, sizes, kinds, classes, matrix)
                order = classes
        if order > 0:
            a = 2.0 * positive_eigenvalue_sum(matrix, order, diagonal, squared)
            if in_table:
                stars[degree_v, degree_u] = a
            elif slot >= 0:
                known[slot] = a
                for k in range(_KEY_WORDS):
                    keys[slot, k] = scratch[KEY, k]
        values[i, column_a] = a
    return left


@kernel
def compute_trees(
    graph: Csr,
    begin: int,
    end: int,
    routes: NodeArray,
    work: Workspace,
    wanted: IntArray,
    values: FloatArray,
) -> None:
    """Compute a_tree of the edges begin..end-1.

    Shapes:
        As in `compute_chunk`.
    """
    indptr = graph.indptr
    for i in range(begin, end):
        if routes[i] != KNOWN:
            v, u = graph.edges[0, i], graph.edges[1, i]
            degree_v, degree_u = indptr[v + 1] - indptr[v], indptr[u + 1] - indptr[u]
            a = _tree_coefficient(degree_v, degree_u, work.stars, work.matrix)
            values[i, wanted[1]] = a


@kernel
def compute_large(
    graph: Csr,
    begin: int,
    end: int,
    routes: NodeArray,
    hubs: Hubs,
    work: Workspace,
    wanted: IntArray,
    values: FloatArray,
) -> None:
    """Compute a and edges of the edges begin..end-1 of more than 64 nodes, except a at a hub.

    Apart from `compute_chunk` because most sets have no such edge, and it takes seconds to compile.

    Shapes:
        routes [M] (in: `KNOWN` or `DIRECT`, out: the hub where a is left NaN), wanted [4]
        and values [M, C] as in `compute_chunk`.
    """
    indptr, indices = graph.indptr, graph.indices
    local, nodes, column_a, column_edges = work.local, work.nodes, wanted[0], wanted[3]
    for i in range(begin, end):
        v, u = graph.edges[0, i], graph.edges[1, i]
        degree_v, degree_u = indptr[v + 1] - indptr[v], indptr[u + 1] - indptr[u]
        if routes[i] == KNOWN or degree_v + degree_u <= WORD:
            continue
        count = union_nodes(indptr, indices, v, u, nodes)
        if count <= WORD:
            continue
        for k in range(count):
            local[nodes[k]] = k
        starts, neighbors = induced_lists(indptr, indices, nodes, count, local)
        for k in range(count):
            local[nodes[k]] = -1
        num_edges = neighbors.shape[0] // 2
        if column_edges >= 0:
            values[i, column_edges] = num_edges
        if column_a < 0:
            continue
        # One call of each solver for all: each would be compiled into this function again.
        a, order, matrix = np.nan, 0, work.matrix
        if num_edges == count - 1:
            order = fill_double_star(degree_v, degree_u, matrix)
        else:
            members, sizes, kinds, quotient = twin_classes_of_lists(starts, neighbors)
            classes = members.shape[0]
            routes[i] = choose_hub(hubs, v, u, degree_v, degree_u, count, classes)
            if routes[i] == DIRECT and classes > ALONE_ORDER:
                routes[i] = ALONE
            if routes[i] == DIRECT:
                order = classes
                if order > OWN_SOLVER_LIMIT:
                    matrix = np.empty((order, order))
                fill_path_quotient(quotient, sizes, kinds, order, matrix)
        if order > OWN_SOLVER_LIMIT:
            total = 0.0
            for eigenvalue in np.linalg.eigvalsh(matrix):
                total += max(eigenvalue, 0.0)
            a = 2.0 * total
        elif order > 0:
            a = 2.0 * positive_eigenvalue_sum(matrix, order, matrix[-2], matrix[-1])
        values[i, column_a] = a


@kernel
def quotient_of_edge(graph: Csr, i: int, work: Workspace) -> tuple[IntArray, IntArray, IntArray]:
    """Return bit rows, sizes and kinds of the classes of twins around an edge.

    Shapes:
        -> [m, ceil(m / 64)], [m], [m].
    """
    local, nodes = work.local, work.nodes
    count = union_nodes(graph.indptr, graph.indices, graph.edges[0, i], graph.edges[1, i], nodes)
    for k in range(count):
        local[nodes[k]] = k
    starts, neighbors = induced_lists(graph.indptr, graph.indices, nodes, count, local)
    for k in range(count):
        local[nodes[k]] = -1
    _, sizes, kinds, rows = twin_classes_of_lists(starts, neighbors)
    return rows, sizes, kinds


@kernel
def _tree_coefficient(degree_v: int, degree_u: int, stars: FloatArray, matrix: FloatArray) -> float:
    """Look up or compute the coefficient of the double star with the given end degrees."""
    in_table = degree_v < _STAR_TABLE and degree_u < _STAR_TABLE
    if in_table and not np.isnan(stars[degree_v, degree_u]):
        return stars[degree_v, degree_u]
    order = fill_double_star(degree_v, degree_u, matrix)
    a = 2.0 * positive_eigenvalue_sum(matrix, order, matrix[-2], matrix[-1])
    if in_table:
        stars[degree_v, degree_u] = a
    return a


@kernel
def _sort_small_classes(count: int, scratch: IntArray) -> int:
    """Sort the classes of twins of a subgraph of at most 64 nodes; return their number."""
    rows, members = scratch[ROWS], scratch[MEMBERS]
    classes = twin_classes_of_rows(rows, count, members, scratch[SIZES], scratch[KINDS])
    reduced_rows(rows, members, classes, scratch[REDUCED])
    _color_classes(classes, scratch)
    sort_classes(scratch[COLORS], classes, scratch)
    return classes


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
