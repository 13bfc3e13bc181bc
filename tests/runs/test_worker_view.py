"""The view of several workers, and the files that it reads."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from unionsnn.base.display import display
from unionsnn.runs.experiment import run_experiment
from unionsnn.runs.worker_view import Status, StatusFile, WorkerView, read_statuses

Maker = Callable[..., Any]


def write(folder: Path, *statuses: Status) -> None:
    for each in statuses:
        (folder / f"{each.index:02d}.json").write_text(json.dumps(asdict(each)))


def epochs(watch: StatusFile, values: list[float]) -> None:
    for epoch, value in enumerate(values):
        trainer: Any = SimpleNamespace(
            callback_metrics={"val_accuracy": value, "val_loss": value, "test_loss": 9.0},
            current_epoch=epoch,
            max_epochs=len(values),
        )
        if epoch == 0:
            watch.on_train_start(trainer, None)  # type: ignore[arg-type]
        watch._next = 0.0
        watch.on_train_epoch_end(trainer, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("monitor", "best"), [("val_accuracy", "0.8000 (epoch 2)"), (None, "0.4000 (epoch 1)")]
)
def test_a_status_has_the_last_values_and_the_best(
    tmp_path: Path, monitor: str | None, best: str
) -> None:
    epochs(StatusFile(tmp_path, 3, monitor), [0.4, 0.8, 0.5])
    figures = {"val_accuracy": 0.5, "val_loss": 0.5, f"best {monitor or 'val_loss'}": best}
    assert read_statuses(tmp_path, [3, 4]) == [Status(3, 3, 3, figures)]
    assert not list(tmp_path.glob("*.part"))


def test_damage_and_a_folder_that_is_gone_stop_nothing(tmp_path: Path) -> None:
    write(tmp_path, Status(0, 1, 9))
    (tmp_path / "01.json").write_text('{"index": 1')
    assert [each.index for each in read_statuses(tmp_path, [0, 1])] == [0]
    epochs(StatusFile(tmp_path / "gone", 0, None), [0.5, 0.4])


def test_the_display_has_a_row_for_each_running_repetition(tmp_path: Path) -> None:
    with display("plain") as shown:
        assert shown is not None
        view = WorkerView(tmp_path, 2, "fold")
        assert [row.label for row in shown.rows.values()] == ["starting 2 workers"]
        view.look([0, 2])
        assert [row.label for row in shown.rows.values()] == ["starting 2 workers"]
        write(tmp_path, Status(0, 6.5, 9, {"val_loss": 0.5}), Status(2, 1, 9, {}, "cell 2/4"))
        view.look([2, 0])
        rows = [(row.label, row.count, row.texts) for row in shown.rows.values()]
        assert rows == [
            ("fold 1: epoch", "7 of 9", ["val_loss 0.5000"]),
            ("fold 3, cell 2/4: epoch", "2 of 9", []),
        ]
        view.ended(0)
        view.look([2])
        assert [row.label for row in shown.rows.values()] == ["fold 3, cell 2/4: epoch"]
        view.close()
        assert shown.rows == {}


def test_workers_are_seen_in_a_pipe(tiny: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    folds = ["protocol=cross_validation", "protocol.folds=3", "protocol.workers=2"]
    with display("plain") as shown:
        assert shown is not None
        labels: dict[str, str] = {}
        show = shown.show

        def noted(key: object, label: str, *rest: Any, **more: Any) -> None:
            show(key, label, *rest, **more)
            labels[label] = shown.rows[key].count

        monkeypatch.setattr(shown, "show", noted)
        run_experiment(tiny(*folds, "trainer.progress=plain"))
        assert shown.rows == {}
    assert labels["folds done"] == "3 of 3"
    assert "starting 2 workers" in labels
