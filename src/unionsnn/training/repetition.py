"""One repetition: trained, selected, tested once."""

from __future__ import annotations

import logging
import time
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Callback, EarlyStopping
from pytorch_lightning.strategies import Strategy

from unionsnn.base.environment import environment
from unionsnn.base.files import set_aside
from unionsnn.config.schema import Config, ProtocolConfig, metric_mode
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.data.process_group import agreed, rank, world_size
from unionsnn.data.splits import Split, split_hash
from unionsnn.training.build import build_task, count_parameters, fit_gates
from unionsnn.training.callbacks import (
    BestWeights,
    Curves,
    EpochPredictions,
    ResumePoint,
    StopOnNonFinite,
    TestPredictions,
    progress_callbacks,
)
from unionsnn.training.checkpoints import save_checkpoint
from unionsnn.training.devices import (
    EqualBuffers,
    ddp_strategy,
    deterministic,
    uses_all_parameters,
)
from unionsnn.training.evaluation import other_evaluations, require_metric
from unionsnn.training.memory import memory_errors, require_memory
from unionsnn.training.schedules import schedule_callbacks
from unionsnn.training.tasks import Task
from unionsnn.training.tracking import tracked

HISTOGRAM_BINS = 40
"""Bins of the coefficients' distribution in a record."""


def train_repetition(
    config: Config,
    data: GraphDataModule,
    protocol: ProtocolConfig,
    split: Split,
    index: int,
    folder: Path,
    watch: Callback | None = None,
    cell: int | None = None,
    *,
    test: bool = True,
) -> dict[str, Any]:
    """Train, select and test once; return the repetition's record.

    Repetition i draws from SeedSequence([seed, i]), whatever ran before it and in which process.
    Of processes that train together, the first one writes and tests; the others return an empty
    record.

    Args:
        config: A checked configuration.
        data: Its data module.
        protocol: How the epoch is selected.
        split: The repetition's split.
        index: The repetition.
        folder: The run folder.
        watch: Is told about the epochs.
        cell: Number of a cell of a grid, whose files have names of their own.
        test: Whether to test; a search that has not chosen yet must not.

    Raises:
        RequestError: if the largest batch does not fit into memory.
        MemoryRanOutError: if memory runs out all the same.
        NonFiniteLossError: if training diverges.
        NotDeterministicError: if determinism was asked for and cannot be had.
        UndefinedMetricError: if the metric is undefined on a part of the split.
    """
    with surroundings(config):
        return _train(config, data, protocol, split, index, folder, watch, cell, test)


def _train(
    config: Config,
    data: GraphDataModule,
    protocol: ProtocolConfig,
    split: Split,
    index: int,
    folder: Path,
    watch: Callback | None,
    cell: int | None,
    test: bool,
) -> dict[str, Any]:
    started = time.perf_counter()
    name = f"{index:02d}" if cell is None else f"{index:02d}-{cell:03d}"
    model_seed, order = prepare(config, data, split, index)
    first = rank() == 0
    unfinished = folder / "unfinished" / f"{name}.ckpt"
    if first:
        set_aside_if_damaged(unfinished)
    resumes = agreed(unfinished.exists())
    csv = folder / "logs" / name / "metrics.csv"
    curves = Curves(csv if first and config.logger.keeps_csv else None)
    tracker = tracked(config, index, folder, curves) if first else nullcontext()
    with tracker as tracking:
        torch.manual_seed(model_seed)
        task = build_task(config, data)
        fit_gates(task.model, data)
        if not first:
            # Weights are the same everywhere, what dropout hides is not.
            torch.manual_seed(model_seed + rank())
        best = BestWeights(protocol.select_on) if protocol.select_on else None
        resume = ResumePoint(unfinished, order)
        callbacks = [StopOnNonFinite(), curves, *(c for c in (tracking, best, watch) if c)]
        callbacks += [*stop_callbacks(protocol), *schedule_callbacks(config)]
        file = folder / "predictions" / f"{index:02d}.npz"
        predictions: list[Callback] = []
        if best and test:
            predictions = [TestPredictions(file)]
        alone = world_size() == 1
        callbacks += predictions if alone else [EqualBuffers()]
        if protocol.keeps_test_curve and first:
            callbacks.append(EpochPredictions(file, config.trainer.max_epochs))
        strategy: str | Strategy = "auto"
        if not alone:
            strategy = ddp_strategy(config, all_used=uses_all_parameters(task, data))
        trainer = make_trainer(config, index, [*callbacks, resume], strategy)
        data.device = trainer.strategy.root_device
        require_memory(task.model, data, data.device)
        fit(trainer, task, data, protocol, unfinished if resumes else None)
        if not first:
            return {}
        with memory_errors(task.model, data):
            metrics, others = dict(curves.history[-1]), []
            if best:
                tester = trainer if alone else make_trainer(config, index, predictions)
                # First, so that the predictions kept are those of the metrics.
                others = other_evaluations(tester, task, data) if test else []
                metrics = evaluate(tester, task, data, test=test)
        if tracking:
            tracking.complete(metrics, best.best_epoch if best else None)
        if cell is not None:
            save_checkpoint(cell_checkpoint(folder, index, cell), task.cpu(), config, data)
        elif config.trainer.keep_checkpoints:
            save_checkpoint(folder / "checkpoints" / f"{name}.ckpt", task.cpu(), config, data)
    unfinished.unlink(missing_ok=True)
    return {
        "index": index,
        "seed": [config.seed, index],
        "split_hash": split_hash([split]),
        "sizes": {name: len(part) for name, part in split.parts().items()},
        "metrics": metrics,
        **({"other_evaluations": others} if others else {}),
        "best_epoch": best.best_epoch if best else None,
        "epochs": len(curves.history),
        "curves": curves.history,
        **described(data),
        "parameters": count_parameters(task.model),
        "hidden_channels": task.model.hidden_channels,
        "device": device_name(trainer),
        "seconds": round(time.perf_counter() - started, 3),
        **environment(),
    }


