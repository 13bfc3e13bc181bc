"""Workers: processes that take planned trials out of the queue until none is left."""

from __future__ import annotations

import logging
import multiprocessing
import multiprocessing.connection
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing.process import BaseProcess
from typing import Any, NoReturn

import optuna
from optuna.exceptions import StorageInternalError, UpdateFinishedTrialError
from optuna.trial import TrialState

from unionsnn.base.errors import WorkersDiedError
from unionsnn.search.ledger import Cell, attach, read_cells
from unionsnn.search.methods import quiet_optuna
from unionsnn.search.storage import release_stale
from unionsnn.search.study import Study
from unionsnn.search.trials import TrialRunner

Watch = Callable[[list[Cell]], None]
"""Called now and then with the state of all planned trials."""

_ERRORS_IN_A_ROW = 5


def work(study: Study, watch: Watch | None = None, poll: float = 1.0) -> None:
    """Run planned trials until every one of them is finished, by whichever worker.

    With the queue empty, the worker waits for those that others run: one of them may die.

    Args:
        study: The study; it must be in the storage.
        watch: Called after each trial, and while the worker waits.
        poll: Seconds between looks at the others.

    Raises:
        MissingObjectiveError: if a record lacks the metric that the study is about.
    """
    runner = TrialRunner(study, f"{socket.gethostname()}:{os.getpid()}")
    errors = 0
    with quiet_optuna():
        held = attach(study)
        while True:
            try:
                release_stale(held, study.file.heartbeat)
                waiting, running = (
                    len(held.get_trials(deepcopy=False, states=(state,)))
                    for state in (TrialState.WAITING, TrialState.RUNNING)
                )
                if waiting:
                    held.optimize(runner, n_trials=1, catch=(Exception,))
                elif running:
                    time.sleep(poll)
                if watch is not None:
                    watch(read_cells(held))
                if not waiting and not running:
                    return
                errors = 0
            except (StorageInternalError, UpdateFinishedTrialError, ValueError):
                # The storage was away, or others have given up the trial and planned it again.
                errors += 1
                if errors > _ERRORS_IN_A_ROW:
                    raise
                time.sleep(poll)
            except KeyboardInterrupt:
                raise runner.interruption or KeyboardInterrupt from None
            if runner.missing is not None:
                raise runner.missing


def work_in_processes(study: Study, count: int, watch: Watch | None = None) -> None:
    """Run planned trials in several processes.

    Raises:
        WorkersDiedError: if none of them is left before the study is done.
    """
    # A forked child would inherit the threads' locks of torch and numba.
    context = multiprocessing.get_context("spawn")
    devices = _devices(study)
    held = attach(study)
    children: list[BaseProcess] = []
    try:
        for number in range(count):
            device = devices[number % len(devices)] if devices else None
            child = context.Process(target=_run, args=(study, os.getpid(), device))
            child.start()
            children.append(child)
        while any(child.is_alive() for child in children):
            _join(children, 1.0)
            if watch is not None:
                watch(read_cells(held))
    finally:
        # On an error or a signal a worker plans its trial again before it ends.
        _end(children)
    cells = read_cells(held)
    if watch is not None:
        watch(cells)
    left = [cell for cell in cells if cell.state in ("waiting", "running")]
    if left:
        raise WorkersDiedError(
            f"All workers ended (exit codes {', '.join(str(c.exitcode) for c in children)}) with "
            f"{len(left)} of {len(cells)} trials left; the same command goes on. If memory ran "
            "out, use fewer workers or a smaller data.batch_size."
        )


def _join(children: Sequence[BaseProcess], seconds: float) -> None:
    multiprocessing.connection.wait([child.sentinel for child in children], seconds)
    time.sleep(0.05)


def _end(children: Sequence[BaseProcess], patience: float = 10.0) -> None:
    limit = time.monotonic() + patience
    for child in children:
        child.terminate()
    for child in children:
        child.join(max(0.0, limit - time.monotonic()))
        if child.is_alive():
            child.kill()
            child.join()


def _devices(study: Study) -> list[str]:
    """Names of the GPUs that the workers share, one each; none if the experiment wants none."""
    if study.base["trainer"]["accelerator"] not in ("auto", "gpu"):
        return []
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    if given is not None:
        return [name for name in given.split(",") if name]
    import torch

    return [str(number) for number in range(torch.cuda.device_count())]


def _run(study: Study, parent: int, device: str | None) -> None:
    if device is not None:
        # Before the first look at the GPUs.
        os.environ["CUDA_VISIBLE_DEVICES"] = device
    # Ctrl-C reaches all processes of a terminal; the parent alone decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _terminate)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    logging.getLogger("unionsnn").setLevel(logging.WARNING)
    try:
        work(study)
    except (optuna.exceptions.OptunaError, RuntimeError) as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        sys.exit(1)


def _terminate(signum: int, frame: Any) -> NoReturn:
    sys.exit(128 + signum)


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
