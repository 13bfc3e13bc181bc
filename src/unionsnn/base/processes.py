"""How this process was started, and pools of worker processes. Does not import torch."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Generic, NoReturn, Self, TypeVar

from unionsnn.base.errors import RequestError

STOP_SIGNALS = tuple(
    getattr(signal, name)
    for name in ("SIGTERM", "SIGUSR1", "SIGUSR2")
    # Windows has only the first.
    if hasattr(signal, name)
)
"""Signals that end a command so that it can be resumed; batch systems send any of them."""

_UNGUARDED = 78
"""Exit status of a worker process that runs the user's script again instead of its work."""

Task = TypeVar("Task")
Result = TypeVar("Result")


@dataclass(frozen=True)
class TorchrunProcess:
    """This process among those started by torchrun, in torchrun's terms.

    Args:
        rank: Number of this process.
        world_size: Number of processes on all machines.
        local_world_size: Number of processes on this machine.
    """

    rank: int
    world_size: int
    local_world_size: int


def torchrun_process() -> TorchrunProcess | None:
    """Read torchrun's environment variables; None unless it started several processes."""
    names = ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
    if not all(os.environ.get(name, "").isdigit() for name in names):
        return None
    process = TorchrunProcess(*(int(os.environ[name]) for name in names))
    return process if process.world_size > 1 else None


@dataclass(frozen=True)
class Died:
    """A worker process died in the middle of its task.

    Args:
        exit_code: Its exit status; the negative signal number if a signal killed it.
    """

    exit_code: int

    def __str__(self) -> str:
        if self.exit_code < 0:
            return f"killed by {signal.Signals(-self.exit_code).name}"
        return f"exit status {self.exit_code}"


LEFT_BEHIND = "unionsnn-left"
"""Begin of the names of threads whose compiled code an interrupt does not wait for."""


class Terminated(SystemExit):
    """A signal of `STOP_SIGNALS` came."""


def end_on(number: int, status: int) -> None:
    """Let a signal raise `Terminated` with an exit status.

    It is sent again, as Ctrl-C is from then on, if it comes where Python ignores exceptions, as in
    the callback of a weak reference.
    """

    def terminate(_number: int, _frame: Any) -> NoReturn:
        raise Terminated(status)

    signal.signal(number, terminate)
    sys.unraisablehook = _send_again


def _send_again(ignored: sys.UnraisableHookArgs) -> None:
    signals = {KeyboardInterrupt: signal.SIGINT, Terminated: signal.SIGTERM}
    number = signals.get(ignored.exc_type)
    if number is None:
        sys.__unraisablehook__(ignored)
        return
    again = threading.Timer(0.01, os.kill, [os.getpid(), number])
    again.daemon = True
    again.start()