def stop_callbacks(protocol: ProtocolConfig) -> list[Callback]:
    """What ends training early, where the protocol says so."""
    if protocol.stop_on is None:
        return []
    mode = metric_mode(protocol.stop_on)
    return [EarlyStopping(protocol.stop_on, mode=mode, patience=protocol.patience)]


def described(data: GraphDataModule) -> dict[str, Any]:
    """What a repetition was trained on, as its record says it."""
    return {
        "dataset": data.dataset_id,
        "coefficient": None if data.spec is None else data.spec.to_dict(),
        "coefficient_histogram": coefficient_histogram(data),
        "encodings": data.encodings.wanted(),
        "layer_coefficient": None if data.layer_spec is None else data.layer_spec.to_dict(),
    }


def coefficient_histogram(data: GraphDataModule) -> dict[str, Any] | None:
    """Count the coefficients that gates see in training; None where there is no gate.

    Returns:
        For each column its ``low`` and ``high`` end and the ``counts`` of `HISTOGRAM_BINS` bins of
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
    trainer: pl.Trainer,
    task: Task,
    data: GraphDataModule,
    protocol: ProtocolConfig,
    checkpoint: Path | None,
) -> None:
    """Train, from a checkpoint if there is one; the validation is the protocol's.

    Raises:
        KeyboardInterrupt: on Ctrl-C.
        MemoryRanOutError: if memory runs out.
    """
    validation: Any = data.val_dataloader()
    if protocol.keeps_test_curve:
        validation = [validation, data.test_dataloader()]
    try:
        with memory_errors(task.model, data):
            trainer.fit(task, data.train_dataloader(), validation, ckpt_path=checkpoint)
    except SystemExit as error:
        # Lightning turns Ctrl-C into exit(1); the command has a status of its own for it, and
        # another one for SIGTERM.
        if isinstance(error.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        raise


@contextmanager
def surroundings(config: Config) -> Iterator[None]:
    """Leave nothing changed: the global generator, Lightning's loggers, determinism."""
    wanted = config.trainer.deterministic
    with torch.random.fork_rng(devices=[]), quiet_lightning(), deterministic(wanted):
        yield


def prepare(
    config: Config, data: GraphDataModule, split: Split, index: int
) -> tuple[int, torch.Generator]:
    """Give the data a repetition's split, control and order.

    Returns:
        The seed of its weights, and the generator of the order of its training items.

    Raises:
        UndefinedMetricError: if the metric is undefined on a part of the split.
    """
    seeds = np.random.SeedSequence([config.seed, index]).generate_state(3)
    model_seed, order_seed, control_seed = seeds
    data.split = split
    require_metric(data, split)
    data.apply_control(config.coefficient.control, np.random.default_rng(control_seed))
    data.generator = torch.Generator().manual_seed(int(order_seed))
    return int(model_seed), data.generator


