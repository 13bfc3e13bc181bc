"""How long an experiment would take, from a few timed steps of its network."""

from __future__ import annotations

import itertools
import time
from dataclasses import asdict
from typing import Any

import numpy as np
import torch

from unionsnn.config.grid import cell_text, cells_of
from unionsnn.config.schema import Config
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.data.sources.source import Progress
from unionsnn.data.splits import Split
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
from unionsnn.training.memory import BatchMemory, memory_errors, require_memory
from unionsnn.training.protocols import draw_splits
from unionsnn.training.tasks import Task

_TIMED_STEPS = 5


def estimate(config: Config, trainings: int, progress: Progress | None) -> dict[str, Any]:
    """Return the part of a plan that data, network and a few timed steps tell; see `describe`.

    Args:
        config: The request.
        trainings: Number of repetitions that are still to train.
        progress: Called during long work on data.
    """
    check_accelerator(config)
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
    return {
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
        "seconds_at_most": repetition * trainings,
    }


def to_compute(data: GraphDataModule) -> list[dict[str, Any]]:
    """Return the coefficients that a run would compute first, with an estimate of the seconds."""
    edges, nodes = data.arrays.edges(), data.arrays.num_nodes
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
