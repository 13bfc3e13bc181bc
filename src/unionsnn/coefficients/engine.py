"""One run over the edges of a graph: chunks on threads, progress, finished edges, interrupts.

The value of an edge is a function of the graph alone: neither its chunk nor earlier computations
change a bit of it. Of the edges at a hub that are the same up to twins only the first is computed.
First come the chunks, except for edges that are cheaper together (at a hub: see `kernels.hubs`);
these follow, group by group.
"""

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from unionsnn.base.errors import RequestError
from unionsnn.base.processes import LEFT_BEHIND
from unionsnn.coefficients.graph import SimpleGraph
from unionsnn.coefficients.kernels.routes import DIRECT, KNOWN
from unionsnn.coefficients.kernels.spectra import OWN_SOLVER_LIMIT
from unionsnn.coefficients.kernels.substructures import first_twins

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
NodeArray = npt.NDArray[np.int32]

Progress = Callable[[int, int], Any]
Partial = Callable[[int, int, FloatArray], Any]
Task = Callable[[], None]

# Estimated nanoseconds below which a second thread costs more than it saves.
_TINY_WORK = 2.0e7

# Bounds on the time of a chunk: long compared to a call, short enough for progress and interrupts.
_CHUNKS_PER_THREAD = 16
_MIN_CHUNK_COST = 3.0e6
_MAX_CHUNK_COST = 5.0e7

# Degrees of an edge's ends, added, from which listing its nodes for each twin would take quadratic
# time. Below it an edge is computed by itself, since another one's value may differ by rounding.
_MANY_NEIGHBORS = 1024

_GROUP_MEMORY = 1 << 30
_POLL_SECONDS = 0.1

# Estimated nanoseconds from which work is left to other threads, so that Ctrl-C is answered.
_LONG_WORK = 5.0e8

# Seconds for which an interrupt waits for running tasks. Longer ones are left behind: nothing that
# they compute is used any more.
_GRACE_SECONDS = 1.0


@dataclass(frozen=True, eq=False)
class Group:
    """Edges that chunks have skipped because they are cheaper together.

    Attributes:
        edges: Numbers of the undirected edges.
        column: Column of their values.
        cost: Estimated nanoseconds.
        memory: Bytes in use until the first value is there.
        later: Bytes in use after that.
        values: Yields the value of each edge, given a thread's workspace.

    Shapes:
        edges [K].
    """

    edges: IntArray
    column: int
    cost: float
    memory: int
    later: int
    values: Callable[[Any], Iterator[float]]


class Pass(Protocol):
    """Interface of a kernel to the engine.

    Attributes:
        graph: The graph.
        num_columns: Number of values of each edge.
        max_order: Largest order of a matrix passed to LAPACK.
        max_groups: Maximum number of groups that chunks can leave.
        failure: Reason for a non-finite value.
    """

    graph: SimpleGraph
    num_columns: int
    max_order: int
    max_groups: int
    failure: str

    def costs(self, routes: NodeArray) -> tuple[FloatArray, FloatArray]:
        """Estimate the nanoseconds of each edge in its chunk, and in its group.

        Shapes:
            routes [M] -> [M] and [M], 0 for an edge that is `KNOWN`.
        """

    def expected_cost(self, routes: NodeArray, bound: float) -> float:
        """Estimate the nanoseconds of all edges but known ones, given the sum of `costs`.

        Shapes:
            routes [M].
        """

    def new_workspace(self) -> Any:
        """Allocate the workspace of one thread."""

    def compute(
        self, begin: int, end: int, routes: NodeArray, workspace: Any, values: FloatArray
    ) -> None:
        """Compute the edges begin..end-1 except known ones; routes name those left to groups.

        Shapes:
            routes [M] (in: `DIRECT` or `KNOWN`, out: at least 0 where a group follows),
            values [M, C].
        """

    def groups(self, routes: NodeArray) -> list[Group]:
        """Return the edges that chunks have left, in groups."""


def available_threads() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def threads_for(cost: float) -> int:
    """Return the number of threads that work of some nanoseconds is worth."""
    return 1 if cost < _TINY_WORK else available_threads()


