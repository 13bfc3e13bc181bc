"""Repetitions in several processes, with the same results as in one."""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from unionsnn.base.processes import Died, ProcessPool
from unionsnn.config.schema import Config
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.data.splits import Split
from unionsnn.runs.failures import Failure, Outcome, attempt
from unionsnn.runs.selection import read_by, select_in_fold
from unionsnn.runs.worker_view import StatusFile, WorkerView
from unionsnn.training.build import build_data
from unionsnn.training.records import Repetition
from unionsnn.training.repetition import REPETITIONS, Training, train_repetition

_DIED = Failure(
    "WorkerDied",
    "its worker process was killed. If memory ran out, lower protocol.workers or data.batch_size",
)


@dataclass(frozen=True)
class Job:
    """A repetition to be trained in a worker process.

    Args:
        training: The repetition.
        status: Folder of the workers' status files.
    """

    training: Training
    status: Path


class Worker:
    """Trains repetitions in a worker process, of one experiment after another.

    The data are read again only if the next experiment has others.
    """

    def __init__(self) -> None:
        self._data: tuple[tuple[Any, ...], GraphDataModule] | None = None

    def __call__(self, job: Job) -> Outcome:
        """Train a repetition."""
        training = job.training
        config, protocol = training.config, training.config.protocol
        torch.set_num_threads(config.trainer.threads)
        read = (*read_by(config), config.paths)
        if self._data is None or self._data[0] != read:
            self._data = read, build_data(config)
        data = self._data[1]
        watch = StatusFile(job.status, training.index, protocol.select_on)
        train: Callable[..., Repetition] = select_in_fold if protocol.grid else train_repetition
        outcome = attempt(lambda: train(training, data, watch))
        return outcome.without_error() if isinstance(outcome, Failure) else outcome


Workers = ProcessPool[Job, Outcome]
"""Processes that train repetitions; they may be those of several experiments in turn."""


def train_in_workers(
    config: Config,
    splits: Sequence[Split],
    waiting: deque[int],
    folder: Path,
    workers: Workers | None = None,
) -> Generator[tuple[int, Outcome]]:
    """Train repetitions in ``protocol.workers`` processes; yield each outcome when it is done.

    A repetition draws from its own seed, so the records equal those of a single process. A killed
    worker loses only its own repetition; another worker replaces it.

    Args:
        config: A checked configuration.
        splits: One for each repetition of the protocol.
        waiting: Repetitions to train; those removed from it are not started.
        folder: The run folder.
        workers: Processes to use, which go on afterwards; by default new ones.
    """
    quiet = config.replace({"trainer.progress": "none"})
    count = min(config.protocol.workers, len(waiting))
    with ExitStack() as stack:
        status = Path(
            stack.enter_context(
                tempfile.TemporaryDirectory(prefix="unionsnn-", ignore_cleanup_errors=True)
            )
        )
        view = stack.enter_context(
            closing(WorkerView(status, count, config.protocol.unit, REPETITIONS))
        )
        if workers is None:
            workers = stack.enter_context(ProcessPool(Worker(), count))
        pool = workers
        # What is still trained if saving fails is nobody's any more.
        stack.callback(pool.abandon)
        jobs = deque(Job(Training(quiet, splits[i], i, folder), status) for i in waiting)

        def look() -> None:
            view.look([job.training.index for job in pool.running])

        for job, result in pool.run(jobs, look, interval=0.25, limit=count):
            outcome = _DIED if isinstance(result, Died) else result
            view.ended(job.training.index)
            waiting.clear()
            waiting.extend(each.training.index for each in jobs)
            yield job.training.index, outcome
            left = [each for each in jobs if each.training.index in waiting]
            jobs.clear()
            jobs.extend(left)
