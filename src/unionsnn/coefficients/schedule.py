"""The work of one call on threads: chunks, then hubs; progress, finished edges, interrupts."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np
import numpy.typing as npt

from unionsnn.coefficients.graph import SimpleGraph
from unionsnn.coefficients.kernels.hubs import Hub
from unionsnn.coefficients.kernels.radius_one import Workspace, compute_chunk, new_workspace
from unionsnn.coefficients.planning import DIRECT, hub_cost

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
NodeArray = npt.NDArray[np.int32]

Progress = Callable[[int, int], Any]
Partial = Callable[[int, int, FloatArray], Any]
Task = Callable[[], None]

_HUB_MEMORY = 1 << 30
_POLL_SECONDS = 0.1


class Run:
    """One pass over the edges: what the tasks read, where they write, and who is told.

    Args:
        graph: The graph.
        wanted: Output column of each of the quantities, or -1.
        values: The result.
        classes: As `hub_classes` gives them.
        routes: `KNOWN` where a row of values is given, else `DIRECT`.
        progress: Told of the share of the estimated work that is done.
        partial: Told of finished edges.

    Shapes:
        wanted [4], values [M, C], classes [N] or [0], routes [M].
    """

    def __init__(
        self,
        graph: SimpleGraph,
        wanted: IntArray,
        values: FloatArray,
        classes: NodeArray,
        routes: NodeArray,
        progress: Progress | None,
        partial: Partial | None,
    ) -> None:
        self._graph = graph
        self._wanted = wanted
        self._values = values
        self._classes = classes
        self._routes = routes
        self._progress = progress
        self._partial = partial
        self._idle: SimpleQueue[Workspace] = SimpleQueue()
        self._finished: SimpleQueue[tuple[int, int, float]] = SimpleQueue()
        self._stop = threading.Event()
        self._caller = threading.current_thread()
        self._memory = _MemoryGate(_HUB_MEMORY)
        self._done = self._work = 0.0

    def compute(
        self, bounds: IntArray, chunk_costs: FloatArray, hub_work: float, threads: int
    ) -> None:
        """Compute all edges; the first failure or interrupt stops what has not begun.

        Args:
            bounds: Where chunks begin and end.
            chunk_costs: Estimated cost of each chunk.
            hub_work: Estimated cost of the edges that will take a hub.
            threads: Number of threads.

        Shapes:
            bounds [K + 1], chunk_costs [K].
        """
        self._work = float(chunk_costs.sum()) + hub_work
        limits = bounds.tolist()
        jobs = zip(limits[:-1], limits[1:], chunk_costs.tolist(), strict=True)
        chunks = [self._chunk_task(*job) for job in jobs]
        threads = max(1, min(threads, max(len(chunks), int((self._classes > 0).sum()))))
        degree = int(np.diff(self._graph.indptr).max(initial=0))
        for _ in range(threads):
            self._idle.put(new_workspace(self._graph.num_nodes, degree, len(self._routes)))
        self._run_tasks(chunks, threads)
        if len(self._classes):
            # What the chunks found sets the scale for the rest of the work.
            self._run_tasks(self._hub_tasks(self._work - self._done), threads)
        self._done = self._work
        self._tell_progress()

    def _run_tasks(self, tasks: Sequence[Task], threads: int) -> None:
        try:
            if threads == 1:
                for task in tasks:
                    task()
            else:
                self._run_on_threads(tasks, threads)
        except BaseException:
            self._deliver(tell_progress=False)
            raise
        self._deliver()

    def _run_on_threads(self, tasks: Sequence[Task], threads: int) -> None:
        executor = ThreadPoolExecutor(threads, thread_name_prefix="unionsnn-structure")
        try:
            pending: set[Future[None]] = {executor.submit(task) for task in tasks}
            while pending:
                finished, pending = wait(pending, _POLL_SECONDS, FIRST_COMPLETED)
                for future in finished:
                    future.result()
                self._deliver()
        finally:
            self._stop.set()
            executor.shutdown(cancel_futures=True)
            self._stop.clear()

    def _chunk_task(self, begin: int, end: int, cost: float) -> Task:
        def task() -> None:
            g = self._graph
            workspace = self._idle.get()
            try:
                compute_chunk(
                    g.indptr,
                    g.indices,
                    g.edges,
                    begin,
                    end,
                    self._classes,
                    self._routes,
                    workspace,
                    self._wanted,
                    self._values,
                )
            finally:
                self._idle.put(workspace)
            self._report(begin, end, cost)

        return task

    def _hub_tasks(self, work_left: float) -> list[Task]:
        """One task a hub, the longest first."""
        edges = np.flatnonzero(self._routes >= 0)
        edges = edges[np.argsort(self._routes[edges], kind="stable")]
        hubs, starts = np.unique(self._routes[edges], return_index=True)
        groups = np.split(edges, starts[1:]) if len(hubs) else []
        costs = [self._hub_cost(v, group) for v, group in zip(hubs.tolist(), groups, strict=True)]
        scale = work_left / max(sum(costs), 1.0)
        order = np.argsort(-np.array(costs), kind="stable")
        return [
            self._hub_task(int(hubs[i]), groups[i], scale * costs[i] / len(groups[i]))
            for i in order
        ]

    def _hub_cost(self, v: int, edges: IntArray) -> float:
        degrees = np.diff(self._graph.indptr)
        border = int(degrees[self._graph.edges[:, edges]].min(axis=0).mean()) // 2
        return len(edges) * hub_cost(int(self._classes[v]), int(degrees[v]), border)

    def _hub_task(self, v: int, edges: IntArray, cost_per_edge: float) -> Task:
        def task() -> None:
            g = self._graph
            size = int(g.indptr[v + 1] - g.indptr[v]) + 1
            workspace = self._idle.get()
            try:
                with self._memory.hold(24 * int(self._classes[v]) ** 2 + size * size // 8):
                    if self._stop.is_set():
                        return
                    hub = Hub(g.indptr, g.indices, v, workspace.local)
                    for i in edges.tolist():
                        if self._stop.is_set():
                            break
                        u = int(g.edges[:, i].sum()) - v
                        self._values[i, self._wanted[0]] = hub.coefficient(u)
                        self._routes[i] = DIRECT
                        self._report(i, i + 1, cost_per_edge)
                    hub.close()
            finally:
                self._idle.put(workspace)

        return task

    def _report(self, begin: int, end: int, work: float) -> None:
        """Note a piece of work from any thread; the calling thread hands it on at once."""
        self._finished.put((begin, end, work))
        if threading.current_thread() is self._caller:
            self._deliver()

    def _deliver(self, *, tell_progress: bool = True) -> None:
        """Hand on what has been finished, from the calling thread."""
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
        """Longest runs of edges in begin..end-1 that are new and wait for no hub."""
        new = np.concatenate([[False], self._routes[begin:end] == DIRECT, [False]])
        changes = begin + np.flatnonzero(new[1:] != new[:-1])
        return list(zip(changes[::2].tolist(), changes[1::2].tolist(), strict=True))

    def _tell_progress(self) -> None:
        if self._progress is not None:
            total = len(self._routes)
            share = self._done / self._work if self._work > 0 else 1.0
            self._progress(min(total, int(total * share)), total)


class _MemoryGate:
    """Holds back who asks for memory until there is enough of it, or nobody else has any."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = 0
        self._changed = threading.Condition()

    @contextmanager
    def hold(self, size: int) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._held or self._held + size <= self._limit)
            self._held += size
        try:
            yield
        finally:
            with self._changed:
                self._held -= size
                self._changed.notify_all()
