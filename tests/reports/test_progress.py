"""Progress: bars that leave the screen, plain lines, nothing."""

from __future__ import annotations

import io
import sys

import pytest
from rich.console import Console

from unionsnn.reports.progress import Bars, PlainLines, data_progress


def test_bars_are_on_the_screen_only_while_there_is_work() -> None:
    bars = Bars()
    bars.progress.live.console = Console(file=io.StringIO(), force_terminal=True)
    for done in range(4):
        bars("graphs", done, 3)
        assert bars.progress.live.is_started == (done < 3)
    bars("coefficients", 0, 2)
    assert bars.progress.live.is_started
    assert [task.description for task in bars.progress.tasks] == ["coefficients"]
    bars("coefficients", 2, 2)
    assert not bars.progress.live.is_started


def test_plain_lines_keep_their_interval(capsys: pytest.CaptureFixture[str]) -> None:
    lines = PlainLines(interval=0.0)
    lines("graphs", 1500, 3000)
    assert capsys.readouterr().err == "graphs: 1,500 of 3,000\n"
    PlainLines(interval=60.0)("graphs", 1, 2)
    assert capsys.readouterr().err == ""


def test_plain_lines_end_with_what_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    lines = PlainLines(interval=0.0)
    lines("graphs", 1, 3)
    lines.interval = 60.0
    lines("graphs", 2, 3)
    lines("graphs", 3, 3)
    lines("quick work", 1, 1)
    assert capsys.readouterr().err == "graphs: 1 of 3\ngraphs: 3 of 3\n"


def test_auto_is_plain_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
    with data_progress("auto") as progress:
        assert isinstance(progress, PlainLines)
    with data_progress("bar") as progress:
        assert isinstance(progress, Bars)
    with data_progress("none") as progress:
        assert progress is None
