"""Tables of a comparison: on the terminal, as Markdown, CSV or LaTeX."""

from __future__ import annotations

import csv
import io
import string
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from unionsnn.data.arrays import atomic_write
from unionsnn.reports.edge_table import check_output
from unionsnn.reports.tables import format_value, is_percent

HEADER = ("", "configuration", "mean ± std", "95 % interval", "parameters")
AGAINST = ("difference", "relative", "95 % interval", "p", "won/lost/tied")


def letter(index: int) -> str:
    """Name of a configuration in tables, as in the command's help: A, B, ..."""
    return string.ascii_uppercase[index] if index < 26 else f"#{index + 1}"


def run_cells(index: int, run: Mapping[str, Any], report: str) -> list[str]:
    """What a run reached, as text for the columns of `HEADER`."""
    result, parameters = run["result"], run["parameters"]
    mean = format_value(report, result["mean"])
    if result["std"] is not None:
        mean = f"{_bare(report, result['mean'])} ± {format_value(report, result['std'])}"
    return [
        letter(index),
        run["label"],
        mean,
        _interval(result["interval"], report, format_value),
        f"{parameters:,}" if isinstance(parameters, int) else str(parameters),
    ]


def difference_cells(difference: Mapping[str, Any], report: str) -> list[str]:
    """A paired difference, as text for the columns of `AGAINST`."""
    relative, p_value = difference["relative"], difference["p_value"]
    return [
        signed(report, difference["mean"]),
        "–" if relative is None else f"{100 * relative:+.1f} %",
        _interval(difference["interval"], report, signed),
        "–" if p_value is None else "< 0.001" if p_value < 0.001 else f"{p_value:.3f}",
        "/".join(str(difference[key]) for key in ("won", "lost", "tied")),
    ]


def signed(report: str, value: float) -> str:
    """Write a difference: percentage points where the metric is in percent."""
    return f"{100 * value:+.2f} points" if is_percent(report) else f"{value:+.4f}"


def _interval(
    interval: Sequence[float] | None, report: str, form: Callable[[str, float], str]
) -> str:
    """Write both bounds, and their unit once."""
    if interval is None:
        return "–"
    low, high = (form(report, bound) for bound in interval)
    return f"{low.partition(' ')[0]} to {high}"


def _bare(report: str, value: float) -> str:
    """Write a metric without its unit."""
    return format_value(report, value).partition(" ")[0]


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
    console = console or Console()
    report, runs = comparison["protocol"]["report"], comparison["runs"]
    reached = _table(f"{report} on {comparison['data']}", HEADER)
    for index, run in enumerate(runs):
        reached.add_row(*(Text(cell) for cell in run_cells(index, run, report)))
    against = _table("against A", ("", *AGAINST))
    for index, each in enumerate(comparison["differences"], 1):
        against.add_row(letter(index), *(Text(cell) for cell in difference_cells(each, report)))
    console.print(reached)
    console.print(against)
    whole = not console.is_terminal
    for line in [*notes(comparison), f"written: {comparison['path']}"]:
        console.print(Text(line), soft_wrap=whole)


def _table(title: str, header: Sequence[str]) -> Table:
    table = Table(title=Text(title), title_justify="left")
    for name in header:
        words = name in ("", "configuration")
        table.add_column(
            name, justify="left" if words else "right", overflow="fold" if words else "ellipsis"
        )
    return table


def check_out(path: Path) -> None:
    """Check before any work that a table can be written under a name.

    Raises:
        DataError: The ending or the folder will not do.
    """
    check_output("--out", path, tuple(WRITERS))


def write(comparison: Mapping[str, Any], path: Path) -> None:
    """Write the table, all of it or nothing; the name's ending decides the format."""
    text = WRITERS[path.suffix.lower()](comparison)
    atomic_write(path, lambda file: file.write(text.encode()) and None)


def _rows(comparison: Mapping[str, Any]) -> list[list[str]]:
    """One row a run: what it reached, and its difference from the first one."""
    report = comparison["protocol"]["report"]
    against = [["–"] * len(AGAINST)]
    against += [difference_cells(d, report) for d in comparison["differences"]]
    return [
        run_cells(index, run, report) + against[index]
        for index, run in enumerate(comparison["runs"])
    ]


def _header(comparison: Mapping[str, Any]) -> list[str]:
    letters, configuration, mean, *rest = HEADER
    return [letters, configuration, f"{comparison['protocol']['report']}, {mean}", *rest, *AGAINST]


def as_markdown(comparison: Mapping[str, Any]) -> str:
    """Return the table in Markdown, its notes below."""
    rows = [[cell.replace("|", "\\|") for cell in row] for row in _rows(comparison)]
    head = _header(comparison)
    lines = [head, ["---", "---"] + ["---:"] * (len(head) - 2), *rows]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return table + "\n\n" + "\n".join(f"- {line}" for line in notes(comparison)) + "\n"


def as_latex(comparison: Mapping[str, Any]) -> str:
    """Return a LaTeX tabular (booktabs), its notes as comments above."""
    rows = [_header(comparison), *_rows(comparison)]
    head, *body = [f"{' & '.join(_latex(cell) for cell in row)} \\\\" for row in rows]
    return "\n".join(
        [
            *(f"% {line}" for line in notes(comparison)),
            rf"\begin{{tabular}}{{ll{'r' * (len(rows[0]) - 2)}}}",
            r"\toprule",
            head,
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            "",
        ]
    )


_LATEX = str.maketrans(
    {c: f"\\{c}" for c in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"±": r"$\pm$", "–": "--", "<": "$<$", ">": "$>$", "-": "$-$"}
)


def _latex(cell: str) -> str:
    return cell.translate(_LATEX)


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
                **_flat(own),
                "parameters": run["parameters"],
                **_flat(difference),
            }
        )
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()


def _flat(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """Make two columns of an interval."""
    flat: dict[str, Any] = {}
    for key, value in numbers.items():
        if key.endswith("interval"):
            low, high = value or (None, None)
            flat |= {f"{key}_low": low, f"{key}_high": high}
        else:
            flat[key] = value
    return flat


WRITERS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    ".md": as_markdown,
    ".csv": as_csv,
    ".tex": as_latex,
}
"""Makers of a table by the ending of its file's name."""
