"""What lies in the cache, for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from unionsnn.coefficients.upkeep import CacheItem


def print_cache(items: Sequence[CacheItem], root: Path, console: Console | None = None) -> None:
    """Print one line per entry, and the sum."""
    console = console or Console()
    if not items:
        console.print(f"The cache {root} is empty.", soft_wrap=True, highlight=False, markup=False)
        return
    table = Table(title="Coefficients and encodings on disk", title_justify="left")
    for name in ("data", "what"):
        table.add_column(name, overflow="fold")
    for name in ("rows", "size", "age"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("state")
    for item in items:
        table.add_row(
            item.label or "–",
            " ".join(part for part in (*item.choices, *item.columns)) or "–",
            "–" if item.edges is None else f"{item.edges:,}",
            format_bytes(item.num_bytes),
            format_age(item.age),
            f"{item.state} ({item.detail})" if item.detail else item.state,
        )
    console.print(table)
    total = sum(item.num_bytes for item in items)
    console.print(
        f"{len(items)} files, {format_bytes(total)} in {root}",
        soft_wrap=True,
        highlight=False,
        markup=False,
    )


def as_plain(item: CacheItem) -> dict[str, Any]:
    """Return an item as plain types."""
    return {**vars(item), "path": str(item.path)}


def describe(item: CacheItem) -> str:
    """Name a file with what it belongs to, in one line."""
    known = " ".join(filter(None, (item.label, *item.choices)))
    reason = f": {item.detail}" if item.detail else ""
    return (
        f"{item.path.name} ({known + ', ' if known else ''}{format_bytes(item.num_bytes)}, "
        f"{item.state}{reason})"
    )


def format_bytes(number: int) -> str:
    """Write a size."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number} B"


def format_age(seconds: float) -> str:
    """Write how long ago something was, in the largest unit that fits."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
