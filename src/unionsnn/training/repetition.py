"""One repetition: trained, selected, tested once."""

from __future__ import annotations

import os
import signal
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from lightning_fabric.utilities.exceptions import MisconfigurationException
from pytorch_lightning.callbacks import Callback, Checkpoint, EarlyStopping
from pytorch_lightning.profilers import SimpleProfiler
from pytorch_lightning.strategies import Strategy

from unionsnn.base.display import stage
from unionsnn.base.environment import environment
from unionsnn.base.errors import RequestError, UnionsnnError
from unionsnn.base.files import set_aside, write_json
from unionsnn.config.identity import config_hash
from unionsnn.config.schema import DEBUG_BATCHES, Config, ProtocolConfig, metric_mode
from unionsnn.config.targets import changed_code, code_digests
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.data.process_group import agreed, rank, world_size
from unionsnn.data.splits import Split, repetition_seeds, split_hash
from unionsnn.training.averaging import weight_average
from unionsnn.training.build import (
    build_task,
    count_parameters,
    fit_gates,
    own_callbacks,
    users_failure,
    width_of,
)
from unionsnn.training.callbacks import (
    BestWeights,
    Curves,
    EpochPredictions,
    ResumePoint,
    StopOnNonFinite,
    TestPredictions,
    shown_epochs,
)
from unionsnn.training.checkpoints import (
    AtomicCheckpoints,
    load_tensors,
    read_content,
    save_checkpoint,
)
from unionsnn.training.compilation import compiler_failure, compiler_settings
from unionsnn.training.devices import (
    EqualBuffers,
    ExistingProcesses,
    ddp_strategy,
    deterministic,
    forked_generators,
    name_of_device,
    quiet_lightning,
    training_device,
    uses_all_parameters,
)
from unionsnn.training.evaluation import other_evaluations, require_metric
from unionsnn.training.loop import EpochLoop
from unionsnn.training.memory import memory_errors, require_memory
from unionsnn.training.profile import parts_of_time
from unionsnn.training.records import Repetition
from unionsnn.training.schedules import schedule_callbacks
from unionsnn.training.tasks import Task
from unionsnn.training.tracking import GuardedRun, Tracking

REPETITIONS = "repetitions"
"""Key of the row that counts the repetitions of an experiment."""

HISTOGRAM_BINS = 40
"""Number of bins of the coefficients' histogram in a record."""


@dataclass(frozen=True)
class Training:
    """A training: a repetition of an experiment, or a cell of its grid in a repetition.

    Args:
        config: Its configuration.
        split: The repetition's split.
        index: The repetition.
        folder: The run folder.
        cell: Number of the cell, whose files have separate names.
    """

    config: Config
    split: Split
    index: int
    folder: Path
    cell: int | None = None

    @property
    def name(self) -> str:
        """Name of its files."""
        return f"{self.index:02d}" if self.cell is None else f"{self.index:02d}-{self.cell:03d}"

    @property
    def label(self) -> str:
        """What it is called where it is shown; counted from 1, empty if it is the only one."""
        protocol, parts = self.config.protocol, []
        if protocol.num_repetitions > 1:
            parts.append(f"{protocol.unit} {self.index + 1}")
        if self.cell is not None:
            parts.append(f"cell {self.cell + 1}")
        return ", ".join(parts)

    @property
    def unfinished(self) -> Path:
        """Checkpoint from which an interrupted training resumes."""
        return self.folder / "unfinished" / f"{self.name}.ckpt"

    @property
    def checkpoint(self) -> Path:
        """File of the selected weights; for a cell, kept until the repetition is finished."""
        if self.cell is None:
            return self.folder / "checkpoints" / f"{self.name}.ckpt"
        return self.folder / "cells" / f"{self.index:02d}" / f"{self.cell:03d}.ckpt"

    @property
    def profile(self) -> Path:
        """File of where the time went, under ``debug=profile``."""
        return self.folder / "profile" / f"{self.index:02d}.json"

    @property
    def predictions(self) -> Path:
        """File of the outputs on the test part."""
        return self.folder / "predictions" / f"{self.index:02d}.npz"


