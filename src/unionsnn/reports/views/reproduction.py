"""The paper's tables next to ours: results with differences, costs as ratios, plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from unionsnn.config.grid import cells_of
from unionsnn.reports.formatting import (
    difference_text,
    duration_text,
    interval_text,
    ratio_text,
    short_duration_text,
    spread_text,
    with_bounds,
)
from unionsnn.reports.paper import PaperValue, paper_table
from unionsnn.reports.reproduction import Cell, Outcome
from unionsnn.reports.table import Report, Table, numbers, words
from unionsnn.runs.failures import failure_lines
from unionsnn.runs.records import RunFolder

RESULT_COLUMNS = (
    *words("row"),
    *numbers("paper", "ours", "difference", "95 % interval", "", "n", "parameters"),
)

COST_COLUMNS = (
    *words("row"),
    *numbers("paper", form=duration_text),
    *numbers("paper's ratio", form=ratio_text),
    *numbers("ours", form=short_duration_text),
    *numbers("our ratio", form=ratio_text),
)

OUTSIDE = "≠"
"""Marks a row whose paper value lies outside our interval."""


def reproduction_report(outcomes: Sequence[Outcome]) -> Report:
    """Return a table for each data set, with a row for each of the paper's."""
    sets = dict.fromkeys(o.cell.paper.dataset for o in outcomes)
    groups = [[o for o in outcomes if o.cell.paper.dataset == name] for name in sets]
    if paper_table(outcomes[0].cell.paper.table).cost is None:
        return Report([_result_table(group) for group in groups], _result_rows(outcomes))
    rows = _cost_rows(outcomes)
    tables = [
        _cost_table(group, [row for row in rows if row["dataset"] == name])
        for name, group in zip(sets, groups, strict=True)
    ]
    return Report(tables, rows)


def _result_table(outcomes: Sequence[Outcome]) -> Table:
    paper = outcomes[0].cell.paper
    notes = [
        f"{OUTSIDE}: the paper's value lies outside our interval; the paper's ± is its printed "
        "standard deviation",
        *warnings_of([o.cell for o in outcomes]),
    ]
    records = [o.record for o in outcomes if o.record is not None]
    protocols = [f"{r['protocol']['name']} ({r['protocol']['selection']})" for r in records]
    notes += [f"protocol: {line}" for line in dict.fromkeys(protocols)]
    splits = {f"{r['dataset']}, split {(r['protocol']['split_hash'] or '')[:12]}" for r in records}
    notes += [f"data: {line}" for line in sorted(splits)]
    notes += [f"NOT AVAILABLE {o.cell.paper.model}: {o.absent}" for o in outcomes if o.absent]
    notes += [f"FAILED {o.cell.paper.model}: {o.error}" for o in outcomes if o.error]
    notes += [
        f"FAILED {o.cell.paper.model}: {line}"
        for o in outcomes
        if o.record is not None
        for line in failure_lines(o.record.get("failed", ()))
    ]
    notes += [
        f"INCOMPLETE {o.cell.paper.model}: {_repetitions(o.record)} repetitions"
        for o in outcomes
        if o.record is not None and o.record["missing"]
    ]
    title = f"{paper.table} of the paper: {paper.dataset}, test_{paper.metric}"
    return Table(title, RESULT_COLUMNS, [_result_row(o) for o in outcomes], notes)


def warnings_of(cells: Sequence[Cell]) -> list[str]:
    """Return warnings where our values come from another setting than the paper's."""
    models: dict[str, list[str]] = {}
    for cell in cells:
        for text in cell.differs:
            models.setdefault(text, []).append(cell.paper.model)
    count = sum(cell.config is not None for cell in cells)
    found: dict[str, list[str]] = {}
    for text, named in models.items():
        found.setdefault("" if len(named) == count else f" ({', '.join(named)})", []).append(text)
    return [
        f"WARNING: ours differs from the table's setting{rows}: {', '.join(texts)}"
        for rows, texts in found.items()
    ]


def _repetitions(record: Mapping[str, Any]) -> str:
    return f"{len(record['repetitions'])} of {record['protocol']['repetitions']}"


def _result_row(outcome: Outcome) -> list[Any]:
    paper, record = outcome.cell.paper, outcome.record
    key = f"test_{paper.metric}"
    shown = [paper.model, spread_text(key, paper.mean, paper.std)]
    if record is None or record["result"] is None:
        state = "not available" if outcome.absent else "failed" if outcome.error else None
        return [*shown, state, None, None, "", None, None]
    result = record["result"]
    return [
        *shown,
        spread_text(key, result["mean"], result["std"]),
        difference_text(key, result["mean"] - paper.mean),
        interval_text(key, result["interval"]),
        OUTSIDE if is_outside(paper, result) else "",
        _repetitions(record) if record["missing"] else len(record["repetitions"]),
        record["parameters"],
    ]


def is_outside(paper: PaperValue, result: Mapping[str, Any]) -> bool:
    """Return whether the paper's value lies outside our interval; False without an interval."""
    if result["interval"] is None:
        return False
    low, high = result["interval"]
    return not low <= paper.mean <= high


