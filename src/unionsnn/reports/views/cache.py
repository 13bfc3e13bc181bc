"""Contents of the cache, for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from unionsnn.base.words import format_bytes
from unionsnn.coefficients.upkeep import CacheItem
from unionsnn.reports.formatting import age_text
from unionsnn.reports.table import Table, numbers, print_lines, print_tables, words


def print_cache(items: Sequence[CacheItem], root: Path, console: Console | None = None) -> None:
    """Print one line per entry, and the total."""
    if not items:
        print_lines([f"The cache {root} is empty."], console)
        return
    rows = [
        [
            item.label or None,
            " ".join((*item.choices, *item.columns)) or None,
            item.edges,
            item.num_bytes,
            item.age,
            f"{item.state} ({item.detail})" if item.detail else item.state,
        ]
        for item in items
    ]
    columns = [
        *words("data", "what"),
        *numbers("rows"),
        *numbers("size", form=format_bytes),
        *numbers("age", form=age_text),
        *words("state"),
    ]
    total = format_bytes(sum(item.num_bytes for item in items))
    note = f"{len(items)} files, {total} in {root}"
    print_tables([Table("Coefficients and encodings on disk", columns, rows, [note])], console)


def as_plain(item: CacheItem) -> dict[str, Any]:
    """Return an item as plain types."""
    return {**vars(item), "path": str(item.path)}


def describe(item: CacheItem) -> str:
    """Describe a file of the cache in one line."""
    known = " ".join(filter(None, (item.label, *item.choices)))
    reason = f": {item.detail}" if item.detail else ""
    return (
        f"{item.path.name} ({known + ', ' if known else ''}{format_bytes(item.num_bytes)}, "
        f"{item.state}{reason})"
    )
