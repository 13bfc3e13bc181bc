"""Dry run: what an experiment would do, and how long it would take."""

from __future__ import annotations

import itertools
import time
from dataclasses import asdict
from typing import Any

import numpy as np
import torch

from unionsnn.base.errors import RequestError
from unionsnn.config.grid import cell_text, cells_of
from unionsnn.config.identity import config_hash
from unionsnn.config.schema import Config
from unionsnn.config.targets import own_code
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.data.datasets import disjoint_union
from unionsnn.data.sources.source import Progress
from unionsnn.data.splits import Split
from unionsnn.runs.run_folder import RunFolder
from unionsnn.runs.selection import CellData
from unionsnn.training.build import (
    build_data,
    build_task,
    check_request,
    count_parameters,
    fit_gates,
    width_of,
)
from unionsnn.training.devices import check_accelerator, forked_generators, training_device
from unionsnn.training.memory import (
    BatchMemory,
    memory_errors,
    require_memory,
)
from unionsnn.training.protocols import draw_splits
from unionsnn.training.tasks import Task

_TIMED_STEPS = 5


def describe(
    config: Config, progress: Progress | None = None, *, trust: bool = False
) -> dict[str, Any]:
    """Load, build and time a few steps; write only the processed graphs and encodings.

    Coefficients are not computed: of those that are not in the cache, it says how long they would
    take, and random numbers stand in for them. The estimate of the seconds is for max_epochs in
    every repetition; early stopping makes it shorter.

    Args:
        config: The request.
        progress: Called during long work on data.
        trust: Whether to run classes and functions that are not of this package.

    Raises:
        RequestError: The request does not fit the data, the model or the machine.
        MemoryRanOutError: A step, which is timed on the CPU, does not fit into its memory.
    """
    if (own := own_code(config)) and not trust:
        raise RequestError(
            f"The request is valid, but a dry run runs no code of yours, and {' and '.join(own)} "
            f"{'names' if len(own) == 1 else 'name'} some: type --trust to have it run, and timed.",
            code="dry_run.own_code",
        )
    check_accelerator(config)
    config.logger.check()
    check_request(config)
    torch.set_num_threads(config.trainer.threads)
    protocol = config.protocol
    data = build_data(config, progress)
    data.computes = False
    splits = draw_splits(protocol, data, config.seed)
    task, memory, epoch = timed(config, data, splits[0])
    repetition = epoch * config.trainer.max_epochs
    if protocol.grid is not None:
        repetition = seconds_of_cells(config, data, splits[0])
    folder = RunFolder.of(config)
    finished = {} if config.force else folder.finished()
    pending = [i for i in protocol.wanted if i not in finished]
    return {
        "config": config.to_dict(),
        "config_hash": config_hash(config),
        "run_dir": str(folder.path),
        "protocol": protocol.name,
        "selection": protocol.selection,
        "report": protocol.report,
        "repetitions": protocol.num_repetitions,
        "pending": pending,
        "cells": protocol.num_cells,
        "trainings": len(pending) * protocol.num_cells,
        "dataset": data.dataset_id,
        "sizes": [{n: len(p) for n, p in split.parts().items()} for split in splits],
        "num_features": data.num_features,
        "num_outputs": data.num_outputs,
        "parameters": count_parameters(task.model),
        "hidden_channels": width_of(task.model, config),
        "to_compute": to_compute(data),
        "largest_batch": asdict(memory),
        "batch": str(memory),
        "seconds_per_epoch": epoch,
        "seconds_at_most": repetition * len(pending),
        # Not timed: the epochs are those of the plain network.
        "compiles": config.trainer.compile,
    }


def to_compute(data: GraphDataModule) -> list[dict[str, Any]]:
    """Return the coefficients that a run would compute first, with an estimate of the seconds."""
    edges, nodes = disjoint_union(data.arrays), data.arrays.num_nodes
    return [
        {
            "columns": list(spec.columns),
            "edges": int(edges.shape[1]),
            "seconds": spec.estimated_seconds(edges, nodes, threads=data.threads),
        }
        for spec in (data.spec, data.layer_spec)
        if spec is not None and not data.has_coefficients(spec)
    ]


def timed(config: Config, data: GraphDataModule, split: Split) -> tuple[Task, BatchMemory, float]:
    """Return a task for a split, the memory of its largest batch, and the seconds of an epoch."""
    data.split = split
    data.apply_control(config.coefficient.control, np.random.default_rng(0))
    data.generator = torch.Generator().manual_seed(0)
    with forked_generators():
        torch.manual_seed(0)
        task = build_task(config, data)
        fit_gates(task.model, data)
        device = training_device(config.trainer.accelerator)
        memory = require_memory(task.model, data, device)
        with memory_errors(task.model, data):
            return task, memory, seconds_per_epoch(task, data)


def seconds_of_cells(config: Config, data: GraphDataModule, split: Split) -> float:
    """Estimate the seconds of all cells of a grid in one repetition, whatever the optimiser."""
    data_of, known, total = CellData(config, data), dict[str, float](), 0.0
    for cell in cells_of(config.protocol.grid or {}):
        own = config.with_cell(cell)
        costs = {k: v for k, v in cell.items() if not k.startswith(("optimizer.", "trainer."))}
        name = cell_text(costs)
        if name not in known:
            known[name] = timed(own, data_of(own), split)[2]
        total += known[name] * own.trainer.max_epochs
    return total


def seconds_per_epoch(task: Task, data: GraphDataModule) -> float:
    """Estimate the seconds of an epoch on the CPU from a few timed steps."""
    optimizer = task.configure_optimizers()
    loader = data.train_dataloader()
    steps = min(_TIMED_STEPS, len(loader))
    times = []
    for batch in itertools.islice(loader, steps):
        started = time.perf_counter()
        optimizer.zero_grad()
        torch.autograd.backward(task.training_step(batch, 0))
        optimizer.step()
        times.append(time.perf_counter() - started)
    # The first step includes lazy set-up.
    step = sum(times[1:] or times) / max(1, len(times) - 1)
    evaluation = len(data.val_dataloader()) / 3
    return step * (len(loader) + evaluation)
