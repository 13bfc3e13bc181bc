"""What a trial under ``debug`` has shown, for the terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from unionsnn.base.errors import DamagedFileError
from unionsnn.base.files import read_mapping
from unionsnn.base.words import duration_text
from unionsnn.reports.table import Table, numbers, show, words
from unionsnn.training.records import Repetition, Result, read_record

LEARNED = 0.05
"""Share of its first value to which the training loss falls if a network can learn its items."""


def print_debug(folder: Path, record: Result) -> None:
    """Print what was tried, and what it has shown; nothing of a run without ``debug``."""
    kind = record.config.get("debug")
    if kind is None:
        return
    print(f"debug={kind}: the figures are no result; no report reads this folder.")
    for row in record.repetitions:
        name = f"{row.index:02d}.json"
        if kind == "profile" and (path := folder / "profile" / name).exists():
            show([profile_table(path)])
        if kind == "overfit":
            try:
                curves = read_record(Repetition, folder / "repetitions" / name).curves
            except (OSError, DamagedFileError):
                continue
            for line in overfit_lines([epoch["train_loss"] for epoch in curves], row.sizes):
                print(line)


def profile_table(path: Path) -> Table:
    """Return where the time of a training went, the longest part first."""
    parts = (read_mapping(path) or {}).get("parts", [])
    total = sum(each["seconds"] for each in parts)
    rows = [
        [
            each["part"],
            each["calls"],
            each["seconds"],
            1000 * each["seconds"] / max(each["calls"], 1),
            f"{100 * each['seconds'] / total:.0f} %" if total else "",
        ]
        for each in sorted(parts, key=lambda each: -each["seconds"])
        if each["calls"]
    ]
    columns = [
        *words("part of the epochs"),
        *numbers("calls"),
        *numbers("time", form=duration_text),
        *numbers("ms each", form=lambda value: f"{value:.2f}"),
        *words("share"),
    ]
    return Table("Where the time went", columns, rows)


def overfit_lines(losses: Sequence[float], sizes: Mapping[str, int]) -> Iterator[str]:
    """Say whether the training loss has fallen to about 0."""
    first, least = losses[0], min(losses)
    count = f"{sizes['train']} training items in {len(losses)} epochs"
    fell = f"train_loss fell from {first:.3g} to {least:.3g} on {count}"
    if least <= LEARNED * first and math.isfinite(first):
        yield f"{fell}: the network can learn them, so loss, targets and gradients fit together."
        return
    yield f"{fell}, not to about 0: the network does not learn even these."
    yield (
        "Try trainer.max_epochs=500 and a higher or lower optimizer.lr. If it stays, items with "
        "other targets look alike to the network (data.features, model.num_layers), or the loss "
        "does not fit the targets."
    )
