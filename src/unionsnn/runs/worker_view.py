"""A live view of repetitions that train at the same time in other processes."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from unionsnn.runs.status import Status, read_statuses
from unionsnn.training.callbacks import in_notebook


class WorkerView:
    """A line for each repetition that runs and one for all: live on a terminal, plain elsewhere.

    Args:
        kind: ``auto``, ``bar``, ``plain`` or ``none``.
        folder: Where the workers write their statuses.
        total: Repetitions to train.
        console: Where the live view is; standard error unless given.
        interval: Seconds between plain lines, at the least.
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
        """Take the place on the screen."""
        if self.kind == "bar":
            self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the screen as it was."""
        if self.kind == "bar":
            self._progress.stop()

    @property
    def _ended(self) -> str:
        text = f"{self.done} of {self.total} repetitions done"
        return f"{text}, {self.failed} failed" if self.failed else text

    def ended(self, index: int, failed: bool) -> None:
        """Note that a repetition ended."""
        self.done += not failed
        self.failed += failed
        (self.folder / f"{index:02d}.json").unlink(missing_ok=True)
        if self.kind == "plain":
            self._print(f"repetition {index} {'failed' if failed else 'is done'}; {self._ended}")

    def look(self, running: Sequence[int]) -> None:
        """Show how far the running repetitions are."""
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
            # The epoch stands in the bar.
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
