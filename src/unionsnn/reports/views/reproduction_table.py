"""The paper's table beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from unionsnn.config.grid import cells_of
from unionsnn.reports.formats import Sheet, flat
from unionsnn.reports.paper import PaperValue
from unionsnn.reports.reproduction import Cell, Outcome
from unionsnn.reports.tables import (
    count_text,
    format_seconds,
    interval_text,
    signed,
    spread,
)
from unionsnn.runs.failures import failure_lines
from unionsnn.runs.records import RunFolder

HEADER = ("row", "paper", "ours", "difference", "95 % interval", "", "n", "parameters")

OUTSIDE = "≠"
"""Mark of a row whose paper value lies outside our interval."""


def sheets(outcomes: Sequence[Outcome]) -> list[Sheet]:
    """Return a table for each data set: a row for each of the paper's."""
    sets = dict.fromkeys(o.cell.paper.dataset for o in outcomes)
    return [_sheet(name, [o for o in outcomes if o.cell.paper.dataset == name]) for name in sets]


def _sheet(dataset: str, outcomes: Sequence[Outcome]) -> Sheet:
    paper = outcomes[0].cell.paper
    notes = [
        f"{OUTSIDE}: the paper's value lies outside our interval; the paper's ± is its printed "
        "standard deviation"
    ]
    notes += warnings_of([o.cell for o in outcomes])
    records = [o.record for o in outcomes if o.record is not None]
    protocols = [f"{r['protocol']['name']} ({r['protocol']['selection']})" for r in records]
    notes += [f"protocol: {line}" for line in dict.fromkeys(protocols)]
    splits = {f"{r['dataset']}, split {(r['protocol']['split_hash'] or '')[:12]}" for r in records}
    notes += [f"data: {line}" for line in sorted(splits)]
    notes += [f"NOT AVAILABLE {o.cell.paper.model}: {o.absent}" for o in outcomes if
              o.absent]  # fmt: skip
    notes += [f"FAILED {o.cell.paper.model}: {o.error}" for o in outcomes if o.error]
    notes += [f"FAILED {o.cell.paper.model}: {line}" for o in outcomes if o.record is not None
              for line in failure_lines(o.record.get("failed", ()))]  # fmt: skip
    notes += [f"INCOMPLETE {o.cell.paper.model}: {_count(o)} repetitions" for o in outcomes if
              o.record is not None and o.record["missing"]]  # fmt: skip
    title = f"{paper.table} of the paper: {dataset}, test_{paper.metric}"
    return Sheet(title, HEADER, [_cells(o) for o in outcomes], notes=notes)


def warnings_of(cells: Sequence[Cell]) -> list[str]:
    """Say where our values are not of the setting that the paper's value is put beside."""
    models: dict[str, list[str]] = {}
    for cell in cells:
        for text in cell.differs:
            models.setdefault(text, []).append(cell.paper.model)
    count = sum(cell.config is not None for cell in cells)
    found: dict[str, list[str]] = {}
    for text, named in models.items():
        found.setdefault("" if len(named) == count else f" ({', '.join(named)})", []).append(text)
    return [
        f"WARNING: ours differs from the stated setting of the table{rows}: {', '.join(texts)}"
        for rows, texts in found.items()
    ]


def _count(outcome: Outcome) -> str:
    assert outcome.record is not None
    return f"{len(outcome.record['repetitions'])} of {outcome.record['protocol']['repetitions']}"


def _cells(outcome: Outcome) -> list[str]:
    paper, record = outcome.cell.paper, outcome.record
    key = f"test_{paper.metric}"
    shown = [paper.model, spread(key, paper.mean, paper.std)]
    if record is None or record["result"] is None:
        state = "not available" if outcome.absent else "failed" if outcome.error else "–"
        return [*shown, state, *["–"] * 2, "", "–", "–"]
    result = record["result"]
    return [
        *shown,
        spread(key, result["mean"], result["std"]),
        signed(key, result["mean"] - paper.mean),
        interval_text(key, result["interval"]),
        OUTSIDE if is_outside(paper, result) else "",
        f"{_count(outcome)}" if record["missing"] else str(len(record["repetitions"])),
        count_text(record["parameters"]),
    ]


