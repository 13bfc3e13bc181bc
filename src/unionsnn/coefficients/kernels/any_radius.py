"""The kernel for any radius: from an undirected edge to the descriptor of its substructure.

Small quotient matrices are looked up by their full key in a table of values seen before; the value
is always computed from the key's own order of classes, so a hit and a miss give the same bits. A
new key replaces an old one in its slot, which bounds the memory.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from unionsnn.coefficients.kernels.arguments import (
    KEY_WORDS,
    Csr,
    Memory,
    Numbers,
    Quotient,
    Subgraph,
    Workspace,
)
from unionsnn.coefficients.kernels.curvature import curvature_in_graph
from unionsnn.coefficients.kernels.jit import inlined, kernel, variant
from unionsnn.coefficients.kernels.neighborhoods import (
    OVERLAP,
    UNION,
    UNION_MINUS,
    gather,
    release,
    select,
    substructure_lists,
)
from unionsnn.coefficients.kernels.quotients import (
    laplacian_singular_value_sum,
    path_singular_value_sum,
    path_singular_value_sum_of_few,
    refine_colors,
)
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
        needs_lists: Whether the kernel reads adjacency lists even if there are bit rows.
        numbers: Numerical parameters.
    """

    substructure: int
    needs_lists: bool
    numbers: Numbers


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
    """
    memory = _memory_of(work)
    for i in range(begin, end):
        if routes[i] != KNOWN:
            v, u = graph.edges[0, i], graph.edges[1, i]
            values[i] = _value_of_edge(graph, v, u, choice.numbers, memory)


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
        NotImplementedError: No kernel computes the substructure.
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
                size, ends, at_v, at_u = _rows_at_radius_one(
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
                    values[i, at + place_a] = _value(subgraph, choice.numbers, work, memory)
            # At radius 1 small ones take another route, which may change the last bits.
            if radii[r] > 1 or size > WORD:
                last_size, last_ends = size, ends
            for k in range(size):
                local[chosen[k]] = -1
        release(work.nodes, gathered, work.depth_v, work.depth_u)


@inlined
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


@inlined
def _no_rows(
    indptr: IntArray,
    indices: NodeArray,
    v: int,
    u: int,
    substructure: int,
    nodes: NodeArray,
    local: NodeArray,
    rows: IntArray,
) -> tuple[int, Word, Word, Word]:
    """Take the place of `_radius_one_rows` where radius 1 is not wanted."""
    zero: Word = np.int64(0)
    return 0, zero, zero, zero


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


@inlined
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


@inlined
def _value_by_small_quotient(
    subgraph: Subgraph, numbers: Numbers, work: Workspace, memory: Memory
) -> float:
    """Encode a matrix of a substructure of at most 64 nodes, looked up by its full key."""
    scratch, keys, known = work.scratch, work.keys, work.known
    members, sizes, kinds = scratch[MEMBERS], scratch[SIZES], scratch[KINDS]
    classes = twin_classes_of_rows(scratch[ROWS], subgraph.size, members, sizes, kinds)
    reduced_rows(scratch[ROWS], members, classes, scratch[REDUCED])
    colors = scratch[COLORS : COLORS + 2]
    now = refine_colors(scratch[REDUCED], sizes, kinds, classes, colors)
    sort_classes(colors[now], classes, scratch)
    slot = np.int64(-1)
    if classes <= KEY_CLASSES:
        slot = write_key(classes, scratch) & (known.shape[0] - 1)
        hit = True
        for k in range(KEY_WORDS):
            if keys[slot, k] != scratch[KEY, k]:
                hit = False
                break
        if hit:
            return known[slot]
    rows = scratch[SORTED_ROWS].reshape(WORD, 1)
    quotient = Quotient(rows, scratch[SORTED_SIZES], scratch[SORTED_KINDS], classes)
    value = _value_of_quotient(quotient, numbers, memory)
    if slot >= 0:
        known[slot] = value
        for k in range(KEY_WORDS):
            keys[slot, k] = scratch[KEY, k]
    return value


@kernel
def _value_by_quotient(
    subgraph: Subgraph, numbers: Numbers, work: Workspace, memory: Memory
) -> float:
    """Encode a matrix of a substructure of any size."""
    if subgraph.size <= WORD:
        return _value_by_small_quotient(subgraph, numbers, work, memory)
    members, sizes, kinds, rows = twin_classes_of_lists(subgraph.starts, subgraph.neighbors)
    quotient = Quotient(rows, sizes, kinds, members.shape[0])
    return _value_of_quotient(quotient, numbers, memory)


@kernel
def _value_of_lists(subgraph: Subgraph, numbers: Numbers, work: Workspace, memory: Memory) -> float:
    """Return a descriptor of a substructure."""
    return _value_of_subgraph(subgraph, numbers, memory)


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


# What the kernels above call, unless they are variants.
_value_of_edge = curvature_in_graph
_value_of_subgraph = laplacian_singular_value_sum
_value_of_quotient = path_singular_value_sum
_value = _value_by_quotient
_rows_at_radius_one = _radius_one_rows


@cache
def chunk_kernel(
    function: Callable[..., float], reads: str, *, radius_one: bool = True, large: bool = True
) -> Callable[..., Any]:
    """Return a variant of `compute_chunk` or `compute_whole_graph_chunk`, to be compiled alone.

    Args:
        function: A kernel of the table.
        reads: What it reads: "graph", "substructure" or "quotient", as in `space.Kernel`.
        radius_one: Whether the smallest radius may be 1.
        large: Whether a substructure may have more than 64 nodes.
    """
    name = function.__name__
    if function is not path_singular_value_sum:
        # Of the coefficients that few ask for, one variant: where many are, each costs seconds.
        radius_one = large = True
    if reads == "graph":
        return variant(compute_whole_graph_chunk, name, _value_of_edge=function)
    if reads == "quotient":
        if not large:
            name += "_small"
            function = path_singular_value_sum_of_few()
        value = variant(_value_by_small_quotient, name, _value_of_quotient=function)
        if large:
            both = {"_value_by_small_quotient": value, "_value_of_quotient": function}
            value = variant(_value_by_quotient, name, **both)
    else:
        value = variant(_value_of_lists, name, _value_of_subgraph=function)
    if radius_one:
        return variant(compute_chunk, name, _value=value)
    return variant(compute_chunk, name + "_later", _value=value, _rows_at_radius_one=_no_rows)