class ProcessPool(Generic[Task, Result]):
    """A pool of spawned processes, each of which works on one task at a time.

    If a process dies, only its own task is lost. All processes stop when the context is left, and
    when the parent ends for any reason. They ignore Ctrl-C and the signals of batch systems, which
    reach all processes of a terminal or job, and leave them to the parent.

    Args:
        work: Function applied to each task. It is sent to each process once, and may keep state
            there that its tasks share.
        size: Maximum number of processes; each starts when there is a task for it.
        patience: Seconds that a busy process gets to end after SIGTERM when the context is left,
            before it is killed; with 0 it is killed at once.
    """

    def __init__(self, work: Callable[[Task], Result], size: int, patience: float = 0.0) -> None:
        self.size = size
        self._work = work
        self._patience = patience
        self._busy: dict[Connection, tuple[BaseProcess, Task]] = {}
        self._idle: list[tuple[Connection, BaseProcess]] = []

    def __enter__(self) -> Self:
        """Return the pool; no process is started yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop all processes; unfinished tasks are abandoned."""
        limit = time.monotonic() + self._patience
        # A thread may be waiting in `ended`, which moves processes from busy to idle.
        busy, idle = list(self._busy.values()), list(self._idle)
        for process, _task in busy:
            process.terminate()
        for connection, _process in idle:
            connection.close()
        for process in [process for process, _task in busy] + [process for _, process in idle]:
            process.join(max(0.0, limit - time.monotonic()))
            process.kill()
            process.join()

    def abandon(self) -> None:
        """Stop the processes that are at work; idle ones stay for later tasks."""
        busy = list(self._busy.values())
        self._busy.clear()
        for process, _task in busy:
            process.kill()
            process.join()

    @property
    def running(self) -> list[Task]:
        """Tasks being worked on."""
        return [task for _, task in self._busy.values()]

    def start(self, task: Task) -> None:
        """Give a task to an idle process, or to a new one."""
        refuse_second_run()
        with held_back_signals():
            connection, process = self._idle.pop() if self._idle else self._spawn()
            # If the process is already dead, `ended` reports it.
            with contextlib.suppress(OSError):
                connection.send(task)
            self._busy[connection] = process, task

    def ended(self, timeout: float | None = None) -> list[tuple[Task, Result | Exception | Died]]:
        """Wait until some tasks have ended.

        Args:
            timeout: Maximum number of seconds to wait.

        Returns:
            Each ended task with its result or the exception it raised; empty after a timeout.

        Raises:
            RequestError: if a process runs the user's script again instead.
        """
        outcomes = []
        for connection in wait(list(self._busy), timeout):
            assert isinstance(connection, Connection)
            process, task = self._busy.pop(connection)
            outcome: Result | Exception | Died
            try:
                outcome = connection.recv()
                self._idle.append((connection, process))
            except (EOFError, OSError):
                process.join()
                if process.exitcode == _UNGUARDED:
                    raise RequestError(
                        "Each process of several starts by importing your script, which would run "
                        "all of it again: put the calls of your script below the line "
                        'if __name__ == "__main__":',
                        code="process.guard",
                    ) from None
                outcome = Died(process.exitcode or 0)
            outcomes.append((task, outcome))
        return outcomes

    def run(
        self,
        tasks: deque[Task],
        look: Callable[[], object] = lambda: None,
        interval: float | None = None,
        limit: int | None = None,
    ) -> Iterator[tuple[Task, Result | Died]]:
        """Work on tasks, and yield each with its result when it has ended.

        Args:
            tasks: The queue of tasks; those removed from it meanwhile are not started.
            look: Called after each wait, for instance to show progress.
            interval: Maximum number of seconds to wait.
            limit: Maximum number of tasks at once, below the size of the pool.

        Raises:
            Exception: whatever a task raised.
        """
        while tasks or self._busy:
            while tasks and len(self._busy) < min(self.size, limit or self.size):
                self.start(tasks.popleft())
            for task, outcome in self.ended(interval):
                if isinstance(outcome, Exception):
                    raise outcome
                yield task, outcome
            look()

    def _spawn(self) -> tuple[Connection, BaseProcess]:
        # A forked child would inherit the threads' locks of torch and numba.
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        process = context.Process(target=_serve, args=(there, self._work, os.getpid()))
        process.start()
        there.close()
        return here, process


def refuse_second_run() -> None:
    """End this process if it is a worker that imports the user's script, and has come here by it.

    The pool then names the guard that the script lacks.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise SystemExit(_UNGUARDED)


@contextlib.contextmanager
def held_back_signals() -> Iterator[None]:
    """Hold back Ctrl-C and the signals of batch systems until the end of the block.

    A process that is started inside does not see them either until it asks for them: a half-started
    one would end with a traceback.
    """
    held = (signal.SIGINT, *STOP_SIGNALS)
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # Starting it would let the signals through.
    resource_tracker.ensure_running()
    came: list[int] = []

    def note(number: int, _frame: Any) -> None:
        came.append(number)

    # Also handlers, since a signal may be delivered to any thread.
    handlers = {each: signal.signal(each, note) for each in held}
    mask = None
    if hasattr(signal, "pthread_sigmask"):
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, held)
    try:
        yield
    finally:
        if mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for each, handler in handlers.items():
            # None: not set by Python, which cannot restore it.
            signal.signal(each, handler or signal.SIG_DFL)
        if came:
            signal.raise_signal(came[0])


def _serve(connection: Connection, work: Callable[[Task], Result], parent: int) -> None:
    """Work on tasks until the pool closes the connection."""
    for each in (signal.SIGINT, *STOP_SIGNALS):
        if each != signal.SIGTERM:
            signal.signal(each, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, *STOP_SIGNALS})
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    while True:
        try:
            task = connection.recv()
        except EOFError:
            return
        outcome: Result | Exception
        try:
            outcome = work(task)
        except Exception as error:
            outcome = _sendable(error)
        connection.send(outcome)


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _sendable(error: Exception) -> Exception:
    """Return an error that can be pickled: itself, or one with the same message."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
