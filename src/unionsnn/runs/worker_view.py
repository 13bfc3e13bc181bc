"""Repetitions that train in worker processes, in the display of the process that started them.

Each worker updates a small file with the progress of its repetition; the view reads these files.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from unionsnn.base.display import Display, current_display
from unionsnn.base.errors import DamagedFileError
from unionsnn.base.files import read_json
from unionsnn.training.callbacks import Epochs

INTERVAL = 0.5
"""Minimum number of seconds between writes."""


@dataclass(frozen=True)
class Status:
    """Progress of a repetition.

    Args:
        index: The repetition.
        epoch: Number of epochs done; a part counts.
        max_epochs: Maximum number of epochs.
        figures: Its last figures, by name.
        part: Part of the repetition, such as a cell of a grid; empty if there are no parts.
    """

    index: int
    epoch: float
    max_epochs: int
    figures: dict[str, float | str] = field(default_factory=dict)
    part: str = ""


class StatusFile(Epochs):
    """Write the status of a repetition to ``NN.json`` atomically.

    With a file, killing the reader or the writer does not affect the other. Training continues if
    the file cannot be written.

    Args:
        folder: Folder to write to.
        index: The repetition.
        monitor: Metric whose best value is shown; val_loss if None.
    """

    def __init__(self, folder: Path, index: int, monitor: str | None) -> None:
        super().__init__(self._write, monitor)
        self.path = folder / f"{index:02d}.json"
        self.index = index
        self.part = ""
        self._next = 0.0

    def _write(self, epoch: float, max_epochs: int, figures: dict[str, float | str]) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + INTERVAL
        half = self.path.with_suffix(".part")
        try:
            status = Status(self.index, epoch, max_epochs, figures, self.part)
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
    """A row for each running repetition in the display that is open, if there is one.

    Args:
        folder: Folder of the workers' status files.
        workers: Number of workers.
        unit: What a repetition is called.
        inside: Key of the row that counts them.
    """

    def __init__(self, folder: Path, workers: int, unit: str, inside: object = None) -> None:
        self.folder = folder
        self.unit = unit
        self.inside = inside
        self._shown = current_display()
        self._starting = f"starting {workers} workers"
        self._rows: set[int] = set()
        if self._shown is not None:
            self._shown.show(self._starting, self._starting)

    def look(self, running: Sequence[int]) -> None:
        """Show the progress of running repetitions."""
        if self._shown is None:
            return
        for index in self._rows - set(running):
            self._end(self._shown, index)
        for each in read_statuses(self.folder, running):
            self._shown.end(self._starting)
            self._rows.add(each.index)
            part = f", {each.part}" if each.part else ""
            self._shown.show(
                (self.folder, each.index),
                f"{self.unit} {each.index + 1}{part}: epoch",
                each.epoch,
                each.max_epochs,
                figures=each.figures,
                inside=self.inside,
                numbered=True,
            )

    def ended(self, index: int) -> None:
        """Forget a repetition."""
        (self.folder / f"{index:02d}.json").unlink(missing_ok=True)

    def close(self) -> None:
        """Remove all rows."""
        if self._shown is not None:
            self._shown.end(self._starting)
            for index in set(self._rows):
                self._end(self._shown, index)

    def _end(self, shown: Display, index: int) -> None:
        self._rows.discard(index)
        # What its file said last is not the end.
        shown.end((self.folder, index), say=False)
