"""Coefficients of one large graph on several machines, with a Dask client.

Install with `pip install "unionsnn[distributed]"`, here and on the workers. Dask reassigns the work
of workers that die, and counts how often it does so.
"""

import threading
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from unionsnn.coefficients.engine import (
    Group,
    Pass,
    Progress,
    check_count,
    single_threaded_blas,
)
from unionsnn.coefficients.graph import SimpleGraph
from unionsnn.coefficients.kernels.routes import KNOWN
from unionsnn.coefficients.planning import MAX_HOURS, check_hours, check_time
from unionsnn.coefficients.spec import CoefficientSpec

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
NodeArray = npt.NDArray[np.int32]

_CHUNKS_PER_THREAD = 8
_ATTEMPTS = 3

# Tasks handed to Dask at once, each by a thread that waits for it.
_MOST_WAITING = 256


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

    The graph is sent to every worker once. The plan is that of `CoefficientSpec.compute`: chunks of
    edges of about equal cost, then the edges at each hub, which share its decomposition; a hub that
    takes longer than half of a thread's share is cut. The value of an edge depends on the graph
    alone, so on equal machines the result equals that of `CoefficientSpec.compute` bit for bit,
    whatever the chunks and even if workers die.

    Args:
        client: A `distributed.Client`, not an asynchronous one.
        edge_index: Directed edges, anything that numpy reads as integers.
        num_nodes: Number of nodes.
        spec: Which coefficients; the paper's by default.
        symmetrize: Add the missing reverse of every edge instead of refusing the input.
        num_chunks: Number of chunks; by default eight for each thread of the workers.
        progress: As in `CoefficientSpec.compute`.
        max_hours: Hours beyond which an expected time is refused; None for no limit.

    Shapes:
        edge_index [2, E] -> [E, C], C = len(spec.columns). The row of a self loop is 0.

    Raises:
        TypeError: edge_index or num_nodes is not of integers.
        RequestError: The graph, num_chunks or max_hours cannot be used as given.
        TooLongError: It would take longer than `max_hours`.
        RuntimeError: The client is closed or has no worker, or a part was lost several times with
            its worker.
    """
    check_hours(max_hours)
    spec = spec or CoefficientSpec()
    num_chunks = check_count("num_chunks", num_chunks, "eight for each thread of the workers")
    graph = SimpleGraph.from_edge_index(edge_index, num_nodes, symmetrize=symmetrize)
    if client.status in ("closing", "closed"):
        raise RuntimeError("The Dask client is closed; make another, as distributed.Client(...).")
    threads = sum(client.nthreads().values())
    if not threads:
        raise RuntimeError("The Dask client has no worker; start one and check that it connects.")
    waiting = max(threads, min(_CHUNKS_PER_THREAD * threads, _MOST_WAITING))

    def told(seconds: float, _: int) -> None:
        check_time(seconds * waiting / threads, threads, max_hours)

    bare = replace(graph, edge_to_undirected=np.empty(0, np.int32))
    workers = _Workers(client, threads, _Sent(bare, spec))
    try:
        values = spec.undirected_values(
            graph,
            waiting,
            progress=progress,
            told=told,
            num_chunks=num_chunks or _CHUNKS_PER_THREAD * threads,
            elsewhere=partial(_RemotePass, workers),
        )
    finally:
        workers.close()
    return graph.to_directed(values)


@dataclass(frozen=True, eq=False)
class _Sent:
    """A graph and a spec, sent to each worker once; their passes are made there once."""

    graph: SimpleGraph
    spec: CoefficientSpec

    def __reduce__(self) -> tuple[Any, ...]:
        # Machine code and hubs stay behind if one worker sends it to the next.
        return _Sent, (self.graph, self.spec)

    @cached_property
    def _passes(self) -> dict[int, Pass]:
        # What arrives may be read-only, for which numba would recompile everything.
        names = ("indptr", "indices", "edges")
        arrays = {name: np.require(getattr(self.graph, name), requirements="W") for name in names}
        parts = self.spec.passes(replace(self.graph, **arrays))
        return {number: part.edge_pass for number, part in parts.items()}

    def part(self, number: int, edges: slice | IntArray) -> Pass:
        """Return a pass over some of the edges."""
        part = copy(self._passes[number])
        some = np.ascontiguousarray(part.graph.edges[:, edges])
        part.graph = replace(part.graph, edges=some)
        return part


def chunk_values(
    sent: _Sent, number: int, begin: int, routes: NodeArray
) -> tuple[FloatArray, NodeArray]:
    """Compute the edges from `begin` in a chunk, on one thread; return values and routes.

    Shapes:
        routes [K] -> [K, C], [K].
    """
    part, routes = sent.part(number, slice(begin, begin + len(routes))), routes.copy()
    values = np.empty((len(routes), part.num_columns))
    with single_threaded_blas(part.max_order):
        part.compute(0, len(routes), routes, part.new_workspace(), values)
    return values, routes


def group_values(sent: _Sent, number: int, edges: IntArray, routes: NodeArray) -> list[float]:
    """Compute edges that a chunk has left to the same hub, on one thread.

    Shapes:
        edges [K], routes [K].
    """
    part = sent.part(number, edges)
    (group,) = part.groups(routes.copy())
    with single_threaded_blas(part.max_order):
        return list(group.values(part.new_workspace()))


class _Workers:
    """The workers of a Dask client.

    Args:
        client: The client.
        threads: Number of their threads.
        sent: What each of them gets.
    """

    def __init__(self, client: Any, threads: int, sent: _Sent) -> None:
        self.threads = threads
        self._client, self._sent = client, sent
        self._lock, self._closed = threading.Lock(), False
        self._futures: set[Any] = set()
        self._shared: Any = None

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function on a worker; wait for the result.

        Raises:
            RuntimeError: It was lost with its worker several times.
        """
        from concurrent.futures import CancelledError

        from distributed import KilledWorker

        for _ in range(_ATTEMPTS):
            with self._lock:
                if self._closed:
                    break
                if self._shared is None or self._shared.status in ("lost", "cancelled"):
                    self._shared = self._client.scatter(self._sent, broadcast=True, hash=False)
                future = self._client.submit(function, self._shared, *arguments, pure=False)
                self._futures.add(future)
            try:
                return future.result()
            except (KilledWorker, CancelledError):
                continue
            finally:
                # The values have arrived; the workers need not keep them.
                self._futures.discard(future)
                future.release()
        raise RuntimeError(
            f"A part of the edges was lost with its worker {_ATTEMPTS} times. See the workers' "
            "logs; a worker that runs out of memory needs more memory or fewer threads."
        )

    def close(self) -> None:
        """Cancel what is under way; workers may forget what was sent."""
        with self._lock:
            self._closed = True
            left = [*self._futures, *([] if self._shared is None else [self._shared])]
        if left:
            self._client.cancel(left)


