"""What long work shows: one live display on a terminal, sparse plain lines elsewhere.

All work of a process shows itself in the same display: whoever begins it asks for `display`, and
what is called meanwhile finds it by `current_display`.
"""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from unionsnn.base.words import duration_text

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

FIRST = 2.0
"""Seconds after which work of a new kind gets a plain line."""

INTERVAL = 10.0
"""Seconds between two plain lines of the same work."""

_REFRESHES = 3.0
# Counts above are shown as a share.
_COUNTED = 9_999

Figures = Mapping[str, float | str]


@dataclass
class Row:
    """Work that is shown.

    Args:
        label: What is done.
        total: Number of steps; None for work without steps.
        inside: Key of the row whose step this work is.
        numbered: Whether the running step is shown, such as an epoch, or the number of those done.
        done: Steps done; a part of a step counts.
        first: Steps done before this process began.
        figures: Figures beside it, by name.
        begun: When it began.
        told: Steps done when a plain line was last printed; None if none was.
    """

    label: str
    total: float | None
    inside: object = None
    numbered: bool = False
    done: float = 0.0
    first: float = 0.0
    figures: Figures = field(default_factory=dict)
    begun: float = field(default_factory=time.monotonic)
    told: float | None = None

    @property
    def count(self) -> str:
        """The steps done of all, or a share of many."""
        if self.total is None:
            return ""
        if self.total > _COUNTED:
            return f"{100 * self.done / self.total:.0f} %"
        done = min(int(self.done) + 1, self.total) if self.numbered else int(self.done)
        return f"{done:,} of {self.total:,.0f}"

    @property
    def texts(self) -> list[str]:
        """The figures as text: four digits of a number."""
        return [
            f"{name} {value}" if isinstance(value, str) else f"{name} {value:.4f}"
            for name, value in self.figures.items()
        ]