def train_repetition(
    training: Training, data: GraphDataModule, watch: Callback | None = None, *, test: bool = True
) -> Repetition:
    """Train, select and test once; return the repetition's record.

    The resume point stays: whoever saves the record deletes it, so that a training whose record
    cannot be saved is not repeated.

    Repetition i draws from SeedSequence([seed, i]), whatever ran before it and in which process.
    Of processes that train together, the first one writes and tests; the others `assist`.

    Args:
        training: The training.
        data: Its data module.
        watch: Callback for the epochs.
        test: Whether to test, which a search must not do before selecting.

    Raises:
        RequestError: if the largest batch does not fit into memory.
        MemoryRanOutError: if memory runs out anyway.
        NonFiniteLossError: if training diverges.
        NotDeterministicError: if determinism was requested but is not available.
        UndefinedMetricError: if the metric is undefined on a part of the split.
    """
    config, protocol = training.config, training.config.protocol
    csv = training.folder / "logs" / training.name / "metrics.csv"
    curves = Curves(csv if config.logger.keeps_csv else None)
    with surroundings(config), ExitStack() as stack:
        model_seed, order = prepare(training, data)
        about = {"config": config_hash(config), "training": training.name, "seed": config.seed}
        code = code_digests(config)
        point = ResumePoint(training.unfinished, order, about={**about, "code": code})
        check_resume_point(training, about)
        resumes = agreed(training.unfinished.exists())
        torch.manual_seed(model_seed)
        task = build_task(config, data)
        fit_gates(task.model, data)
        parameters = count_parameters(task.model)
        content = {"parameters": parameters} | (
            {} if training.cell is None else {"cell": training.cell}
        )
        # Whatever ends it early, also Ctrl-C, marks the trackers' runs as failed.
        run = stack.enter_context(
            GuardedRun(config, training.folder, "repetition", training.index, content=content)
        )
        tracking = Tracking(run, curves)
        average = weight_average(config.trainer)
        best = BestWeights(protocol.select_on, average) if protocol.select_on else None
        first = [c for c in (average,) if c]
        callbacks = [*first, StopOnNonFinite(), curves, tracking, *(c for c in (best, watch) if c)]
        callbacks += shown_epochs(training.label, protocol.select_on, REPETITIONS)
        callbacks += [*stop_callbacks(protocol), *schedule_callbacks(config)]
        callbacks += own_callbacks(config)
        predictions: list[Callback] = []
        if best and test:
            predictions = [TestPredictions(training.predictions)]
        alone = world_size() == 1
        callbacks += predictions if alone else [EqualBuffers()]
        if protocol.keeps_test_curve:
            callbacks.append(EpochPredictions(training.predictions, config.trainer.max_epochs))
        callbacks.append(point)
        trainer = fit(training, task, data, callbacks, resumes=resumes)
        profiler: Any = trainer.profiler  # type: ignore[attr-defined]
        if config.debug == "profile":
            write_json(training.profile, {"parts": parts_of_time(profiler)})
        with memory_errors(task.model, data), stage("evaluating the best epoch"):
            metrics, others = dict(curves.history[-1]), []
            if best:
                tester = trainer if alone else make_trainer(config, predictions)
                # First, so that the stored predictions match the metrics.
                others = other_evaluations(tester, task, data) if test else []
                metrics = evaluate(tester, task, data, test=test)
        kept = training.cell is not None or config.trainer.keep_checkpoints
        if kept:
            save_checkpoint(training.checkpoint, task.cpu(), config, data)
        best_epoch = best.best_epoch if best else None
        tracking.complete(metrics, best_epoch, training.checkpoint if kept else None)
    return record_of(
        training,
        data,
        task,
        trainer,
        metrics=metrics,
        other_evaluations=others or None,
        code=code or None,
        best_epoch=best_epoch,
        curves=curves.history,
        seconds=point.seconds,
    )


