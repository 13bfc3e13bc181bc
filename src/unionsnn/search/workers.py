"""Workers: they take planned trials out of the queue, train and validate them, never test."""

from __future__ import annotations

import contextlib
import errno
import logging
import math
import os
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import optuna
import pytorch_lightning as pl
import torch
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.exceptions import StorageInternalError, UpdateFinishedTrialError
from optuna.trial import TrialState

from unionsnn.base.errors import (
    DataUnavailableError,
    FolderInUseError,
    MemoryRanOutError,
    MissingObjectiveError,
    NonFiniteLossError,
    RunFolderError,
    TooLargeError,
    WorkersDiedError,
)
from unionsnn.base.files import UNUSABLE_FOLDER_ERRNOS
from unionsnn.base.processes import ProcessPool, end_on
from unionsnn.base.secrets import masked
from unionsnn.config.schema import Config
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.runs.run_folder import RunFolder
from unionsnn.runs.validation import EpochLog, validate_together, validated
from unionsnn.search.queue import LOST, Trial, attach, read_trials
from unionsnn.search.samplers import quiet_optuna
from unionsnn.search.space import Value
from unionsnn.search.storage import plan_again, release_stale, storage_lost
from unionsnn.search.study import Study
from unionsnn.search.study_file import PARAMETERS
from unionsnn.training.build import build_data, check_request
from unionsnn.training.devices import check_accelerator, own_state
from unionsnn.training.records import Repetition
from unionsnn.training.resume import SharedPoint
from unionsnn.training.together import own, pays, shape_of
from unionsnn.training.tracking import GuardedRun, parameters_text

Watch = Callable[[list[Trial]], None]
"""Called regularly with the state of all planned trials."""

_ERRORS_IN_A_ROW = 5

_OF_THE_STORAGE = (
    StorageInternalError,
    UpdateFinishedTrialError,
    # Those of a journal.
    OSError,
    ValueError,
    # Optuna's, where it cannot note the end of a trial.
    AssertionError,
)

_PATIENCE = 3600.0
"""Seconds to wait for another worker that trains the same point of the space."""


MEMORY = (MemoryError, MemoryRanOutError, TooLargeError, torch.OutOfMemoryError)
"""Errors of memory, which another machine, or this one with fewer workers, may not meet."""

_STOPPING = (OSError, RunFolderError, DataUnavailableError)

# The device is lost to this process, by a fault of its own or of the trial.
_DEVICE: tuple[type[Exception], ...] = (
    (torch.AcceleratorError,) if hasattr(torch, "AcceleratorError") else ()
)

_ERRNOS = {*UNUSABLE_FOLDER_ERRNOS, errno.EIO, errno.ESTALE, errno.EMFILE, errno.ENFILE}


class QueueEmptyError(Exception):
    """Optuna created a new trial because another worker took the last planned one."""


