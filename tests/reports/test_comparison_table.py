"""Tables of comparisons: figures as they are written, marks that each format needs."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from made_records import result
from unionsnn.reports.formatting import difference_text
from unionsnn.reports.latex import latex
from unionsnn.reports.table import markdown, show
from unionsnn.reports.views.comparison import (
    comparison_report,
    comparison_tables,
    letter,
    notes,
)
from unionsnn.runs.comparison import ComparedRun, Comparison, Difference
from unionsnn.training.statistics import PairedDifference

PAIRED = PairedDifference(
    mean=-0.0125,
    std=0.02,
    interval=(-0.03, 0.005),
    p_value=0.0423,
    method="corrected resampled t over folds",
    values=(-0.01, -0.015),
)


def comparison(report: str = "test_accuracy", **changes: Any) -> Comparison:
    made = result("gin", "toy", None)
    record = replace(
        made,
        parameters=1234,
        result=replace(made.result, mean=0.8, std=0.1, interval=(0.7, 0.9), values=(0.7, 0.9)),
        protocol=replace(made.protocol, report=report, repetitions=10, seed=3),
    )
    one, other = (
        ComparedRun(label, Path("runs"), record)
        for label in ("model=a", "model=b_1 gate.features=[raw]")
    )
    relative = changes.pop("relative", -0.0156)
    paired = replace(PAIRED, **changes)
    difference = Difference(other.label, one.label, ["model.name"], paired, relative, 0, 2, 0)
    return Comparison([one, other], [difference], Path("runs/comparisons/0/comparison.json"))


def shown(report: str = "test_accuracy", **changes: Any) -> list[str]:
    (_, row) = comparison_report(comparison(report, **changes)).tables[0].cells()
    return row[-5:]


@pytest.mark.parametrize(
    ("p_value", "text"),
    [(0.0423, "0.042"), (0.5, "0.500"), (0.0009, "< 0.001"), (None, "–")],
)
def test_p_values(p_value: float | None, text: str) -> None:
    assert shown(p_value=p_value)[3] == text


def test_differences_of_percentages_are_points() -> None:
    assert shown() == [
        "-1.25 points",
        "-1.6 %",
        "-3.00 to +0.50 points",
        "0.042",
        "0/2/0",
    ]
    assert difference_text("test_mae", 0.0125) == "+0.0125"
    assert shown("test_mae", relative=None, interval=None)[:3] == [
        "-0.0125",
        "–",
        "–",
    ]


def test_notes_say_what_the_table_rests_on() -> None:
    text = "\n".join(notes(comparison()))
    for part in (
        "corrected resampled t over folds; 2 pair(s), two-sided",
        "B differs from A in model.name",
        "cross_validation (best val_loss of the repetition, test touched once)",
        "split ffffffffffff, seed 3",
        "INCOMPLETE: 2 of 10 repetitions",
    ):
        assert part in text
    assert "not adjusted" not in text
    assert "all seeds" not in text


def test_where_methods_differ_each_says_which_rows_it_is_of() -> None:
    made = comparison()
    made.differences.extend(comparison(method="single pair").differences)
    made.runs.append(made.runs[1])
    text = "\n".join(notes(made))
    assert "intervals and p of differences (B): corrected resampled t over folds; 2" in text
    assert "intervals and p of differences (C): single pair; 2" in text
    assert "p of differences (" not in "\n".join(notes(comparison()))


def test_a_narrow_terminal_keeps_every_figure() -> None:
    console = Console(width=80, file=io.StringIO())
    show(comparison_tables(comparison()), console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    for figure in (
        "80.00 ± 10.00 %",
        "70.00 to 90.00 %",
        "1,234",
        "-1.25 points",
        "0.042",
        "0/2/0",
    ):
        assert figure in text
    # A label's brackets are no markup.
    assert "[raw]" in text.replace("\n", "")


def test_marks_of_the_formats_are_escaped() -> None:
    made = comparison()
    renamed = [replace(run, label="a|b_1") for run in made.runs]
    (table,) = comparison_report(replace(made, runs=renamed)).tables
    assert "a\\|b_1" in markdown(table)
    text = latex(table)
    assert r"a$|$b\_1" in text
    assert r"$-$1.25 points" in text
    assert r"80.00 $\pm$ 10.00 \%" in text


def test_letters_go_on_as_numbers() -> None:
    assert [letter(i) for i in (0, 1, 25, 26)] == ["A", "B", "Z", "#27"]
