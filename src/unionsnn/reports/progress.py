"""Progress of long work on data: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

Callback = Callable[[str, int, int], None]


@contextmanager
def data_progress(kind: str) -> Iterator[Callback | None]:
    """Yield a callback (what, done, total) that shows progress.

    Args:
        kind: ``auto``, ``bar``, ``plain`` or ``none``.
    """
    kind = progress_kind(kind)
    if kind == "none":
        yield None
    elif kind == "plain":
        yield PlainLines()
    else:
        bars = Bars()
        try:
            yield bars
        finally:
            bars.progress.stop()


def progress_kind(kind: str) -> str:
    """Return the kind of progress, ``auto`` decided: a bar where there is a terminal."""
    if kind != "auto":
        return kind
    return "bar" if sys.stderr.isatty() or "ipykernel" in sys.modules else "plain"


def bar_progress(*columns: ProgressColumn) -> Progress:
    """Make a progress display on stderr that leaves the screen when it stops."""
    return Progress(*columns, console=Console(stderr=True), transient=True)


class Bars:
    """A progress bar for each kind of work, shown only while there is work.

    Training shows its own bars, which must not be on screen at the same time.
    """

    def __init__(self) -> None:
        self.progress = bar_progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, what: str, done: int, total: int) -> None:
        """Update the bar, or remove it when the work is done."""
        if what not in self._tasks:
            self._tasks[what] = self.progress.add_task(what, total=total)
            self.progress.start()
        self.progress.update(self._tasks[what], completed=done, total=total)
        if done >= total:
            self.progress.remove_task(self._tasks.pop(what))
        if not self._tasks:
            self.progress.stop()


class PlainLines:
    """A line every few seconds, and a last one for work that was reported before.

    Args:
        interval: Minimum number of seconds between lines.
    """

    def __init__(self, interval: float = 5.0) -> None:
        self.interval = interval
        self._last = time.monotonic()
        self._begun: set[str] = set()

    def __call__(self, what: str, done: int, total: int) -> None:
        """Print a line if it is time, or if reported work is done."""
        now = time.monotonic()
        finished = done >= total and what in self._begun
        if finished or now - self._last >= self.interval:
            self._last = now
            (self._begun.discard if done >= total else self._begun.add)(what)
            print(f"{what}: {done:,} of {total:,}", file=sys.stderr, flush=True)
