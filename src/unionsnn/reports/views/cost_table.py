"""The paper's tables of costs beside ours, as ratios: other machines have other seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from unionsnn.reports.formats import Sheet
from unionsnn.reports.paper import PaperValue, table_values
from unionsnn.reports.reproduction import Outcome
from unionsnn.reports.tables import format_seconds

REFERENCE = {"table11": "Ours", "table12": "GIN"}
"""The row that each table's ratios are taken to."""

_MEANING = {
    "table11": "seconds of preprocessing, one thread, no cache",
    "table12": "the paper's: a whole run of 10 folds; ours: an epoch of training and validation, "
    "all rows timed one after another",
}

_HEADER = ("row", "paper", "paper's ratio", "ours", "our ratio")


@dataclass(frozen=True)
class Cost:
    """Seconds of a cell.

    Args:
        paper: The paper's value, in the unit of its metric.
        seconds: Ours; None where there is none.
        note: Why there is none; empty for nothing.
        device: What trained; empty where nothing was trained.
    """

    paper: PaperValue
    seconds: float | None
    note: str = ""
    device: str = ""

    @property
    def paper_seconds(self) -> float:
        """The paper's value in seconds."""
        return self.paper.mean * (3600 if self.paper.metric == "hours" else 1)


def cost_of(outcome: Outcome) -> Cost:
    """Return the seconds of a cell."""
    record = outcome.record
    if record is None:
        state = "NOT AVAILABLE" if outcome.absent else "FAILED"
        return Cost(outcome.cell.paper, None, f"{state}: {outcome.absent or outcome.error}")
    return Cost(outcome.cell.paper, record["seconds"], device=record.get("device", ""))


def cost_sheets(costs: Sequence[Cost]) -> list[Sheet]:
    """Return a table for each data set: seconds, and their ratios to the reference row."""
    sets = dict.fromkeys(cost.paper.dataset for cost in costs)
    return [_sheet(name, [c for c in costs if c.paper.dataset == name]) for name in sets]


def _sheet(dataset: str, costs: Sequence[Cost]) -> Sheet:
    table = costs[0].paper.table
    devices = ", ".join(dict.fromkeys(cost.device for cost in costs if cost.device))
    notes = [
        f"ratios are taken to {REFERENCE[table]}; {_MEANING[table]}",
        f"the paper's machine: i9-10940X, RTX 3090{'; ours: ' if devices else ''}{devices}",
        *_grouped(costs),
    ]
    rows = [
        [
            cost.paper.model,
            format_seconds(cost.paper_seconds),
            _ratio(row["paper_ratio"]),
            "–" if cost.seconds is None else format_duration(cost.seconds),
            _ratio(row["ratio"]),
        ]
        for cost, row in zip(costs, cost_rows(costs), strict=True)
    ]
    return Sheet(f"{table} of the paper: {dataset}, costs", _HEADER, rows, notes=notes)


def _grouped(costs: Sequence[Cost]) -> list[str]:
    """Each note once, after the rows that it is of."""
    notes = dict.fromkeys(cost.note for cost in costs if cost.note)
    return [f"{', '.join(c.paper.model for c in costs if c.note == n)}: {n}" for n in notes]


def format_duration(seconds: float) -> str:
    """Write a duration, that of a fraction of a second in milliseconds."""
    return f"{1000 * seconds:.1f} ms" if seconds < 1 else format_seconds(seconds)


def _ratio(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f} ×"


def cost_rows(costs: Sequence[Cost]) -> list[dict[str, Any]]:
    """Return each cell with full numbers, as plain types."""
    ours = {(c.paper.dataset, c.paper.model): c.seconds for c in costs}
    paper = {
        (value.dataset, value.model): value.mean
        for table in {c.paper.table for c in costs}
        for value in table_values(table)
    }
    found = []
    for cost in costs:
        reference = (cost.paper.dataset, REFERENCE[cost.paper.table])
        base = ours.get(reference)
        found.append(
            {
                "table": cost.paper.table,
                "model": cost.paper.model,
                "dataset": cost.paper.dataset,
                "paper_seconds": cost.paper_seconds,
                "paper_ratio": cost.paper.mean / paper[reference],
                "seconds": cost.seconds,
                "ratio": cost.seconds / base if cost.seconds is not None and base else None,
                "device": cost.device or None,
                "why": cost.note or None,
            }
        )
    return found
