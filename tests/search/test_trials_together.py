"""Trials of one shape in one step: the study's record is that of one trial after another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from unionsnn.base.errors import RequestError
from unionsnn.runs import validation
from unionsnn.runs.run_folder import RunFolder
from unionsnn.search.driver import run_study
from unionsnn.search.study import Study
from unionsnn.training import together
from unionsnn.training.records import Repetition

Make = Callable[..., Study]
SPACE = {"optimizer.lr": "choice(0.01, 0.001)", "model.num_layers": "choice(1, 2)"}
# Without Adam, which takes whole steps along gradients that are only rounding.
WORDS = ["model=gin", "trainer.precision=64-true", "optimizer._target_=torch.optim.SGD"]


def records(study: Study) -> list[dict[int, Repetition]]:
    configs = [study.config(point) for point in study.plan]
    return [RunFolder.of(config, tested=False).finished() for config in configs]


def test_trials_of_one_shape_are_trained_in_one_step(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[list[tuple[float, int]]] = []
    original = together.train_together

    def note(trainings: Any, *args: Any, **options: Any) -> Any:
        steps.append([(each.config.optimizer.lr, each.index) for each in trainings])
        return original(trainings, *args, **options)

    one, other = (
        make(*WORDS, f"protocol.together={how}", options={"name": how}, space=SPACE)
        for how in ("true", "false")
    )
    alone = run_study(other, trials_only=True)
    monkeypatch.setattr(validation, "train_together", note)
    monkeypatch.setattr(validation, "train_repetition", None)
    found = run_study(one, trials_only=True)
    # Two learning rates in three folds, for each depth.
    assert [len(step) for step in steps] == [6, 6]
    assert [trial.parameters for trial in found.trials] == [t.parameters for t in alone.trials]
    assert {trial.state for trial in found.trials} == {"finished"}
    assert found.best.index == alone.best.index
    for mine, its in zip(found.trials, alone.trials, strict=True):
        np.testing.assert_allclose(mine.values, its.values, rtol=1e-9)
    for mine, its in zip(records(one), records(other), strict=True):
        for index, record in mine.items():
            assert record.together
            assert (record.config_hash, record.epochs) == (
                its[index].config_hash,
                its[index].epochs,
            )
            rows = [[*row.values()] for row in record.curves]
            np.testing.assert_allclose(rows, [[*r.values()] for r in its[index].curves], rtol=1e-9)
    assert not list(one.folder.glob("together-*"))


def test_a_sampler_knows_a_point_when_its_trial_begins_so_only_its_folds_go_together(
    make: Make, calls: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[int] = []

    def none(trainings: Any, *_: Any, **__: Any) -> Any:
        steps.append(len(trainings))
        return iter(())

    monkeypatch.setattr(validation, "train_together", none)
    words = [*WORDS, "protocol.together=true"]
    keys = {"space": {"optimizer.lr": "choice(0.1, 0.01)"}, "sampler": {"name": "random"}}
    run_study(make(*words, **keys, trials=1), trials_only=True)
    assert steps == [3]
    # What did not go together was trained alone.
    assert len(calls) == 3


def test_a_pruner_that_decides_between_folds_is_refused_before_the_first_trial(make: Make) -> None:
    study = make("protocol.together=true", pruner={"name": "median"})
    with pytest.raises(RequestError, match="pruner median decides between trainings") as error:
        run_study(study)
    assert error.value.codes == ["protocol.together"]