def record_of(
    training: Training,
    data: GraphDataModule,
    task: Task,
    trainer: pl.Trainer,
    *,
    seconds: float,
    curves: list[dict[str, float]],
    **results: Any,
) -> Repetition:
    """Return the record of a repetition whose split is set on the data.

    Args:
        training: The training.
        data: Its data module.
        task: The task with the selected weights.
        trainer: Tells the devices.
        seconds: Seconds of training.
        curves: Metrics of each epoch.
        results: Other fields of the record.
    """
    config = training.config
    return Repetition(
        index=training.index,
        seed=[config.seed, training.index],
        split_hash=split_hash([training.split]),
        sizes={name: len(part) for name, part in training.split.parts().items()},
        epochs=len(curves),
        curves=curves,
        dataset=data.dataset_id,
        coefficient=None if data.spec is None else data.spec.to_dict(),
        coefficient_histogram=coefficient_histogram(data),
        encodings=data.encodings.wanted(),
        layer_coefficient=None if data.layer_spec is None else data.layer_spec.to_dict(),
        parameters=count_parameters(task.model),
        hidden_channels=width_of(task.model, config),
        device=device_name(trainer),
        seconds=round(seconds, 3),
        config_hash=config_hash(config),
        **results,
        **environment(),
    )


def assist(training: Training, data: GraphDataModule) -> None:
    """Take this process's share of a training that rank 0 records."""
    config, protocol = training.config, training.config.protocol
    with surroundings(config):
        model_seed, order = prepare(training, data)
        resumes = agreed(training.unfinished.exists())
        torch.manual_seed(model_seed)
        task = build_task(config, data)
        fit_gates(task.model, data)
        # Weights are the same everywhere, dropout masks are not.
        torch.manual_seed(model_seed + rank())
        average = weight_average(config.trainer)
        best = [BestWeights(protocol.select_on, average)] if protocol.select_on else []
        first = [c for c in (average,) if c]
        callbacks = [*first, StopOnNonFinite(), Curves(None), *best, *stop_callbacks(protocol)]
        callbacks += [*schedule_callbacks(config), *own_callbacks(config), EqualBuffers()]
        callbacks.append(ResumePoint(training.unfinished, order))
        fit(training, task, data, callbacks, resumes=resumes)


def stop_callbacks(protocol: ProtocolConfig) -> list[Callback]:
    """Return the callbacks for early stopping, if the protocol has it."""
    if protocol.stop_on is None:
        return []
    mode = metric_mode(protocol.stop_on)
    return [EarlyStopping(protocol.stop_on, mode=mode, patience=protocol.patience)]


def coefficient_histogram(data: GraphDataModule) -> dict[str, Any] | None:
    """Return the histogram of the gates' coefficients in training; None without a gate.

    Returns:
        For each column the ends ``low`` and ``high`` and the ``counts`` of `HISTOGRAM_BINS` bins of
        equal width.
    """
    if data.spec is None:
        return None
    rows = data.part_coefficient("train").numpy()
    histogram = {}
    for name, values in zip(data.spec.columns, rows.T, strict=True):
        counts, ends = np.histogram(values, bins=HISTOGRAM_BINS)
        histogram[name] = {
            "low": float(ends[0]),
            "high": float(ends[-1]),
            "counts": counts.tolist(),
        }
    return histogram