def cell_checkpoint(folder: Path, index: int, cell: int) -> Path:
    """Selected weights of a cell of a grid, until the repetition is finished."""
    return folder / "cells" / f"{index:02d}" / f"{cell:03d}.ckpt"


def measure_selected(
    config: Config,
    data: GraphDataModule,
    split: Split,
    index: int,
    folder: Path,
    cell: int,
) -> dict[str, float]:
    """Metrics of the selected cell on validation and, once, on test; its files become the fold's.

    Args:
        config: The configuration of the cell.
        data: What it reads.
        split: The repetition's split.
        index: The repetition.
        folder: The run folder.
        cell: Its number.
    """
    prepare(config, data, split, index)
    content = torch.load(cell_checkpoint(folder, index, cell), weights_only=True)
    with surroundings(config):
        task = build_task(config, data)
        task.model.load_state_dict(content["state_dict"])
        predictions = TestPredictions(folder / "predictions" / f"{index:02d}.npz")
        trainer = make_trainer(config, index, [predictions])
        data.device = trainer.strategy.root_device
        with memory_errors(task.model, data):
            metrics = evaluate(trainer, task, data)
        if config.trainer.keep_checkpoints:
            save_checkpoint(folder / "checkpoints" / f"{index:02d}.ckpt", task.cpu(), config, data)
    return metrics


def evaluate(
    trainer: pl.Trainer, task: Task, data: GraphDataModule, *, test: bool = True
) -> dict[str, float]:
    """Metrics of the restored weights on validation and, once, on test if it is to be touched."""
    metrics = dict(trainer.validate(task, data.val_dataloader(), verbose=False)[0])
    if test:
        metrics |= trainer.test(task, data.test_dataloader(), verbose=False)[0]
    return {k: float(v) for k, v in metrics.items()}


def make_trainer(
    config: Config,
    index: int,
    callbacks: Sequence[Callback],
    strategy: str | Strategy = "auto",
) -> pl.Trainer:
    """Make Lightning's trainer for one repetition.

    Args:
        config: The configuration.
        index: Number of the repetition.
        callbacks: What happens around epochs, beside the display of progress.
        strategy: How processes train together; ``auto`` for a process by itself.
    """
    section = config.trainer
    together = strategy != "auto"
    label = f"{config.data.name} {config.model.name} repetition {index}"
    progress = progress_callbacks(section.progress, label)
    return pl.Trainer(
        accelerator=section.accelerator,
        devices=section.devices if together else 1,
        num_nodes=section.num_nodes if together else 1,
        strategy=strategy,
        sync_batchnorm=together and section.sync_batchnorm,
        # Batches are shared out by their loader.
        use_distributed_sampler=False,
        precision=section.precision,
        max_epochs=section.max_epochs,
        callbacks=[*callbacks, *progress],
        enable_progress_bar=bool(progress),
        logger=False,
        enable_checkpointing=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        log_every_n_steps=1,
    )


def set_aside_if_damaged(path: Path) -> None:
    """Rename the checkpoint of an unfinished repetition that cannot be read, with a warning."""
    if not path.exists():
        return
    try:
        with zipfile.ZipFile(path) as archive:
            # torch reads without a look at the checksums.
            fault = archive.testzip()
        if fault is None:
            torch.load(path, weights_only=True, map_location="cpu")["callbacks"]
            return
    except Exception as error:  # Damage can surface anywhere between zip and pickle.
        fault = f"{type(error).__name__}: {error}"
    aside = set_aside(path)
    warnings.warn(
        f"{path} is damaged ({fault}) and set aside as {aside.name}; its repetition starts anew.",
        stacklevel=2,
    )


def device_name(trainer: pl.Trainer) -> str:
    """Name of the devices that trained."""
    device = trainer.strategy.root_device
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
    else:
        name = f"{device.type} ({torch.get_num_threads()} thread(s))"
    return name if world_size() == 1 else f"{world_size()} x {name}"


@contextmanager
def quiet_lightning() -> Iterator[None]:
    """Hide Lightning's advice on loaders and hardware; errors and our own warnings stay."""
    loggers = [logging.getLogger(n) for n in ("pytorch_lightning", "lightning_fabric")]
    levels = [each.level for each in loggers]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="pytorch_lightning|lightning_fabric")
        for each in loggers:
            each.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for each, level in zip(loggers, levels, strict=True):
                each.setLevel(level)
