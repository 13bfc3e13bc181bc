"""Contents of the cache, for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from unionsnn.base.words import format_bytes
from unionsnn.coefficients.upkeep import CacheItem
from unionsnn.reports.formatting import age_text
from unionsnn.reports.table import Table, numbers, words


def cache_table(items: Sequence[CacheItem], root: Path) -> Table | str:
    """Return one row per entry, and the total below."""
    if not items:
        return f"The cache {root} is empty."
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
    title = "Coefficients and encodings on disk"
    return Table(title, columns, rows, [note], spare=["rows", "age"])


def describe(item: CacheItem) -> str:
    """Describe a file of the cache in one line."""
    known = " ".join(filter(None, (item.label, *item.choices)))
    reason = f": {item.detail}" if item.detail else ""
    return (
        f"{item.path.name} ({known + ', ' if known else ''}{format_bytes(item.num_bytes)}, "
        f"{item.state}{reason})"
    )