def fit(
    training: Training,
    task: Task,
    data: GraphDataModule,
    callbacks: Sequence[Callback],
    *,
    resumes: bool,
) -> pl.Trainer:
    """Train, resuming from a checkpoint if there is one, and validate as the protocol says.

    Raises:
        RequestError: if the largest batch does not fit into memory, a callback is refused, or the
            network cannot be compiled.
        MemoryRanOutError: if memory runs out.
    """
    config = training.config
    strategy: str | Strategy = "auto"
    if world_size() > 1:
        strategy = ddp_strategy(all_used=uses_all_parameters(task, data))
    trainer = make_trainer(config, callbacks, strategy)
    if config.debug != "profile":
        # A profile names the parts of Lightning's own step.
        trainer.fit_loop.epoch_loop = EpochLoop(trainer)
    data.device = trainer.strategy.root_device
    data.accumulated = config.trainer.accumulate_grad_batches
    require_memory(task.model, data, data.device)
    validation: Any = data.val_dataloader()
    if config.protocol.keeps_test_curve:
        validation = [validation, data.test_dataloader()]
    checkpoint = training.unfinished if resumes else None
    # Lightning does so only after it has restored the weights, which would round them.
    trainer.strategy.precision_plugin.convert_module(task)
    if config.trainer.compile:
        # In place, so that weights keep their names; sizes of batches differ.
        task.model.compile(dynamic=True)
    try:
        with memory_errors(task.model, data):
            trainer.fit(task, data.train_dataloader(), validation, ckpt_path=checkpoint)
    except MisconfigurationException as error:
        # Such as a callback that needs a logger of Lightning's.
        raise RequestError(
            f"Lightning refuses trainer.callbacks or trainer.extra: {error}",
            code="trainer.callbacks",
        ) from error
    except UnionsnnError:
        raise
    except Exception as error:
        if config.trainer.compile and (said := compiler_failure(error)) is not None:
            raise RequestError(
                f"torch.compile failed for {type(task.model).__name__}: {said}. Type "
                "trainer.compile=false.",
                code="trainer.compile",
            ) from error
        if (named := users_failure(error, config)) is None:
            raise
        raise named from error
    return trainer


@contextmanager
def surroundings(config: Config) -> Iterator[None]:
    """Restore the global generators, Lightning's loggers, determinism and the compiler on exit."""
    with (
        forked_generators(training_device(config.trainer.accelerator)),
        quiet_lightning(),
        interruptible_lightning(),
        deterministic(config.trainer.deterministic),
        compiler_settings(config.trainer.compile),
    ):
        yield


def prepare(training: Training, data: GraphDataModule) -> tuple[int, torch.Generator]:
    """Set a repetition's split, control and order on the data.

    Returns:
        The seed of its weights, and the generator of the order of its training items.

    Raises:
        UndefinedMetricError: if the metric is undefined on a part of the split.
    """
    config, split = training.config, training.split
    model_seed, order_seed, control_seed = repetition_seeds(config.seed, training.index)
    data.split = split
    require_metric(data, split)
    data.apply_control(config.coefficient.control, np.random.default_rng(control_seed))
    data.generator = torch.Generator().manual_seed(order_seed)
    return model_seed, data.generator


def measure_selected(training: Training, data: GraphDataModule) -> dict[str, float]:
    """Evaluate a selected cell on validation and once on test; its files become the fold's.

    Args:
        training: The cell.
        data: What it reads.
    """
    config = training.config
    prepare(training, data)
    content = read_content(training.checkpoint)
    with surroundings(config):
        task = build_task(config, data)
        task.model.load_state_dict(content["state_dict"])
        trainer = make_trainer(config, [TestPredictions(training.predictions)])
        data.device = trainer.strategy.root_device
        with memory_errors(task.model, data):
            metrics = evaluate(trainer, task, data)
        if config.trainer.keep_checkpoints:
            save_checkpoint(replace(training, cell=None).checkpoint, task.cpu(), config, data)
    return metrics


def evaluate(
    trainer: pl.Trainer, task: Task, data: GraphDataModule, *, test: bool = True
) -> dict[str, float]:
    """Evaluate the restored weights on validation and, if requested, once on test."""
    metrics = dict(trainer.validate(task, data.val_dataloader(), verbose=False)[0])
    if test:
        metrics |= trainer.test(task, data.test_dataloader(), verbose=False)[0]
    return {k: float(v) for k, v in metrics.items()}


