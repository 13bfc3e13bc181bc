"""The paper's tables next to ours: results with differences, costs as ratios, plans."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from unionsnn.base.words import duration_text
from unionsnn.config.grid import cells_of
from unionsnn.reports.formatting import (
    difference_text,
    interval_text,
    result_columns,
    short_duration_text,
    spread_text,
)
from unionsnn.reports.paper import paper_table
from unionsnn.reports.reproduction import Cell, Outcome
from unionsnn.reports.table import Report, Table, numbers, words
from unionsnn.runs.failures import failure_lines
from unionsnn.runs.run_folder import RunFolder

Row = dict[str, Any]

OUTSIDE = "≠"
"""Marks a row whose paper value lies outside our interval."""


def reproduction_report(outcomes: Sequence[Outcome]) -> Report:
    """Return a table for each data set, with a row for each of the paper's."""
    if paper_table(outcomes[0].cell.paper.table).cost is None:
        rows, make = [_result_row(outcome) for outcome in outcomes], _result_table
    else:
        rows, make = _cost_rows(outcomes), _cost_table
    groups: dict[str, list[tuple[Outcome, Row]]] = {}
    for outcome, row in zip(outcomes, rows, strict=True):
        groups.setdefault(outcome.cell.paper.dataset, []).append((outcome, row))
    return Report([make(group) for group in groups.values()], rows)


def _result_table(group: Sequence[tuple[Outcome, Row]]) -> Table:
    paper = group[0][0].cell.paper
    metric = f"test_{paper.metric}"
    protocols, splits, rows = dict[str, None](), set[str](), []
    absent, failed, incomplete = [], [], []
    for outcome, row in group:
        name, record = row["model"], outcome.record
        if outcome.absent:
            absent.append(f"NOT AVAILABLE {name}: {outcome.absent}")
        if outcome.error:
            failed.append(f"FAILED {name}: {outcome.error}")
        cells = ["not available" if outcome.absent else "failed" if outcome.error else None]
        cells += [None, None, "", None, None]
        if record is not None:
            protocol, count = record.protocol, f"{row['repetitions']}"
            protocols[f"protocol: {protocol.name} ({protocol.selection})"] = None
            splits.add(f"data: {record.dataset}, split {(protocol.split_hash or '')[:12]}")
            failed += [f"FAILED {name}: {line}" for line in failure_lines(record.failed)]
            if record.missing:
                count = f"{count} of {protocol.repetitions}"
                incomplete.append(f"INCOMPLETE {name}: {count} repetitions")
            if record.result is not None:
                cells = [
                    spread_text(metric, row["mean"], row["std"]),
                    difference_text(metric, row["difference"]),
                    interval_text(metric, record.result.interval),
                    OUTSIDE if row["paper_outside_interval"] else "",
                    count,
                    row["parameters"],
                ]
        rows.append([name, spread_text(metric, row["paper_mean"], row["paper_std"]), *cells])
    columns = [
        *words("row"),
        *numbers("paper", "ours", "difference", "95 % interval", "", "n", "parameters"),
    ]
    notes = [
        f"{OUTSIDE}: the paper's value lies outside our interval; the paper's ± is its printed "
        "standard deviation",
        *warnings_of([outcome.cell for outcome, _ in group]),
        *protocols,
        *sorted(splits),
        *absent,
        *failed,
        *incomplete,
    ]
    title = f"{paper.table} of the paper: {paper.dataset}, {metric}"
    return Table(title, columns, rows, notes, spare=["parameters", "n", "difference"])


def warnings_of(cells: Sequence[Cell]) -> list[str]:
    """Return warnings where our values come from another setting than the paper's."""
    models: dict[str, list[str]] = {}
    for cell in cells:
        for text in cell.differs:
            models.setdefault(text, []).append(cell.paper.model)
    count = sum(cell.config is not None for cell in cells)
    by_rows: dict[str, list[str]] = {}
    for text, named in models.items():
        by_rows.setdefault("" if len(named) == count else f" ({', '.join(named)})", []).append(text)
    return [
        f"WARNING: ours differs from the table's setting{rows}: {', '.join(texts)}"
        for rows, texts in by_rows.items()
    ]


