"""A comparison on the terminal, and as Markdown, CSV or LaTeX."""

from __future__ import annotations

import string
from typing import Any

from unionsnn.reports.formatting import (
    CUT,
    difference_text,
    interval_text,
    is_cut,
    possible,
    result_columns,
    spread_text,
)
from unionsnn.reports.table import Report, Table, numbers, words
from unionsnn.runs.comparison import ComparedRun, Comparison, Difference

REACHED = numbers("mean ± std", "95 % interval", "parameters")
AGAINST = numbers("difference", "relative", "95 % interval", "p", "won/lost/tied")


def letter(index: int) -> str:
    """Return the letter of a configuration, as in the command's help: A, B, ..."""
    return string.ascii_uppercase[index] if index < 26 else f"#{index + 1}"


def reached(index: int, run: ComparedRun) -> list[Any]:
    """Return the letter, the configuration and the results of a run, as in `REACHED`."""
    result, report = run.record.summary, run.record.protocol.report
    return [
        letter(index),
        run.label,
        spread_text(report, result.mean, result.std),
        interval_text(report, result.interval),
        run.record.parameters,
    ]


def against(difference: Difference, report: str) -> list[Any]:
    """Return a paired difference for the columns of `AGAINST`."""
    paired, relative = difference.paired, difference.relative
    p_value = paired.p_value
    return [
        difference_text(report, paired.mean),
        None if relative is None else f"{100 * relative:+.1f} %",
        interval_text(report, paired.interval, difference=True),
        None if p_value is None else "< 0.001" if p_value < 0.001 else f"{p_value:.3f}",
        f"{difference.won}/{difference.lost}/{difference.tied}",
    ]


def notes(comparison: Comparison) -> list[str]:
    """Return the notes needed to interpret the table, one line each."""
    first, differences = comparison.first, comparison.differences
    protocol, count = first.protocol, len(first.repetitions)
    better = "larger" if comparison.larger_is_better else "smaller"
    beyond = any(is_cut(protocol.report, run.record.summary.interval) for run in comparison.runs)
    lines = [
        f"{protocol.report}, {better} is better; a difference is a configuration minus A, "
        "repetition by repetition",
        "; ".join([f"intervals of means: {first.summary.method}", *[CUT] * beyond]),
    ]
    methods = list(dict.fromkeys(d.paired.method for d in differences))
    for method in methods:
        rows = [letter(i) for i, d in enumerate(differences, 1) if d.paired.method == method]
        which = "" if len(methods) == 1 else f" ({', '.join(rows)})"
        lines.append(f"intervals and p of differences{which}: {method}; {count} pair(s), two-sided")
    if protocol.name == "repeated_seeds":
        lines.append("all seeds share one split: other splits may differ by more")
    if len(differences) > 1:
        lines.append(f"p is not adjusted for the number of comparisons, {len(differences)}")
    for index, each in enumerate(differences, 1):
        lines.append(f"{letter(index)} differs from A in {', '.join(each.keys) or 'no key'}")
    lines.append(f"protocol: {protocol.name} ({protocol.selection})")
    lines.append(
        f"data: {first.dataset}, split {(protocol.split_hash or '')[:12]}, seed {protocol.seed}"
    )
    if count < protocol.repetitions:
        lines.append(f"INCOMPLETE: {count} of {protocol.repetitions} repetitions")
    return lines


def comparison_tables(comparison: Comparison) -> list[Table]:
    """Return the results of each run, the differences, and the notes."""
    report = comparison.first.protocol.report
    runs = [reached(index, run) for index, run in enumerate(comparison.runs)]
    differences = [
        [letter(index), *against(each, report)]
        for index, each in enumerate(comparison.differences, 1)
    ]
    below = [*notes(comparison), f"written: {comparison.path}"]
    columns = [*words("", "configuration"), *REACHED]
    return [
        Table(f"{report} on {comparison.first.data}", columns, runs, spare=["parameters"]),
        Table(
            "against A",
            [*words(""), *AGAINST],
            differences,
            below,
            spare=["relative", "won/lost/tied"],
        ),
    ]


def comparison_report(comparison: Comparison) -> Report:
    """Return one table for a file: each run with its difference from the first."""
    report = comparison.first.protocol.report
    rows, full = [], []
    for index, (run, difference) in enumerate(
        zip(comparison.runs, [None, *comparison.differences], strict=True)
    ):
        shown = against(difference, report) if difference else [None] * len(AGAINST)
        rows.append([*reached(index, run), *shown])
        paired = difference.paired if difference else None
        interval = paired.interval if paired else None
        low, high = possible(report, interval, difference=True) or (None, None)
        full.append(
            {
                "configuration": run.label,
                "metric": report,
                "repetitions": len(run.record.repetitions),
                **result_columns(report, run.record.summary),
                "parameters": run.record.parameters,
                "difference_mean": paired and paired.mean,
                "difference_std": paired and paired.std,
                "difference_interval_low": low,
                "difference_interval_high": high,
                "difference_p_value": paired and paired.p_value,
                "difference_method": paired and paired.method,
                "difference_relative": difference and difference.relative,
                "difference_won": difference and difference.won,
                "difference_lost": difference and difference.lost,
                "difference_tied": difference and difference.tied,
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