def make_trainer(
    config: Config, callbacks: Sequence[Callback], strategy: str | Strategy = "auto"
) -> pl.Trainer:
    """Make Lightning's trainer for one repetition.

    Args:
        config: The configuration.
        callbacks: Its callbacks.
        strategy: How processes train together; ``auto`` for a single process.
    """
    section = config.trainer
    together = strategy != "auto"
    few = {"limit_train_batches": DEBUG_BATCHES} if config.debug == "fast" else {}
    return pl.Trainer(
        # Otherwise Lightning takes its rank from variables of Slurm, MPI or LSF, answers Slurm's
        # signals with a checkpoint of its own, and starts every later training from it.
        plugins=[ExistingProcesses(section.devices if together else 1), AtomicCheckpoints()],
        # Where no such checkpoint can be.
        default_root_dir=os.devnull,
        accelerator=section.accelerator,
        devices=section.devices if together else 1,
        num_nodes=section.num_nodes if together else 1,
        strategy=strategy,
        sync_batchnorm=together and section.sync_batchnorm,
        # The loader divides batches among processes.
        use_distributed_sampler=False,
        precision=section.precision,
        gradient_clip_val=section.gradient_clip_val,
        gradient_clip_algorithm=section.gradient_clip_algorithm,
        accumulate_grad_batches=section.accumulate_grad_batches,
        max_epochs=section.max_epochs,
        profiler=SimpleProfiler() if config.debug == "profile" else None,
        callbacks=[*callbacks],
        enable_progress_bar=False,
        logger=False,
        enable_checkpointing=any(isinstance(each, Checkpoint) for each in callbacks),
        enable_model_summary=False,
        num_sanity_val_steps=0,
        log_every_n_steps=1,
        **(section.extra or {}) | few,
    )


def check_resume_point(training: Training, about: Mapping[str, Any]) -> None:
    """Rename an unreadable resume point or one of another training, with a warning.

    So is one that was written with other code of the user's own, unless this is accepted.

    Args:
        training: The training.
        about: What is trained, as `ResumePoint` saves it.
    """
    path = training.unfinished
    if not path.exists():
        return
    try:
        # Earlier versions did not save it.
        before = load_tensors(path)["callbacks"]["ResumePoint"].get("about", about)
        others = [f"{k} {before.get(k)}, not {v}" for k, v in about.items() if before.get(k) != v]
        fault = f"of another training ({', '.join(others)})" if others else ""
        if not others and (names := changed_code(training.config, before.get("code"))):
            if training.config.accept_code:
                warnings.warn(
                    f"The file of {', '.join(names)} has changed since {path} was written; the "
                    "training goes on from there with the new code.",
                    stacklevel=2,
                )
            else:
                fault = f"of other code ({', '.join(names)})"
    except Exception as error:
        fault = f"damaged ({type(error).__name__}: {error})"
    if fault:
        aside = set_aside(path)
        warnings.warn(
            f"{path} is {fault} and was renamed to {aside.name}; its repetition starts over.",
            stacklevel=2,
        )


def device_name(trainer: pl.Trainer) -> str:
    """Return the names of the training devices."""
    name = name_of_device(trainer.strategy.root_device)
    return name if world_size() == 1 else f"{world_size()} x {name}"


@contextmanager
def interruptible_lightning() -> Iterator[None]:
    """Let Ctrl-C raise KeyboardInterrupt, which Lightning turns into a silent exit with status 1.

    Raises:
        KeyboardInterrupt: on Ctrl-C.
    """
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    except SystemExit as error:
        if isinstance(error.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        raise
    finally:
        # Lightning ignores it from then on.
        if threading.current_thread() is threading.main_thread() and handler is not None:
            signal.signal(signal.SIGINT, handler)