class _RemotePass:
    """A pass whose chunks and groups are computed by workers.

    Args:
        workers: The workers.
        number: Number of the pass.
        edge_pass: The pass.
    """

    # No matrix is solved here.
    max_order = 0

    def __init__(self, workers: _Workers, number: int, edge_pass: Pass) -> None:
        self._workers, self._number, self._pass = workers, number, edge_pass
        self.graph, self.num_columns = edge_pass.graph, edge_pass.num_columns
        self.failure = edge_pass.failure
        # A hub may be cut into as many groups as there are halves of shares.
        self.max_groups = edge_pass.max_groups and edge_pass.max_groups + 2 * workers.threads
        self.costs, self.expected_cost = edge_pass.costs, edge_pass.expected_cost

    def new_workspace(self) -> None:
        """Return nothing: the workers have their own."""

    def compute(
        self, begin: int, end: int, routes: NodeArray, workspace: None, values: FloatArray
    ) -> None:
        """Have the edges begin..end-1 computed."""
        new = routes[begin:end] != KNOWN
        rows, left = self._workers.call(chunk_values, self._number, begin, routes[begin:end])
        values[begin:end][new] = rows[new]
        routes[begin:end] = left

    def groups(self, routes: NodeArray) -> list[Group]:
        """Return the edges that chunks have left, those of large hubs in several groups."""
        groups = self._pass.groups(routes)
        most = sum(group.cost for group in groups) / (2 * self._workers.threads)
        return [part for group in groups for part in self._cut(group, most, routes)]

    def _cut(self, group: Group, most: float, routes: NodeArray) -> Iterator[Group]:
        count = min(len(group.edges), int(np.ceil(group.cost / most)))
        for first in range(count):
            edges = group.edges[first::count]
            arguments = self._number, edges, routes[edges]

            def values(_: None, arguments: Any = arguments) -> Iterator[float]:
                yield from self._workers.call(group_values, *arguments)

            # Memory is the workers'.
            yield Group(edges, group.column, group.cost / count, 0, 0, values)
