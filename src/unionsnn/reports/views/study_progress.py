"""Progress of a study: a bar on a terminal, a line a trial elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from unionsnn.reports.views.study_table import parameter_text, value_text

Watch = Callable[[Sequence[Any]], None]

_DONE = ("finished", "pruned", "failed")


@contextmanager
def study_progress(kind: str, key: str, direction: str) -> Iterator[Watch | None]:
    """Yield what is called with the state of all trials, and shows it.

    Args:
        kind: ``auto``, ``bar``, ``plain`` or ``none``.
        key: Name of the first objective.
        direction: ``maximize`` or ``minimize``.
    """
    if kind == "auto":
        kind = "bar" if sys.stderr.isatty() or "ipykernel" in sys.modules else "plain"
    if kind == "none":
        yield None
    elif kind == "plain":
        yield TrialLines(key, direction)
    else:
        with TrialBar(key, direction) as bar:
            yield bar


class _Trials:
    def __init__(self, key: str, direction: str) -> None:
        self.key = key
        self.better: Callable[..., float] = min if direction == "minimize" else max

    def best(self, cells: Sequence[Any]) -> str:
        """The best value so far."""
        values = [cell.values[0] for cell in cells if cell.values is not None]
        return value_text(self.key, self.better(values)) if values else "–"


class TrialLines(_Trials):
    """A line for each trial that has come to an end."""

    def __init__(self, key: str, direction: str) -> None:
        super().__init__(key, direction)
        self._told: set[int] | None = None

    def __call__(self, cells: Sequence[Any]) -> None:
        """Print the trials that ended since the last call."""
        ended = {cell.index: cell for cell in cells if cell.state in _DONE}
        first, told = self._told is None, self._told or set()
        for index in ended.keys() - told:
            cell = ended[index]
            if first:
                continue
            parts = [f"trial {index} {cell.state}"]
            if cell.values is not None:
                parts.append(f"{self.key} {value_text(self.key, cell.values[0])}")
            elif cell.reason:
                parts.append(f"({cell.reason})")
            parts += [f"{k}={parameter_text(v)}" for k, v in cell.parameters.items()]
            counted = f"{len(ended)} of {len(cells)}, best {self.best(cells)}"
            print(f"{' '.join(parts)}; {counted}", file=sys.stderr, flush=True)
        if first and ended:
            print(f"{len(ended)} of {len(cells)} trials are done already", file=sys.stderr)
        self._told = told | ended.keys()


class TrialBar(_Trials):
    """A bar with what became of the trials, the best value and what runs at the moment."""

    def __init__(self, key: str, direction: str) -> None:
        super().__init__(key, direction)
        self.progress = Progress(
            TextColumn("trials"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.description}"),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self.progress.add_task("", total=None)

    def __enter__(self) -> TrialBar:
        self.progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.progress.stop()

    def __call__(self, cells: Sequence[Any]) -> None:
        """Show the state; off the screen when all is done, to make room for the final training."""
        count = {state: sum(cell.state == state for cell in cells) for state in (*_DONE, "running")}
        done = sum(count[state] for state in _DONE)
        running = " ".join(
            f"{cell.index} ({len(cell.repetitions)})" for cell in cells if cell.state == "running"
        )
        words = f"best {self.key} {self.best(cells)}; {count['pruned']} pruned"
        if count["failed"]:
            words += f", {count['failed']} failed"
        if running:
            words += f"; running: {running}"
        self.progress.update(self._task, completed=done, total=len(cells), description=words)
        if done == len(cells):
            self.progress.stop()
