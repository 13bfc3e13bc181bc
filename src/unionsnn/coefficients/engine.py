"""Coefficients of all edges of a graph: one job an undirected edge, on threads over chunks.

The value of an edge is a function of the graph alone: neither the chunk it falls into nor what was
computed before changes a bit of it. First the chunks are computed, all but the edges that are
cheaper at a hub (`hubs`); these follow, hub by hub.
"""

import os
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from unionsnn.coefficients.graph import SimpleGraph
from unionsnn.coefficients.kernels.radius_one import COLUMNS
from unionsnn.coefficients.kernels.spectra import OWN_SOLVER_LIMIT
from unionsnn.coefficients.planning import DIRECT, KNOWN, hub_classes, plan_chunks
from unionsnn.coefficients.schedule import Partial, Progress, Run

__all__ = [
    "Partial",
    "Progress",
    "available_threads",
    "check_block_size",
    "check_threads",
    "compute_columns",
]

FloatArray = npt.NDArray[np.float64]

# Estimated nanoseconds below which a second thread costs more than it brings.
_TINY_WORK = 2.0e7


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
    return _check_count("threads", threads, "all cores available")


def check_block_size(block_size: Any) -> int | None:
    """Return block_size, or say why it cannot be used.

    Raises:
        ValueError: Not a positive integer and not None.
    """
    return _check_count("block_size", block_size, "no limit")


def _check_count(option: str, value: Any, default: str) -> int | None:
    if value is None:
        return None
    valid = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not valid or value < 1:
        raise ValueError(
            f"{option} must be a positive integer, or None for {default}, got {value!r}."
        )
    return int(value)


def compute_columns(
    graph: SimpleGraph,
    quantities: tuple[str, ...],
    *,
    threads: int | None = None,
    block_size: int | None = None,
    progress: Progress | None = None,
    partial: Partial | None = None,
    known: Iterable[tuple[int, int, FloatArray]] = (),
) -> FloatArray:
    """Compute the raw quantities of every undirected edge at radius 1.

    Beside the graph and the result, memory is bounded by the number of threads times the largest
    neighbourhoods: a thread holds the matrices of one union subgraph or of one hub (24 bytes a
    pair of neighbours; the hubs held at once are kept below a gigabyte in all, or to one).

    Args:
        graph: The graph.
        quantities: Names out of `COLUMNS`, in the order of the columns wanted.
        threads: Number of threads; None uses the cores available, but one for tiny work.
        block_size: Most edges that are computed between two looks at progress and interrupts;
            None leaves it to their estimated cost, 50 ms at most.
        progress: Called with (done, total) from the calling thread; the total is the number of
            edges, and done the share of the estimated work that is done, in edges.
        partial: Called with (begin, end, values) from the calling thread when the edges
            begin..end-1 are done, a few at a time and in no particular order; an interrupt
            delivers what is done before it is raised.
        known: Finished edges as `partial` got them, which are not computed again.

    Shapes:
        -> [M, C], M undirected edges.

    Raises:
        RuntimeError: An eigenvalue iteration did not converge.
    """
    num_edges = graph.num_undirected_edges
    values = np.empty((num_edges, len(quantities)))
    if num_edges:
        wanted = np.array([quantities.index(n) if n in quantities else -1 for n in COLUMNS])
        routes = np.full(num_edges, DIRECT, np.int32)
        for begin, end, rows in known:
            values[begin:end] = rows
            routes[begin:end] = KNOWN
        indptr, indices = graph.indptr, graph.indices
        classes = hub_classes(indptr, indices) if "a" in quantities else np.empty(0, np.int32)
        cores = threads or available_threads()
        plan = plan_chunks(indptr, indices, graph.edges, classes, routes, cores, block_size)
        work = float(plan[1].sum()) + plan[2]
        if threads is None:
            threads = 1 if work < _TINY_WORK else cores
        run = Run(graph, wanted, values, classes, routes, progress, partial)
        # An edge's matrix has at most as many rows as its ends have neighbours.
        with single_threaded_blas(2 * int(np.diff(indptr).max(initial=0))):
            run.compute(*plan, threads)
    check_finite(
        graph,
        values,
        "the eigenvalue iteration did not converge. Please report the graph: this is a defect of "
        "unionsnn, not of the input",
    )
    return values


def check_finite(graph: SimpleGraph, values: FloatArray, why: str) -> None:
    """Raise RuntimeError with the first edge whose row is not finite, and why that may be."""
    finite = np.isfinite(values).all(axis=1)
    if not finite.all():
        v, u = graph.edges[:, int(np.argmin(finite))]
        raise RuntimeError(f"The coefficient of edge {v} - {u} is not finite: {why}.")


def single_threaded_blas(max_order: int) -> AbstractContextManager[Any]:
    """Hold BLAS to one thread while matrices of up to the given order are solved."""
    # Asking for the loaded libraries takes longer than a small graph; only LAPACK needs it.
    if max_order <= OWN_SOLVER_LIMIT:
        return nullcontext()
    return threadpool_limits(limits=1, user_api="blas")
