"""What Lightning's loop costs: our training beside two loops by hand, in the same run.

Usage: python benchmarks/lightning_overhead.py [--epochs 15] [OVERRIDE ...]

One repetition is trained as `unionsnn train` does it, with all its callbacks, curves file, resume
points and validation. After each of its epochs two loops train one of their own, from the same
weights, on the same batches in the same order, with the same optimiser (a fused Adam), to the same
losses and metrics, each read once an epoch:

- bare: our batches and our network, without Lightning;
- PyG: `torch_geometric.loader.DataLoader` on the graphs as a list, and a network written down with
  PyG's layers (UnionSNN: our layer), as one would without this package.

Times are of the process's CPU. A ratio is the median over the epochs without the first.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Callback
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, l1_loss
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import global_add_pool

from unionsnn.config.compose import compose_config
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.training import repetition
from unionsnn.training.build import build_data
from unionsnn.training.callbacks import ResumePoint
from unionsnn.training.protocols import draw_splits
from unionsnn.training.tasks import Task

DEFAULT = ["data=proteins", "model=unionsnn"]


class PlainNetwork(nn.Module):
    """What one writes by hand for a stack of layers, with the weights of a network of ours."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.encoder, self.head = network.encoder, network.head
        self.convs, self.norms = network.convs, network.norms
        self.gated: bool = network.gated

    def forward(self, data: Data) -> Tensor:
        """Return the outputs of the graphs."""
        h = self.encoder(data.x)
        given = {"edge_coefficient": data.edge_coefficient} if self.gated else {}
        for conv, norm in zip(self.convs, self.norms, strict=True):
            h = h + norm(conv(h, data.edge_index, **given)).relu()
        output: Tensor = self.head(global_add_pool(h, data.batch, data.num_graphs))
        return output


class Beside(Callback):
    """Time Lightning's epochs, and after each one an epoch of each loop by hand.

    Args:
        data: The data module; it has its split and generator.
    """

    def __init__(self, data: GraphDataModule) -> None:
        self.data = data
        self.times: dict[str, list[float]] = {"lightning": [], "bare": [], "pyg": []}
        self.differences: list[float] = []

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Copy the weights and the order of the batches."""
        assert self.data.generator is not None
        state = self.data.generator.get_state()
        self.task: Task = copy.deepcopy(pl_module)
        self.optimizer = self.task.configure_optimizers()
        self.train, self.validation = self.data.train_dataloader(), self.data.val_dataloader()
        self.train.generator = torch.Generator()
        self.train.generator.set_state(state)
        self.plain = PlainNetwork(copy.deepcopy(self.task.model))
        self.plain_optimizer = torch.optim.Adam(
            self.plain.parameters(), **_adam_arguments(self.optimizer), fused=True
        )
        self.graphs = [*self.data.pyg_dataset("train")]
        self.held = DataLoader([*self.data.pyg_dataset("val")], batch_size=self.data.batch_size)
        self.order = torch.Generator()
        self.order.set_state(state)
        self.begin = time.process_time()

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Stop the clock of an epoch, and train one by hand, twice."""
        self.times["lightning"].append(time.process_time() - self.begin)
        found = float(trainer.callback_metrics["train_loss"])
        paused = time.monotonic()
        for name, epoch in (("bare", self.bare), ("pyg", self.pyg)):
            begin = time.process_time()
            loss = epoch()
            self.times[name].append(time.process_time() - begin)
            self.differences.append(abs(loss - found))
        for each in trainer.callbacks:
            # Its clock stands still meanwhile: a resume point takes a share of our time alone.
            if isinstance(each, ResumePoint):
                each.times._next += time.monotonic() - paused
        self.begin = time.process_time()

    def bare(self) -> float:
        """Train and validate once with our batches; return the mean training loss."""
        task = self.task
        total, count = torch.zeros(()), 0
        task.model.train()
        for batch in self.train:
            self.optimizer.zero_grad()
            loss = task.loss(*task.select(task.forward(batch), batch, "train"))
            loss.backward()
            self.optimizer.step()
            total += loss.detach() * len(batch.y)
            count += len(batch.y)
        task.model.eval()
        held, right = torch.zeros(()), torch.zeros(())
        with torch.no_grad():
            for batch in self.validation:
                output, target = task.select(task.forward(batch), batch, "val")
                held += task.loss(output, target) * len(target)
                right += _right(output, target)
        float(held), float(right)
        return float(total) / count

    def pyg(self) -> float:
        """Train and validate once with PyG alone; return the mean training loss."""
        size = self.data.batch_size
        order = torch.randperm(len(self.graphs), generator=self.order).split(size)
        total = torch.zeros(())
        self.plain.train()
        for batch in DataLoader(self.graphs, batch_sampler=[each.tolist() for each in order]):
            self.plain_optimizer.zero_grad()
            loss = _loss(self.plain(batch), batch.y)
            loss.backward()
            self.plain_optimizer.step()
            total += loss.detach() * batch.num_graphs
        self.plain.eval()
        held, right = torch.zeros(()), torch.zeros(())
        with torch.no_grad():
            for batch in self.held:
                output = self.plain(batch)
                held += _loss(output, batch.y) * batch.num_graphs
                right += _right(output, batch.y)
        float(held), float(right)
        return float(total) / len(self.graphs)


