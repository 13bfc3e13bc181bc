"""Runs one trial: its repetitions are trained and validated, never tested."""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Iterator
from typing import Any

import optuna
import pytorch_lightning as pl
import torch
from optuna.exceptions import StorageInternalError
from pytorch_lightning.callbacks import Callback

from unionsnn.base.errors import (
    FolderInUseError,
    MemoryRanOutError,
    MissingObjectiveError,
    NonFiniteLossError,
)
from unionsnn.config.schema import Config
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.runs.experiment import recorded_splits, refuse_other_data
from unionsnn.runs.records import RunFolder
from unionsnn.search.storage import plan_again
from unionsnn.search.study import Study
from unionsnn.search.study_file import PARAMETERS
from unionsnn.tracking.csv import Csv
from unionsnn.training.build import build_data, check_model
from unionsnn.training.devices import check_accelerator
from unionsnn.training.records import Repetition
from unionsnn.training.repetition import Training, train_repetition
from unionsnn.training.tracking import GuardedRun

logger = logging.getLogger(__name__)


class QueueEmptyError(Exception):
    """Optuna created a new trial because another worker took the last planned one."""


class EpochReports(Callback):
    """Log the metrics of each epoch, and prune unpromising trainings.

    Args:
        run: Run of a tracker that logs them; None if it logs repetitions.
        trial: Optuna's trial, for pruning by epochs; None without it.
        key: Validation metric for the pruner.
    """

    def __init__(self, run: GuardedRun | None, trial: optuna.Trial | None, key: str) -> None:
        self.run = run
        self.trial = trial
        self.key = key

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Report the epoch."""
        metrics = {key: float(value) for key, value in trainer.callback_metrics.items()}
        epoch = trainer.current_epoch
        if self.run is not None:
            self.run.log(metrics, epoch)
        if self.trial is not None:
            self.trial.report(metrics[self.key], step=epoch)
            if self.trial.should_prune():
                raise optuna.TrialPruned(f"after epoch {epoch + 1}")


class TrialRunner:
    """Objective function of a study, called with each Optuna trial.

    A failed trial records the reason in its user attributes, and the study continues. A trial that
    is interrupted, or whose storage is unavailable, is requeued with its parameters; its finished
    repetitions are on disk and not trained again.

    Args:
        study: The study.
        worker: Name of the worker, stored with the trial.

    Attributes:
        interruption: What has interrupted a trial.
        missing: Why the study cannot continue: a record lacks its objective.
    """

    def __init__(self, study: Study, worker: str) -> None:
        self.study = study
        self.worker = worker
        self.interruption: BaseException | None = None
        self.missing: MissingObjectiveError | None = None
        self._data: tuple[tuple[Any, ...], GraphDataModule] | None = None

    def __call__(self, trial: optuna.Trial) -> tuple[float, ...]:
        """Return the objective values.

        Raises:
            TrialPruned: if the pruner stops it.
            Exception: whatever made it fail.
        """
        if "cell" not in trial.user_attrs:
            raise QueueEmptyError
        try:
            trial.set_user_attr("worker", self.worker)
            return self._values(trial)
        except optuna.TrialPruned as error:
            trial.set_user_attr("reason", str(error))
            raise
        except StorageInternalError:
            self._again(trial)
            raise
        except Exception as error:
            if isinstance(error, MissingObjectiveError):
                self.missing = error
            trial.set_user_attr("reason", reason(error))
            raise
        except BaseException as error:
            self._again(trial)
            self.interruption = error
            # The only exception that Optuna records before re-raising it.
            raise KeyboardInterrupt from error

    def _again(self, trial: optuna.Trial) -> None:
        stored = trial.study.get_trials(deepcopy=False)[trial.number]
        trial.set_user_attr("reason", "interrupted")
        plan_again(trial.study, stored)

    def _values(self, trial: optuna.Trial) -> tuple[float, ...]:
        parameters = {p.key: p.suggest(trial) for p in self.study.space}
        config = self.study.trial_config(parameters).replace({"trainer.progress": "none"})
        check_accelerator(config)
        check_model(config)
        torch.set_num_threads(config.trainer.threads)
        pruner, (key, *others) = self.study.file.pruner, self.study.file.objectives
        values: dict[int, float] = {}
        beside: list[list[float]] = [[] for _ in others]
        alone = len(config.protocol.wanted) == 1
        with _locked(RunFolder.of(config)) as folder, _tracked(config, folder, trial, alone) as run:
            by_epoch = pruner.every == "epoch" and pruner.name != "none"
            reports = EpochReports(run if alone else None, trial if by_epoch else None, key)
            for index, record in self._records(config, folder, reports):
                values[index] = value = objective(record, key)
                for each, other in zip(beside, others, strict=True):
                    each.append(objective(record, other))
                trial.set_user_attr("repetitions", {str(i): v for i, v in values.items()})
                mean = math.fsum(values.values()) / len(values)
                if not alone:
                    run.log({**record.metrics, f"mean_{key}": mean}, index)
                if pruner.every == "repetition" and not others:
                    # The signed-rank test pairs the repetitions; the others compare means so far.
                    paired = pruner.name == "wilcoxon"
                    trial.report(value if paired else mean, step=len(values))
                    last = len(values) == len(config.protocol.wanted)
                    if not last and trial.should_prune():
                        raise optuna.TrialPruned(f"after {len(values)} repetition(s)")
            results = (mean, *(math.fsum(each) / len(each) for each in beside))
            run.report(dict(zip(self.study.file.objectives, results, strict=True)))
        return results

    def _records(
        self, config: Config, folder: RunFolder[Config], reports: EpochReports
    ) -> Iterator[tuple[int, Repetition]]:
        protocol = config.protocol
        data = self._data_of(config)
        finished = folder.finished()
        refuse_other_data(folder, finished, data)
        splits = recorded_splits(folder, protocol, data, config.seed)
        untracked = config
        if config.logger.keeps_runs:
            # The trial has one tracker run, which replaces those of its repetitions.
            untracked = config.replace({"logger": Csv()})
        for index in protocol.wanted:
            record = finished.get(index)
            if record is None:
                training = Training(untracked, splits[index], index, folder.path)
                record = train_repetition(training, data, reports, test=False)
                folder.save_repetition(index, record)
            yield index, record

    def _data_of(self, config: Config) -> GraphDataModule:
        """Return the data of a trial, reusing that of the last trial if equal."""
        sections = (config.data, config.coefficient, config.gate, config.paths)
        key = (*sections, config.model.coefficient, config.model.encodings)
        if self._data is None or self._data[0] != key:
            self._data = key, build_data(config)
        return self._data[1]


def objective(record: Repetition, key: str) -> float:
    """Return a repetition's value of an objective: a metric, or the number of parameters.

    Raises:
        MissingObjectiveError: if the record lacks it.
        NonFiniteLossError: if it is NaN or infinite.
    """
    if key == PARAMETERS:
        return float(record.parameters)
    metrics = record.metrics
    if key not in metrics:
        raise MissingObjectiveError(
            f"The record of repetition {record.index} has no {key}, the study's objective; "
            f"it has {', '.join(sorted(metrics))}."
        )
    value = float(metrics[key])
    if not math.isfinite(value):
        raise NonFiniteLossError(f"{key} of repetition {record.index} is {value}.")
    return value


def reason(error: Exception) -> str:
    """Return in one line why a trial failed."""
    kinds = {
        "out of memory": (MemoryError, MemoryRanOutError, torch.OutOfMemoryError),
        "not finite": (NonFiniteLossError,),
    }
    kind = next((k for k, types in kinds.items() if isinstance(error, types)), type(error).__name__)
    return f"{kind}: {' '.join(str(error).split())}"[:500]


@contextlib.contextmanager
def _tracked(
    config: Config, folder: RunFolder[Config], trial: optuna.Trial, alone: bool
) -> Iterator[GuardedRun]:
    """Start a tracker run for a trial, with rows for repetitions, or epochs if there is one."""
    axis = "epoch" if alone else "repetition"
    number = trial.user_attrs["cell"]
    with GuardedRun(config, folder.path, "trial", number, axis) as run:
        try:
            yield run
        except optuna.TrialPruned as pruned:
            run.report({"pruned": str(pruned)})
            run.finish(failed=False)
            raise


@contextlib.contextmanager
def _locked(folder: RunFolder[Config], patience: float = 3600.0) -> Iterator[RunFolder[Config]]:
    """Lock a run folder; wait while another worker trains the same point of the space."""
    limit = time.monotonic() + patience
    with contextlib.ExitStack() as stack:
        while True:
            try:
                locked = stack.enter_context(folder.locked())
                break
            except FolderInUseError:
                if time.monotonic() > limit:
                    raise
                time.sleep(1.0)
        yield locked