def _result_rows(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Return each cell with full precision, as plain types."""
    rows = []
    for outcome in outcomes:
        paper, record = outcome.cell.paper, outcome.record
        result = {} if record is None else record["result"] or {}
        ours = {key: result.get(key) for key in ("mean", "std", "interval", "method")}
        mean = result.get("mean")
        rows.append(
            {
                "table": paper.table,
                "model": paper.model,
                "dataset": paper.dataset,
                "metric": paper.metric,
                "differs": "; ".join(outcome.cell.differs) or None,
                "paper_mean": paper.mean,
                "paper_std": paper.std,
                **with_bounds(ours),
                "difference": None if mean is None else mean - paper.mean,
                "paper_outside_interval": is_outside(paper, result) if result else None,
                "state": _state(outcome),
                "repetitions": None if record is None else len(record["repetitions"]),
                "parameters": None if record is None else record["parameters"],
                "seconds": None if record is None else record["seconds"],
                "protocol": None if record is None else record["protocol"]["name"],
                "config_hash": None if record is None else record["config_hash"],
                "why": outcome.absent or outcome.error or None,
            }
        )
    return rows


def _state(outcome: Outcome) -> str:
    if outcome.absent:
        return "not available"
    return "failed" if outcome.record is None else str(outcome.record["state"])


def _cost_table(outcomes: Sequence[Outcome], costs: Sequence[Mapping[str, Any]]) -> Table:
    paper = outcomes[0].cell.paper
    cost = paper_table(paper.table).cost
    assert cost is not None
    devices = ", ".join(dict.fromkeys(row["device"] for row in costs if row["device"]))
    notes = [
        f"ratios refer to {cost.reference}; {cost.meaning}",
        f"the paper's machine: i9-10940X, RTX 3090{'; ours: ' if devices else ''}{devices}",
    ]
    for why in dict.fromkeys(row["why"] for row in costs if row["why"]):
        notes.append(f"{', '.join(row['model'] for row in costs if row['why'] == why)}: {why}")
    rows = [
        [row["model"], row["paper_seconds"], row["paper_ratio"], row["seconds"], row["ratio"]]
        for row in costs
    ]
    return Table(f"{paper.table} of the paper: {paper.dataset}, costs", COST_COLUMNS, rows, notes)


def _cost_rows(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Return each cell's seconds and ratios with full precision, as plain types."""
    table = paper_table(outcomes[0].cell.paper.table)
    assert table.cost is not None
    reference = table.cost.reference
    paper = {value.dataset: value.mean for value in table.values if value.model == reference}
    ours = {
        o.cell.paper.dataset: o.record["seconds"]
        for o in outcomes
        if o.cell.paper.model == reference and o.record is not None
    }
    rows = []
    for outcome in outcomes:
        value, record = outcome.cell.paper, outcome.record
        seconds = None if record is None else record["seconds"]
        base = ours.get(value.dataset)
        why = None
        if record is None:
            state = "NOT AVAILABLE" if outcome.absent else "FAILED"
            why = f"{state}: {outcome.absent or outcome.error}"
        rows.append(
            {
                "table": value.table,
                "model": value.model,
                "dataset": value.dataset,
                "paper_seconds": value.mean * (3600 if value.metric == "hours" else 1),
                "paper_ratio": value.mean / paper[value.dataset],
                "seconds": seconds,
                "ratio": seconds / base if seconds is not None and base else None,
                "device": None if record is None else record.get("device") or None,
                "why": why,
            }
        )
    return rows


def plan_report(cells: Sequence[Cell], seconds: Mapping[str, float] | None = None) -> Report:
    """Return what is done and what is left.

    Args:
        cells: The planned cells.
        seconds: Estimates by cell key; None if nothing was estimated.
    """
    columns = words("row", "data", "state")
    if seconds is not None:
        columns += numbers("at most about", form=duration_text)
    estimates = seconds or {}
    lines: list[list[Any]] = []
    rows: list[dict[str, Any]] = []
    counted: set[str] = set()
    total, left, unknown = 0.0, 0, 0
    for cell in cells:
        done, wanted = (None, None) if cell.config is None else cell.state()
        estimate: float | str = ""
        if done is None or wanted is None:
            state = "not available"
        else:
            state = "finished" if done == wanted else f"{done} of {wanted} repetitions"
            if cell.key in counted:
                state = f"{state}, the same runs as above"
            elif done < wanted:
                left += 1
                estimate = estimates.get(cell.key, "not known")
                total += estimates.get(cell.key, 0.0)
                unknown += cell.key not in estimates
            counted.add(cell.key)
        line = [cell.paper.model, cell.paper.dataset, state]
        lines.append([*line, estimate] if seconds is not None else line)
        rows.append(
            {
                "table": cell.paper.table,
                "model": cell.paper.model,
                "dataset": cell.paper.dataset,
                "finished": done,
                "repetitions": wanted,
                "seconds_at_most": estimates.get(cell.key),
                "config_hash": cell.key or None,
                "run_dir": None if cell.config is None else str(RunFolder.of(cell.config).path),
                "why": cell.absent or None,
            }
        )
    notes = [f"{left} of {len(counted)} experiments are left"]
    if seconds is not None and unknown < left:
        notes[0] += f", at most about {duration_text(total)} of training on one process"
        notes[0] += f", plus {unknown} of unknown duration" if unknown else ""
    grids = [c.config.protocol.grid for c in cells if c.config is not None]
    notes += [
        f"grid: {count} trainings in each repetition; the best on validation is tested once"
        for count in dict.fromkeys(len(cells_of(grid)) for grid in grids if grid is not None)
    ]
    notes += warnings_of(cells)
    notes += list(dict.fromkeys(f"{c.paper.model}: {c.absent}" for c in cells if c.absent))
    return Report([Table(f"{cells[0].paper.table} of the paper", columns, lines, notes)], rows)