def check_count(option: str, value: Any, default: str) -> int | None:
    """Check a number of threads or edges.

    Args:
        option: Its name.
        value: A positive integer or None.
        default: Meaning of None.

    Raises:
        RequestError: It is neither.
    """
    if value is None:
        return None
    valid = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not valid or value < 1:
        raise RequestError(
            f"{option} must be a positive integer, or None for {default}, got {value!r}.",
            code="coefficient.count",
        )
    return int(value)


def compute_values(
    edge_pass: Pass,
    *,
    threads: int | None = None,
    block_size: int | None = None,
    progress: Progress | None = None,
    partial: Partial | None = None,
    known: Iterable[tuple[int, int, FloatArray]] = (),
) -> FloatArray:
    """Compute the values of every undirected edge.

    In addition to the graph and the result, memory is bounded by the number of threads times the
    largest neighbourhoods: a thread holds the matrices of one substructure or of one hub (12 bytes
    per pair of neighbours; hubs in memory are limited to a gigabyte in total, or to one hub).

    Args:
        edge_pass: The pass.
        threads: Number of threads; None uses all available cores, or one for tiny work.
        block_size: Maximum number of edges between two checks for progress and interrupts; None
            bounds their estimated cost instead, by 50 ms.
        progress: Called with (done, total) from the calling thread; total is the number of edges,
            and done counts known edges and the finished share of the estimated work on others.
        partial: Called with (begin, end, values) from the calling thread when the edges
            begin..end-1 are done, a few at a time and in no particular order; finished edges are
            delivered before an interrupt is raised.
        known: Finished edges as passed to `partial`, which are not computed again.

    Shapes:
        -> [M, C], M undirected edges.

    Raises:
        RuntimeError: A value is not finite, or a linear programme failed.
    """
    computation = Computation(edge_pass, known)
    return computation.run(threads, block_size, progress, partial)


def twin_edges(graph: SimpleGraph) -> IntArray:
    """Return, for each edge at a hub, the first edge between twins of its ends, else the edge.

    Nodes with the same neighbours, open or closed, can be exchanged in the whole graph: such edges
    have isomorphic substructures, so all leaves of a star cost one computation.

    Shapes:
        -> [M].
    """
    first_edge = np.arange(graph.num_undirected_edges)
    degrees = np.diff(graph.indptr)
    at_hubs = np.flatnonzero(degrees[graph.edges].sum(axis=0) >= _MANY_NEIGHBORS)
    if len(at_hubs) > 0:
        first, _ = first_twins(graph.indptr, graph.indices)
        ends = np.sort(first[graph.edges[:, at_hubs]], axis=0)
        _, firsts, inverse = np.unique(
            ends[0] * graph.num_nodes + ends[1], return_index=True, return_inverse=True
        )
        first_edge[at_hubs] = at_hubs[firsts[inverse]]
    return first_edge


def single_threaded_blas(max_order: int) -> AbstractContextManager[Any]:
    """Limit BLAS to one thread while matrices of up to the given order are solved."""
    # Finding the loaded libraries takes longer than a small graph; only LAPACK needs it.
    if max_order <= OWN_SOLVER_LIMIT:
        return nullcontext()
    return threadpool_limits(limits=1, user_api="blas")


def plan_chunks(
    costs: FloatArray, threads: int, block_size: int | None, num_chunks: int | None = None
) -> tuple[IntArray, FloatArray]:
    """Cut the edges into chunks of similar cost.

    Args:
        costs: Estimated nanoseconds of each edge.
        threads: Number of threads, which decides on the number of chunks.
        block_size: Most edges of a chunk; None for no limit.
        num_chunks: Most chunks, whatever the threads.

    Shapes:
        costs [M] -> bounds [K + 1] and the cost of each chunk [K].
    """
    per_chunk = float(costs.sum()) / (num_chunks or _CHUNKS_PER_THREAD * threads)
    if num_chunks is None:
        per_chunk = min(max(per_chunk, _MIN_CHUNK_COST), _MAX_CHUNK_COST)
    # A sum of costs far beyond a chunk's would lose those of cheap edges.
    total = np.cumsum(np.minimum(costs, per_chunk))
    bounds, before = [0], 0.0
    while bounds[-1] < len(costs):
        end = int(np.searchsorted(total, before + per_chunk)) + 1
        bounds.append(min(end, len(costs), bounds[-1] + (block_size or len(costs))))
        before = float(total[bounds[-1] - 1])
    return np.array(bounds), np.add.reduceat(costs, bounds[:-1])


