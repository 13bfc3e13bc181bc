"""Trials: what is trained, what fails, what is pruned, and that it is the same every time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import optuna
import pytest

from small_studies import TINY, formula, made_record, points
from unionsnn.base.errors import MemoryRanOutError, MissingObjectiveError, RequestError
from unionsnn.runs import validation
from unionsnn.runs.selection import best, pareto_front
from unionsnn.search import workers
from unionsnn.search.driver import run_study
from unionsnn.search.queue import Trial, open_study, read_trials
from unionsnn.search.samplers import SeededSampler
from unionsnn.search.space import parse_space
from unionsnn.search.study import Study
from unionsnn.search.workers import MEMORY, work
from unionsnn.training.records import Repetition
from unionsnn.training.repetition import Training

Make = Callable[..., Study]
Calls = list[tuple[float, float, int]]


def run(study: Study, *, extend: bool = False) -> list[Trial]:
    stored = open_study(study, extend=extend)
    work(study)
    return read_trials(stored)


def test_a_grid_trains_each_cell_and_fold_once(make: Make, calls: Calls) -> None:
    study = make()
    cells = run(study)
    assert [cell.state for cell in cells] == ["finished"] * 6
    assert len(calls) == len(set(calls)) == 18
    for cell in cells:
        config = study.config(cell.parameters)
        assert cell.repetitions == {i: formula(config, i) for i in range(3)}
        assert cell.values == (math.fsum(cell.repetitions.values()) / 3,)
    chosen = best([cell.values for cell in cells], study.file.objectives)
    assert chosen is not None
    assert cells[chosen].parameters == {"optimizer.lr": 0.001, "optimizer.weight_decay": 0}
    assert points(run(study)) == points(cells)
    assert len(calls) == 18


SAMPLERS = {
    "random": {},
    "tpe": {"n_startup_trials": 3},
    "cmaes": {"n_startup_trials": 2},
    "nsga2": {"population_size": 2},
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_the_same_seed_gives_the_same_trials(make: Make, calls: Calls, name: str) -> None:
    keys: dict[str, Any] = {
        "space": {
            "optimizer.lr": "tag(log, interval(1e-4, 1e-1))",
            "optimizer.weight_decay": "interval(0.0, 1.0)",
        },
        "sampler": {"name": name, **SAMPLERS[name]},
        "trials": 5,
    }
    found = [
        [cell.parameters for cell in run(make(options={"name": n}, **keys, seed=seed))]
        for n, seed in (("one", 0), ("two", 0), ("three", 1))
    ]
    assert found[0] == found[1]
    assert found[0] != found[2]
    assert len({tuple(p.items()) for p in found[0]}) == 5


def test_an_interrupted_study_goes_on_with_the_same_trials(
    make: Make, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys: dict[str, Any] = {
        "space": {"optimizer.lr": "interval(0.001, 1.0)"},
        "sampler": {"name": "random"},
        "trials": 4,
    }
    whole = run(make(options={"name": "whole"}, **keys))
    study = make(options={"name": "stopped"}, **keys)
    train, first = validation.train_repetition, len(calls)

    def stop(*arguments: Any, **options: Any) -> Any:
        if len(calls) - first == 4:
            raise KeyboardInterrupt
        return train(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(validation, "train_repetition", stop)
        with pytest.raises(KeyboardInterrupt):
            run(study)
    assert [cell.state for cell in read_trials(open_study(study))] == [
        "finished",
        "waiting",
        "waiting",
        "waiting",
    ]
    assert points(run(study)) == points(whole)
    assert len(calls) == len(set(calls[:first])) + len(set(calls[first:])) == 24


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("no such thing"), "ValueError: no such thing"),
        (MemoryRanOutError("a batch of 3"), "out of memory: a batch of 3"),
        (MemoryError("1 GB"), "out of memory: 1 GB"),
        (None, "not finite: val_loss of repetition 1 is nan."),
    ],
)
def test_a_trial_that_fails_says_why_and_the_study_goes_on(
    make: Make,
    calls: Calls,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception | None,
    reason: str,
) -> None:
    train = validation.train_repetition

    def fail(training: Training, data: Any, *rest: Any, **options: Any) -> Repetition:
        if training.config.optimizer.lr == 0.01 and training.index == 1:
            if error is not None:
                raise error
            return made_record(training, {"val_loss": math.nan}, data)
        return train(training, data, *rest, **options)

    monkeypatch.setattr(validation, "train_repetition", fail)
    if error is None:
        monkeypatch.setattr(workers.RunFolder, "save_repetition", lambda *_: None)
    cells = run(make())
    # Memory is not the trial's: it may be tried again.
    state = "lost" if isinstance(error, MEMORY) else "failed"
    failed = [cell for cell in cells if cell.state == state]
    assert [cell.parameters["optimizer.lr"] for cell in failed] == [0.01, 0.01]
    assert {cell.reason for cell in failed} == {reason}
    assert sum(cell.state == "finished" for cell in cells) == 4


def test_a_record_without_the_metric_is_an_error(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def train(training: Training, data: Any, *_: Any, **__: Any) -> Any:
        return made_record(training, {"val_accuracy": 1.0}, data)

    monkeypatch.setattr(validation, "train_repetition", train)
    with pytest.raises(MissingObjectiveError, match="has no val_loss"):
        run(make())


def test_no_trial_that_finishes_is_an_error(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def train(*_: Any, **__: Any) -> Any:
        raise ValueError("never")

    monkeypatch.setattr(validation, "train_repetition", train)
    with pytest.raises(RuntimeError, match=r"None of the 6 trials .* ValueError: never"):
        run_study(make())


def test_a_hopeless_trial_stops_between_folds(make: Make, calls: Calls) -> None:
    study = make(
        "protocol.folds=6",
        space={"optimizer.lr": "choice(0.1, 0.2, 0.05)"},
        pruner={"name": "wilcoxon", "p_threshold": 0.3, "n_startup_steps": 2},
    )
    cells = run(study)
    assert [cell.state for cell in cells] == ["finished", "pruned", "finished"]
    assert cells[1].reason == "after 2 repetition(s)"
    assert len(cells[1].repetitions) == 2
    assert len(calls) == 14


def test_the_other_pruners_compare_means_so_far(make: Make, calls: Calls) -> None:
    study = make(pruner={"name": "median", "n_startup_trials": 1})
    stored = open_study(study)
    work(study)
    first = stored.get_trials()[0]
    config = study.config(first.params)
    losses = [formula(config, i) for i in range(3)]
    assert first.intermediate_values == {k: math.fsum(losses[:k]) / k for k in (1, 2, 3)}
    assert "pruned" in [cell.state for cell in read_trials(stored)]


def test_two_objectives_give_a_front(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def train(training: Training, data: Any, *_: Any, **__: Any) -> Any:
        width = training.config.model.hidden_channels
        record = made_record(training, {"val_loss": abs(16 - width) / 16}, data)
        return replace(record, parameters=width**2)

    monkeypatch.setattr(validation, "train_repetition", train)
    study = make(
        overrides=[w for w in TINY if "hidden" not in w],
        space={"model.hidden_channels": "choice(4, 8, 16, 32)"},
        objective=["val_loss", "parameters"],
        sampler={"name": "nsga2", "population_size": 4},
        trials=12,
    )
    cells = run(study)
    values = [cell.values for cell in cells]
    front = pareto_front(values, study.file.objectives)
    assert {cells[i].parameters["model.hidden_channels"] for i in front} <= {4, 8, 16}
    chosen = best(values, study.file.objectives)
    assert chosen in front


def test_draws_of_a_trial_depend_on_its_number_alone() -> None:
    def drawn(order: list[int]) -> dict[int, float]:
        found = {}
        for number in order:
            sampler = SeededSampler("random", {}, 3)
            study = optuna.create_study(sampler=sampler)
            study.add_trials(
                [optuna.trial.create_trial(state=optuna.trial.TrialState.FAIL)] * number
            )
            found[number] = study.ask().suggest_float("x", 0, 1)
        return found

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    assert drawn([0, 1, 2]) == drawn([2, 0, 1])
    assert len(set(drawn([0, 1, 2]).values())) == 3


@pytest.mark.parametrize("name", ["random", "tpe"])
def test_each_point_of_a_small_space_is_tried_once(make: Make, calls: Calls, name: str) -> None:
    options = {"n_startup_trials": 2} if name == "tpe" else {}
    study = make(sampler={"name": name, **options}, trials=6)
    cells = run(study)
    assert len({tuple(cell.parameters.items()) for cell in cells}) == 6
    assert len(calls) == len(set(calls)) == 18
    # The same again, although more are asked for than there are points.
    again = run(make(sampler={"name": name, **options}, trials=8, options={"name": "n"}))
    assert [cell.parameters for cell in again] == [cell.parameters for cell in cells]


def test_the_last_points_of_a_space_are_found() -> None:
    space = {p.key: p.distribution for p in parse_space({"a": "range(0, 50)", "b": "range(0, 20)"})}
    every = [{"a": a, "b": b} for a in range(50) for b in range(20)]
    left = [{"a": 7, "b": 3}, {"a": 31, "b": 12}]

    def drawn(missing: list[dict[str, int]]) -> dict[str, int]:
        study = optuna.create_study(sampler=SeededSampler("random", {}, 0, space))
        study.add_trials(
            [
                optuna.trial.create_trial(params=point, distributions=space, value=0.0)
                for point in every
                if point not in missing
            ]
        )
        trial = study.ask()
        return {key: trial.suggest_int(key, d.low, d.high) for key, d in space.items()}

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    assert drawn(left[:1]) == left[0]
    assert drawn(left) == drawn(left)
    assert drawn(left) in left
    assert drawn([]) in every


def test_drawn_numbers_of_a_range_are_those_of_its_decimals(make: Make, calls: Calls) -> None:
    for name, options in (("random", {}), ("tpe", {"n_startup_trials": 2}), ("nsga2", {})):
        cells = run(
            make(
                space={
                    "optimizer.lr": "range(0.1, 0.8, 0.1)",
                    "optimizer.weight_decay": "range(2)",
                },
                sampler={"name": name, **options},
                trials=5,
                options={"name": name},
            )
        )
        assert {c.parameters["optimizer.lr"] for c in cells} <= {i / 10 for i in range(1, 8)}


def test_a_changed_study_is_refused_with_the_difference_or_extended(
    make: Make, calls: Calls
) -> None:
    before = run(make())
    larger = make(space={**make().file.space, "optimizer.lr": "choice(0.1, 0.01, 0.5)"})
    with pytest.raises(RequestError) as caught:
        open_study(larger)
    assert set(caught.value.codes) == {"study.changed"}
    assert any(f.startswith("space.optimizer.lr: ") for f in caught.value.faults)
    calls.clear()
    cells = run(larger, extend=True)
    assert [cell.parameters for cell in cells] == larger.plan
    assert {lr for lr, _, _ in calls} == {0.5}
    assert points(run(larger)) == points(cells)
    kept = {tuple(cell.parameters.values()): cell.values for cell in before}
    assert all(c.values == kept.get(tuple(c.parameters.values()), c.values) for c in cells)


def test_values_that_would_mean_something_else_are_computed_anew(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[int] = []

    def train(training: Training, data: Any, *_: Any, **__: Any) -> Any:
        config, index = training.config, training.index
        trained.append(index)
        loss = formula(config, index)
        return made_record(training, {"val_loss": loss, "val_accuracy": 1 - loss}, data)

    monkeypatch.setattr(validation, "train_repetition", train)
    space = {"optimizer.lr": "choice(0.1, 0.01)"}
    before = run(make(space=space))
    trained.clear()
    for keys, accuracy, folds in (
        ({"objective": "val_accuracy"}, True, 3),
        ({"objective": ["val_accuracy", "val_loss"]}, True, 3),
        ({"trial": ["protocol.only=[0,1]"]}, False, 2),
    ):
        changed = make(space=space, **keys)
        with pytest.raises(RequestError) as refusal:
            open_study(changed)
        assert set(refusal.value.codes) == {"study.changed"}
        cells = run(changed, extend=True)
        assert not trained
        for old, new in zip(before, cells, strict=True):
            mean = math.fsum(list(old.repetitions.values())[:folds]) / folds
            assert new.values is not None
            assert new.values[0] == pytest.approx(1 - mean if accuracy else mean)
            assert new.parameters == old.parameters
    # Another experiment: other records.
    changed = make("seed=4", space=space)
    with pytest.raises(RequestError) as caught:
        open_study(changed)
    assert "experiment.seed: 0 when it started, 4 now" in caught.value.faults
    assert [cell.state for cell in read_trials(open_study(changed, extend=True))] == ["waiting"] * 2
    run(changed)
    assert len(trained) == 6


def test_the_second_objective_is_a_mean_too(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def train(training: Training, data: Any, *_: Any, **__: Any) -> Any:
        loss = formula(training.config, training.index)
        record = made_record(training, {"val_loss": loss, "val_accuracy": loss**2 / 4}, data)
        return replace(record, parameters=7)

    monkeypatch.setattr(validation, "train_repetition", train)
    study = make(objective=["val_loss", "val_accuracy"])
    assert study.directions == ["minimize", "maximize"]
    for cell in run(study):
        squares = [value**2 / 4 for value in cell.repetitions.values()]
        assert cell.values is not None
        assert cell.values[1] == pytest.approx(sum(squares) / 3)


def test_more_trials_extend_a_search(make: Make, calls: Calls) -> None:
    keys: dict[str, Any] = {
        "space": {"optimizer.lr": "interval(0.001, 1.0)"},
        "sampler": {"name": "tpe", "n_startup_trials": 2},
    }
    before = run(make(**keys, trials=3))
    after = run(make(**keys, trials=5), extend=True)
    assert points(after)[:3] == points(before)
    assert len(after) == 5


def test_another_version_is_refused(
    make: Make, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_study(make())
    monkeypatch.setattr("unionsnn.search.study.__version__", "9.9")
    with pytest.raises(RequestError, match=r"versions\.unionsnn: '.*' when it started, '9\.9' now"):
        open_study(make())