def _result_row(outcome: Outcome) -> Row:
    """Return a cell with full precision, as plain types."""
    paper, record = outcome.cell.paper, outcome.record
    result = record.result if record else None
    outside = None
    if result is not None:
        low, high = result.interval or (-math.inf, math.inf)
        outside = not low <= paper.mean <= high
    state = "not available" if outcome.absent else record.state if record else "failed"
    return {
        "table": paper.table,
        "model": paper.model,
        "dataset": paper.dataset,
        "metric": paper.metric,
        "differs": "; ".join(outcome.cell.differs) or None,
        "paper_mean": paper.mean,
        "paper_std": paper.std,
        **result_columns(f"test_{paper.metric}", result),
        "difference": result.mean - paper.mean if result else None,
        "paper_outside_interval": outside,
        "state": state,
        "repetitions": len(record.repetitions) if record else None,
        "parameters": record.parameters if record else None,
        "seconds": record.seconds if record else None,
        "protocol": record.protocol.name if record else None,
        "config_hash": record.config_hash if record else None,
        "why": outcome.absent or outcome.error or None,
    }


def _cost_table(group: Sequence[tuple[Outcome, Row]]) -> Table:
    paper, costs = group[0][0].cell.paper, [row for _, row in group]
    cost = paper_table(paper.table).cost
    assert cost is not None
    devices = ", ".join(dict.fromkeys(row["device"] for row in costs if row["device"]))
    notes = [
        f"ratios refer to {cost.reference}; {cost.meaning}",
        f"the paper's machine: i9-10940X, RTX 3090{'; ours: ' if devices else ''}{devices}",
    ]
    for why in dict.fromkeys(row["why"] for row in costs if row["why"]):
        notes.append(f"{', '.join(row['model'] for row in costs if row['why'] == why)}: {why}")
    columns = [
        *words("row"),
        *numbers("paper", form=duration_text),
        *numbers("paper's ratio", form="{:.2f} ×".format),
        *numbers("ours", form=short_duration_text),
        *numbers("our ratio", form="{:.2f} ×".format),
    ]
    keys = ("model", "paper_seconds", "paper_ratio", "seconds", "ratio")
    rows = [[row[key] for key in keys] for row in costs]
    return Table(f"{paper.table} of the paper: {paper.dataset}, costs", columns, rows, notes)


def _cost_rows(outcomes: Sequence[Outcome]) -> list[Row]:
    """Return each cell's seconds and ratios with full precision, as plain types."""
    table = paper_table(outcomes[0].cell.paper.table)
    assert table.cost is not None
    reference = table.cost.reference
    paper = {value.dataset: value.mean for value in table.values if value.model == reference}
    ours = {
        o.cell.paper.dataset: o.cost.seconds
        for o in outcomes
        if o.cell.paper.model == reference and o.cost is not None
    }
    rows = []
    for outcome in outcomes:
        value, cost = outcome.cell.paper, outcome.cost
        seconds, base = cost.seconds if cost else None, ours.get(value.dataset)
        why = None
        if cost is None:
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
                "device": cost.device if cost else None,
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
    estimates = seconds or {}
    lines: list[list[Any]] = []
    rows: list[Row] = []
    counted: set[str] = set()
    total, left, unknown = 0.0, 0, 0
    for cell in cells:
        done, wanted = (None, None) if cell.config is None else cell.state()
        estimate: float | str = ""
        state = "not available"
        if done is not None and wanted is not None:
            state = "finished" if done == wanted else f"{done} of {wanted} repetitions"
            if cell.key in counted:
                state = f"{state}, the same runs as above"
            elif done < wanted:
                left += 1
                estimate = estimates.get(cell.key, "not known")
                total += estimates.get(cell.key, 0.0)
                unknown += cell.key not in estimates
            counted.add(cell.key)
        lines.append([cell.paper.model, cell.paper.dataset, state, estimate])
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
    columns = words("row", "data", "state")
    if seconds is not None:
        columns += numbers("at most about", form=duration_text)
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
    shown = [line[: len(columns)] for line in lines]
    return Report([Table(f"{cells[0].paper.table} of the paper", columns, shown, notes)], rows)
