"""The view of several workers, and the files that it reads."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from unionsnn.runs.experiment import run_experiment
from unionsnn.runs.worker_view import Status, StatusFile, WorkerView, read_statuses

Maker = Callable[..., dict[str, Any]]


def write(folder: Path, *statuses: Status) -> None:
    for each in statuses:
        (folder / f"{each.index:02d}.json").write_text(json.dumps(asdict(each)))


def epochs(watch: StatusFile, values: list[float]) -> None:
    for epoch, value in enumerate(values):
        trainer: Any = SimpleNamespace(
            callback_metrics={"val_accuracy": value, "val_loss": value},
            current_epoch=epoch,
            max_epochs=len(values),
        )
        if epoch == 0:
            watch.on_train_start(trainer, None)  # type: ignore[arg-type]
        watch._next = 0.0
        watch.on_train_epoch_end(trainer, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(("monitor", "best"), [("val_accuracy", 0.8), (None, 0.4)])
def test_a_status_has_the_last_value_and_the_best(
    tmp_path: Path, monitor: str | None, best: float
) -> None:
    epochs(StatusFile(tmp_path, 3, monitor), [0.4, 0.8, 0.5])
    assert read_statuses(tmp_path, [3, 4]) == [
        Status(3, 3, 3, monitor or "val_loss", 0.5, best),
    ]
    assert not list(tmp_path.glob("*.part"))


def test_damage_and_a_folder_that_is_gone_stop_nothing(tmp_path: Path) -> None:
    write(tmp_path, Status(0, 1, 9, "val_loss", 0.5, 0.4))
    (tmp_path / "01.json").write_text('{"index": 1')
    assert [each.index for each in read_statuses(tmp_path, [0, 1])] == [0]
    epochs(StatusFile(tmp_path / "gone", 0, None), [0.5, 0.4])


def test_plain_lines_name_each_worker_and_the_total(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(
        tmp_path,
        Status(0, 7, 9, "val_loss", 0.5, 0.4),
        Status(2, 1, 9, "val_loss", 0.6, 0.6, "cell 2/4"),
    )
    with WorkerView("plain", tmp_path, 5, interval=0.0) as view:
        view.look([2, 0])
        view.ended(0, failed=False)
        view.ended(2, failed=True)
    assert capsys.readouterr().err.splitlines() == [
        "0 of 5 repetitions done; 0: epoch 7/9 val_loss 0.5000 best 0.4000; "
        "2: cell 2/4 epoch 1/9 val_loss 0.6000 best 0.6000",
        "repetition 0 is done; 1 of 5 repetitions done",
        "repetition 2 failed; 1 of 5 repetitions done, 1 failed",
    ]


def test_the_live_view_has_a_line_for_each_running_repetition(tmp_path: Path) -> None:
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=100)
    write(tmp_path, Status(0, 7, 9, "val_loss", 0.5, 0.4), Status(2, 1, 9, "val_loss", 0.6, 0.6))
    with WorkerView("bar", tmp_path, 5, console) as view:
        view.look([0, 2])
        view._progress.refresh()
        assert "7/9" in text.getvalue()
        assert "val_loss 0.6000 best 0.6000" in text.getvalue()
        view.ended(0, failed=True)
        view.look([2])
        assert [task.description for task in view._progress.tasks] == ["repetitions", " 2"]
        view._progress.refresh()
    assert "1 failed" in text.getvalue()


def test_none_is_silent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with WorkerView("none", tmp_path, 5, interval=0.0) as view:
        view.look([0])
        view.ended(0, failed=False)
    assert capsys.readouterr() == ("", "")


def test_workers_are_seen_in_a_pipe(tiny: Maker, capsys: pytest.CaptureFixture[str]) -> None:
    folds = ["protocol=cross_validation", "protocol.folds=3", "protocol.workers=2"]
    run_experiment(tiny(*folds, "trainer.progress=plain"))
    lines = [line for line in capsys.readouterr().err.splitlines() if "is done;" in line]
    assert lines[-1].endswith("is done; 3 of 3 repetitions done")
    assert len(lines) == 3