class EpochReports(EpochLog):
    """Log the metrics of each epoch, and prune unpromising trainings.

    Args:
        run: Run of the trackers that logs them; None if it logs repetitions.
        trial: Optuna's trial, for pruning by epochs; None without it.
        key: Validation metric for the pruner.
    """

    def __init__(self, run: GuardedRun | None, trial: optuna.Trial | None, key: str) -> None:
        super().__init__(run)
        self.trial = trial
        self.key = key

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Report the epoch."""
        super().on_train_epoch_end(trainer, pl_module)
        if self.trial is not None:
            epoch = trainer.current_epoch
            self.trial.report(float(trainer.callback_metrics[self.key]), step=epoch)
            if self.trial.should_prune():
                raise optuna.TrialPruned(f"after epoch {epoch + 1}")


class TrialRunner:
    """Objective function of a study, called with each Optuna trial.

    A failed trial records the reason in its user attributes, and the study continues. A trial that
    is interrupted, also by a full disk, or whose storage is unavailable, is requeued with its
    parameters; its finished repetitions are on disk and not trained again. One for which memory ran
    out is marked as lost.

    Where ``protocol.together`` and the device say so, all repetitions of a trial are trained in one
    step, and with them those of the waiting trials of a grid that have the same shape: when their
    turn comes they are on disk.

    Args:
        study: The study.
        worker: Name of the worker, stored with the trial.
        companions: Whether other trials may be trained with one; in a storage that is given, which
            other machines may share, they never are.

    Attributes:
        interruption: What has interrupted a trial.
        storage_error: What the storage has failed with, which Optuna does not raise.
        missing: Why the study cannot continue: a record lacks its objective.
    """

    def __init__(self, study: Study, worker: str, *, companions: bool = True) -> None:
        self.study = study
        self.worker = worker
        self.companions = companions and study.file.storage is None
        self.interruption: BaseException | None = None
        self.storage_error: StorageInternalError | None = None
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
        except StorageInternalError as error:
            self.storage_error = error
            self._again(trial)
            raise
        except Exception as error:
            if isinstance(error, MissingObjectiveError):
                self.missing = error
            if isinstance(error, MEMORY):
                trial.set_user_attr(LOST, True)
            elif isinstance(error, _DEVICE):
                self._interrupt(trial, error, self.study.file.retries)
            elif stops(error):
                self._interrupt(trial, error)
            trial.set_user_attr("reason", reason(error))
            raise
        except BaseException as error:
            self._interrupt(trial, error)

    def _interrupt(
        self, trial: optuna.Trial, error: BaseException, retries: int | None = None
    ) -> NoReturn:
        """Free the trial and end the worker."""
        self.interruption = error
        # On a full disk, the trial is freed when its heartbeats have been absent for long enough.
        with contextlib.suppress(StorageInternalError, OSError):
            self._again(trial, reason(error), retries)
        # The only exception that Optuna records before re-raising it.
        raise KeyboardInterrupt from error

    def _again(
        self, trial: optuna.Trial, why: str = "interrupted", retries: int | None = None
    ) -> None:
        stored = trial.study.get_trials(deepcopy=False)[trial.number]
        # First, so that the trial is free although the storage may fail next.
        plan_again(trial.study, stored, retries)
        trial.set_user_attr(LOST, True)
        trial.set_user_attr("reason", why)

    def _values(self, trial: optuna.Trial) -> tuple[float, ...]:
        point: dict[str, Value] = {}
        for key, d in self.study.distributions.items():
            if isinstance(d, CategoricalDistribution):
                point[key] = trial.suggest_categorical(key, d.choices)
            elif isinstance(d, IntDistribution):
                point[key] = trial.suggest_int(key, d.low, d.high, step=d.step, log=d.log)
            else:
                assert isinstance(d, FloatDistribution)
                point[key] = trial.suggest_float(key, d.low, d.high, step=d.step, log=d.log)
        config = self.study.config(point).replace({"trainer.progress": "none"})
        check_accelerator(config)
        check_request(config)
        alone = len(config.protocol.wanted) == 1
        limit = time.monotonic() + _PATIENCE
        with contextlib.ExitStack() as stack:
            stack.enter_context(own_state(config.trainer.threads))
            while True:
                try:
                    folder = stack.enter_context(RunFolder.of(config, tested=False).locked())
                    break
                except FolderInUseError:
                    if time.monotonic() > limit:
                        raise
                    time.sleep(1.0)
            # Rows of the trial's run are repetitions, or epochs if there is one.
            axis = "epoch" if alone else "repetition"
            number = trial.user_attrs["cell"]
            label = f"trial {number}: {parameters_text(point)}"
            run = stack.enter_context(
                GuardedRun(config, folder.path, "trial", number, axis, label=label)
            )
            try:
                results = self._train(config, folder, trial, run, alone)
            except optuna.TrialPruned as pruned:
                run.report({"pruned": str(pruned)})
                run.finish(failed=False)
                raise
            run.report(dict(zip(self.study.file.objectives, results, strict=True)))
        return results

    def _train(
        self,
        config: Config,
        folder: RunFolder[Config],
        trial: optuna.Trial,
        run: GuardedRun,
        alone: bool,
    ) -> tuple[float, ...]:
        pruner, (key, *others) = self.study.file.pruner, self.study.file.objectives
        by_epoch = pruner.every == "epoch" and pruner.name != "none"
        reports = EpochReports(run if alone else None, trial if by_epoch else None, key)
        values: dict[int, float] = {}
        beside: list[list[float]] = [[] for _ in others]
        # The data of the last trial, if this one has the same.
        sections = (config.data, config.coefficient, config.gate, config.paths)
        read = (*sections, config.model.coefficient, config.model.encodings)
        if self._data is None or self._data[0] != read:
            self._data = read, build_data(config)
        # A tracker is told of each epoch when it ends; a pruner decides between repetitions.
        if pruner.name == "none" and not (alone and run.active):
            self._train_together(trial, config, folder, self._data[1])
        for record in validated(config, folder, self._data[1], reports):
            index = record.index
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
        return (mean, *(math.fsum(each) / len(each) for each in beside))

    def _train_together(
        self,
        trial: optuna.Trial,
        config: Config,
        folder: RunFolder[Config],
        data: GraphDataModule,
    ) -> None:
        """Train in one step what a trial lacks, and the waiting ones of the same shape."""
        wanted, name = config.protocol.together, f"together-{shape_of(config)}.ckpt"
        point = SharedPoint(self.study.folder / name, self.study.base)
        alone = wanted is False or (wanted == "auto" and not pays(config, lambda _: data))
        if alone and not point.path.exists():
            return
        if folder.finished().keys() >= {*config.protocol.wanted}:
            return
        with contextlib.ExitStack() as stack:
            together = [(trial.user_attrs["cell"], config, folder)]
            for number, other in self._alike(trial, config) if self.companions else ():
                # One that another worker trains is left to it.
                with contextlib.suppress(RunFolderError):
                    its = stack.enter_context(RunFolder.of(other, tested=False).locked())
                    together.append((number, other, its))
            together.sort(key=lambda each: each[0])
            validate_together([each[1:] for each in together], data, point, "trials")

    def _alike(self, trial: optuna.Trial, config: Config) -> Iterator[tuple[int, Config]]:
        """Yield the planned trials of a grid that may be trained with one, unless others work."""
        stored, shape = trial.study, shape_of(config)
        running = stored.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
        if self.study.file.sampler.name != "grid" or len(running) > 1:
            return
        for waiting in stored.get_trials(deepcopy=False, states=(TrialState.WAITING,)):
            point = waiting.system_attrs.get("fixed_params") or waiting.params
            differing = {key for key, value in point.items() if value != trial.params.get(key)}
            # Few are composed.
            if not point or not all(map(own, differing)):
                continue
            other = self.study.config(point).replace({"trainer.progress": "none"})
            if shape_of(other) == shape:
                yield waiting.user_attrs["cell"], other


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


def reason(error: BaseException) -> str:
    """Return in one line why a trial failed."""
    if not isinstance(error, Exception):
        return "interrupted"
    kinds = {"out of memory": MEMORY, "not finite": (NonFiniteLossError,)}
    kind = next((k for k, types in kinds.items() if isinstance(error, types)), type(error).__name__)
    return masked(f"{kind}: {' '.join(str(error).split())}")[:500]


def stops(error: Exception) -> bool:
    """Return whether an error is about disk, files, network or device, and not about the trial.

    The next trial would meet it as well.
    """
    if isinstance(error, _STOPPING):
        return True
    # torch hides an error of the disk behind one of its own.
    if isinstance(error, RuntimeError) and "inline_container" in str(error):
        return True
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in _ERRNOS:
            return True
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return False


def work(
    study: Study, watch: Watch | None = None, poll: float = 1.0, *, companions: bool = True
) -> None:
    """Run planned trials until all of them are finished by some worker.

    With an empty queue, the worker waits for the trials of others, which may die.

    Args:
        study: The study, which must exist in the storage.
        watch: Called after each trial, and while the worker waits.
        poll: Seconds between checks of the others.
        companions: As of `TrialRunner`.

    Raises:
        MissingObjectiveError: if a record lacks the study's objective.
        StudyStorageError: if the storage does not work any more.
        Exception: what would meet each trial, such as a full disk; the trial is free again.
    """
    worker = f"{socket.gethostname()}:{os.getpid()}"
    runner = TrialRunner(study, worker, companions=companions)
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
                    runner.storage_error = None
                    stored.optimize(runner, n_trials=1, catch=(Exception,))
                    if runner.storage_error is not None:
                        raise runner.storage_error
                elif running:
                    time.sleep(poll)
                if watch is not None:
                    watch(read_trials(stored))
                if not waiting and not running:
                    return
                errors = 0
            except BrokenPipeError:
                # From `watch`.
                raise
            except _OF_THE_STORAGE as error:
                # The storage was unavailable, or others have requeued the trial.
                if runner.interruption is not None:
                    raise runner.interruption from None
                errors += 1
                if errors > _ERRORS_IN_A_ROW:
                    raise storage_lost(study.storage, error) from error
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
    # Names of the GPUs that the workers share, one each; None without GPUs.
    devices: list[str | None] = []
    if study.base.trainer.accelerator in ("auto", "gpu"):
        given = os.environ.get("CUDA_VISIBLE_DEVICES")
        numbers = map(str, range(torch.cuda.device_count())) if given is None else given.split(",")
        devices = [name for name in numbers if name]
    devices = devices or [None]
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


@dataclass(frozen=True)
class _Worker:
    """Runs trials in a worker process until none is left; called with the name of its GPU."""

    study: Study

    def __call__(self, device: str | None) -> None:
        if device is not None:
            # Before the GPUs are first accessed.
            os.environ["CUDA_VISIBLE_DEVICES"] = device
        end_on(signal.SIGTERM, 128 + signal.SIGTERM)
        logging.getLogger("unionsnn").setLevel(logging.WARNING)
        try:
            work(self.study, companions=False)
        except (optuna.exceptions.OptunaError, RuntimeError, ValueError) as error:
            print(f"error: {error}", file=sys.stderr, flush=True)
            sys.exit(1)
