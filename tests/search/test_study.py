"""Study files and requests, checked as a whole before anything runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from small_studies import TINY
from unionsnn.search.study import Study, StudyOptions, make_study
from unionsnn.search.study_file import shipped
from unionsnn.training.config import RequestError

Make = Callable[..., Study]
COUNTS = {"tu_grid": 108, "node_grid": 9, "tu_tpe": 24}


def test_each_shipped_study_has_a_smoke_variant() -> None:
    names = set(shipped())
    full = {name for name in names if not name.endswith("_smoke")}
    assert full == {"tu_grid", "node_grid", "tu_tpe", "ogb_width", "zinc_union_gps"}
    assert names == full | {f"{name}_smoke" for name in full}


@pytest.mark.parametrize("name", shipped())
def test_each_shipped_study_is_sound(name: str) -> None:
    study = make_study(name)
    assert study.num_trials == COUNTS.get(name, study.num_trials)
    assert len(study.plan()) == study.num_trials


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "the test metric": ({"objective": "test_loss"}, "what the test part has chosen"),
    "an unknown metric": ({"objective": "val_mae"}, "allowed are val_accuracy, val_loss"),
    "the wrong direction": ({"direction": "maximize"}, "of val_loss it is minimize"),
    "an unknown sampler": ({"sampler": {"name": "tpee"}}, "Did you mean 'tpe'"),
    "an unknown option": (
        {"sampler": {"name": "tpe", "n_startup": 3}, "trials": 4},
        "Did you mean 'n_startup_trials'",
    ),
    "a wrong option": (
        {"pruner": {"name": "wilcoxon", "p_threshold": 3.0}},
        "p_threshold must be between",
    ),
    "no number of trials": ({"sampler": {"name": "random"}}, "trials is missing"),
    "an unknown key": ({"samples": 3}, "Did you mean 'sampler'"),
    "two objectives and a pruner": (
        {"objective": ["val_loss", "parameters"], "pruner": {"name": "median"}},
        "cannot be pruned",
    ),
    "an unknown key of the space": ({"space": {"optimizer.lrr": "choice(1, 2)"}}, "optimizer.lr"),
    "a wrong value of the space": ({"space": {"model.dropout": "choice(0.0, 1.5)"}}, "dropout"),
    "epochs of several folds": (
        {"pruner": {"name": "median", "every": "epoch"}},
        "a trial trains 3 repetitions",
    ),
    "a protocol that tests each epoch": (
        {"overrides": [w for w in TINY if "proto" not in w] + ["protocol=cross_validation_paper"]},
        "must not see the test part",
    ),
    "several devices": ({"overrides": [*TINY, "trainer=ddp"]}, "--workers N for N at a time"),
    "a grid inside a trial": (
        {"overrides": [*TINY, "protocol.grid={model.num_layers:[2,3]}"]},
        "put its keys into space",
    ),
    "workers inside a trial": ({"overrides": [*TINY, "protocol.workers=2"]}, "--workers"),
    "a run folder": ({"overrides": [*TINY, "run_dir=x"]}, "leave out run_dir"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_wrong_is_refused_with_what_to_type(make: Make, what: str) -> None:
    keys, message = REFUSED[what]
    with pytest.raises(RequestError, match=message):
        make(**keys)


def test_the_command_line_replaces_values_of_the_space(make: Make) -> None:
    study = make("optimizer.lr=choice(0.5, 0.25)", "optimizer.weight_decay=0.125")
    assert [p.text for p in study.space] == ["choice(0.5, 0.25)"]
    config = study.trial_config({"optimizer.lr": 0.25})
    assert config["optimizer"]["lr"] == 0.25
    assert config["optimizer"]["weight_decay"] == 0.125


def test_a_trial_and_the_final_run_have_folders_of_their_own(make: Make) -> None:
    study = make()
    point = study.plan()[0]
    trial, final = study.trial_config(point), study.final_config(point)
    assert trial["paths"]["output"] == str(study.folder / "trials")
    assert final["paths"]["output"] == str(study.folder / "final")


def test_unknown_studies_are_refused_with_the_nearest_name() -> None:
    with pytest.raises(RequestError, match="Did you mean 'tu_grid'"):
        make_study("tu_gird")
    with pytest.raises(RequestError, match=r"no study file absent\.yaml"):
        make_study("absent.yaml")


def test_options_of_the_command_line_replace_those_of_the_file(make: Make, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'other.db'}"
    study = make(options=StudyOptions(name="mine", trials=2, storage=url))
    assert (study.name, study.num_trials, study.storage) == ("mine", 2, url)
    assert make().name == "small-4cycles_small-unionsnn"