def _loss(output: Tensor, target: Tensor) -> Tensor:
    """Return the cross-entropy of classes, or the absolute error of values."""
    if target.is_floating_point():
        return l1_loss(output, target.view_as(output))
    return cross_entropy(output, target)


def _right(output: Tensor, target: Tensor) -> Tensor:
    """Return the number of right classes, or the sum of absolute errors."""
    if target.is_floating_point():
        return (output - target.view_as(output)).abs().sum()
    return (output.argmax(dim=1) == target).sum()


def _adam_arguments(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Return the learning rate and weight decay of an optimiser."""
    return {name: optimizer.param_groups[0][name] for name in ("lr", "weight_decay")}


def measure(overrides: list[str], epochs: int) -> Beside:
    """Train one repetition with two loops by hand beside it."""
    with tempfile.TemporaryDirectory() as folder:
        fixed = [f"trainer.max_epochs={epochs}", f"protocol.patience={epochs}", "model.dropout=0.0"]
        config = compose_config(
            [*DEFAULT, *overrides, *fixed, f"paths.output={folder}", "trainer.accelerator=cpu"]
        )
        torch.set_num_threads(config.trainer.threads)
        data = build_data(config)
        split = draw_splits(config.protocol, data, config.seed)[0]
        beside = Beside(data)
        make = repetition.make_trainer

        def with_others(config: Any, callbacks: Any, *further: Any) -> pl.Trainer:
            return make(config, [*callbacks, beside], *further)

        repetition.make_trainer = with_others
        try:
            repetition.train_repetition(repetition.Training(config, split, 0, Path(folder)), data)
        finally:
            repetition.make_trainer = make
    return beside


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("overrides", nargs="*")
    given = parser.parse_args()
    beside = measure(given.overrides, given.epochs)
    times = {name: each[1:] for name, each in beside.times.items()}
    print("| overrides | epochs | ours | bare | PyG | ours / bare | ours / PyG | loss differs |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    seconds = " | ".join(f"{statistics.median(each):.3f} s" for each in times.values())
    ratios = []
    for name in ("bare", "pyg"):
        found = [a / b for a, b in zip(times["lightning"], times[name], strict=True)]
        low, middle, high = statistics.quantiles(found, n=4)
        ratios.append(f"{middle:.3f} ({low:.3f} to {high:.3f})")
    print(
        f"| {' '.join(given.overrides or DEFAULT)} | {len(times['bare'])} | {seconds} "
        f"| {' | '.join(ratios)} | {max(beside.differences):.1e} |"
    )


if __name__ == "__main__":
    main()
