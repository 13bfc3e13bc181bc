"""Fixtures of the tests of whole commands."""

from __future__ import annotations

import io
import signal
import sys
import warnings
from pathlib import Path

import pytest

from commands import Command, Ended
from unionsnn.base.processes import STOP_SIGNALS
from unionsnn.cli.app import main


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Return a caller of the console script's function, in this process and the test's folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UNIONSNN_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "80")

    def call(*arguments: str, answer: str = "") -> Ended:
        monkeypatch.setattr(sys, "argv", ["unionsnn", *arguments])
        monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
        handlers = {each: signal.getsignal(each) for each in (signal.SIGINT, *STOP_SIGNALS)}
        hook = sys.unraisablehook
        with warnings.catch_warnings():
            # As on the command line, where a warning is printed and the work goes on.
            warnings.simplefilter("ignore")
            with pytest.raises(SystemExit) as ended:
                main()
        sys.unraisablehook = hook
        for each, handler in handlers.items():
            signal.signal(each, handler)
        return Ended(ended.value.code, *capsys.readouterr())

    return call
