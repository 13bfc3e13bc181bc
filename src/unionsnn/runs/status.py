"""What a repetition is doing, for others to read: a small file that is replaced while it trains."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pytorch_lightning as pl
from pytorch_lightning.callbacks import Callback

from unionsnn.config.schema import metric_mode

INTERVAL = 0.5
"""Seconds between two writings, at the least."""


@dataclass(frozen=True)
class Status:
    """How far a repetition is.

    Args:
        index: The repetition.
        epoch: Epochs that are done.
        max_epochs: Epochs at most.
        monitor: Metric that is shown.
        value: Its last value.
        best: Its best value so far.
        part: Which part of the repetition it is, such as a cell of a grid; empty if it has none.
    """

    index: int
    epoch: int
    max_epochs: int
    monitor: str
    value: float | None = None
    best: float | None = None
    part: str = ""

    def __str__(self) -> str:
        text = f"{self.part} " if self.part else ""
        text += f"epoch {self.epoch}/{self.max_epochs}"
        if self.value is not None and self.best is not None:
            text += f" {self.monitor} {self.value:.4f} best {self.best:.4f}"
        return text


class StatusFile(Callback):
    """Write the status of a repetition, ``NN.json``, so that readers see all of it or nothing.

    A file needs no partner: a reader or a writer that is killed leaves the other one as it is.
    Training goes on where the file cannot be written.

    Args:
        folder: Where to write.
        index: The repetition.
        monitor: Metric to show; val_loss if None.
    """

    def __init__(self, folder: Path, index: int, monitor: str | None) -> None:
        self.path = folder / f"{index:02d}.json"
        self.index = index
        self.monitor = monitor or "val_loss"
        self.part = ""
        self._best: float | None = None
        self._next = 0.0

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Say that it began."""
        self._best, self._next = None, 0.0
        self._write(trainer, trainer.current_epoch, None)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Note the epoch's value, and write if it is time."""
        value = float(trainer.callback_metrics[self.monitor])
        better = min if metric_mode(self.monitor) == "min" else max
        self._best = value if self._best is None else better(value, self._best)
        if time.monotonic() >= self._next:
            self._write(trainer, trainer.current_epoch + 1, value)

    def _write(self, trainer: pl.Trainer, epoch: int, value: float | None) -> None:
        self._next = time.monotonic() + INTERVAL
        status = Status(
            self.index, epoch, trainer.max_epochs or 0, self.monitor, value, self._best, self.part
        )
        half = self.path.with_suffix(".part")
        try:
            half.write_text(json.dumps(asdict(status)))
            half.replace(self.path)
        except OSError:
            self._next = float("inf")


def read_statuses(folder: Path, indices: Sequence[int]) -> list[Status]:
    """Read the statuses of repetitions, in their order; those without a file are left out."""
    found = []
    for index in sorted(indices):
        try:
            found.append(Status(**json.loads((folder / f"{index:02d}.json").read_bytes())))
        except (OSError, ValueError, TypeError):
            continue
    return found
