"""The kernel for any radius: from an undirected edge to the descriptor of its substructure.

Small quotient matrices are looked up by their full key in a table of values seen before; the value
is always computed from the key's own order of classes, so a hit and a miss give the same bits. A
new key replaces an old one in its slot, which bounds the memory.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from unionsnn.coefficients import space
from unionsnn.coefficients.kernels.arguments import (
    KEY_WORDS,
    Csr,
    Memory,
    Numbers,
    Quotient,
    Subgraph,
    Workspace,
)
from unionsnn.coefficients.kernels.jit import dispatcher, kernel
from unionsnn.coefficients.kernels.neighborhoods import (
    OVERLAP,
    UNION,
    UNION_MINUS,
    gather,
    release,
    select,
    substructure_lists,
)
from unionsnn.coefficients.kernels.quotients import refine_colors
from unionsnn.coefficients.kernels.routes import KNOWN
from unionsnn.coefficients.kernels.substructures import (
    COLORS,
    KEY,
    KINDS,
    MEMBERS,
    REDUCED,
    ROWS,
    SIZES,
    SORTED_KINDS,
    SORTED_ROWS,
    SORTED_SIZES,
    WORD,
    Word,
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

# A key holds the lower triangle of the adjacency, two rows per word, and 7 bits of size and 1 bit
# of kind for each of 32 classes.
KEY_CLASSES = 32


class Choice(NamedTuple):
    """The choices in the form that kernels take.

    Attributes:
        substructure: Code of the substructure.
        place: Position of the coefficient's kernel in `space.KERNELS`.
        of_quotient: Whether that kernel takes the quotient by classes of twins.
        needs_lists: Whether it reads adjacency lists even if there are bit rows.
        numbers: Numerical parameters.
    """

    substructure: int
    place: int
    of_quotient: bool
    needs_lists: bool
    numbers: Numbers


_value_of_edge = dispatcher(
    space.functions("graph"),
    "graph, v, u, numbers, memory",
    "no kernel computes this descriptor in the whole graph",
)
_value_of_subgraph = dispatcher(
    space.functions("substructure"),
    "subgraph, numbers, memory",
    "no kernel computes this descriptor of a substructure",
)
_value_of_quotient = dispatcher(
    space.functions("quotient"),
    "quotient, numbers, memory",
    "no kernel computes this encoding of the matrix",
)


@kernel
def compute_whole_graph_chunk(
    graph: Csr,
    begin: int,
    end: int,
    routes: NodeArray,
    choice: Choice,
    work: Workspace,
    values: FloatArray,
) -> None:
    """Compute a descriptor in the whole graph for the edges begin..end-1, except known ones.

    Shapes:
        routes [M], values [M].

    Raises:
        NotImplementedError: No kernel computes the descriptor.
    """
    memory = _memory_of(work)
    for i in range(begin, end):
        if routes[i] != KNOWN:
            v, u = graph.edges[0, i], graph.edges[1, i]
            values[i] = _value_of_edge(choice.place, graph, v, u, choice.numbers, memory)


@kernel
def compute_chunk(
    graph: Csr,
    begin: int,
    end: int,
    routes: NodeArray,
    choice: Choice,
    radii: IntArray,
    work: Workspace,
    wanted: IntArray,
    values: FloatArray,
) -> None:
    """Compute the quantities of the substructures of the edges begin..end-1.

    Shapes:
        routes [M] (`KNOWN` for edges to skip), radii [R] (ascending), wanted [3] (place of
        a, nodes and edges among the Q columns of a radius, or -1), values [M, R Q].

    Raises:
        NotImplementedError: No kernel computes the substructure, the descriptor or the encoding.
    """
    indptr, indices = graph.indptr, graph.indices
    place_a, place_nodes, place_edges = wanted
    num_radii = radii.shape[0]
    per_radius = values.shape[1] // num_radii
    needs_lists = choice.needs_lists and place_a >= 0
    memory = _memory_of(work)
    chosen, local, rows = work.chosen, work.local, work.scratch[ROWS]
    for i in range(begin, end):
        if routes[i] == KNOWN:
            continue
        v, u = graph.edges[0, i], graph.edges[1, i]
        degrees = indptr[v + 1] - indptr[v] + indptr[u + 1] - indptr[u]
        by_rows = radii[0] == 1 and degrees <= WORD and not needs_lists
        gathered = 0
        if num_radii > 1 or not by_rows:
            gathered = gather(
                indptr,
                indices,
                v,
                u,
                radii[-1],
                work.depth_v,
                work.depth_u,
                work.queue,
                work.nodes,
            )
        last_size, last_ends = -1, -1
        for r in range(num_radii):
            starts, neighbors = indptr[:0], indices[:0]
            if r == 0 and by_rows:
                size, ends, at_v, at_u = _radius_one_rows(
                    indptr, indices, v, u, choice.substructure, chosen, local, rows
                )
            else:
                starts, neighbors = lists_at(
                    indptr, indices, gathered, radii[r], choice.substructure, work
                )
                size, ends = starts.shape[0] - 1, neighbors.shape[0]
                at_v, at_u = local[v], local[u]
                if size <= WORD:
                    write_rows(starts, neighbors, rows)
            at = r * per_radius
            if place_nodes >= 0:
                values[i, at + place_nodes] = size
            if place_edges >= 0:
                values[i, at + place_edges] = ends // 2
            if place_a >= 0:
                # Substructures only grow with the radius: without growth it is the same.
                if size == last_size and ends == last_ends:
                    values[i, at + place_a] = values[i, at - per_radius + place_a]
                else:
                    subgraph = Subgraph(starts, neighbors, size, ends, at_v, at_u, radii[r])
                    if choice.of_quotient:
                        a = _quotient_value(subgraph, choice, work, memory)
                    else:
                        a = _value_of_subgraph(choice.place, subgraph, choice.numbers, memory)
                    values[i, at + place_a] = a
            # At radius 1 small ones take another route, which may change the last bits.
            if radii[r] > 1 or size > WORD:
                last_size, last_ends = size, ends
            for k in range(size):
                local[chosen[k]] = -1
        release(work.nodes, gathered, work.depth_v, work.depth_u)


@kernel
def _memory_of(work: Workspace) -> Memory:
    return Memory(work.depth_u, work.mark, work.scratch, work.matrix)


@kernel
def _radius_one_rows(
    indptr: IntArray,
    indices: NodeArray,
    v: int,
    u: int,
    substructure: int,
    nodes: NodeArray,
    local: NodeArray,
    rows: IntArray,
) -> tuple[int, Word, Word, Word]:
    """Write the substructure at radius 1 as bit rows; the degrees sum to at most 64.

    Shapes:
        nodes [>= n] (out), local [N] (-1 on entry; on return the position of the nodes), rows [64].

    Returns:
        |V_S|, 2 |E_S| and the positions of v and u.
    """
    size = union_nodes(indptr, indices, v, u, nodes)
    if substructure == OVERLAP:
        size = _common_nodes(indptr, indices, v, u, nodes)
    for k in range(size):
        local[nodes[k]] = k
    at_v, at_u = np.int64(local[v]), np.int64(local[u])
    ends = 2 * np.int64(induced_rows(indptr, indices, nodes, size, local, rows))
    if substructure == UNION_MINUS:
        closed_v = rows[at_v] | (np.int64(1) << at_v)
        closed_u = rows[at_u] | (np.int64(1) << at_u)
        ends = np.int64(0)
        for k in range(size):
            in_v, in_u = (closed_v >> k) & 1 != 0, (closed_u >> k) & 1 != 0
            rows[k] &= (closed_v if in_v else np.int64(0)) | (closed_u if in_u else np.int64(0))
            ends += popcount(rows[k])
    elif substructure not in (UNION, OVERLAP):
        raise NotImplementedError("no kernel builds this substructure")
    return size, ends, at_v, at_u


@kernel
def _common_nodes(indptr: IntArray, indices: NodeArray, v: int, u: int, nodes: NodeArray) -> int:
    """List N[v] ∩ N[u], which contains v and u, in ascending order; return their number."""
    count = 0
    j = indptr[u]
    for i in range(indptr[v], indptr[v + 1]):
        node = indices[i]
        while j < indptr[u + 1] and indices[j] < node:
            if indices[j] == v:
                nodes[count] = v
                count += 1
            j += 1
        if node == u or (j < indptr[u + 1] and indices[j] == node):
            nodes[count] = node
            count += 1
    while j < indptr[u + 1]:
        if indices[j] == v:
            nodes[count] = v
            count += 1
        j += 1
    return count


@kernel
def lists_at(
    indptr: IntArray,
    indices: NodeArray,
    count: int,
    radius: int,
    substructure: int,
    work: Workspace,
) -> tuple[IntArray, NodeArray]:
    """List the adjacency of the substructure at a radius, from balls of at least that radius."""
    size = select(work.nodes, count, radius, substructure, work.depth_v, work.depth_u, work.chosen)
    return substructure_lists(
        indptr,
        indices,
        work.chosen,
        size,
        radius,
        substructure,
        work.depth_v,
        work.depth_u,
        work.local,
    )


@kernel
def one_substructure(
    graph: Csr, v: int, u: int, radius: int, substructure: int, work: Workspace
) -> tuple[IntArray, NodeArray, tuple[Word, Word]]:
    """Return the adjacency of one substructure and the positions of v and u in it."""
    indptr, indices = graph.indptr, graph.indices
    count = gather(
        indptr, indices, v, u, radius, work.depth_v, work.depth_u, work.queue, work.nodes
    )
    starts, neighbors = lists_at(indptr, indices, count, radius, substructure, work)
    ends = (np.int64(work.local[v]), np.int64(work.local[u]))
    for k in range(starts.shape[0] - 1):
        work.local[work.chosen[k]] = -1
    release(work.nodes, count, work.depth_v, work.depth_u)
    return starts, neighbors, ends


@kernel
def write_rows(starts: IntArray, neighbors: NodeArray, rows: IntArray) -> None:
    """Convert the lists of at most 64 nodes to bit rows."""
    for i in range(starts.shape[0] - 1):
        row = np.int64(0)
        for k in range(starts[i], starts[i + 1]):
            row |= np.int64(1) << neighbors[k]
        rows[i] = row


@kernel
def _quotient_value(subgraph: Subgraph, choice: Choice, work: Workspace, memory: Memory) -> float:
    """Encode a matrix of a substructure; up to 64 nodes it is looked up by its full key."""
    scratch, size = work.scratch, subgraph.size
    slot = np.int64(-1)
    if size <= WORD:
        classes = twin_classes_of_rows(
            scratch[ROWS], size, scratch[MEMBERS], scratch[SIZES], scratch[KINDS]
        )
        reduced_rows(scratch[ROWS], scratch[MEMBERS], classes, scratch[REDUCED])
        colors = scratch[COLORS : COLORS + 2]
        now = refine_colors(scratch[REDUCED], scratch[SIZES], scratch[KINDS], classes, colors)
        sort_classes(colors[now], classes, scratch)
        sizes, kinds = scratch[SORTED_SIZES], scratch[SORTED_KINDS]
        rows = scratch[SORTED_ROWS].reshape(WORD, 1)
        if classes <= KEY_CLASSES:
            slot = write_key(classes, scratch) & (work.known.shape[0] - 1)
            hit = True
            for k in range(KEY_WORDS):
                if work.keys[slot, k] != scratch[KEY, k]:
                    hit = False
                    break
            if hit:
                return work.known[slot]
    else:
        members, sizes, kinds, rows = twin_classes_of_lists(subgraph.starts, subgraph.neighbors)
        classes = members.shape[0]
    quotient = Quotient(rows, sizes, kinds, classes)
    value = _value_of_quotient(choice.place, quotient, choice.numbers, memory)
    if slot >= 0:
        work.known[slot] = value
        for k in range(KEY_WORDS):
            work.keys[slot, k] = scratch[KEY, k]
    return value


@kernel
def write_key(classes: int, scratch: IntArray) -> Word:
    """Pack the sorted classes into the key and return its hash.

    A size is at least 1, so the key also determines the number of classes and is never zero.
    """
    key, sizes_at = scratch[KEY], KEY_CLASSES // 2
    for k in range(KEY_WORDS):
        key[k] = 0
    for k in range(classes):
        below = scratch[SORTED_ROWS, k] & ((np.int64(1) << k) - 1)
        key[k >> 1] |= below << ((k & 1) << 5)
        packed = (scratch[SORTED_SIZES, k] << 1) | scratch[SORTED_KINDS, k]
        key[sizes_at + (k >> 3)] |= packed << ((k & 7) << 3)
    digest: Word = np.int64(0)
    for k in range(KEY_WORDS):
        digest = mix(digest ^ key[k])
    return digest
