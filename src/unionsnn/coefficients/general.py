"""Coefficients of all edges for any substructure, descriptor, encoding and radius.

The route of everything but the paper's own coefficient at radius 1, which `engine` computes. As
there, the value of an edge is a function of the edge alone: neither the chunk it falls into nor
what was computed before changes a bit of it.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any

import numpy as np
import numpy.typing as npt

from unionsnn.coefficients import space
from unionsnn.coefficients.engine import (
    Partial,
    Progress,
    available_threads,
    check_finite,
    single_threaded_blas,
)
from unionsnn.coefficients.graph import SimpleGraph
from unionsnn.coefficients.kernels.any_radius import (
    CURVATURE_GRAPH,
    Choice,
    Workspace,
    compute_chunk,
    compute_whole_graph_chunk,
    new_workspace,
    one_substructure,
)
from unionsnn.coefficients.kernels.curvature import as_ratio, float_curvature

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_QUANTITIES = ("a", "nodes", "edges")

# Estimated nanoseconds, as in `engine`.
_TINY_WORK = 2.0e7
_MIN_CHUNK_WORK = 3.0e6
_MAX_CHUNK_WORK = 5.0e7
_CHUNKS_PER_THREAD = 16


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
        progress: Called with (edges done, edges in all) from the calling thread.
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
    with single_threaded_blas(graph.num_nodes):
        pass_.on_threads(jobs, min(threads, len(jobs)), progress, partial)
    check_finite(
        graph,
        values,
        "an eigenvalue iteration did not converge, or the exponent is too large for the size of "
        "the substructure",
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
            if self.choice.descriptor >= CURVATURE_GRAPH and place_a >= 0:
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
            if self.choice.descriptor == CURVATURE_GRAPH:
                self.values[i, at] = float_curvature(g.indptr, g.indices, v, u, alpha, work.mark)
                continue
            starts, neighbors, ends = one_substructure(
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


def _plan(
    graph: SimpleGraph,
    radius: int,
    open_edges: npt.NDArray[np.bool_],
    threads: int | None,
    block_size: int | None,
) -> tuple[list[tuple[int, int]], float]:
    """Cut the open edges into chunks of about equal estimated cost; also the cost of all.

    A ball is taken to have as many nodes as there are walks from its centre, which is too many
    where there are cycles: good enough to balance chunks. It has no more than its component.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    ones = np.ones(len(graph.indices), np.int8)
    adjacency = csr_array((ones, graph.indices, graph.indptr), shape=(graph.num_nodes,) * 2)
    _, component = connected_components(adjacency, directed=False)
    most = np.bincount(component)[component[graph.edges[0]]]
    degree = np.diff(graph.indptr).astype(np.float64)
    owner = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    walks: FloatArray = degree + 1.0
    for _ in range(radius - 1):
        walks = np.bincount(owner, walks[graph.indices], graph.num_nodes).astype(np.float64) + 1.0
    size = np.minimum(walks[graph.edges[0]] + walks[graph.edges[1]], most)
    cost = np.cumsum((200.0 + 20.0 * size**2 + 0.1 * size**3) * open_edges)
    work = float(cost[-1])
    per_chunk = work / (_CHUNKS_PER_THREAD * (threads or available_threads()))
    num_edges = graph.num_undirected_edges
    # A chunk has an edge at least, so no more chunks are cut than there are edges.
    per_chunk = max(min(per_chunk, _MAX_CHUNK_WORK), _MIN_CHUNK_WORK, work / num_edges)
    by_cost = np.searchsorted(cost, np.arange(per_chunk, work, per_chunk)) + 1
    by_count = np.arange(0, num_edges, block_size or num_edges)
    by_state = np.flatnonzero(np.diff(open_edges)) + 1
    bounds = np.unique(np.concatenate([by_count, by_cost, by_state, [num_edges]]))
    pairs = zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
    return [(begin, end) for begin, end in pairs if open_edges[begin]], work
