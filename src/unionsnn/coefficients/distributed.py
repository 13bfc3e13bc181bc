"""Coefficients of one large graph on several machines, with a Dask client.

Install with `pip install "unionsnn[distributed]"`, here and on the workers. Dask reassigns the work
of workers that die, and counts how often it does so.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from unionsnn.coefficients.engine import Computation, Progress, check_count
from unionsnn.coefficients.graph import SimpleGraph
from unionsnn.coefficients.kernels.routes import DIRECT
from unionsnn.coefficients.planning import MAX_HOURS, check_hours, check_time
from unionsnn.coefficients.spec import CoefficientSpec

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_CHUNKS_PER_THREAD = 8
_ATTEMPTS = 3


def structural_coefficients_distributed(
    client: Any,
    edge_index: Any,
    num_nodes: int,
    spec: CoefficientSpec | None = None,
    *,
    symmetrize: bool = False,
    num_chunks: int | None = None,
    progress: Progress | None = None,
    max_hours: float | None = MAX_HOURS,
) -> FloatArray:
    """Compute the columns of a spec for every directed edge, on the workers of a Dask client.

    The graph is sent to every worker once; the undirected edges are cut into chunks of about equal
    cost. The value of an edge depends on the edge alone, so on equal machines the result equals
    that of `CoefficientSpec.compute` bit for bit, whatever the chunks and even if workers die.

    Args:
        client: A `distributed.Client`, not an asynchronous one.
        edge_index: Directed edges, anything that numpy reads as integers.
        num_nodes: Number of nodes.
        spec: Which coefficients; the paper's by default.
        symmetrize: Add the missing reverse of every edge instead of refusing the input.
        num_chunks: Number of chunks; by default eight for each thread of the workers.
        progress: Called with (done, total): total in undirected edges, done as the finished share
            of the estimated work.
        max_hours: Hours beyond which an expected time is refused; None for no limit.

    Shapes:
        edge_index [2, E] -> [E, C], C = len(spec.columns). The row of a self loop is 0.

    Raises:
        TypeError: edge_index or num_nodes is not of integers.
        RequestError: The graph, num_chunks or max_hours cannot be used as given.
        TooLongError: It would take longer than `max_hours`.
        RuntimeError: There is no worker, or a chunk was lost several times with its worker.
    """
    check_hours(max_hours)
    spec = spec or CoefficientSpec()
    num_chunks = check_count("num_chunks", num_chunks, "eight for each thread of the workers")
    graph = SimpleGraph.from_edge_index(edge_index, num_nodes, symmetrize=symmetrize)
    total = graph.num_undirected_edges
    values = np.zeros((total, len(spec.columns)))
    threads = sum(client.nthreads().values())
    if not threads:
        raise RuntimeError("The Dask client has no worker; start one and check that it connects.")
    cost = sum(Computation(part.edge_pass).expected_cost for part in spec.passes(graph).values())
    check_time(1e-9 * cost / threads, threads, max_hours)
    pending = balanced_chunks(graph, spec, num_chunks or _CHUNKS_PER_THREAD * threads)
    done = 0
    for _ in range(_ATTEMPTS):
        lost = []
        for begin, end, rows in _on_workers(client, graph, spec, pending):
            if rows is None:
                lost.append((begin, end))
                continue
            values[begin:end] = rows
            done += end - begin
            if progress is not None:
                progress(done, total)
        if not lost:
            return graph.to_directed(values)
        pending = lost
    raise RuntimeError(
        f"{len(pending)} chunks of edges were lost with their workers {_ATTEMPTS} times. See the "
        "workers' logs; a worker that runs out of memory needs more memory or fewer threads."
    )


def balanced_chunks(
    graph: SimpleGraph, spec: CoefficientSpec, num_chunks: int
) -> list[tuple[int, int]]:
    """Cut the undirected edges into at most `num_chunks` ranges (begin, end) of similar cost."""
    total = graph.num_undirected_edges
    if total == 0:
        return []
    routes = np.full(total, DIRECT, np.int32)
    costs = [cost for part in spec.passes(graph).values() for cost in part.edge_pass.costs(routes)]
    cumulated = np.cumsum(np.sum(costs, axis=0))
    shares = np.arange(1, num_chunks) * cumulated[-1] / num_chunks
    bounds = np.unique([0, *np.searchsorted(cumulated, shares), total])
    return list(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True))


def _on_workers(
    client: Any, graph: SimpleGraph, spec: CoefficientSpec, chunks: list[tuple[int, int]]
) -> Iterable[tuple[int, int, FloatArray | None]]:
    """Yield (begin, end, values) of each chunk as it is done, with None for a lost one."""
    from concurrent.futures import CancelledError

    from distributed import KilledWorker, as_completed

    if not chunks:
        return
    bare = replace(graph, edge_to_undirected=np.empty(0, np.int32))
    (shared,) = client.scatter([bare], broadcast=True, hash=False)
    futures = {
        client.submit(chunk_values, shared, spec, begin, end, pure=False): (begin, end)
        for begin, end in chunks
    }
    try:
        for future in as_completed(list(futures)):
            begin, end = futures[future]
            try:
                yield begin, end, future.result()
            except (KilledWorker, CancelledError):
                yield begin, end, None
            # The values have arrived; the workers need not keep them.
            del futures[future]
            future.release()
    finally:
        client.cancel([*futures, shared])


def chunk_values(graph: SimpleGraph, spec: CoefficientSpec, begin: int, end: int) -> FloatArray:
    """Compute the columns of the undirected edges begin..end-1, on one thread.

    Shapes:
        -> [end - begin, C].
    """
    part = replace(
        graph,
        indptr=_writable(graph.indptr),
        indices=_writable(graph.indices),
        edges=_writable(np.ascontiguousarray(graph.edges[:, begin:end])),
    )
    return spec.undirected_values(part, 1)


def _writable(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Copy a read-only array, for which numba would recompile everything."""
    return array if array.flags.writeable else array.copy()
