"""A repetition that fails: the others go on, it is reported, and trained again."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from made_records import result
from unionsnn.base.errors import (
    ComparisonFailedError,
    DataError,
    NonFiniteLossError,
    RepetitionFailedError,
    RequestError,
)
from unionsnn.cli.app import command_line
from unionsnn.config.schema import Config
from unionsnn.runs import comparison, pending
from unionsnn.runs.comparison import Candidate, run_comparison
from unionsnn.runs.experiment import run_experiment
from unionsnn.runs.failures import Failure, SameAgain, attempt, failed_now
from unionsnn.runs.run_folder import RunFolder
from unionsnn.training.records import RecordedFailure, Repetition, Result
from unionsnn.training.repetition import Training

Maker = Callable[..., dict[str, Any]]
FOLDS = ["protocol=cross_validation", "protocol.folds=4"]

original = pending.train_repetition


class Failing:
    """`train_repetition`, but some repetitions raise; notes which were begun."""

    def __init__(self, errors: dict[int, BaseException]) -> None:
        self.errors = errors
        self.begun: list[int] = []

    def __call__(self, training: Training, *rest: Any, **more: Any) -> Repetition:
        self.begun.append(training.index)
        if training.index in self.errors:
            raise self.errors[training.index]
        return original(training, *rest, **more)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[int, BaseException]], Failing]:
    def patch(errors: dict[int, BaseException]) -> Failing:
        made = Failing(errors)
        monkeypatch.setattr(pending, "train_repetition", made)
        return made

    return patch


@pytest.mark.parametrize("error", [NonFiniteLossError("nan in epoch 3"), MemoryError("no memory")])
def test_the_others_go_on_and_the_same_command_trains_it_again(
    tiny: Maker, failing: Any, error: Exception
) -> None:
    expected = run_experiment(tiny(*FOLDS, run_dir="whole"))
    config = tiny(*FOLDS)
    failing({1: error})
    assert run_experiment(config).missing == [1]
    record = json.loads(RunFolder.of(config).results_path.read_text())
    assert record["state"] == "incomplete"
    assert record["failed"] == [{"index": 1, "kind": type(error).__name__, "reason": str(error)}]
    assert [row["index"] for row in record["repetitions"]] == [0, 2, 3]
    again = failing({})
    done = run_experiment(config)
    assert again.begun == [1]
    assert done.failed == []
    assert done.state == "finished"
    assert done.result == expected.result
    assert not (RunFolder.of(config).path / "failed").exists()


def test_two_that_fail_alike_from_the_start_end_the_rest(tiny: Maker, failing: Any) -> None:
    errors = {i: ValueError("the same") for i in range(4)}
    calls = failing(errors)
    with pytest.raises(ValueError, match="the same"):
        run_experiment(tiny(*FOLDS))
    assert calls.begun == [0, 1]
    record = json.loads(RunFolder.of(tiny(*FOLDS)).results_path.read_text())
    assert record["result"] is None
    assert [row["index"] for row in record["failed"]] == [0, 1]


def test_failures_that_differ_or_come_after_a_success_end_nothing(
    tiny: Maker, failing: Any
) -> None:
    calls = failing({0: ValueError("one"), 1: ValueError("other"), 2: ValueError("other")})
    assert run_experiment(tiny(*FOLDS)).missing == [0, 1, 2]
    assert calls.begun == [0, 1, 2, 3]
    calls = failing({i: ValueError("the same") for i in range(4)})
    assert run_experiment(tiny(*FOLDS)).missing == [0, 1, 2]
    assert calls.begun == [0, 1, 2]


@pytest.mark.parametrize("refused", ["training", "data"])
def test_a_refused_request_leaves_no_folder(
    tiny: Maker, failing: Any, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    config = tiny(*FOLDS)
    folder = RunFolder.of(config).path
    (folder.parents[1] / "kept").mkdir(parents=True)
    failing({0: RequestError("wrong")})
    if refused == "data":
        prepare = "unionsnn.data.datamodules.GraphDataModule.prepare_data"

        def refuse(self: object) -> None:
            raise DataError("wrong")

        monkeypatch.setattr(prepare, refuse)
    with pytest.raises((RequestError, DataError), match="wrong"):
        run_experiment(config)
    assert [path.name for path in folder.parents[1].iterdir()] == ["kept"]


@pytest.mark.parametrize("error", [RequestError("wrong"), KeyboardInterrupt(), SystemExit(143)])
def test_a_wrong_request_and_a_signal_end_all_at_once(
    tiny: Maker, failing: Any, error: BaseException
) -> None:
    calls = failing({1: error})
    with pytest.raises(type(error)):
        run_experiment(tiny(*FOLDS))
    assert calls.begun == [0, 1]
    assert list(RunFolder.of(tiny(*FOLDS)).finished()) == [0]
    assert not (RunFolder.of(tiny(*FOLDS)).path / "failed").exists()


def test_a_failure_is_no_failure_of_a_request_for_other_repetitions(
    tiny: Maker, failing: Any
) -> None:
    failing({0: ValueError("broken")})
    arguments = [*FOLDS, "protocol.only=[0,1]"]
    run_experiment(tiny(*arguments))
    config = tiny(*FOLDS, "protocol.only=[2]")
    record = run_experiment(config)
    assert [row.index for row in record.failed] == [0]
    assert failed_now(record, config) == []


def test_the_table_names_it_and_the_status_is_1(
    tiny: Maker, failing: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing({1: ValueError("broken by hand")})
    config = tiny(*FOLDS)
    monkeypatch.setattr("unionsnn.config.compose.compose_config", lambda *_, **__: config)
    done = CliRunner().invoke(command_line, ["train"], catch_exceptions=False)
    assert done.exit_code == 1
    assert "│ 2 │        failed │" in done.stdout
    assert "INCOMPLETE: 3 of 4 repetitions" in done.stdout
    assert "FAILED repetition 2: broken by hand" in done.stdout
    assert "Traceback" not in done.stderr
    shown = CliRunner().invoke(command_line, ["report", str(tmp_path / "runs")])
    assert "repetition 2: broken by hand" in shown.stdout


def test_compare_trains_the_others_and_then_says_what_failed(
    tiny: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []

    def run(config: Config, progress: Any = None, workers: Any = None) -> Result:
        begun.append(config.model.name)
        if begun[-1] == "gin":
            raise ValueError("broken\nby hand")
        failed = [RecordedFailure(i, "E", "killed") for i in (1, 2)]
        return replace(result("gcn", "toy", None), failed=failed)

    monkeypatch.setattr(comparison, "run_experiment", run)
    names = ("gin", "gcn")
    candidates = [Candidate(n, tmp_path / n, tiny(f"model={n}")) for n in names]
    with pytest.raises(ComparisonFailedError) as error:
        run_comparison(candidates, tmp_path)
    assert begun == ["gin", "gcn"]
    assert str(error.value).splitlines()[:2] == [
        "gin: broken by hand",
        "gcn: repetitions 2, 3: killed",
    ]


def test_a_fault_in_all_workers_is_told_once(tiny: Maker) -> None:
    words = [*FOLDS, "protocol.workers=2", "model=gin", "model._target_=failing_model.FaultyGIN"]
    config = tiny(*words)
    with pytest.raises(RepetitionFailedError, match="a fault of the user's model"):
        run_experiment(config)
    record = json.loads(RunFolder.of(config).results_path.read_text())
    assert {row["kind"] for row in record["failed"]} == {"IndexError"}


def test_faults_of_a_request_come_whole_from_another_process() -> None:
    assert pickle.loads(pickle.dumps(RequestError("one", "two"))).faults == ["one", "two"]


def test_a_failure_holds_on_to_nothing_that_was_in_its_frames() -> None:
    gone: list[str] = []

    class Large:
        def __del__(self) -> None:
            gone.append("large")

    def train() -> dict[str, Any]:
        held = Large()
        raise ValueError(f"with {type(held).__name__}")

    failure = attempt(train)
    assert failure == Failure("ValueError", "with Large")
    assert gone == ["large"]


def test_the_rule_of_two() -> None:
    same = Failure("ValueError", "the same")
    rule = SameAgain(False)
    assert [rule.add(o) for o in (same, same, same)] == [False, True, False]
    assert not any(SameAgain(True).add(same) for _ in range(3))
    rule = SameAgain(False)
    assert [rule.add(o) for o in (Repetition.__new__(Repetition), same, same)] == [
        False,
        False,
        False,
    ]
