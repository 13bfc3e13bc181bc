"""The display of long work: rows that leave the screen, sparse plain lines, nothing."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from unionsnn.base.display import Display, current_display, display, stage
from unionsnn.base.words import duration_text


@pytest.fixture
def plain() -> Iterator[Display]:
    """A display of plain lines that are due at once, and printed when asked for."""
    made = Display(live=False, first=0.0, interval=0.0)
    made._ended.set()
    yield made
    made.close()


def drawn(shown: Display, width: int) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    console.print(shown.renderable())
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [60, 80, 160])
def test_rows_fit_the_width_and_are_gone_when_they_end(width: int) -> None:
    text = io.StringIO()
    shown = Display(live=True, console=Console(file=text, force_terminal=True, width=width))
    try:
        shown.show("folds", "folds done", 2, 10)
        figures = {"train_loss": 0.41234, "val_accuracy": 0.5, "best val_loss": "0.4011 (epoch 95)"}
        shown.show(
            "epoch", "fold 3: epoch", 119.5, 300, figures=figures, inside="folds", numbered=True
        )
        shown("structural coefficients", 340_000, 1_000_000)
        lines = drawn(shown, width).splitlines()
        assert all(len(line) <= width for line in lines)
        whole = "\n".join(lines)
        for part in ("2 of 10", "120 of 300", "34 %", "train_loss 0.4123"):
            assert part in whole
        shown("structural coefficients", 1_000_000, 1_000_000)
        shown.end("epoch")
        shown.end("folds")
        assert drawn(shown, width).strip() == ""
    finally:
        shown.close()


def test_plain_lines_hold_the_same_figures(plain: Display, capsys: Any) -> None:
    plain.show("folds", "folds done", 2, 10)
    plain.show("epoch", "fold 3: epoch", 0, 300, inside="folds", numbered=True)
    plain.tell()
    assert capsys.readouterr().err == "folds done 2 of 10; fold 3: epoch 1 of 300\n"
    row = plain.rows["epoch"]
    row.begun -= 60.0
    plain.rows["folds"].begun -= 660.0
    figures = {"train_loss": 0.41234, "best val_loss": "0.4011 (epoch 95)"}
    plain.show("epoch", "fold 3: epoch", 120, 300, figures=figures, inside="folds", numbered=True)
    plain.tell()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("folds done 2 of 10, ")
    assert "fold 3: epoch 121 of 300, train_loss 0.4123, best val_loss 0.4011 (epoch 95), " in line
    # 180 epochs at two a second.
    assert line.endswith("1 min 30 s left")
    plain.tell()
    assert capsys.readouterr().err == ""
    plain.show("epoch", "fold 3: epoch", 143, 300)
    plain.end("epoch")
    assert capsys.readouterr().err.startswith("fold 3: epoch 143 of 300, train_loss 0.4123")


def test_the_time_left_of_all_counts_a_part_of_a_step(plain: Display) -> None:
    plain.show("folds", "folds done", 0, 4)
    plain.rows["folds"].begun -= 10.0
    assert plain.seconds_left("folds") is None
    plain.show("epoch", "epoch", 50, 100, inside="folds")
    assert plain.seconds_left("folds") == pytest.approx(70.0, rel=0.01)


def test_work_is_named_after_two_seconds_once_and_again_after_the_interval(capsys: Any) -> None:
    shown = Display(live=False)
    shown._ended.set()
    shown("graphs", 1, 3)
    shown.tell()
    assert capsys.readouterr().err == ""
    shown.rows["graphs"].begun -= shown.first
    shown.tell()
    shown("graphs", 2, 3)
    shown.tell()
    assert capsys.readouterr().err.startswith("graphs 1 of 3")
    shown._last -= shown.interval
    shown.tell()
    shown("graphs", 3, 3)
    assert [line.split(",")[0] for line in capsys.readouterr().err.splitlines()] == [
        "graphs 2 of 3",
        "graphs 3 of 3",
    ]
    shown("quick work", 1, 1)
    assert capsys.readouterr().err == ""


def test_work_that_tells_nothing_is_named_all_the_same(capsys: Any) -> None:
    shown = Display(live=False, first=0.0)
    with shown.stage("loading torch"):
        limit = time.monotonic() + 5.0
        text = ""
        while not text and time.monotonic() < limit:
            time.sleep(0.05)
            text = capsys.readouterr().err
    shown.close()
    assert text == "loading torch ...\n"


def test_there_is_one_display(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(isatty=lambda: False, write=print))
    with stage("nothing is shown"), display("none") as nothing:
        assert nothing is current_display() is None
    with display("auto") as outer:
        assert outer is not None
        assert not outer.is_live
        with display("bar") as inner, stage("loading torch"):
            assert inner is outer is current_display()
            assert list(outer.rows) == ["loading torch"]
        with display("none") as hidden:
            assert hidden is current_display() is None
        assert outer.rows == {}
    assert current_display() is None


@pytest.mark.parametrize(
    ("seconds", "digits", "text"),
    [
        (0.44, 1, "0.4 s"),
        (7, 0, "7 s"),
        (59.97, 1, "1 min 0 s"),
        (760, 1, "12 min 40 s"),
        (3599.6, 1, "1 h 0 min"),
        (5391, 0, "1 h 30 min"),
        (5_400_000, 1, "1,500 h 0 min"),
    ],
)
def test_a_duration_has_its_units(seconds: float, digits: int, text: str) -> None:
    assert duration_text(seconds, digits) == text
