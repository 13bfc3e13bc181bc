"""Study files and requests, checked as a whole before anything runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from small_studies import TINY
from unionsnn.base.errors import RequestError
from unionsnn.config.compose import compose_config, config_folder
from unionsnn.config.grid import cells_of
from unionsnn.search.study import Study, make_study
from unionsnn.search.study_file import shipped

Make = Callable[..., Study]
COUNTS = {"tu_grid": 108, "node_grid": 9, "tu_tpe": 24}


def test_each_shipped_study_has_a_smoke_variant() -> None:
    names = set(shipped())
    full = {name for name in names if not name.endswith("_smoke")}
    assert names == full | {f"{name}_smoke" for name in full}


@pytest.mark.parametrize("name", shipped())
def test_each_shipped_study_is_sound(name: str) -> None:
    study = make_study(name)
    assert len(study.plan) == COUNTS.get(name, len(study.plan))


REFUSED: dict[str, tuple[dict[str, Any], str | None]] = {
    "the test metric": ({"objective": "test_loss"}, "study.objective"),
    "an unknown metric": ({"objective": "val_mae"}, "study.objective"),
    "the wrong direction": ({"direction": "maximize"}, "study.direction"),
    "an unknown sampler": ({"sampler": {"name": "tpee"}}, "study.sampler"),
    "an unknown option": (
        {"sampler": {"name": "tpe", "n_startup": 3}, "trials": 4},
        "study.sampler",
    ),
    "a wrong option": (
        {"pruner": {"name": "wilcoxon", "p_threshold": 3.0}},
        "study.pruner",
    ),
    "no number of trials": ({"sampler": {"name": "random"}}, "study.trials"),
    "an unknown key": ({"samples": 3}, "study.unknown_key"),
    "two objectives and a pruner": (
        {"objective": ["val_loss", "parameters"], "pruner": {"name": "median"}},
        "study.pruner",
    ),
    "an unknown key of the space": ({"space": {"optimizer.lrr": "choice(1, 2)"}}, None),
    "a wrong value of the space": (
        {"space": {"model.dropout": "choice(0.0, 1.5)"}},
        "config.value",
    ),
    "epochs of several folds": (
        {"pruner": {"name": "median", "every": "epoch"}},
        "study.pruner",
    ),
    "a protocol that tests each epoch": (
        {"overrides": [w for w in TINY if "proto" not in w] + ["protocol=cross_validation_paper"]},
        "study.protocol",
    ),
    "several devices": ({"overrides": [*TINY, "trainer=ddp"]}, "study.devices"),
    "a grid inside a trial": (
        {"overrides": [*TINY, "protocol.grid={model.num_layers:[2,3]}"]},
        "study.grid",
    ),
    "workers inside a trial": ({"overrides": [*TINY, "protocol.workers=2"]}, "study.workers"),
    "a run folder": ({"overrides": [*TINY, "run_dir=x"]}, "study.run_dir"),
    "a trial that tests each epoch": (
        {"trial": ["protocol=cross_validation_paper"]},
        "study.trial_key",
    ),
    "a trial of another experiment": ({"trial": ["experiment=tu"]}, "study.trial_key"),
    "a trial with a key of the space": (
        {"trial": ["++optimizer.lr=0.5"]},
        "study.trial_key",
    ),
    "a trial with a section of the space": (
        {"trial": ["++optimizer={lr: 0.5}"]},
        "study.trial_key",
    ),
    "a grid of an interval": ({"space": {"optimizer.lr": "interval(0.1, 0.2)"}}, "study.space"),
    "an objective twice": (
        {"objective": ["val_loss", "val_loss"], "sampler": {"name": "nsga2"}, "trials": 2},
        "study.objective",
    ),
    "an objective of another kind": ({"objective": 3}, "study.objective"),
    "two values that are one": (
        {"space": {"optimizer.lr": "choice(0.1, 0.10)"}},
        "study.space",
    ),
    "a whole number in the middle": (
        {
            "overrides": [w for w in TINY if "folds" not in w],
            "space": {"model.num_layers": "range(-1, 3)"},
        },
        "config.value",
    ),
    "a function for the sampler": (
        {"sampler": {"name": "tpe", "gamma": "min"}, "trials": 4},
        "study.sampler",
    ),
    "an object for the sampler": (
        {"sampler": {"name": "cmaes", "independent_sampler": "tpe"}, "trials": 4},
        "study.sampler",
    ),
    "a negative number of trials": (
        {"sampler": {"name": "tpe", "n_startup_trials": -1}, "trials": 4},
        "study.sampler",
    ),
    "a number that is none": (
        {"sampler": {"name": "tpe", "n_startup_trials": "many"}, "trials": 4},
        "study.sampler",
    ),
    "resources in the wrong order": (
        {"pruner": {"name": "hyperband", "min_resource": 9, "max_resource": 3}},
        "study.pruner",
    ),
    "what a sampler notices when it draws": (
        {
            "space": {"optimizer.lr": "interval(0.1, 0.9)", "model.dropout": "interval(0.0, 0.5)"},
            "sampler": {"name": "cmaes", "x0": {"optimizer.lr": 0.5}},
            "trials": 4,
        },
        "study.sampler",
    ),
    "what a pruner notices when it is asked": (
        {"pruner": {"name": "hyperband", "min_resource": 0, "max_resource": 3}},
        "study.pruner",
    ),
    "a ? in a storage": ({"storage": "sqlite:///a?b.db"}, "study.storage"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_wrong_is_refused(make: Make, what: str) -> None:
    keys, code = REFUSED[what]
    with pytest.raises(RequestError) as refusal:
        make(**keys)
    if code is None:
        # A key of the configuration, refused as on the command line of `unionsnn train`.
        assert all(fault.startswith("space: ") for fault in refusal.value.faults)
    else:
        assert code in refusal.value.codes


def test_the_command_line_replaces_values_of_the_space(make: Make) -> None:
    study = make("optimizer.lr=choice(0.5, 0.25)", "optimizer.weight_decay=0.125")
    assert [p.text for p in study.space] == ["choice(0.5, 0.25)"]
    config = study.config({"optimizer.lr": 0.25})
    assert config.optimizer.lr == 0.25
    assert config.optimizer.weight_decay == 0.125


def test_a_trial_and_the_final_run_have_folders_of_their_own(make: Make) -> None:
    study = make()
    point = study.plan[0]
    trial, final = study.config(point), study.config(point, "final")
    assert trial.paths.output == str(study.folder / "trials")
    assert final.paths.output == str(study.folder / "final")


def test_unknown_studies_are_refused_with_the_nearest_name() -> None:
    with pytest.raises(RequestError, match="Did you mean 'tu_grid'") as unknown:
        make_study("tu_gird")
    assert unknown.value.codes == ["study.unknown"]
    with pytest.raises(RequestError) as absent:
        make_study("absent.yaml")
    assert absent.value.codes == ["study.no_file"]


def test_a_space_may_be_a_grid_of_the_configuration(make: Make) -> None:
    names = {path.stem for path in (config_folder() / "grid").glob("*.yaml")}
    for name in names:
        grid = compose_config([f"grid={name}", "protocol=cross_validation"]).protocol.grid
        assert make(space=name).plan == cells_of(grid or {})
    with pytest.raises(RequestError) as refusal:
        make(space="paper")
    assert refusal.value.codes == ["study.space"]


def test_a_grid_has_every_combination_once(make: Make) -> None:
    space = {"model.num_layers": "range(1, 5, 2)", "optimizer.lr": "choice(0.1, 0.2, 0.3)"}
    points = [tuple(point.values()) for point in make(space=space).plan]
    assert points == [(1, 0.1), (1, 0.2), (1, 0.3), (3, 0.1), (3, 0.2), (3, 0.3)]


def test_options_of_the_command_line_replace_those_of_the_file(make: Make, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'other.db'}"
    study = make(options={"name": "mine", "trials": 2, "storage": url})
    assert (study.name, len(study.plan), study.storage) == ("mine", 2, url)
    assert make().name == "small-4cycles_small-unionsnn"


@pytest.mark.parametrize(
    "key",
    [
        "seed",
        "data",
        "data.name",
        "experiment",
        "protocol",
        "protocol.only",
        "protocol.patience",
        "paths",
        "force",
        "run_dir",
        "logger",
        "+logger.project",
        "trainer.threads",
        "trainer.devices",
        "trainer.accelerator",
        "model.name",
        "coefficient.control",
    ],
)
def test_what_trials_must_have_in_common_is_not_searched(make: Make, key: str) -> None:
    with pytest.raises(RequestError) as refusal:
        make(space={"optimizer.lr": "choice(0.1, 0.01)", key: "choice(1, 2)"})
    assert "study.space_key" in refusal.value.codes


@pytest.mark.parametrize(
    "word",
    ["seed=1", "data=mutag", "data.batch_size=8", "paths.output=x", "force=true", "run_dir=x",
     "logger=none", "trainer=ddp", "trainer.threads=2", "trainer.num_nodes=2", "model=gin",
     "protocol.workers=2", "protocol.folds=4", "~protocol.folds", "+protocol.train_size=20"],
)  # fmt: skip
def test_what_trials_and_the_final_run_share_is_not_in_trial(make: Make, word: str) -> None:
    with pytest.raises(RequestError) as refusal:
        make(trial=[word])
    assert "study.trial_key" in refusal.value.codes


def test_a_trial_may_be_shorter(make: Make) -> None:
    words = ["protocol.only=[0]", "trainer.max_epochs=2", "++protocol.patience=1"]
    study = make(trial=[*words, "model.num_layers=2", "optimizer.schedule=plateau"])
    trial, final = study.config(study.plan[0]), study.config(study.plan[0], "final")
    assert (trial.protocol.patience, trial.trainer.max_epochs) == (1, 2)
    assert (final.trainer.max_epochs, final.protocol.only) == (1, None)


@pytest.mark.parametrize("signs", ["", "++"])
def test_a_key_of_the_space_is_known_by_its_name(make: Make, signs: str) -> None:
    study = make(f"{signs}optimizer.lr=0.5")
    assert [p.key for p in study.space] == ["optimizer.weight_decay"]
    assert study.config({"optimizer.weight_decay": 0}).optimizer.lr == 0.5
    study = make(f"{signs}optimizer.lr=choice(0.5, 0.25)")
    assert {p.key: p.text for p in study.space}["optimizer.lr"] == "choice(0.5, 0.25)"
    with pytest.raises(RequestError) as refusal:
        make("++optimizer={lr: 0.5}")
    assert refusal.value.codes == ["study.space"]
    with pytest.raises(RequestError):
        make("+optimizer.lr=0.5")


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "a/b", "/a", "a\nb", "a+1", "x" * 300, "what?", "a b", "{x}", "a\x1b[31m"],
)
def test_a_name_that_names_no_folder_is_refused(make: Make, name: str) -> None:
    with pytest.raises(RequestError) as refusal:
        make(options={"name": name})
    assert "study.name" in refusal.value.codes


@pytest.mark.parametrize("given", ["min", ["min"]])
def test_a_wrong_direction_is_told_in_one_sentence(make: Make, given: Any) -> None:
    with pytest.raises(RequestError, match="Did you mean 'minimize'") as caught:
        make(direction=given)
    assert caught.value.codes == ["study.direction"]


@pytest.mark.parametrize("sampler", ["random", "tpe", "grid"])
def test_there_are_no_more_trials_than_points(make: Make, sampler: str) -> None:
    assert len(make(sampler={"name": sampler}, trials=50).plan) == 6
    assert len(make(sampler={"name": sampler}, trials=4).plan) == 4
    endless = {"optimizer.lr": "interval(0.1, 0.2)"}
    if sampler != "grid":
        assert len(make(sampler={"name": sampler}, space=endless, trials=50).plan) == 50


@pytest.mark.parametrize("only", [None, [0]])
def test_what_a_trial_averages_over_is_part_of_its_definition(make: Make, only: Any) -> None:
    words = [f"protocol.only={only}"] if only else []
    assert make(trial=words).definition["trial"].get("repetitions") == only


def test_no_warning_of_optuna_reaches_the_user(
    make: Make, recwarn: pytest.WarningsRecorder
) -> None:
    make(
        sampler={"name": "tpe", "multivariate": True, "consider_prior": True},
        pruner={"name": "wilcoxon"},
        space={"model.dropout": "range(0.1, 0.8, 0.1)"},
        trials=7,
    )
    assert not recwarn.list
