"""Live view of repetitions that train in worker processes.

Each worker updates a small file with the progress of its repetition; the view reads these files.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import pytorch_lightning as pl
from pytorch_lightning.callbacks import Callback
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from unionsnn.base.errors import DamagedFileError
from unionsnn.base.files import read_json
from unionsnn.config.schema import metric_mode
from unionsnn.training.callbacks import in_notebook

INTERVAL = 0.5
"""Minimum number of seconds between writes."""


@dataclass(frozen=True)
class Status:
    """Progress of a repetition.

    Args:
        index: The repetition.
        epoch: Number of finished epochs.
        max_epochs: Maximum number of epochs.
        monitor: Metric to show.
        value: Its last value.
        best: Its best value so far.
        part: Part of the repetition, such as a cell of a grid; empty if there are no parts.
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
    """Write the status of a repetition to ``NN.json`` atomically.

    With a file, killing the reader or the writer does not affect the other. Training continues if
    the file cannot be written.

    Args:
        folder: Folder to write to.
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
        """Write that training has started."""
        self._best, self._next = None, 0.0
        self._write(trainer, trainer.current_epoch, None)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Record the epoch's value, and write if it is time."""
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
    """Read the statuses of repetitions in order, without those that have no file."""
    statuses = []
    for index in sorted(indices):
        try:
            statuses.append(Status(**read_json(folder / f"{index:02d}.json")))
        except (OSError, DamagedFileError, TypeError):
            continue
    return statuses


class WorkerView:
    """A line for each running repetition and a total: live on a terminal, plain elsewhere.

    Args:
        kind: ``auto``, ``bar``, ``plain`` or ``none``.
        folder: Folder of the workers' status files.
        total: Number of repetitions to train.
        console: Console of the live view; by default standard error.
        interval: Minimum number of seconds between plain lines.
    """

    def __init__(
        self,
        kind: str,
        folder: Path,
        total: int,
        console: Console | None = None,
        interval: float = 10.0,
    ) -> None:
        if kind == "auto":
            kind = "bar" if sys.stderr.isatty() or in_notebook() else "plain"
        self.kind = kind
        self.folder = folder
        self.total = total
        self.interval = interval
        self.done = self.failed = 0
        self._next = time.monotonic() + interval
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[values]}"),
            console=console or Console(stderr=True),
            transient=True,
        )
        self._all = self._progress.add_task("repetitions", total=total, values="")
        self._tasks: dict[int, TaskID] = {}

    def __enter__(self) -> Self:
        """Start the live view."""
        if self.kind == "bar":
            self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Remove the live view."""
        if self.kind == "bar":
            self._progress.stop()

    @property
    def _ended(self) -> str:
        text = f"{self.done} of {self.total} repetitions done"
        return f"{text}, {self.failed} failed" if self.failed else text

    def ended(self, index: int, failed: bool) -> None:
        """Record that a repetition ended."""
        self.done += not failed
        self.failed += failed
        (self.folder / f"{index:02d}.json").unlink(missing_ok=True)
        if self.kind == "plain":
            self._print(f"repetition {index} {'failed' if failed else 'is done'}; {self._ended}")

    def look(self, running: Sequence[int]) -> None:
        """Show the progress of running repetitions."""
        if self.kind == "bar":
            self._update(read_statuses(self.folder, running), running)
        elif self.kind == "plain" and time.monotonic() >= self._next:
            statuses = read_statuses(self.folder, running)
            self._print("; ".join([self._ended, *(f"{s.index}: {s}" for s in statuses)]))

    def _print(self, text: str) -> None:
        self._next = time.monotonic() + self.interval
        print(text, file=sys.stderr, flush=True)

    def _update(self, statuses: Sequence[Status], running: Sequence[int]) -> None:
        for index in self._tasks.keys() - set(running):
            self._progress.remove_task(self._tasks.pop(index))
        for status in statuses:
            if status.index not in self._tasks:
                self._tasks[status.index] = self._progress.add_task("", values="")
            # The bar shows the epoch.
            values = str(status).replace(f"epoch {status.epoch}/{status.max_epochs}", "")
            self._progress.update(
                self._tasks[status.index],
                description=f"{status.index:>2}",
                completed=status.epoch,
                total=status.max_epochs,
                values=" ".join(values.split()),
            )
        failed = f"{self.failed} failed" if self.failed else ""
        self._progress.update(self._all, completed=self.done + self.failed, values=failed)
