"""Coefficients of all edges for any substructure, descriptor, encoding and radius.

The route of everything but the paper's own coefficient at radius 1, which `engine` computes. As
there, the value of an edge is a function of the edge alone: neither the chunk it falls into nor
what was computed before changes a bit of it.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from unionsnn.structure import space
from unionsnn.structure._jit import kernel
from unionsnn.structure.betweenness import edge_betweenness, radius_one_betweenness
from unionsnn.structure.counting import cycle_count
from unionsnn.structure.curvature import as_ratio, curvature, float_curvature
from unionsnn.structure.engine import Partial, Progress, available_threads
from unionsnn.structure.graph import SimpleGraph
from unionsnn.structure.neighborhoods import (
    OVERLAP,
    UNION_MINUS,
    gather,
    release,
    select,
    substructure_lists,
)
from unionsnn.structure.quotients import (
    LAPLACIAN,
    SINGULAR_VALUE_SUM,
    canonical_order,
    matrix_value,
)
from unionsnn.structure.spectra import OWN_SOLVER_LIMIT
from unionsnn.structure.substructures import (
    WORD,
    Word,
    induced_rows,
    mix,
    popcount,
    reduced_rows,
    twin_classes_of_lists,
    twin_classes_of_rows,
    union_nodes,
)

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
NodeArray = npt.NDArray[np.int32]

# Positions in space.DESCRIPTORS, known to the compiler; the matrices come first.
_EDGE_BETWEENNESS, _NODE_EDGE_COUNT, _CURVATURE, _CURVATURE_GRAPH, _CYCLE_COUNT = range(2, 7)

_QUANTITIES = ("a", "nodes", "edges")

# Estimated nanoseconds, as in `engine`.
_TINY_WORK = 2.0e7
_MIN_CHUNK_WORK = 3.0e6
_MAX_CHUNK_WORK = 5.0e7
_CHUNKS_PER_THREAD = 16

# Rows of the scratch memory for subgraphs of at most 64 nodes.
_ROWS, _MEMBERS, _SIZES, _KINDS, _REDUCED, _ORDER, _RANK = range(7)
_COLORS = 7  # and 8
_SORTED_ROWS, _SORTED_SIZES, _SORTED_KINDS, _KEY = range(9, 13)
_SCRATCH_ROWS = 13

# A key holds the lower triangle of the adjacency, two rows a word, and 7 bits of size and 1 bit of
# kind for each of 32 classes.
_KEY_CLASSES = 32
_KEY_WORDS = 20
_MAX_SLOTS = 1 << 16


class Choice(NamedTuple):
    """The choices as the kernels see them: codes, and α = p / q (0 / 1 where there is none)."""

    substructure: int
    descriptor: int
    encoding: int
    exponent: float
    p: int
    q: int


class Workspace(NamedTuple):
    """Memory of one thread.

    ``depth_v``, ``depth_u`` and ``local`` are -1 and ``mark`` is 0 between edges; ``keys`` and
    ``known`` are the table of quotient matrices seen before. The last two rows of ``matrix`` are
    the diagonals that the eigenvalue solver works on.
    """

    depth_v: NodeArray
    depth_u: NodeArray
    local: NodeArray
    queue: NodeArray
    nodes: NodeArray
    chosen: NodeArray
    mark: npt.NDArray[np.uint8]
    scratch: IntArray
    matrix: FloatArray
    keys: IntArray
    known: FloatArray


def new_workspace(num_nodes: int, num_values: int) -> Workspace:
    """Allocate the memory of one thread for a graph and a number of values."""
    slots = min(_MAX_SLOTS, 1 << max(6, (2 * num_values).bit_length()))
    return Workspace(
        depth_v=np.full(num_nodes, -1, np.int32),
        depth_u=np.full(num_nodes, -1, np.int32),
        local=np.full(num_nodes, -1, np.int32),
        queue=np.empty(num_nodes, np.int32),
        nodes=np.empty(num_nodes, np.int32),
        chosen=np.empty(num_nodes, np.int32),
        mark=np.zeros(num_nodes, np.uint8),
        scratch=np.empty((_SCRATCH_ROWS, WORD), np.int64),
        matrix=np.empty((OWN_SOLVER_LIMIT + 2, OWN_SOLVER_LIMIT)),
        keys=np.zeros((slots, _KEY_WORDS), np.int64),
        known=np.empty(slots),
    )


def compute_general(
    graph: SimpleGraph,
    substructure: str,
    descriptor: str,
    encoding: str | None,
    radii: Sequence[int],
    quantities: Sequence[str],
    *,
    alpha: float = space.DEFAULT_ALPHA,
    exponent: float = space.DEFAULT_EXPONENT,
    threads: int | None = None,
    block_size: int | None = None,
    progress: Progress | None = None,
    partial: Partial | None = None,
    known: Iterable[tuple[int, int, FloatArray]] = (),
) -> FloatArray:
    """Compute quantities of every undirected edge; the choices are taken to fit together.

    Args:
        graph: The graph.
        substructure: One of `space.SUBSTRUCTURES`.
        descriptor: One of `space.DESCRIPTORS`.
        encoding: One of `space.ENCODINGS` for a matrix, None for a number.
        radii: Radii in ascending order.
        quantities: Any of "a", "nodes" and "edges", in the order of the columns wanted.
        alpha: Mass that stays, for curvature.
        exponent: λ, for the node/edge count.
        threads: Number of threads; None uses the cores available, but one for tiny work.
        block_size: Most undirected edges of one chunk; None for no limit.
        progress: Called with (edges done, edges in all), from the calling thread.
        partial: Called with (begin, end, values) from the calling thread when the edges
            begin..end-1 are done, in no particular order.
        known: Finished edges as `partial` got them, which are not computed again.

    Shapes:
        -> [M, R Q], M undirected edges, radius-major.

    Raises:
        RuntimeError: An eigenvalue iteration or a linear programme failed.
    """
    num_edges = graph.num_undirected_edges
    values = np.empty((num_edges, len(radii) * len(quantities)))
    if num_edges == 0:
        return values
    ratio = as_ratio(alpha) if space.uses_alpha(descriptor) else (0, 1)
    choice = Choice(
        space.SUBSTRUCTURES.index(substructure),
        space.DESCRIPTORS.index(descriptor),
        -1 if encoding is None else space.ENCODINGS.index(encoding),
        float(exponent),
        *(ratio or (0, 1)),
    )
    wanted = np.array([quantities.index(n) if n in quantities else -1 for n in _QUANTITIES])
    pass_ = _Pass(graph, choice, np.array(radii), wanted, values, None if ratio else alpha)
    open_edges = np.ones(num_edges, bool)
    for begin, end, rows in known:
        values[begin:end] = rows
        open_edges[begin:end] = False
    jobs, work = _plan(graph, max(radii), open_edges, threads, block_size)
    if threads is None:
        threads = 1 if work < _TINY_WORK else available_threads()
    with _single_threaded_blas(graph):
        pass_.on_threads(jobs, min(threads, len(jobs)), progress, partial)
    if not np.isfinite(values).all():
        edge = graph.edges[:, np.flatnonzero(~np.isfinite(values).all(axis=1))[0]]
        raise RuntimeError(
            f"The coefficient of edge {edge[0]} - {edge[1]} is not finite: an eigenvalue iteration "
            "did not converge, or the exponent is too large for the size of the substructure."
        )
    return values


@dataclass
class _Pass:
    """One pass over the edges: what the chunks read and where they write."""

    graph: SimpleGraph
    choice: Choice
    radii: IntArray
    wanted: IntArray
    values: FloatArray
    float_alpha: float | None
    idle: "SimpleQueue[Workspace]" = field(default_factory=SimpleQueue)

    def chunk(self, begin: int, end: int) -> None:
        """Compute the edges begin..end-1 with memory that no other thread uses meanwhile."""
        g = self.graph
        work = self.idle.get()
        arrays = g.indptr, g.indices, g.edges
        place_a, place_nodes, place_edges = self.wanted.tolist()
        try:
            if self.choice.descriptor >= _CURVATURE_GRAPH and place_a >= 0:
                compute_whole_graph_chunk(
                    *arrays, begin, end, self.choice, work, self.values[:, place_a]
                )
                place_a = -1
            if max(place_a, place_nodes, place_edges) >= 0:
                places = np.array([place_a, place_nodes, place_edges])
                compute_chunk(
                    *arrays, begin, end, self.choice, self.radii, work, places, self.values
                )
            if self.float_alpha is not None and self.wanted[0] >= 0:
                for i in range(begin, end):
                    self._float_curvature(i, self.float_alpha, work)
        finally:
            self.idle.put(work)

    def _float_curvature(self, i: int, alpha: float, work: Workspace) -> None:
        """Replace the curvature of edge i by that for an α that is no simple fraction."""
        g = self.graph
        v, u = (int(node) for node in g.edges[:, i])
        per_radius = self.values.shape[1] // len(self.radii)
        for place, radius in enumerate(self.radii):
            at = place * per_radius + self.wanted[0]
            if self.choice.descriptor == _CURVATURE_GRAPH:
                self.values[i, at] = float_curvature(g.indptr, g.indices, v, u, alpha, work.mark)
                continue
            starts, neighbors, ends = _substructure(
                g.indptr, g.indices, v, u, radius, self.choice.substructure, work
            )
            self.values[i, at] = float_curvature(starts, neighbors, *ends, alpha, work.mark)

    def on_threads(
        self,
        jobs: Sequence[tuple[int, int]],
        threads: int,
        progress: Progress | None,
        partial: Partial | None,
    ) -> None:
        """Compute all chunks; the first failure stops what has not begun."""
        total = len(self.values)
        done = total - sum(end - begin for begin, end in jobs)

        def finished(begin: int, end: int) -> None:
            nonlocal done
            done += end - begin
            if partial is not None:
                partial(begin, end, self.values[begin:end])
            if progress is not None:
                progress(done, total)

        for _ in range(threads):
            self.idle.put(new_workspace(self.graph.num_nodes, total * len(self.radii)))
        run_chunks(self.chunk, jobs, threads, finished)


def run_chunks(
    chunk: Callable[[int, int], Any],
    jobs: Sequence[tuple[int, int]],
    threads: int,
    finished: Callable[[int, int], Any],
) -> None:
    """Call chunk(begin, end) for all jobs on threads, finished(begin, end) from this one."""
    if threads <= 1:
        for job in jobs:
            chunk(*job)
            finished(*job)
        return
    executor = ThreadPoolExecutor(threads, thread_name_prefix="unionsnn-structure")
    pending: dict[Future[Any], tuple[int, int]] = {
        executor.submit(chunk, *job): job for job in jobs
    }
    try:
        while pending:
            for future in wait(pending, return_when=FIRST_COMPLETED).done:
                job = pending.pop(future)
                future.result()
                finished(*job)
    finally:
        executor.shutdown(cancel_futures=True)


def _single_threaded_blas(graph: SimpleGraph) -> AbstractContextManager[Any]:
    # Asking for the loaded libraries takes longer than a small graph; only LAPACK needs it.
    if graph.num_nodes <= OWN_SOLVER_LIMIT:
        return nullcontext()
    return threadpool_limits(limits=1, user_api="blas")


def _plan(
    graph: SimpleGraph,
    radius: int,
    open_edges: npt.NDArray[np.bool_],
    threads: int | None,
    block_size: int | None,
) -> tuple[list[tuple[int, int]], float]:
    """Cut the open edges into chunks of about equal estimated cost; also the cost of all.

    A ball is taken to have as many nodes as there are walks from its centre, which is too many
    where there are cycles: good enough to balance chunks.
    """
    degree = np.diff(graph.indptr).astype(np.float64)
    owner = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    walks: FloatArray = degree + 1.0
    for _ in range(radius - 1):
        walks = np.bincount(owner, walks[graph.indices], graph.num_nodes).astype(np.float64) + 1.0
    size = np.minimum(walks[graph.edges[0]] + walks[graph.edges[1]], graph.num_nodes)
    cost = np.cumsum((200.0 + 20.0 * size**2 + 0.1 * size**3) * open_edges)
    work = float(cost[-1])
    per_chunk = work / (_CHUNKS_PER_THREAD * (threads or available_threads()))
    per_chunk = min(max(per_chunk, _MIN_CHUNK_WORK), _MAX_CHUNK_WORK)
    num_edges = graph.num_undirected_edges
    by_cost = np.searchsorted(cost, np.arange(per_chunk, work, per_chunk)) + 1
    by_count = np.arange(0, num_edges, block_size or num_edges)
    by_state = np.flatnonzero(np.diff(open_edges)) + 1
    bounds = np.unique(np.concatenate([by_count, by_cost, by_state, [num_edges]]))
    pairs = zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
    return [(begin, end) for begin, end in pairs if open_edges[begin]], work


@kernel
def compute_whole_graph_chunk(
    indptr: IntArray,
    indices: NodeArray,
    edges: NodeArray,
    begin: int,
    end: int,
    choice: Choice,
    work: Workspace,
    values: FloatArray,
) -> None:
    """Compute a descriptor of the edges begin..end-1 in the whole graph.

    Shapes:
        indptr [N + 1], indices [2 M], edges [2, M], values [M].
    """
    for i in range(begin, end):
        v, u = edges[0, i], edges[1, i]
        if choice.descriptor == _CYCLE_COUNT:
            values[i] = cycle_count(indptr, indices, v, u, work.depth_u, work.mark)
        else:
            values[i] = curvature(indptr, indices, v, u, choice.p, choice.q, work.mark)


@kernel
def compute_chunk(
    indptr: IntArray,
    indices: NodeArray,
    edges: NodeArray,
    begin: int,
    end: int,
    choice: Choice,
    radii: IntArray,
    work: Workspace,
    wanted: IntArray,
    values: FloatArray,
) -> None:
    """Compute the quantities of the edges begin..end-1 that belong to a substructure.

    Shapes:
        indptr [N + 1], indices [2 M], edges [2, M], radii [R] (ascending), wanted [3] (place of
        a, nodes and edges among the Q columns of a radius, or -1), values [M, R Q].
    """
    place_a, place_nodes, place_edges = wanted
    num_radii = radii.shape[0]
    per_radius = values.shape[1] // num_radii
    needs_lists = choice.descriptor == _CURVATURE and place_a >= 0
    for i in range(begin, end):
        v, u = edges[0, i], edges[1, i]
        degrees = indptr[v + 1] - indptr[v] + indptr[u + 1] - indptr[u]
        by_rows = radii[0] == 1 and degrees <= WORD and not needs_lists
        if by_rows:
            size, ends, at_v, at_u = _radius_one_rows(
                indptr, indices, v, u, choice.substructure, work
            )
            _write_sides(values[i], size, ends, place_nodes, place_edges)
            if place_a >= 0:
                values[i, place_a] = _value_of_rows(size, ends, at_v, at_u, choice, work)
        if by_rows and num_radii == 1:
            continue
        count = gather(
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
        for r in range(1 if by_rows else 0, num_radii):
            starts, neighbors = _lists(indptr, indices, count, radii[r], choice.substructure, work)
            size = starts.shape[0] - 1
            row = values[i, r * per_radius :]
            _write_sides(row, size, neighbors.shape[0], place_nodes, place_edges)
            if place_a >= 0:
                at_v, at_u = work.local[v], work.local[u]
                row[place_a] = _value_of_lists(
                    starts, neighbors, at_v, at_u, radii[r], choice, work
                )
            for k in range(size):
                work.local[work.chosen[k]] = -1
        release(work.nodes, count, work.depth_v, work.depth_u)


@kernel
def _write_sides(row: FloatArray, size: int, ends: int, place_nodes: int, place_edges: int) -> None:
    """Write |V_S| and |E_S|, half the number of ends of edges, where they are wanted."""
    if place_nodes >= 0:
        row[place_nodes] = size
    if place_edges >= 0:
        row[place_edges] = ends // 2


@kernel
def _radius_one_rows(
    indptr: IntArray, indices: NodeArray, v: int, u: int, substructure: int, work: Workspace
) -> tuple[int, Word, Word, Word]:
    """Write the substructure at radius 1 as bit rows; degrees sum up to at most 64.

    Returns:
        |V_S|, 2 |E_S| and the positions of v and u.
    """
    nodes, local, rows = work.nodes, work.local, work.scratch[_ROWS]
    size = union_nodes(indptr, indices, v, u, nodes)
    if substructure == OVERLAP:
        size = _common_nodes(indptr, indices, v, u, nodes)
    for k in range(size):
        local[nodes[k]] = k
    at_v, at_u = np.int64(local[v]), np.int64(local[u])
    ends = 2 * np.int64(induced_rows(indptr, indices, nodes, size, local, rows))
    for k in range(size):
        local[nodes[k]] = -1
    if substructure == UNION_MINUS:
        closed_v = rows[at_v] | (np.int64(1) << at_v)
        closed_u = rows[at_u] | (np.int64(1) << at_u)
        ends = np.int64(0)
        for k in range(size):
            in_v, in_u = (closed_v >> k) & 1 != 0, (closed_u >> k) & 1 != 0
            rows[k] &= (closed_v if in_v else np.int64(0)) | (closed_u if in_u else np.int64(0))
            ends += popcount(rows[k])
    return size, ends, at_v, at_u


@kernel
def _common_nodes(indptr: IntArray, indices: NodeArray, v: int, u: int, nodes: NodeArray) -> int:
    """List N[v] ∩ N[u], which v and u are in, in ascending order; returns their number."""
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
def _lists(
    indptr: IntArray,
    indices: NodeArray,
    count: int,
    radius: int,
    substructure: int,
    work: Workspace,
) -> tuple[IntArray, NodeArray]:
    """Adjacency of the substructure at one radius, from balls gathered at that or a larger one."""
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
def _substructure(
    indptr: IntArray,
    indices: NodeArray,
    v: int,
    u: int,
    radius: int,
    substructure: int,
    work: Workspace,
) -> tuple[IntArray, NodeArray, tuple[Word, Word]]:
    """Adjacency of one substructure and the positions of v and u in it."""
    count = gather(
        indptr, indices, v, u, radius, work.depth_v, work.depth_u, work.queue, work.nodes
    )
    starts, neighbors = _lists(indptr, indices, count, radius, substructure, work)
    ends = (np.int64(work.local[v]), np.int64(work.local[u]))
    for k in range(starts.shape[0] - 1):
        work.local[work.chosen[k]] = -1
    release(work.nodes, count, work.depth_v, work.depth_u)
    return starts, neighbors, ends


@kernel
def _value_of_counts(size: int, ends: int, choice: Choice) -> float:
    """Value of a descriptor that |V_S| and 2 |E_S| determine; NaN of any other."""
    if choice.descriptor == _NODE_EDGE_COUNT:
        return 0.5 * ends / (size * (size - 1.0)) * float(size) ** choice.exponent
    if choice.descriptor == LAPLACIAN and choice.encoding == SINGULAR_VALUE_SUM:
        return float(ends)
    return np.nan


@kernel
def _value_of_rows(size: int, ends: int, v: int, u: int, choice: Choice, work: Workspace) -> float:
    """Value of any descriptor but curvature at radius 1, of the bit rows in the scratch."""
    value = _value_of_counts(size, ends, choice)
    if not np.isnan(value):
        return value
    if choice.descriptor == _EDGE_BETWEENNESS:
        if ends == 2 * size - 2:
            # In a tree every shortest path between the two sides uses the edge.
            neighbors_v = popcount(work.scratch[_ROWS, v])
            return float(neighbors_v * popcount(work.scratch[_ROWS, u]))
        return radius_one_betweenness(work.scratch[_ROWS], v, u)
    return _small_matrix_value(size, choice, work)


@kernel
def _value_of_lists(
    starts: IntArray,
    neighbors: NodeArray,
    v: int,
    u: int,
    radius: int,
    choice: Choice,
    work: Workspace,
) -> float:
    """Value of a local descriptor on a substructure; v and u are positions in it."""
    size = starts.shape[0] - 1
    value = _value_of_counts(size, neighbors.shape[0], choice)
    if not np.isnan(value):
        return value
    if choice.descriptor == _CURVATURE:
        return curvature(starts, neighbors, v, u, choice.p, choice.q, work.mark)
    if choice.descriptor == _EDGE_BETWEENNESS and (radius > 1 or size > WORD):
        return edge_betweenness(starts, neighbors, v, u)
    if size <= WORD:
        _write_rows(starts, neighbors, work.scratch[_ROWS])
        return _value_of_rows(size, neighbors.shape[0], v, u, choice, work)
    members, sizes, kinds, rows = twin_classes_of_lists(starts, neighbors)
    return matrix_value(
        choice.descriptor, choice.encoding, rows, sizes, kinds, members.shape[0], work.matrix
    )


@kernel
def _write_rows(starts: IntArray, neighbors: NodeArray, rows: IntArray) -> None:
    """Turn the lists of at most 64 nodes into bit rows."""
    for i in range(starts.shape[0] - 1):
        row = np.int64(0)
        for k in range(starts[i], starts[i + 1]):
            row |= np.int64(1) << neighbors[k]
        rows[i] = row


@kernel
def _small_matrix_value(size: int, choice: Choice, work: Workspace) -> float:
    """Encode a matrix of a subgraph of at most 64 nodes, given as bit rows in the scratch."""
    scratch = work.scratch
    classes = twin_classes_of_rows(
        scratch[_ROWS], size, scratch[_MEMBERS], scratch[_SIZES], scratch[_KINDS]
    )
    reduced_rows(scratch[_ROWS], scratch[_MEMBERS], classes, scratch[_REDUCED])
    _sort_classes(classes, scratch)
    slot = np.int64(-1)
    if classes <= _KEY_CLASSES:
        slot = _write_key(classes, scratch) & (work.known.shape[0] - 1)
        hit = True
        for k in range(_KEY_WORDS):
            if work.keys[slot, k] != scratch[_KEY, k]:
                hit = False
                break
        if hit:
            return work.known[slot]
    value = matrix_value(
        choice.descriptor,
        choice.encoding,
        scratch[_SORTED_ROWS].reshape(WORD, 1),
        scratch[_SORTED_SIZES],
        scratch[_SORTED_KINDS],
        classes,
        work.matrix,
    )
    if slot >= 0:
        work.known[slot] = value
        for k in range(_KEY_WORDS):
            work.keys[slot, k] = scratch[_KEY, k]
    return value


@kernel
def _sort_classes(classes: int, scratch: IntArray) -> None:
    """Bring rows, sizes and kinds of the classes into an order that makes equal keys likely."""
    rows, order, rank = scratch[_REDUCED], scratch[_ORDER], scratch[_RANK]
    canonical_order(
        rows,
        scratch[_SIZES],
        scratch[_KINDS],
        classes,
        scratch[_COLORS : _COLORS + 2],
        order,
    )
    for k in range(classes):
        rank[order[k]] = k
    for k in range(classes):
        scratch[_SORTED_SIZES, k] = scratch[_SIZES, order[k]]
        scratch[_SORTED_KINDS, k] = scratch[_KINDS, order[k]]
        row = rows[order[k]]
        moved = np.int64(0)
        while row != 0:
            moved |= np.int64(1) << rank[popcount((row & -row) - 1)]
            row &= row - 1
        scratch[_SORTED_ROWS, k] = moved


@kernel
def _write_key(classes: int, scratch: IntArray) -> Word:
    """Pack the sorted classes into the key and return its hash.

    A size is at least 1, so the key also tells the number of classes and is never zero.
    """
    key, sizes_at = scratch[_KEY], _KEY_CLASSES // 2
    for k in range(_KEY_WORDS):
        key[k] = 0
    for k in range(classes):
        below = scratch[_SORTED_ROWS, k] & ((np.int64(1) << k) - 1)
        key[k >> 1] |= below << ((k & 1) << 5)
        packed = (scratch[_SORTED_SIZES, k] << 1) | scratch[_SORTED_KINDS, k]
        key[sizes_at + (k >> 3)] |= packed << ((k & 7) << 3)
    digest: Word = np.int64(0)
    for k in range(_KEY_WORDS):
        digest = mix(digest ^ key[k])
    return digest