class Computation:
    """One pass over the edges: what is to be computed, its plan, and the results.

    Args:
        edge_pass: The pass.
        known: As in `compute_values`.
    """

    def __init__(self, edge_pass: Pass, known: Iterable[tuple[int, int, FloatArray]] = ()) -> None:
        self._pass = edge_pass
        self._graph = edge_pass.graph
        num_edges = self._graph.num_undirected_edges
        self._values = np.empty((num_edges, edge_pass.num_columns))
        self._routes = np.full(num_edges, DIRECT, np.int32)
        for begin, end, rows in known:
            self._values[begin:end] = rows
            self._routes[begin:end] = KNOWN
        self._first = twin_edges(self._graph)
        twins = (self._first < np.arange(num_edges)) & (self._routes != KNOWN)
        self._twins = np.flatnonzero(twins)
        self._routes[self._twins] = KNOWN
        self._costs = edge_pass.costs(self._routes)
        self._num_known = int((self._routes == KNOWN).sum())
        self._progress: Progress | None = None
        self._partial: Partial | None = None
        self._idle: SimpleQueue[Any] = SimpleQueue()
        self._finished: SimpleQueue[tuple[int, int, float]] = SimpleQueue()
        self._stop = threading.Event()
        self._caller = threading.current_thread()
        self._memory = MemoryGate(_GROUP_MEMORY)
        self._done = self._work = 0.0

    @property
    def expected_cost(self) -> float:
        """Estimated nanoseconds of one core."""
        return self._pass.expected_cost(self._routes, float(sum(c.sum() for c in self._costs)))

    def run(
        self,
        threads: int | None,
        block_size: int | None,
        progress: Progress | None,
        partial: Partial | None,
        num_chunks: int | None = None,
    ) -> FloatArray:
        """Compute the values of every undirected edge; see `compute_values` and `plan_chunks`."""
        values, graph = self._values, self._graph
        if not len(values):
            return values
        self._progress, self._partial = progress, partial
        with single_threaded_blas(self._pass.max_order):
            self._compute(threads, block_size, num_chunks)
        values[self._twins] = values[self._first[self._twins]]
        finite = np.isfinite(values).all(axis=1)
        if not finite.all():
            v, u = graph.edges[:, int(np.argmin(finite))]
            failure = self._pass.failure
            raise RuntimeError(f"The coefficient of edge {v} - {u} is not finite: {failure}.")
        return values

    def _compute(self, threads: int | None, block_size: int | None, num_chunks: int | None) -> None:
        """Compute all edges; the first failure or interrupt cancels tasks that have not started."""
        costs, in_groups = self._costs
        cores = threads or available_threads()
        bounds, chunk_costs = plan_chunks(costs, cores, block_size, num_chunks)
        self._work = float(chunk_costs.sum() + in_groups.sum())
        if threads is None:
            cores = threads_for(self._work)
        limits = bounds.tolist()
        chunks = [
            self._chunk_task(*job)
            for job in zip(limits[:-1], limits[1:], chunk_costs.tolist(), strict=True)
        ]
        cores = max(1, min(cores, max(len(chunks), self._pass.max_groups)))
        for _ in range(cores):
            self._idle.put(self._pass.new_workspace())
        self._run_tasks(chunks, cores)
        if self._pass.max_groups:
            groups = sorted(self._pass.groups(self._routes), key=lambda group: -group.cost)
            # The measured cost of the chunks scales the estimates of the rest.
            scale = (self._work - self._done) / max(sum(group.cost for group in groups), 1.0)
            self._run_tasks([self._group_task(groups, scale)] * len(groups), cores)
        self._done = self._work
        self._tell_progress()

    def _run_tasks(self, tasks: Sequence[Task], threads: int) -> None:
        # Signals reach the main thread only, and there only between two calls of compiled code.
        signals = threading.current_thread() is threading.main_thread()
        try:
            if threads == 1 and not (signals and self._work >= _LONG_WORK):
                for task in tasks:
                    task()
            else:
                self._run_on_threads(tasks, threads)
        except BaseException:
            self._deliver(tell_progress=False)
            raise
        self._deliver()

    def _run_on_threads(self, tasks: Sequence[Task], threads: int) -> None:
        waiting: SimpleQueue[Task] = SimpleQueue()
        ended: SimpleQueue[BaseException | None] = SimpleQueue()
        for task in tasks:
            waiting.put(task)

        def work() -> None:
            try:
                while not self._stop.is_set():
                    waiting.get_nowait()()
            except Empty:
                ended.put(None)
            except BaseException as error:
                ended.put(error)

        # Daemons, as nobody waits for those that an interrupt leaves behind.
        crew = [
            threading.Thread(target=work, name=f"{LEFT_BEHIND}-{i}", daemon=True)
            for i in range(threads)
        ]
        for thread in crew:
            thread.start()
        running = threads
        try:
            while running:
                with suppress(Empty):
                    error = ended.get(timeout=_POLL_SECONDS)
                    running -= 1
                    if error is not None:
                        raise error
                self._deliver()
        except BaseException:
            self._stop.set()
            end = time.monotonic() + _GRACE_SECONDS
            for thread in crew:
                thread.join(max(0.0, end - time.monotonic()))
            raise

    def _chunk_task(self, begin: int, end: int, cost: float) -> Task:
        def task() -> None:
            workspace = self._idle.get()
            try:
                self._pass.compute(begin, end, self._routes, workspace, self._values)
            finally:
                self._idle.put(workspace)
            self._report(begin, end, cost)

        return task

    def _group_task(self, waiting: list[Group], scale: float) -> Task:
        def task() -> None:
            workspace = self._idle.get()
            try:
                with self._memory.next_of(waiting) as (group, shrink):
                    if self._stop.is_set():
                        return
                    values = group.values(workspace)
                    cost_per_edge = scale * group.cost / len(group.edges)
                    for i, value in zip(group.edges.tolist(), values, strict=True):
                        self._values[i, group.column] = value
                        self._routes[i] = DIRECT
                        self._report(i, i + 1, cost_per_edge)
                        shrink()
                        if self._stop.is_set():
                            break
            finally:
                self._idle.put(workspace)

        return task

    def _report(self, begin: int, end: int, work: float) -> None:
        """Record finished work from any thread; the calling thread delivers it at once."""
        self._finished.put((begin, end, work))
        if threading.current_thread() is self._caller:
            self._deliver()

    def _deliver(self, *, tell_progress: bool = True) -> None:
        """Deliver finished work to the callbacks, from the calling thread."""
        news = False
        while True:
            try:
                begin, end, work = self._finished.get_nowait()
            except Empty:
                break
            news = True
            self._done += work
            if self._partial is not None:
                for first, last in self._finished_runs(begin, end):
                    self._partial(first, last, self._values[first:last])
        if news and tell_progress:
            self._tell_progress()

    def _finished_runs(self, begin: int, end: int) -> list[tuple[int, int]]:
        """Return the maximal ranges in begin..end-1 that are new and not left to groups."""
        new = np.concatenate([[False], self._routes[begin:end] == DIRECT, [False]])
        changes = begin + np.flatnonzero(new[1:] != new[:-1])
        return list(zip(changes[::2].tolist(), changes[1::2].tolist(), strict=True))

    def _tell_progress(self) -> None:
        if self._progress is not None:
            total = len(self._routes)
            share = self._done / self._work if self._work > 0 else 1.0
            done = self._num_known + int((total - self._num_known) * share)
            self._progress(min(total, done), total)


class MemoryGate:
    """Hands out groups as memory allows."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._in_use = 0
        self._changed = threading.Condition()

    @contextmanager
    def next_of(self, waiting: list[Group]) -> Iterator[tuple[Group, Callable[[], None]]]:
        """Take the first group that there is memory for; wait while others hold too much.

        Yields:
            The group, and what to call once it has its first value.
        """
        with self._changed:
            while (group := self._fitting(waiting)) is None:
                self._changed.wait()
            waiting.remove(group)
            held = group.memory
            self._in_use += held

        def release(kept: int) -> None:
            nonlocal held
            if held > kept:
                with self._changed:
                    self._in_use += kept - held
                    held = kept
                    self._changed.notify_all()

        try:
            yield group, lambda: release(group.later)
        finally:
            release(0)

    def _fitting(self, waiting: Sequence[Group]) -> Group | None:
        """Return the first group that fits, or just the first if nobody holds any memory."""
        if not self._in_use:
            return waiting[0]
        fitting = (g for g in waiting if self._in_use + g.memory <= self._limit)
        return next(fitting, None)
