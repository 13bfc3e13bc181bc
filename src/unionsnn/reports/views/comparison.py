"""A comparison on the terminal, and as Markdown, CSV or LaTeX."""

from __future__ import annotations

import string
from collections.abc import Mapping
from typing import Any

from rich.console import Console

from unionsnn.reports.formatting import difference_text, interval_text, spread_text, with_bounds
from unionsnn.reports.table import Report, Table, numbers, print_tables, words

REACHED = (*words("", "configuration"), *numbers("mean ± std", "95 % interval", "parameters"))
AGAINST = numbers("difference", "relative", "95 % interval", "p", "won/lost/tied")


def letter(index: int) -> str:
    """Return the letter of a configuration, as in the command's help: A, B, ..."""
    return string.ascii_uppercase[index] if index < 26 else f"#{index + 1}"


def reached(index: int, run: Mapping[str, Any], report: str) -> list[Any]:
    """Return the results of a run for the columns of `REACHED`."""
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


def print_comparison(comparison: Mapping[str, Any], console: Console | None = None) -> None:
    """Print the results of each run, the differences, and the notes."""
    report = comparison["protocol"]["report"]
    runs = [reached(index, run, report) for index, run in enumerate(comparison["runs"])]
    differences = [
        [letter(index), *against(each, report)]
        for index, each in enumerate(comparison["differences"], 1)
    ]
    below = [*notes(comparison), f"written: {comparison['path']}"]
    print_tables(
        [
            Table(f"{report} on {comparison['data']}", REACHED, runs),
            Table("against A", [*words(""), *AGAINST], differences, below),
        ],
        console,
    )


def comparison_report(comparison: Mapping[str, Any]) -> Report:
    """Return one table for a file: each run with its difference from the first."""
    report = comparison["protocol"]["report"]
    rows = [
        [*reached(index, run, report), *difference]
        for index, (run, difference) in enumerate(
            zip(
                comparison["runs"],
                [[None] * len(AGAINST), *(against(d, report) for d in comparison["differences"])],
                strict=True,
            )
        )
    ]
    letters, configuration, mean, *rest = REACHED
    columns = [
        letters,
        configuration,
        *numbers(f"{report}, {mean.name}"),
        *rest,
        *AGAINST,
    ]
    return Report([Table("", columns, rows, notes(comparison))], _full_rows(comparison))


def _full_rows(comparison: Mapping[str, Any]) -> list[dict[str, Any]]:
    fields = ("mean", "std", "interval", "p_value", "method", "relative", "won", "lost", "tied")
    baseline: dict[str, Any] = dict.fromkeys(fields)
    rows = []
    for run, each in zip(comparison["runs"], [baseline, *comparison["differences"]], strict=True):
        result = {key: run["result"][key] for key in ("mean", "std", "interval", "method")}
        difference = {f"difference_{key}": each[key] for key in fields}
        rows.append(
            {
                "configuration": run["label"],
                "metric": comparison["protocol"]["report"],
                "repetitions": len(comparison["repetitions"]),
                **with_bounds(result),
                "parameters": run["parameters"],
                **with_bounds(difference),
            }
        )
    return rows
