"""What Lightning's loop costs: our training beside a bare PyTorch loop, in the same run.

Usage: python benchmarks/lightning_overhead.py [--epochs 15] [OVERRIDE ...]

One repetition is trained as `unionsnn train` does it, with all its callbacks, curves file, resume
points and validation. After each of its epochs a bare loop trains one of its own: the same network
from the same weights, the same batches in the same order, the same optimiser, and the same losses
and accuracies, each read once an epoch. The ratio is the median over the epochs without the first.
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

from unionsnn.config.compose import compose_config
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.training import repetition
from unionsnn.training.build import build_data
from unionsnn.training.protocols import draw_splits
from unionsnn.training.tasks import Task

DEFAULT = ["data=proteins", "model=unionsnn"]


class BareEpochs(Callback):
    """Time Lightning's epochs, and after each one an epoch of a bare loop.

    Args:
        data: The data module; it has its split and generator.
    """

    def __init__(self, data: GraphDataModule) -> None:
        self.data = data
        self.times: dict[str, list[float]] = {"lightning": [], "bare": []}
        self.differences: list[float] = []

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Copy the weights and the order of the batches."""
        assert self.data.generator is not None
        self.task: Task = copy.deepcopy(pl_module)
        self.optimizer = self.task.configure_optimizers()
        self.train, self.validation = self.data.train_dataloader(), self.data.val_dataloader()
        self.train.generator = torch.Generator()
        self.train.generator.set_state(self.data.generator.get_state())
        self.begin = time.perf_counter()

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Stop the clock of an epoch, and train a bare one."""
        middle = time.perf_counter()
        loss = self.epoch()
        end = time.perf_counter()
        self.times["lightning"].append(middle - self.begin)
        self.times["bare"].append(end - middle)
        self.differences.append(abs(loss - float(trainer.callback_metrics["train_loss"])))
        self.begin = time.perf_counter()

    def epoch(self) -> float:
        """Train and validate once; return the mean training loss."""
        task = self.task
        total, count = torch.zeros(()), 0
        task.model.train()
        for batch in self.train:
            self.optimizer.zero_grad()
            loss = task.loss(task.forward(batch), batch.y)
            loss.backward()
            self.optimizer.step()
            total += loss.detach() * len(batch.y)
            count += len(batch.y)
        task.model.eval()
        held, right = torch.zeros(()), torch.zeros(())
        with torch.no_grad():
            for batch in self.validation:
                output = task.forward(batch)
                held += task.loss(output, batch.y) * len(batch.y)
                right += (output.argmax(dim=1) == batch.y).sum()
        float(held), float(right)
        return float(total) / count


def measure(overrides: list[str], epochs: int) -> BareEpochs:
    """Train one repetition with a bare loop beside it."""
    with tempfile.TemporaryDirectory() as folder:
        fixed = [f"trainer.max_epochs={epochs}", f"protocol.patience={epochs}", "model.dropout=0.0"]
        config = compose_config(
            [*DEFAULT, *overrides, *fixed, f"paths.output={folder}", "trainer.accelerator=cpu"]
        )
        torch.set_num_threads(config.trainer.threads)
        data = build_data(config)
        split = draw_splits(config.protocol, data, config.seed)[0]
        beside = BareEpochs(data)
        make = repetition.make_trainer

        def with_bare_epochs(config: Any, callbacks: Any, *further: Any) -> pl.Trainer:
            return make(config, [*callbacks, beside], *further)

        repetition.make_trainer = with_bare_epochs
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
    lightning, bare = (beside.times[name][1:] for name in ("lightning", "bare"))
    ratios = [a / b for a, b in zip(lightning, bare, strict=True)]
    print(
        "| overrides | epochs | Lightning, s | bare, s | ratio | smallest, largest | loss differs |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|")
    print(
        f"| {' '.join(given.overrides or DEFAULT)} | {len(ratios)} "
        f"| {statistics.median(lightning):.3f} | {statistics.median(bare):.3f} "
        f"| {statistics.median(ratios):.3f} | {min(ratios):.3f}, {max(ratios):.3f} "
        f"| {max(beside.differences):.1e} |"
    )


if __name__ == "__main__":
    main()
