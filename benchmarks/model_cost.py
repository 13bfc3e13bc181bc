"""Cost of a training step: plain GIN beside the same network gated, in the same run.

Usage: python benchmarks/model_cost.py [DATA ...], with data names of conf/data (default: proteins
zinc10k). Steps on the same batches of 32, the networks in turn, one thread; the median. Then the
same with the width chosen so that all stay under GIN's number of parameters.
"""

from __future__ import annotations

import itertools
import platform
import statistics
import sys
import time

import torch
from rich.console import Console
from rich.table import Table

from unionsnn.config.compose import compose_config
from unionsnn.nn.features import structural_modules
from unionsnn.training.build import build_data, build_task, count_parameters, fit_gates
from unionsnn.training.protocols import draw_splits
from unionsnn.training.tasks import Task

NETWORKS = {
    "GIN": ("model=gin",),
    "UnionGIN, default gate": ("model=union_gin",),
    "UnionGIN, paper's gate": ("model=union_gin", "gate=paper"),
    "UnionSNN, default gate": ("model=unionsnn",),
    "UnionSNN, paper's gate": ("model=unionsnn", "gate=paper"),
}
STEPS, WARM_UP = 150, 10


def tasks(name: str, *overrides: str) -> tuple[list[Task], list]:
    """The networks, and the batches that all of them are given."""
    made = []
    config = compose_config([f"data={name}", "model=unionsnn"])
    data = build_data(config)
    data.split = draw_splits(config.protocol, data, 0)[0]
    data.generator = torch.Generator().manual_seed(0)
    for network in NETWORKS.values():
        torch.manual_seed(0)
        config = compose_config([f"data={name}", *network, *overrides])
        task = build_task(config, data)
        for gate in structural_modules(task):
            gate.set_columns(data.spec.columns)
        fit_gates(task.model, data)
        made.append(task.train())
    return made, list(data.train_dataloader())


def medians(networks: list[Task], batches: list) -> list[float]:
    """Median seconds of a step of each network."""
    optimizers = [task.configure_optimizers() for task in networks]
    times: list[list[float]] = [[] for _ in networks]
    for step, batch in enumerate(itertools.islice(itertools.cycle(batches), STEPS + WARM_UP)):
        for task, optimizer, seconds in zip(networks, optimizers, times, strict=True):
            started = time.perf_counter()
            optimizer.zero_grad()
            torch.autograd.backward(task.training_step(batch, 0))
            optimizer.step()
            if step >= WARM_UP:
                seconds.append(time.perf_counter() - started)
    return [statistics.median(seconds) for seconds in times]


def main() -> None:
    torch.set_num_threads(1)
    title = f"a training step, batch of 32, one thread, torch {torch.__version__}"
    table = Table(title=f"{title}, {platform.processor() or platform.machine()}")
    for column in ("data", "network", "hidden", "parameters", "step", "to GIN"):
        table.add_column(column, justify="left" if column in ("data", "network") else "right")
    for name in sys.argv[1:] or ["proteins", "zinc10k"]:
        networks, batches = tasks(name)
        budget = count_parameters(networks[0])
        for group in (networks, tasks(name, f"model.parameter_budget={budget}")[0]):
            seconds = medians(group, batches)
            for label, task, one in zip(NETWORKS, group, seconds, strict=True):
                width, size = task.model.hidden_channels, count_parameters(task)
                cells = f"{1e3 * one:.2f} ms", f"{one / seconds[0]:.2f}"
                table.add_row(name, label, str(width), f"{size:,}", *cells)
            table.add_section()
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
