"""After the trials: the chosen point tested once and labelled, best.yaml, a choice in each fold."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from small_studies import TINY
from unionsnn.base.errors import RequestError
from unionsnn.config.compose import compose_config, config_folder
from unionsnn.config.identity import config_hash
from unionsnn.reports.views.study import final_lines
from unionsnn.runs import validation
from unionsnn.runs.experiment import run_experiment
from unionsnn.runs.run_folder import RunFolder
from unionsnn.search.driver import choose_by_fold, run_study, write_best
from unionsnn.search.queue import Trial
from unionsnn.search.study import Study
from unionsnn.training import repetition

Make = Callable[..., Study]
SPACE = {"optimizer.lr": "choice(0.1, 0.01)"}


def test_trials_never_test_and_the_chosen_one_is_tested_once_and_labelled(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    tested: list[str] = []
    original = repetition.TestPredictions.on_test_end

    def note(self: Any, *arguments: Any) -> None:
        tested.append(str(self.path))
        original(self, *arguments)

    monkeypatch.setattr(repetition.TestPredictions, "on_test_end", note)
    study = make(space=SPACE)
    record = run_study(study)
    trained = [json.loads(p.read_text()) for p in (study.folder / "trials").rglob("0?.json")]
    assert len(trained) == 6
    assert not any(key.startswith("test") for r in trained for key in r["metrics"])
    assert not any(key.startswith("test") for r in trained for e in r["curves"] for key in e)
    assert not list((study.folder / "trials").rglob("results.json"))
    assert len(tested) == len(set(tested)) == 3
    assert all(str(study.folder / "final") in path for path in tested)
    final, best = record.final, record.best
    assert final is not None
    assert final.state == "finished"
    assert "(selection: shared folds)" in final.protocol.selection
    assert final.study["parameters"] == best.parameters
    # The trial and the final run are the same training.
    assert {r.index: r.metrics["val_loss"] for r in final.repetitions} == best.repetitions
    # Neither trains again, and the label stays.
    monkeypatch.setattr(validation, "train_repetition", None)
    again = run_study(study)
    assert len(tested) == 3
    assert again.final == final


def test_best_yaml_is_the_chosen_experiment(make: Make, tmp_path: Path) -> None:
    study = make("coefficient.radius=[1,2]", space=SPACE)
    record = run_study(study)
    assert record.best_file == study.folder / "experiment" / "best.yaml"
    paths = [f"paths.output={tmp_path / 'again'}", f"paths.data={tmp_path / 'data'}"]
    config = compose_config(["experiment=best", *paths], study.folder)
    assert config_hash(config) == record.final.config_hash
    assert config.coefficient.radius == [1, 2]
    again = run_experiment(config.replace({"trainer.progress": "none"}))
    assert again.result == record.final.result
    assert "study" not in json.loads(RunFolder.of(config).results_path.read_text())


def test_a_fold_is_tested_with_the_point_that_its_own_validation_part_chose(make: Make) -> None:
    study = make(space={"optimizer.lr": "choice(0.1, 0.01, 0.001)"})
    record = run_study(study, nested=True)
    nested = record.nested
    assert nested is not None
    for fold in nested.folds:
        values = [trial.repetitions[fold.fold] for trial in record.trials]
        assert fold.trial == values.index(min(values))
        assert fold.metrics["val_loss"] == min(values)
    tested = [fold.metrics["test_accuracy"] for fold in nested.folds]
    assert nested.result.mean == pytest.approx(sum(tested) / 3)
    assert record.final is None
    assert json.loads((study.folder / "study.json").read_text()) == record.to_json()


def test_no_other_fold_has_a_say_in_the_choice_of_one(make: Make) -> None:
    study = make(space=SPACE)
    values = ({0: 0.3, 1: 0.2, 2: 0.1}, {0: 0.1, 1: 0.2, 2: 0.9})
    cells = [
        Trial(i, "finished", {"optimizer.lr": i}, (sum(v.values()) / 3,), v, None, 0.0, i)
        for i, v in enumerate(values)
    ]
    assert {fold: cell.index for fold, cell in choose_by_fold(study, cells).items()} == {
        0: 1,
        1: 0,
        2: 0,
    }


@pytest.mark.parametrize(
    "keys",
    [
        {"sampler": {"name": "tpe"}, "trials": 2},
        {"pruner": {"name": "median"}},
        {"overrides": [w for w in TINY if not w.startswith("protocol")]},
    ],
)
def test_a_study_that_cannot_be_nested_is_refused(make: Make, keys: dict[str, Any]) -> None:
    with pytest.raises(RequestError) as refusal:
        run_study(make(space=SPACE, **keys), nested=True)
    assert refusal.value.codes == ["study.nested"]


def test_epochs_are_pruned_in_a_single_training(make: Make) -> None:
    overrides = [w for w in TINY if not w.startswith(("protocol", "trainer.max"))]
    study = make(
        overrides=[*overrides, "trainer.max_epochs=8"],
        space={"optimizer.lr": "choice(0.01, 1e-9, 1e-8)"},
        pruner={"name": "median", "every": "epoch", "n_startup_trials": 1, "n_warmup_steps": 1},
    )
    record = run_study(study)
    first, *others = record.trials
    assert first.state == "finished"
    assert [trial.state for trial in others] == ["pruned", "pruned"]
    assert all(trial.reason.startswith("after epoch ") for trial in others if trial.reason)
    assert record.selection == "shared split"


def test_best_yaml_needs_no_folder_of_the_user_and_keeps_seed_and_control(
    make: Make, tmp_path: Path
) -> None:
    own = tmp_path / "own"
    for group, text in {
        "data": (config_folder() / "data" / "4cycles_small.yaml").read_text(),
        "model": (config_folder() / "model" / "gin.yaml").read_text(),
        "trainer": (config_folder() / "trainer" / "default.yaml").read_text(),
        "experiment": "# @package _global_\nseed: 3\n",
    }.items():
        path = own / group / "mine.yaml"
        path.parent.mkdir(parents=True)
        path.write_text(text)
    words = ["data=mine", "model=mine", "trainer=mine", "experiment=mine", *TINY]
    options = {"config_dir": str(own)}
    study = make(overrides=words, space=SPACE, options=options)
    path = write_best(study, Trial(0, "finished", {"optimizer.lr": 0.1}, (1.0,), {}, None, 0.0, 0))
    config = compose_config(["experiment=best"], study.folder)
    assert config_hash(config) == config_hash(study.config({"optimizer.lr": 0.1}, "final"))
    assert config.seed == 3
    assert "mine" not in path.read_text()
    controlled = make("coefficient.control=constant", "seed=4", space=SPACE)
    write_best(controlled, Trial(0, "finished", {"optimizer.lr": 0.1}, (1.0,), {}, None, 0.0, 0))
    config = compose_config(["experiment=best"], controlled.folder)
    assert (config.seed, config.coefficient.control) == (4, "constant")


@pytest.mark.parametrize("name", ["größe-2.b", "-_"])
def test_a_study_has_a_name_of_any_letters(make: Make, tmp_path: Path, name: str) -> None:
    study = make(space={"optimizer.lr": "choice(0.1)"}, options={"name": name})
    record = run_study(study, trials_only=True)
    assert (tmp_path / "runs" / "studies" / name / "study.db").is_file()
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["studies"]
    compose_config(["experiment=best"], study.folder)
    (line,) = [line for line in final_lines(record) if line.startswith("to repeat it: ")]
    words = shlex.split(line.partition(": ")[2])
    assert words == ["unionsnn", "train", "--config-dir", str(study.folder), "experiment=best"]
    comment = record.best_file.read_text().splitlines()[2]
    assert shlex.split(comment.removeprefix("# ")) == words
