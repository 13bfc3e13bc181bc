"""A comparison on the terminal, and as Markdown, CSV or LaTeX."""

from __future__ import annotations

import string
from collections.abc import Mapping
from typing import Any

from unionsnn.reports.formatting import (
    difference_text,
    interval_text,
    result_columns,
    spread_text,
    with_bounds,
)
from unionsnn.reports.table import Report, Table, numbers, words

REACHED = numbers("mean ± std", "95 % interval", "parameters")
AGAINST = numbers("difference", "relative", "95 % interval", "p", "won/lost/tied")


def letter(index: int) -> str:
    """Return the letter of a configuration, as in the command's help: A, B, ..."""
    return string.ascii_uppercase[index] if index < 26 else f"#{index + 1}"


def reached(index: int, run: Mapping[str, Any], report: str) -> list[Any]:
    """Return the letter, the configuration and the results of a run, as in `REACHED`."""
    result = run["result"]
    return [
        letter(index),
        run["label"],
        spread_text(report, result["mean"], result["std"]),
        interval_text(report, result["interval"]),
        run["parameters"],
    ]


def against(difference: Mapping[str, Any], report: str) -> list[Any]:
    """Return a paired difference for the columns of `AGAINST`."""
    relative, p_value = difference["relative"], difference["p_value"]
    return [
        difference_text(report, difference["mean"]),
        None if relative is None else f"{100 * relative:+.1f} %",
        interval_text(report, difference["interval"], difference_text),
        None if p_value is None else "< 0.001" if p_value < 0.001 else f"{p_value:.3f}",
        "/".join(str(difference[key]) for key in ("won", "lost", "tied")),
    ]


def notes(comparison: Mapping[str, Any]) -> list[str]:
    """Return the notes needed to interpret the table, one line each."""
    protocol, differences = comparison["protocol"], comparison["differences"]
    report, count = protocol["report"], len(comparison["repetitions"])
    better = "larger" if comparison["larger_is_better"] else "smaller"
    lines = [
        f"{report}, {better} is better; a difference is a configuration minus A, repetition by "
        "repetition",
        f"intervals of means: {comparison['runs'][0]['result']['method']}",
    ]
    methods = list(dict.fromkeys(d["method"] for d in differences))
    for method in methods:
        rows = [letter(i) for i, d in enumerate(differences, 1) if d["method"] == method]
        which = "" if len(methods) == 1 else f" ({', '.join(rows)})"
        lines.append(f"intervals and p of differences{which}: {method}; {count} pair(s), two-sided")
    if protocol["name"] == "repeated_seeds":
        lines.append("all seeds share one split: other splits may differ by more")
    if len(differences) > 1:
        lines.append(f"p is not adjusted for the number of comparisons, {len(differences)}")
    for index, each in enumerate(differences, 1):
        lines.append(f"{letter(index)} differs from A in {', '.join(each['keys']) or 'no key'}")
    lines.append(f"protocol: {protocol['name']} ({protocol['selection']})")
    lines.append(
        f"data: {comparison['dataset']}, split {(protocol['split_hash'] or '')[:12]}, "
        f"seed {protocol['seed']}"
    )
    if count < protocol["repetitions"]:
        lines.append(f"INCOMPLETE: {count} of {protocol['repetitions']} repetitions")
    return lines


def comparison_tables(comparison: Mapping[str, Any]) -> list[Table]:
    """Return the results of each run, the differences, and the notes."""
    report = comparison["protocol"]["report"]
    runs = [reached(index, run, report) for index, run in enumerate(comparison["runs"])]
    differences = [
        [letter(index), *against(each, report)]
        for index, each in enumerate(comparison["differences"], 1)
    ]
    below = [*notes(comparison), f"written: {comparison['path']}"]
    columns = [*words("", "configuration"), *REACHED]
    return [
        Table(f"{report} on {comparison['data']}", columns, runs),
        Table("against A", [*words(""), *AGAINST], differences, below),
    ]


def comparison_report(comparison: Mapping[str, Any]) -> Report:
    """Return one table for a file: each run with its difference from the first."""
    report = comparison["protocol"]["report"]
    fields = ("mean", "std", "interval", "p_value", "method", "relative", "won", "lost", "tied")
    rows, full = [], []
    for index, run in enumerate(comparison["runs"]):
        difference = comparison["differences"][index - 1] if index else {}
        shown = against(difference, report) if index else [None] * len(AGAINST)
        rows.append([*reached(index, run, report), *shown])
        full.append(
            {
                "configuration": run["label"],
                "metric": report,
                "repetitions": len(comparison["repetitions"]),
                **result_columns(run["result"]),
                "parameters": run["parameters"],
                **with_bounds({f"difference_{key}": difference.get(key) for key in fields}),
            }
        )
    mean, *rest = REACHED
    columns = [
        *words("", "configuration"),
        *numbers(f"{report}, {mean.name}"),
        *rest,
        *AGAINST,
    ]
    return Report([Table("", columns, rows, notes(comparison))], full)
