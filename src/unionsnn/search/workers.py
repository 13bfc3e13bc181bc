"""Workers: processes that take planned trials out of the queue until none is left."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import optuna
from optuna.exceptions import StorageInternalError, UpdateFinishedTrialError
from optuna.trial import TrialState

from unionsnn.base.errors import WorkersDiedError
from unionsnn.base.processes import ProcessPool
from unionsnn.search.queue import attach, read_trials
from unionsnn.search.samplers import quiet_optuna
from unionsnn.search.storage import release_stale
from unionsnn.search.study import Study
from unionsnn.search.trial import Trial
from unionsnn.search.trial_runner import TrialRunner

Watch = Callable[[list[Trial]], None]
"""Called regularly with the state of all planned trials."""

_ERRORS_IN_A_ROW = 5


def work(study: Study, watch: Watch | None = None, poll: float = 1.0) -> None:
    """Run planned trials until all of them are finished by some worker.

    With an empty queue, the worker waits for the trials of others, which may die.

    Args:
        study: The study, which must exist in the storage.
        watch: Called after each trial, and while the worker waits.
        poll: Seconds between checks of the others.

    Raises:
        MissingObjectiveError: if a record lacks the study's objective.
    """
    runner = TrialRunner(study, f"{socket.gethostname()}:{os.getpid()}")
    errors = 0
    with quiet_optuna():
        stored = attach(study)
        while True:
            try:
                release_stale(stored, study.file.heartbeat)
                waiting, running = (
                    len(stored.get_trials(deepcopy=False, states=(state,)))
                    for state in (TrialState.WAITING, TrialState.RUNNING)
                )
                if waiting:
                    stored.optimize(runner, n_trials=1, catch=(Exception,))
                elif running:
                    time.sleep(poll)
                if watch is not None:
                    watch(read_trials(stored))
                if not waiting and not running:
                    return
                errors = 0
            except (StorageInternalError, UpdateFinishedTrialError, ValueError):
                # The storage was unavailable, or others have requeued the trial.
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
        WorkersDiedError: if all of them die before the study is finished.
    """
    devices = _devices(study)
    shares = deque(devices[number % len(devices)] for number in range(count))
    stored = attach(study)

    def look() -> None:
        if watch is not None:
            watch(read_trials(stored))

    # On an error or a signal a worker requeues its trial before it ends.
    with ProcessPool(_Worker(study), count, patience=10.0) as pool:
        ends = [outcome for _, outcome in pool.run(shares, look, interval=1.0)]
    trials = read_trials(stored)
    left = [trial for trial in trials if trial.state in ("waiting", "running")]
    if left:
        raise WorkersDiedError(
            f"All workers ended ({', '.join(str(end or 'done') for end in ends)}) with {len(left)} "
            f"of {len(trials)} trials left; rerun the command to resume. If memory ran out, use "
            "fewer workers or a smaller data.batch_size."
        )


def _devices(study: Study) -> list[str | None]:
    """Return the GPUs to distribute among workers; [None] without GPUs."""
    if study.base.trainer.accelerator not in ("auto", "gpu"):
        return [None]
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    if given is not None:
        return [name for name in given.split(",") if name] or [None]
    import torch

    return [str(number) for number in range(torch.cuda.device_count())] or [None]


@dataclass(frozen=True)
class _Worker:
    """Runs trials in a worker process until none is left; called with the name of its GPU."""

    study: Study

    def __call__(self, device: str | None) -> None:
        if device is not None:
            # Before the GPUs are first accessed.
            os.environ["CUDA_VISIBLE_DEVICES"] = device
        signal.signal(signal.SIGTERM, _terminate)
        logging.getLogger("unionsnn").setLevel(logging.WARNING)
        try:
            work(self.study)
        except (optuna.exceptions.OptunaError, RuntimeError, ValueError) as error:
            print(f"error: {error}", file=sys.stderr, flush=True)
            sys.exit(1)


def _terminate(signum: int, frame: Any) -> NoReturn:
    sys.exit(128 + signum)
