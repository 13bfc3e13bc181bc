"""One repetition: trained, selected, tested once."""

from __future__ import annotations

import logging
import time
import warnings
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Callback, EarlyStopping
from torch import nn

from unionsnn.data.arrays import atomic_write
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.data.splits import Split, split_hash
from unionsnn.training.build import (
    build_model,
    build_task,
    count_parameters,
    fit_gates,
)
from unionsnn.training.callbacks import (
    BestWeights,
    Curves,
    ResumePoint,
    StopOnNonFinite,
    progress_callbacks,
)
from unionsnn.training.draws import other_evaluations
from unionsnn.training.memory import memory_errors, require_memory
from unionsnn.training.predictions import TestPredictions
from unionsnn.training.protocols import Protocol
from unionsnn.training.records import environment, set_aside
from unionsnn.training.schedules import schedule_callbacks
from unionsnn.training.schema import metric_mode
from unionsnn.training.tasks import Task


def train_repetition(
    config: Mapping[str, Any],
    data: GraphDataModule,
    protocol: Protocol,
    split: Split,
    index: int,
    folder: Path,
) -> dict[str, Any]:
    """Train, select and test once; return the repetition's record.

    Repetition i draws from SeedSequence([seed, i]), whatever ran before it and in which process.

    Raises:
        RequestError: if the largest batch does not fit into memory.
        MemoryRanOutError: if memory runs out all the same.
        NonFiniteLossError: if training diverges.
    """
    started = time.perf_counter()
    seeds = np.random.SeedSequence([config["seed"], index]).generate_state(3)
    model_seed, order_seed, control_seed = seeds
    data.split = split
    data.apply_control(config["coefficient"]["control"], np.random.default_rng(control_seed))
    data.generator = torch.Generator().manual_seed(int(order_seed))
    unfinished = folder / "unfinished" / f"{index:02d}.ckpt"
    set_aside_if_damaged(unfinished)
    with torch.random.fork_rng(devices=[]), quiet_lightning():
        torch.manual_seed(int(model_seed))
        task = build_task(config, data)
        fit_gates(task.model, data)
        csv = folder / "logs" / f"{index:02d}" / "metrics.csv"
        curves = Curves(csv if config["logger"]["name"] == "csv" else None)
        best = BestWeights(protocol.select_on) if protocol.select_on else None
        resume = ResumePoint(unfinished, data.generator)
        callbacks = [StopOnNonFinite(), curves, *([best] if best else [])]
        if protocol.stop_on is not None:
            mode = metric_mode(protocol.stop_on)
            callbacks.append(EarlyStopping(protocol.stop_on, mode=mode, patience=protocol.patience))
        callbacks += schedule_callbacks(config)
        if best:
            callbacks.append(TestPredictions(folder / "predictions" / f"{index:02d}.npz"))
        trainer = make_trainer(config, index, [*callbacks, resume])
        data.device = trainer.strategy.root_device
        require_memory(task.model, data, data.device)
        validation: Any = data.val_dataloader()
        if protocol.keeps_test_curve:
            validation = [validation, data.test_dataloader()]
        try:
            with memory_errors(data):
                trainer.fit(
                    task,
                    data.train_dataloader(),
                    validation,
                    ckpt_path=unfinished if unfinished.exists() else None,
                )
        except SystemExit as error:
            # Lightning turns Ctrl-C into exit(1); the command has a status of its own for it, and
            # another one for SIGTERM.
            if isinstance(error.__context__, KeyboardInterrupt):
                raise KeyboardInterrupt from error
            raise
        with memory_errors(data):
            # First, so that the predictions kept are those of the metrics.
            others = other_evaluations(trainer, task, data) if best else []
            metrics = evaluate(trainer, task, data) if best else dict(curves.history[-1])
        save_checkpoint(folder / "checkpoints" / f"{index:02d}.ckpt", task.cpu(), config, data)
    unfinished.unlink(missing_ok=True)
    return {
        "index": index,
        "seed": [config["seed"], index],
        "split_hash": split_hash([split]),
        "sizes": {name: len(part) for name, part in split.parts().items()},
        "metrics": metrics,
        **({"other_evaluations": others} if others else {}),
        "best_epoch": best.best_epoch if best else None,
        "epochs": len(curves.history),
        "curves": curves.history,
        "dataset": data.dataset_id,
        "coefficient": None if data.spec is None else data.spec.to_dict(),
        "encodings": data.encodings.wanted(),
        "layer_coefficient": None if data.layer_spec is None else data.layer_spec.to_dict(),
        "parameters": count_parameters(task.model),
        "hidden_channels": task.model.hidden_channels,
        "device": device_name(trainer),
        "seconds": round(time.perf_counter() - started, 3),
        **environment(),
    }


def evaluate(trainer: pl.Trainer, task: Task, data: GraphDataModule) -> dict[str, float]:
    """Metrics of the restored weights on validation and, once, on test."""
    validation = trainer.validate(task, data.val_dataloader(), verbose=False)[0]
    test = trainer.test(task, data.test_dataloader(), verbose=False)[0]
    return {k: float(v) for k, v in {**validation, **test}.items()}


def make_trainer(
    config: Mapping[str, Any], index: int, callbacks: Sequence[Callback]
) -> pl.Trainer:
    """Make Lightning's trainer for one repetition."""
    section = config["trainer"]
    label = f"{config['data']['name']} {config['model']['name']} repetition {index}"
    progress = progress_callbacks(section["progress"], label)
    return pl.Trainer(
        accelerator=section["accelerator"],
        devices=section["devices"],
        precision=section["precision"],
        max_epochs=section["max_epochs"],
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


def save_checkpoint(
    path: Path, task: Task, config: Mapping[str, Any], data: GraphDataModule
) -> None:
    """Write the selected weights with all that is needed to build the network again.

    The file holds plain types and tensors: `torch.load(path, weights_only=True)` reads it.
    """
    content = {
        "state_dict": task.model.state_dict(),
        "config": dict(config),
        "num_features": data.num_features,
        "num_outputs": data.num_outputs,
        "coefficient_columns": [] if data.spec is None else list(data.spec.columns),
    }
    atomic_write(path, lambda file: torch.save(content, file))


def load_checkpoint(path: str | Path) -> nn.Module:
    """Build the network that a checkpoint holds, in evaluation mode."""
    content = torch.load(path, weights_only=True, map_location="cpu")
    model = build_model(content["config"], content["num_features"], content["num_outputs"])
    model.load_state_dict(content["state_dict"])
    return model.eval()


def device_name(trainer: pl.Trainer) -> str:
    """Name of the device that trained."""
    device = trainer.strategy.root_device
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device.type} ({torch.get_num_threads()} thread(s))"


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