class Display:
    """Shows what is done in rows, each with a bar, a count, figures and the time left.

    As a callback (what, done, total) it shows work that begins with its first call and ends when
    all is done. Rows may be changed from any thread; changing one costs microseconds.

    Args:
        live: Whether to draw on a terminal, which leaves the screen at the end, or to print lines.
        console: Console of the live display; by default standard error.
        first: As `FIRST`.
        interval: As `INTERVAL`.
    """

    def __init__(
        self,
        live: bool,
        console: Console | None = None,
        first: float = FIRST,
        interval: float = INTERVAL,
    ) -> None:
        self.first = first
        self.interval = interval
        self.rows: dict[object, Row] = {}
        self._lock = threading.RLock()
        self._kinds: set[str] = set()
        self._last = time.monotonic()
        self._ended = threading.Event()
        self._live: Live | None = None
        if live:
            # Only here: the library asks for the open display without rich.
            from rich.console import Console
            from rich.live import Live

            self._live = Live(
                get_renderable=self.renderable,
                console=console or Console(stderr=True),
                transient=True,
                refresh_per_second=_REFRESHES,
                # What is printed meanwhile must not go from standard output to standard error.
                redirect_stdout=sys.stdout.isatty(),
            )
            self._live.start()
        else:
            threading.Thread(target=self._watch, daemon=True).start()

    @property
    def is_live(self) -> bool:
        """Whether it draws on a terminal."""
        return self._live is not None

    def close(self) -> None:
        """Leave the screen."""
        self._ended.set()
        if self._live is not None:
            self._live.stop()

    def __call__(self, what: str, done: int, total: int) -> None:
        """Show work by its description, until all is done."""
        self.show(what, what, done, total)
        if done >= total:
            self.end(what)

    def show(
        self,
        key: object,
        label: str,
        done: float = 0.0,
        total: float | None = None,
        *,
        figures: Figures | None = None,
        inside: object = None,
        numbered: bool = False,
    ) -> None:
        """Begin a row, or change it; see `Row`."""
        row = self.rows.get(key)
        if row is None:
            row = Row(label, total, inside, numbered, done, done)
            with self._lock:
                self.rows[key] = row
        row.label, row.done, row.total = label, done, total
        if figures is not None:
            row.figures = figures

    def end(self, key: object, *, say: bool = True) -> None:
        """End a row, with a last plain line if it had some before and `say`."""
        with self._lock:
            row = self.rows.pop(key, None)
        if row is not None and row.told not in (None, row.done) and say and not self.is_live:
            row.numbered = False
            self._print([row], ", done")

    @contextmanager
    def stage(self, label: str) -> Iterator[None]:
        """Show work without steps."""
        self.show(label, label)
        try:
            yield
        finally:
            self.end(label)

    def seconds_left(self, key: object) -> float | None:
        """Return the seconds left of a row at the speed so far; None if not known yet."""
        row = self.rows.get(key)
        if row is None or row.total is None:
            return None
        inner = [r.done / r.total for r in list(self.rows.values()) if r.inside == key and r.total]
        done = row.done + (sum(inner))
        passed = time.monotonic() - row.begun
        if passed < 1.0 or done <= row.first:
            return None
        return max(0.0, passed * (row.total - done) / (done - row.first))

    def renderable(self) -> RenderableType:
        """Return what the live display draws."""
        from rich.console import Group
        from rich.padding import Padding
        from rich.progress_bar import ProgressBar
        from rich.table import Column, Table
        from rich.text import Text

        with self._lock:
            rows = list(self.rows.items())
        table = Table.grid(
            Column(no_wrap=True, overflow="ellipsis"),
            Column(width=16),
            Column(no_wrap=True, justify="right"),
            Column(no_wrap=True, justify="right"),
            padding=(0, 2, 0, 0),
        )
        below = []
        for key, row in rows:
            share = ProgressBar(
                row.total or 1.0,
                row.done,
                width=None,
                pulse=row.total is None,
                complete_style="cyan",
                finished_style="cyan",
            )
            left = self.seconds_left(key)
            said = Text("" if left is None else f"{duration_text(left, 0)} left", style="dim")
            table.add_row(Text(row.label), share, Text(row.count), said)
            if row.figures:
                named = [row.label] if len(rows) > 1 else []
                below.append(Text("  ".join([*named, *row.texts])))
        return Group(table, *(Padding(line, (0, 0, 0, 2)) for line in below))

    # -- plain lines -----------------------------------------------------------------------

    def _watch(self) -> None:
        # Work that tells nothing meanwhile, such as an import, is named all the same.
        while not self._ended.wait(0.25):
            self.tell()

    def tell(self) -> None:
        """Print a line if it is time: for work of a new kind, or after the interval."""
        now = time.monotonic()
        with self._lock:
            rows = list(self.rows.values())
            new = [r for r in rows if now - r.begun >= self.first and _kind(r) not in self._kinds]
            moved = [r for r in rows if r.total is not None and r.told != r.done]
            if new or (moved and now - self._last >= self.interval):
                self._print(rows)

    def _print(self, rows: list[Row], end: str = "") -> None:
        with self._lock:
            self._last = time.monotonic()
            parts = []
            for row in rows:
                said = _kind(row) in self._kinds
                self._kinds.add(_kind(row))
                row.told = row.done
                if row.total is None:
                    # Said once: nothing of it changes.
                    parts += [] if said else [f"{row.label} ..."]
                    continue
                key = next((k for k, r in self.rows.items() if r is row), None)
                left = None if key is None else self.seconds_left(key)
                texts = [f"{row.label} {row.count}", *row.texts]
                texts += [] if left is None or end else [f"{duration_text(left, 0)} left"]
                parts.append(", ".join(texts) + end)
        if parts:
            print("; ".join(parts), file=sys.stderr, flush=True)


def _kind(row: Row) -> str:
    return re.sub(r"\d+", "#", row.label)


_current: ContextVar[Display | None] = ContextVar("display", default=None)


@contextmanager
def stage(label: str) -> Iterator[None]:
    """Show work without steps, such as an import, in the display that is open."""
    shown = _current.get()
    if shown is None:
        yield
    else:
        with shown.stage(label):
            yield


def current_display() -> Display | None:
    """Return the display that is open; None if nothing is to be shown."""
    return _current.get()


@contextmanager
def display(kind: str) -> Iterator[Display | None]:
    """Yield the display that is open, or open one; None for ``none``.

    Args:
        kind: ``auto`` (live on a terminal and in a notebook with ipywidgets, plain elsewhere),
            ``bar`` (live), ``plain`` or ``none``.
    """
    outer = _current.get()
    made = None
    if kind != "none":
        made = outer or Display(live=kind == "bar" or (kind == "auto" and _draws()))
    token = _current.set(made)
    try:
        yield made
    finally:
        _current.reset(token)
        if made is not None and made is not outer:
            made.close()


def _draws() -> bool:
    if sys.stderr.isatty():
        return True
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return type(shell).__name__ == "ZMQInteractiveShell" and find_spec("ipywidgets") is not None
