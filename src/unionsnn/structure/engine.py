"""Coefficients of all edges of a graph: one job an undirected edge, on threads over chunks.

The value of an edge is a function of the edge alone: neither the chunk it falls into nor what was
computed before changes a bit of it.
"""

import os
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from unionsnn.structure._jit import kernel
from unionsnn.structure.graph import SimpleGraph
from unionsnn.structure.radius_one import COLUMNS, Workspace, compute_chunk, new_workspace
from unionsnn.structure.spectra import OWN_SOLVER_LIMIT

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Progress = Callable[[int, int], Any]

# Estimated nanoseconds: below the first a second thread costs more than it brings; a chunk costs
# between the other two, long against a call, short enough for progress and interrupts.
_TINY_WORK = 2.0e7
_MIN_CHUNK_WORK = 3.0e6
_MAX_CHUNK_WORK = 5.0e7
_CHUNKS_PER_THREAD = 16


def available_threads() -> int:
    """Number of cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def check_threads(threads: Any) -> int | None:
    """Return threads, or say why it cannot be used.

    Raises:
        ValueError: Not a positive integer and not None.
    """
    if threads is None:
        return None
    valid = isinstance(threads, int | np.integer) and not isinstance(threads, bool)
    if not valid or threads < 1:
        raise ValueError(
            f"threads must be a positive integer, or None for all cores available, got {threads!r}."
        )
    return int(threads)


def compute_columns(
    graph: SimpleGraph,
    quantities: tuple[str, ...],
    *,
    threads: int | None = None,
    progress: Progress | None = None,
) -> FloatArray:
    """Compute the raw quantities of every undirected edge at radius 1.

    Args:
        graph: The graph.
        quantities: Names out of `COLUMNS`, in the order of the columns wanted.
        threads: Number of threads; None uses the cores available, but one for tiny work.
        progress: Called with (edges done, edges in all), from the calling thread.

    Shapes:
        -> [M, C], M undirected edges.

    Raises:
        RuntimeError: An eigenvalue iteration did not converge.
    """
    num_edges = graph.num_undirected_edges
    wanted = np.array([quantities.index(n) if n in quantities else -1 for n in COLUMNS])
    values = np.empty((num_edges, len(quantities)))
    if num_edges:
        bounds, work = _plan(graph, threads)
        if threads is None:
            threads = 1 if work < _TINY_WORK else available_threads()
        run = _Run(graph, wanted, values, bounds)
        with _single_threaded_blas(graph):
            run.on_threads(min(threads, len(bounds) - 1), progress)
    if not np.isfinite(values).all():
        edge = graph.edges[:, np.flatnonzero(~np.isfinite(values).all(axis=1))[0]]
        raise RuntimeError(
            f"The eigenvalue iteration did not converge on edge {edge[0]} - {edge[1]}. "
            "Please report the graph: this is a defect of unionsnn, not of the input."
        )
    return values


@dataclass
class _Run:
    """One pass over the edges: what the chunks read and where they write."""

    graph: SimpleGraph
    wanted: IntArray
    values: FloatArray
    bounds: IntArray
    idle: "SimpleQueue[Workspace]" = field(default_factory=SimpleQueue)

    def chunk(self, number: int) -> int:
        """Compute one chunk with a workspace that no other thread uses meanwhile."""
        begin, end = int(self.bounds[number]), int(self.bounds[number + 1])
        workspace = self.idle.get()
        g = self.graph
        try:
            compute_chunk(
                g.indptr, g.indices, g.edges, begin, end, workspace, self.wanted, self.values
            )
        finally:
            self.idle.put(workspace)
        return end - begin

    def on_threads(self, threads: int, progress: Progress | None) -> None:
        """Compute all chunks; the first failure stops what has not begun."""
        chunks = len(self.bounds) - 1
        total, done = self.values.shape[0], 0
        for _ in range(threads):
            self.idle.put(new_workspace(self.graph.num_nodes, _max_degree(self.graph), total))
        if threads == 1:
            for number in range(chunks):
                done += self.chunk(number)
                if progress is not None:
                    progress(done, total)
            return
        executor = ThreadPoolExecutor(threads, thread_name_prefix="unionsnn-structure")
        pending: set[Future[int]] = {executor.submit(self.chunk, n) for n in range(chunks)}
        try:
            while pending:
                finished, pending = wait(pending, return_when=FIRST_COMPLETED)
                done += sum(future.result() for future in finished)
                if progress is not None:
                    progress(done, total)
        finally:
            executor.shutdown(cancel_futures=True)


def _max_degree(graph: SimpleGraph) -> int:
    return int(np.diff(graph.indptr).max(initial=0))


def _single_threaded_blas(graph: SimpleGraph) -> AbstractContextManager[Any]:
    # Asking for the loaded libraries takes longer than a small graph; only LAPACK needs it.
    if 2 * _max_degree(graph) <= OWN_SOLVER_LIMIT:
        return nullcontext()
    return threadpool_limits(limits=1, user_api="blas")


def _plan(graph: SimpleGraph, threads: int | None) -> tuple[IntArray, float]:
    """Cut the edges into chunks of about equal estimated cost; also the cost of all."""
    work = _total_cost(graph.indptr, graph.edges)
    per_chunk = work / (_CHUNKS_PER_THREAD * (threads or available_threads()))
    per_chunk = min(max(per_chunk, _MIN_CHUNK_WORK), _MAX_CHUNK_WORK)
    return _cut(graph.indptr, graph.edges, per_chunk), work


@kernel
def _edge_cost(indptr: IntArray, v: int, u: int) -> float:
    """Estimate the nanoseconds an edge takes; twins make the cubic term rarer than it looks."""
    size = float(indptr[v + 1] - indptr[v] + indptr[u + 1] - indptr[u])
    return 100.0 + 20.0 * size * size + 0.1 * size * size * size


@kernel
def _total_cost(indptr: IntArray, edges: npt.NDArray[np.int32]) -> float:
    total = 0.0
    for i in range(edges.shape[1]):
        total += _edge_cost(indptr, edges[0, i], edges[1, i])
    return total


@kernel
def _cut(indptr: IntArray, edges: npt.NDArray[np.int32], per_chunk: float) -> IntArray:
    bounds = [0]
    cost = 0.0
    for i in range(edges.shape[1]):
        cost += _edge_cost(indptr, edges[0, i], edges[1, i])
        if cost >= per_chunk and i + 1 < edges.shape[1]:
            bounds.append(i + 1)
            cost = 0.0
    bounds.append(edges.shape[1])
    return np.array(bounds)
