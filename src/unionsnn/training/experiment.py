"""One experiment: its repetitions, trained, recorded and merged."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Callback, EarlyStopping
from pytorch_lightning.loggers import CSVLogger
from torch import nn

from unionsnn.data.arrays import atomic_write
from unionsnn.data.datamodules import GraphDataModule, Progress
from unionsnn.data.splits import Split, check_split, load_splits, save_splits, split_hash
from unionsnn.training.build import (
    build_data,
    build_model,
    build_task,
    count_parameters,
    fit_gates,
)
from unionsnn.training.callbacks import (
    BestWeights,
    Curves,
    StopOnNonFinite,
    progress_callbacks,
)
from unionsnn.training.config import RequestError
from unionsnn.training.protocols import Protocol, make_protocol, metric_mode
from unionsnn.training.records import RunFolder, environment, write_json
from unionsnn.training.results import merge
from unionsnn.training.tasks import Task


def run_experiment(config: Mapping[str, Any], progress: Progress | None = None) -> dict[str, Any]:
    """Train what is not finished yet and return the merged record.

    Args:
        config: A checked configuration.
        progress: Called during long work on data.

    Raises:
        RequestError: if the request does not fit the data, the model or the machine.
        RunFolderError: if the run folder cannot be used.
        NonFiniteLossError: if training diverges.
    """
    check_accelerator(config)
    torch.set_num_threads(config["trainer"]["threads"])
    with RunFolder.of(config).locked() as folder:
        protocol = make_protocol(config["protocol"])
        pending = [i for i in protocol.wanted if i not in folder.finished()]
        if pending:
            data = build_data(config, progress)
            splits = recorded_splits(folder, protocol, data, config["seed"])
            for index in pending:
                record = train_repetition(config, data, protocol, splits[index], index, folder)
                folder.save_repetition(index, record)
                write_json(folder.results_path, merge(folder))
        results = merge(folder)
        write_json(folder.results_path, results)
        return results


def check_accelerator(config: Mapping[str, Any]) -> None:
    """Refuse an accelerator that this machine does not have.

    Raises:
        RequestError: with what is there.
    """
    wanted = config["trainer"]["accelerator"]
    there = {"gpu": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not there.get(wanted, True):
        raise RequestError(
            [
                f"trainer.accelerator is {wanted!r}, but torch {torch.__version__} finds none; "
                "type trainer.accelerator=cpu, or install a torch build for your device."
            ]
        )


def recorded_splits(
    folder: RunFolder, protocol: Protocol, data: GraphDataModule, seed: int
) -> list[Split]:
    """Return the folder's splits; drawn and saved the first time, checked every time."""
    path = folder.path / "splits.json"
    if path.exists():
        return load_splits(path, data.num_graphs)
    splits = protocol.splits(data, seed)
    for split in splits:
        check_split(split, data.num_graphs)
    save_splits(path, splits, data.num_graphs)
    return splits


def train_repetition(
    config: Mapping[str, Any],
    data: GraphDataModule,
    protocol: Protocol,
    split: Split,
    index: int,
    folder: RunFolder,
) -> dict[str, Any]:
    """Train, select and test once; return the repetition's record.

    Repetition i draws from SeedSequence([seed, i]), whatever ran before it.
    """
    started = time.perf_counter()
    model_seed, order_seed = np.random.SeedSequence([config["seed"], index]).generate_state(2)
    data.split = split
    data.generator = torch.Generator().manual_seed(int(order_seed))
    with torch.random.fork_rng(devices=[]), quiet_lightning():
        torch.manual_seed(int(model_seed))
        task = build_task(config, data)
        fit_gates(task.model, data)
        curves = Curves()
        best = None
        callbacks: list[Callback] = [StopOnNonFinite(), curves]
        if protocol.select_on is not None:
            best = BestWeights(protocol.select_on, metric_mode(protocol.select_on))
            callbacks.append(best)
        if protocol.stop_on is not None:
            callbacks.append(
                EarlyStopping(
                    protocol.stop_on, mode=metric_mode(protocol.stop_on), patience=protocol.patience
                )
            )
        trainer = make_trainer(config, index, folder, callbacks)
        loaders = data.val_dataloader()
        if protocol.keeps_test_curve:
            loaders = [loaders, data.test_dataloader()]
        trainer.fit(task, data.train_dataloader(), loaders)
        metrics = dict(curves.history[-1])
        if best is not None:
            metrics = evaluate(trainer, task, data)
        task.to("cpu")
        checkpoint = folder.path / "checkpoints" / f"{index:02d}.ckpt"
        save_checkpoint(checkpoint, task, config, data)
    return {
        "index": index,
        "seed": [config["seed"], index],
        "split_hash": split_hash([split]),
        "sizes": {name: len(part) for name, part in split.parts().items()},
        "metrics": metrics,
        "best_epoch": None if best is None else best.best_epoch,
        "epochs": len(curves.history),
        "curves": curves.history,
        "dataset": data.dataset_id,
        "coefficient": None if data.spec is None else data.spec.to_dict(),
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
    config: Mapping[str, Any], index: int, folder: RunFolder, callbacks: list[Callback]
) -> pl.Trainer:
    """Make Lightning's trainer for one repetition."""
    section = config["trainer"]
    label = f"{config['data']['name']} {config['model']['name']} repetition {index}"
    progress = progress_callbacks(section["progress"], label)
    csv = CSVLogger(folder.path / "logs", name="", version=f"{index:02d}")
    return pl.Trainer(
        accelerator=section["accelerator"],
        devices=section["devices"],
        precision=section["precision"],
        max_epochs=section["max_epochs"],
        callbacks=[*callbacks, *progress],
        enable_progress_bar=bool(progress),
        logger=csv if config["logger"]["name"] == "csv" else False,
        enable_checkpointing=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        log_every_n_steps=1,
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
