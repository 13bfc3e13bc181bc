"""A study is one group of W&B and a trial one run, read back from the files it writes offline."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import pytest

from small_studies import CONTENT
from unionsnn.runs import validation
from unionsnn.search.queue import open_study, read_trials
from unionsnn.search.study import Study
from unionsnn.search.workers import work
from unionsnn.training.repetition import Training
from unionsnn.training.tracking import parameters_text
from wandb_files import Read, wandb_runs

Make = Callable[..., Study]


@pytest.fixture(autouse=True)
def _no_account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep the user's account at W&B out."""
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path / "wandb_config"))


def tracked(study: Study) -> tuple[list[Any], dict[int, Read]]:
    """Run a study; return its cells and the run of each trial."""
    stored = open_study(study)
    work(study)
    folders = {path.parent for path in (study.folder / "trials").rglob("tracking")}
    runs = [read for folder in folders for read in wandb_runs(folder)]
    by_trial = {read.config["trial"]: read for read in runs}
    assert len(by_trial) == len(runs)
    for read in runs:
        assert read.run.run_group == study.name
        assert read.run.job_type == "trial"
    return read_trials(stored), by_trial


def test_a_trial_is_one_run_with_its_parameters_and_a_row_for_each_fold(make: Make) -> None:
    study = make("logger=wandb", space={"optimizer.lr": "choice(0.1, 0.01)"})
    cells, runs = tracked(study)
    assert sorted(runs) == [0, 1]
    for cell in cells:
        read = runs[cell.index]
        assert read.run.display_name == f"trial {cell.index}: lr={cell.parameters['optimizer.lr']}"
        assert read.summarized["val_loss"] == "mean"
        assert read.config["optimizer"]["lr"] == cell.parameters["optimizer.lr"]
        rows = [row for row in read.history if "val_loss" in row]
        assert {row["repetition"]: row["val_loss"] for row in rows} == cell.repetitions
        assert rows[-1]["mean_val_loss"] == read.summary["val_loss"] == cell.values[0]
        assert not any(key.startswith("test") for row in rows for key in row)
        assert not read.exit_code


def test_the_storage_knows_what_the_objectives_are_called(make: Make) -> None:
    study = make(objective=["val_loss", "parameters"], space={"model.hidden_channels": "choice(4)"})
    stored = open_study(study)
    assert stored.metric_names == ["val_loss", "parameters"]
    # One of an earlier version.
    stored._storage.set_study_system_attr(stored._study_id, "study:metric_names", None)
    assert open_study(study).metric_names == ["val_loss", "parameters"]


@pytest.mark.parametrize(
    ("point", "text"),
    [
        ({"optimizer.lr": 0.01, "model.hidden_channels": 64}, "lr=0.01, hidden=64"),
        ({"model.num_layers": 3, "model": "gin"}, "layers=3, model=gin"),
        ({"a.lr": 1e-4, "b.lr": 0.1 + 0.2}, "a.lr=0.0001, b.lr=0.3"),
        ({}, ""),
    ],
)
def test_parameters_are_named_as_one_reads_them(point: dict[str, Any], text: str) -> None:
    assert parameters_text(point) == text


def test_a_trial_of_one_training_has_a_row_for_each_epoch(make: Make) -> None:
    overrides = [*CONTENT["overrides"], "trainer.max_epochs=3", "protocol.only=[0]"]
    study = make("logger=wandb", space={"optimizer.lr": "choice(0.1)"}, overrides=overrides)
    (cell,), runs = tracked(study)
    rows = [row for row in runs[0].history if "train_loss" in row]
    assert [row["epoch"] for row in rows] == [0, 1, 2]
    assert min(row["val_loss"] for row in rows) == pytest.approx(cell.values[0], rel=1e-6)


def test_pruned_and_failing_trials_say_so(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def train(training: Training, *_: Any, **__: Any) -> Any:
        if training.config.optimizer.lr == 0.1:
            raise optuna.TrialPruned("after epoch 1")
        raise RuntimeError("no")

    monkeypatch.setattr(validation, "train_repetition", train)
    _, runs = tracked(make("logger=wandb", space={"optimizer.lr": "choice(0.1, 0.01)"}))
    assert runs[0].summary["pruned"] == "after epoch 1"
    assert [runs[i].exit_code or 0 for i in (0, 1)] == [0, 1]