def is_outside(paper: PaperValue, result: Mapping[str, Any]) -> bool:
    """Whether the paper's value lies outside our interval; False where there is none."""
    if result["interval"] is None:
        return False
    low, high = result["interval"]
    return not low <= paper.mean <= high


def rows(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Return each cell with full numbers, as plain types."""
    found = []
    for outcome in outcomes:
        paper, record = outcome.cell.paper, outcome.record
        result = {} if record is None else record["result"] or {}
        own = {key: result.get(key) for key in ("mean", "std", "interval", "method")}
        mean = result.get("mean")
        found.append(
            {
                "table": paper.table,
                "model": paper.model,
                "dataset": paper.dataset,
                "metric": paper.metric,
                "differs": "; ".join(outcome.cell.differs) or None,
                "paper_mean": paper.mean,
                "paper_std": paper.std,
                **flat(own),
                "difference": None if mean is None else mean - paper.mean,
                "paper_outside_interval": is_outside(paper, result) if result else None,
                "state": state_of(outcome),
                "repetitions": None if record is None else len(record["repetitions"]),
                "parameters": None if record is None else record["parameters"],
                "seconds": None if record is None else record["seconds"],
                "protocol": None if record is None else record["protocol"]["name"],
                "config_hash": None if record is None else record["config_hash"],
                "why": outcome.absent or outcome.error or None,
            }
        )
    return found


def state_of(outcome: Outcome) -> str:
    """Return ``not available``, ``failed``, or the state of the record."""
    if outcome.absent:
        return "not available"
    return "failed" if outcome.record is None else str(outcome.record["state"])


def plan_sheet(cells: Sequence[Cell], seconds: Mapping[str, float] | None = None) -> Sheet:
    """Return what is done and what is left.

    Args:
        cells: As planned.
        seconds: Estimates by the key of a cell; None before there are any.
    """
    header = ["row", "data", "state", *(["at most about"] if seconds is not None else [])]
    lines, counted, total, left, unknown = [], set(), 0.0, 0, 0
    for cell in cells:
        estimate = ""
        if cell.config is None:
            state = "not available"
        else:
            done, wanted = cell.state()
            state = "finished" if done == wanted else f"{done} of {wanted} repetitions"
            if cell.key in counted:
                state = f"{state}, the same runs as above"
            elif done < wanted:
                left += 1
                value = (seconds or {}).get(cell.key)
                estimate = "not known" if value is None else format_seconds(value)
                total += value or 0.0
                unknown += value is None
            counted.add(cell.key)
        row = [cell.paper.model, cell.paper.dataset, state]
        lines.append([*row, estimate] if seconds is not None else row)
    notes = [f"{left} of {len(counted)} experiments are left"]
    if seconds is not None and unknown < left:
        notes[0] += f", at most about {format_seconds(total)} of training on one process"
        notes[0] += f" beside {unknown} whose time is not known" if unknown else ""
    notes += _grid_notes(cells)
    notes += warnings_of(cells)
    notes += list(dict.fromkeys(f"{c.paper.model}: {c.absent}" for c in cells if c.absent))
    return Sheet(f"{cells[0].paper.table} of the paper", header, lines, words=3, notes=notes)


def _grid_notes(cells: Sequence[Cell]) -> list[str]:
    grids = [c.config["protocol"].get("grid") for c in cells if c.config is not None]
    counts = dict.fromkeys(len(cells_of(grid)) for grid in grids if grid is not None)
    return [
        f"grid: {count} trainings in each repetition, the best on validation is tested once"
        for count in counts
    ]


def plan_rows(cells: Sequence[Cell], seconds: Mapping[str, float]) -> list[dict[str, Any]]:
    """Return what is done and what is left, as plain types."""
    found = []
    for cell in cells:
        done, wanted = cell.state() if cell.config is not None else (None, None)
        found.append(
            {
                "table": cell.paper.table,
                "model": cell.paper.model,
                "dataset": cell.paper.dataset,
                "finished": done,
                "repetitions": wanted,
                "seconds_at_most": seconds.get(cell.key),
                "config_hash": cell.key or None,
                "run_dir": None if cell.config is None else str(RunFolder.of(cell.config).path),
                "why": cell.absent or None,
            }
        )
    return found
