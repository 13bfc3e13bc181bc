"""Repetitions in several processes, with the same results as in one."""

from __future__ import annotations

import functools
import tempfile
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from unionsnn.base.processes import Died, ProcessPool
from unionsnn.config.schema import Config
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.data.splits import Split
from unionsnn.runs.failures import Failure, Outcome, attempt
from unionsnn.runs.selection import select_in_fold
from unionsnn.runs.worker_view import StatusFile, WorkerView
from unionsnn.training.build import build_data
from unionsnn.training.records import Repetition
from unionsnn.training.repetition import Training, train_repetition

_DIED = Failure(
    "WorkerDied",
    "its worker process was killed. If memory ran out, lower protocol.workers or data.batch_size",
)


def train_in_workers(
    config: Config, splits: Sequence[Split], waiting: deque[int], folder: Path
) -> Generator[tuple[int, Outcome]]:
    """Train repetitions in ``protocol.workers`` processes; yield each outcome when it is done.

    A repetition draws from its own seed, so the records equal those of a single process. A killed
    worker loses only its own repetition; another worker replaces it.

    Args:
        config: A checked configuration.
        splits: One for each repetition of the protocol.
        waiting: Repetitions to train; those removed from it are not started.
        folder: The run folder.
    """
    quiet = config.replace({"trainer.progress": "none"})
    with (
        tempfile.TemporaryDirectory(prefix="unionsnn-", ignore_cleanup_errors=True) as status,
        WorkerView(config.trainer.progress, Path(status), len(waiting)) as view,
        ProcessPool(
            _Worker(quiet, splits, folder, Path(status)),
            min(config.protocol.workers, len(waiting)),
        ) as pool,
    ):
        for index, result in pool.run(waiting, lambda: view.look(pool.running), interval=0.25):
            outcome = _DIED if isinstance(result, Died) else result
            view.ended(index, isinstance(outcome, Failure))
            yield index, outcome


@dataclass(frozen=True)
class _Worker:
    """Trains repetitions in a worker process, which reads the data once; called with indices."""

    config: Config
    splits: Sequence[Split]
    folder: Path
    status: Path

    def __call__(self, index: int) -> Outcome:
        torch.set_num_threads(self.config.trainer.threads)
        protocol = self.config.protocol
        watch = StatusFile(self.status, index, protocol.select_on)
        train: Callable[..., Repetition] = select_in_fold if protocol.grid else train_repetition
        training = Training(self.config, self.splits[index], index, self.folder)
        outcome = attempt(lambda: train(training, self._data, watch))
        return outcome.without_error() if isinstance(outcome, Failure) else outcome

    @functools.cached_property
    def _data(self) -> GraphDataModule:
        return build_data(self.config)
