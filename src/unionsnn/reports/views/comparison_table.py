"""Tables of a comparison: on the terminal, as Markdown, CSV or LaTeX."""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from unionsnn.reports.formats import (
    Sheet,
    check_output,
    csv_text,
    flat,
    latex,
    markdown,
    print_sheets,
    write_text,
)
from unionsnn.reports.tables import count_text, interval_text, signed, spread

HEADER = ("", "configuration", "mean ± std", "95 % interval", "parameters")
AGAINST = ("difference", "relative", "95 % interval", "p", "won/lost/tied")


def letter(index: int) -> str:
    """Name of a configuration in tables, as in the command's help: A, B, ..."""
    return string.ascii_uppercase[index] if index < 26 else f"#{index + 1}"


def run_cells(index: int, run: Mapping[str, Any], report: str) -> list[str]:
    """What a run reached, as text for the columns of `HEADER`."""
    result = run["result"]
    return [
        letter(index),
        run["label"],
        spread(report, result["mean"], result["std"]),
        interval_text(report, result["interval"]),
        count_text(run["parameters"]),
    ]


def difference_cells(difference: Mapping[str, Any], report: str) -> list[str]:
    """A paired difference, as text for the columns of `AGAINST`."""
    relative, p_value = difference["relative"], difference["p_value"]
    return [
        signed(report, difference["mean"]),
        "–" if relative is None else f"{100 * relative:+.1f} %",
        interval_text(report, difference["interval"], signed),
        "–" if p_value is None else "< 0.001" if p_value < 0.001 else f"{p_value:.3f}",
        "/".join(str(difference[key]) for key in ("won", "lost", "tied")),
    ]


def notes(comparison: Mapping[str, Any]) -> list[str]:
    """What a reader needs to read the table right, a line each."""
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
    """Print what each run reached, the differences, and what they rest on."""
    report, runs = comparison["protocol"]["report"], comparison["runs"]
    reached = [run_cells(index, run, report) for index, run in enumerate(runs)]
    against = [
        [letter(index), *difference_cells(each, report)]
        for index, each in enumerate(comparison["differences"], 1)
    ]
    below = [*notes(comparison), f"written: {comparison['path']}"]
    print_sheets(
        [
            Sheet(f"{report} on {comparison['data']}", HEADER, reached, words=2),
            Sheet("against A", ("", *AGAINST), against, notes=below),
        ],
        console,
    )


def check_out(path: Path) -> None:
    """Check before any work that a table can be written under a name.

    Raises:
        RequestError: The extension or the folder will not do.
    """
    check_output("--out", path, tuple(WRITERS))


def write(comparison: Mapping[str, Any], path: Path) -> None:
    """Write the table, all of it or nothing; the name's ending decides the format."""
    write_text(path, WRITERS[path.suffix.lower()](comparison))


def _sheet(comparison: Mapping[str, Any]) -> Sheet:
    """One row a run: what it reached, and its difference from the first one."""
    report = comparison["protocol"]["report"]
    letters, configuration, mean, *rest = HEADER
    against = [["–"] * len(AGAINST)]
    against += [difference_cells(d, report) for d in comparison["differences"]]
    return Sheet(
        f"{report} on {comparison['data']}",
        [letters, configuration, f"{report}, {mean}", *rest, *AGAINST],
        [
            run_cells(index, run, report) + against[index]
            for index, run in enumerate(comparison["runs"])
        ],
        words=2,
        notes=notes(comparison),
    )


def as_markdown(comparison: Mapping[str, Any]) -> str:
    """Return the table in Markdown, its notes below."""
    return markdown(_sheet(comparison), title=False)


def as_latex(comparison: Mapping[str, Any]) -> str:
    """Return a LaTeX tabular (booktabs), its notes as comments above."""
    return latex(_sheet(comparison), title=False)


def as_csv(comparison: Mapping[str, Any]) -> str:
    """Return one row a run, with full numbers."""
    fields = ("mean", "std", "interval", "p_value", "method", "relative", "won", "lost", "tied")
    baseline: dict[str, Any] = dict.fromkeys(fields)
    rows = []
    for run, each in zip(comparison["runs"], [baseline, *comparison["differences"]], strict=True):
        own = {key: run["result"][key] for key in ("mean", "std", "interval", "method")}
        difference = {f"difference_{key}": each[key] for key in fields}
        rows.append(
            {
                "configuration": run["label"],
                "metric": comparison["protocol"]["report"],
                "repetitions": len(comparison["repetitions"]),
                **flat(own),
                "parameters": run["parameters"],
                **flat(difference),
            }
        )
    return csv_text(rows)


WRITERS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    ".md": as_markdown,
    ".csv": as_csv,
    ".tex": as_latex,
}
"""Makers of a table by the ending of its file's name."""
