"""Trackers: what they hold equals the record."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from unionsnn.base.errors import RequestError
from unionsnn.config.compose import compose_config
from unionsnn.config.identity import config_hash
from unionsnn.runs.experiment import run_experiment
from unionsnn.runs.run_folder import RunFolder
from unionsnn.tracking.tracker import trackers
from unionsnn.training import tracking
from unionsnn.training.records import Result
from wandb_files import table_of, wandb_runs

Maker = Callable[..., dict[str, Any]]
pytestmark = pytest.mark.usefixtures("_no_account")
FOLDS = ["protocol=cross_validation", "protocol.folds=3"]


def test_wandb_files_of_three_folds_equal_the_record(
    tiny: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    before = dict(os.environ), sys.exit, sys.excepthook
    config = tiny("logger=wandb", "logger.tags=[first]", *FOLDS)
    results = run_experiment(config)
    assert (dict(os.environ), sys.exit, sys.excepthook) == before
    assert not list((tmp_path / "here").iterdir())

    folder = RunFolder.of(config)
    runs = wandb_runs(folder.path)
    assert len({read.run.run_id for read in runs}) == 4
    assert {r.run.run_group for r in runs} == {
        f"4cycles_small/unionsnn/cross_validation-{config_hash(config)}"
    }
    assert {(r.run.project, *r.run.tags, r.exit_code) for r in runs} == {("unionsnn", "first", 0)}
    parts = {read.config.get("repetition"): read for read in runs}
    for row in results.repetitions:
        read = parts[row.index]
        record = json.loads(folder.repetition_path(row.index).read_text())
        assert read.run.job_type == "repetition"
        epochs = [h for h in read.history if "val_loss" in h]
        kept = [{k: h[k] for k in ("epoch", *record["curves"][0])} for h in epochs]
        assert kept == [{"epoch": i, **curve} for i, curve in enumerate(record["curves"])]
        assert {key: read.summary[key] for key in row.metrics} == row.metrics
        assert [read.summary[k] for k in ("best_epoch", "epochs")] == [
            row.best_epoch,
            row.epochs,
        ]
        expected = config.to_dict()
        assert {key: read.config[key] for key in expected} == expected
        assert read.config["environment"]["versions"] == results.versions
        curve = table_of(folder.path, read, "curves")
        assert curve["data"] == [[i, *each.values()] for i, each in enumerate(record["curves"])]
        assert read.summary["learning_curves/_type"] == "image-file"
    whole = parts[None]
    assert whole.run.job_type == "results"
    assert whole.summary["mean"] == results.result.mean
    table = table_of(folder.path, whole, "repetitions")
    for row, held in zip(results.repetitions, table["data"], strict=True):
        told = dict(zip(table["columns"], held, strict=True))
        assert {key: told.pop(key) for key in row.metrics} == row.metrics
        assert told == {key: getattr(row, key) for key in told}


def without_time(results: Result) -> list[Any]:
    return [[row.metrics, row.best_epoch] for row in results.repetitions]


@pytest.fixture(scope="module")
def untracked() -> dict[str, list[Any]]:
    return {}


@pytest.mark.parametrize("name", trackers())
def test_a_tracker_changes_no_result(
    tiny: Maker, tmp_path: Path, name: str, untracked: dict[str, list[Any]]
) -> None:
    package = trackers()[name].package
    if package is not None and find_spec(package) is None:
        pytest.skip(f"the package {package} is not installed")
    tracked = run_experiment(tiny(f"logger={name}", run_dir=str(tmp_path / "tracked")))
    if not untracked:
        untracked["plain"] = without_time(run_experiment(tiny(run_dir=str(tmp_path / "plain"))))
    assert without_time(tracked) == untracked["plain"]
    # Its runs, if it keeps any, were started, logged to and finished.
    assert not list((tmp_path / "tracked").rglob("failure.txt"))


def test_tensorboard_files_equal_the_record(tiny: Maker) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    config = tiny("logger=tensorboard", *FOLDS)
    results = run_experiment(config)
    folder = RunFolder.of(config)
    key = config_hash(config)
    for row in results.repetitions:
        record = json.loads(folder.repetition_path(row.index).read_text())
        (path,) = folder.path.glob(f"tracking/tensorboard/{key}-{row.index:02d}-*")
        held = EventAccumulator(str(path)).Reload()
        for name in record["curves"][0]:
            values = [(e.step, e.value) for e in held.Scalars(name)]
            assert values == [(i, np.float32(c[name])) for i, c in enumerate(record["curves"])]
        for name, value in row.metrics.items():
            assert held.Scalars(f"final/{name}")[0].value == np.float32(value)
        assert held.Tensors("status/text_summary")[0].tensor_proto.string_val == [b"finished"]
        assert "learning_curves" in held.Tags()["images"]
    (path,) = folder.path.glob(f"tracking/tensorboard/{key}-results-*")
    held = EventAccumulator(str(path)).Reload()
    assert held.Scalars("final/mean")[0].value == np.float32(results.result.mean)
    assert "repetitions/text_summary" in held.Tags()["tensors"]


def test_no_two_runs_share_an_id(tiny: Maker, tmp_path: Path) -> None:
    config = tiny("logger=none")
    ids = {
        tracking.GuardedRun(config, tmp_path, "repetition", 0).description.run_id
        for _ in range(100)
    }
    assert len(ids) == 100


class FakeClient:
    """What a run of MLflow calls, kept in memory."""

    def __init__(self, uri: str) -> None:
        STORE.setdefault("uri", uri)

    def get_experiment_by_name(self, name: str) -> Any:
        return STORE.get(name)

    def create_experiment(self, name: str, artifact_location: str | None = None) -> str:
        STORE[name] = SimpleNamespace(experiment_id="7")
        return "7"

    def create_run(self, experiment_id: str, tags: dict[str, str], run_name: str) -> Any:
        assert experiment_id == "7"
        run = {"name": run_name, "tags": tags, "metrics": [], "params": {}, "files": []}
        STORE["runs"].append(run)
        return SimpleNamespace(info=SimpleNamespace(run_id=len(STORE["runs"]) - 1))

    def log_batch(self, run_id: int, params: list[tuple[str, str]]) -> None:
        assert len(params) <= 100
        STORE["runs"][run_id]["params"] |= dict(params)

    def log_metric(self, run_id: int, key: str, value: float, step: int | None = None) -> None:
        STORE["runs"][run_id]["metrics"].append((key, step, value))

    def log_text(self, run_id: int, text: str, name: str) -> None:
        STORE["runs"][run_id]["files"].append(name)

    def log_artifact(self, run_id: int, path: str) -> None:
        assert Path(path).stat().st_size > 0
        STORE["runs"][run_id]["files"].append(Path(path).name)

    def set_terminated(self, run_id: int, status: str) -> None:
        STORE["runs"][run_id]["status"] = status


STORE: dict[str, Any] = {}


@pytest.fixture
def fake_mlflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in for the package, which need not be installed."""
    modules = {name: ModuleType(name) for name in ("mlflow", "mlflow.entities", "mlflow.tracking")}
    modules["mlflow"].__spec__ = ModuleSpec("mlflow", None)
    modules["mlflow.entities"].Param = lambda key, value: (key, value)  # type: ignore[attr-defined]
    modules["mlflow.tracking"].MlflowClient = FakeClient  # type: ignore[attr-defined]
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    STORE.clear()
    STORE["runs"] = []


@pytest.mark.usefixtures("fake_mlflow")
def test_mlflow_gets_what_the_record_has(tiny: Maker) -> None:
    config = tiny("logger=mlflow", "logger.uri=http://127.0.0.1:1", "logger.tags=[x]", *FOLDS)
    results = run_experiment(config)
    *repetitions, whole = STORE["runs"]
    assert STORE["uri"] == "http://127.0.0.1:1"
    for row, run in zip(results.repetitions, repetitions, strict=True):
        record = json.loads(RunFolder.of(config).repetition_path(row.index).read_text())
        curves = [(k, i, v) for i, epoch in enumerate(record["curves"]) for k, v in epoch.items()]
        assert [m for m in run["metrics"] if m[1] is not None] == curves
        final = {k.removeprefix("final/"): v for k, step, v in run["metrics"] if step is None}
        assert final == {**row.metrics, "best_epoch": row.best_epoch, "epochs": row.epochs}
        assert run["params"]["optimizer.lr"] == str(config.optimizer.lr)
        assert run["tags"]["x"] == "true"
        assert run["files"] == ["curves.csv", "learning_curves.png"]
        assert run["status"] == "FINISHED"
    assert ("final/mean", None, results.result.mean) in whole["metrics"]
    assert whole["files"] == ["repetitions.csv"]


def test_the_real_mlflow_keeps_runs_in_the_run_folder(tiny: Maker) -> None:
    tracking = pytest.importorskip("mlflow.tracking", reason="the extra mlflow is not installed")
    config = tiny("logger=mlflow")
    results = run_experiment(config)
    path = RunFolder.of(config).path / "tracking" / "mlflow.db"
    client = tracking.MlflowClient(f"sqlite:///{path}")
    experiment = client.get_experiment_by_name("unionsnn")
    runs = client.search_runs([experiment.experiment_id])
    held = {run.data.tags["kind"]: run for run in runs}
    metrics = results.repetitions[0].metrics
    final = held["repetition"].data.metrics
    assert {k: final[f"final/{k}"] for k in metrics} == metrics
    assert {run.info.status for run in runs} == {"FINISHED"}


def test_every_key_reaches_the_run(tiny: Maker, tmp_path: Path) -> None:
    keys = {"project": "p", "group": "g", "tags": ["a", "b"]}
    words = ["logger.project=p", "logger.group=g", "logger.tags=[a,b]"]
    config = tiny("logger=wandb", "logger.entity=e", *words)
    run = tracking.GuardedRun(config, tmp_path, "repetition", 3)
    run.finish(failed=False)
    (read,) = wandb_runs(tmp_path)
    held = read.run
    assert (held.project, held.run_group, list(held.tags)) == tuple(keys.values())
    assert (held.entity, held.job_type) == ("e", "repetition")
    assert held.display_name == "4cycles_small unionsnn repetition 3"


REFUSALS = [
    ("logger.name=wandbb", "logger.unknown", ["csv, mlflow, none"]),
    (
        "logger=wandb logger.mode=onlin",
        "config.value",
        ["'onlin'", "'offline', 'online' or 'disabled'"],
    ),
    ("logger=csv +logger.mode=online", "config.no_effect", ["type logger=wandb, or"]),
    ("+logger.tags=[a]", "config.no_effect", ["type logger=mlflow or logger=wandb"]),
    ("logger=mlflow +logger.entity=x", "config.no_effect", ["logger.entity"]),
]


@pytest.mark.parametrize(("words", "code", "parts"), REFUSALS)
def test_a_wrong_request_says_what_to_do(words: str, code: str, parts: list[str]) -> None:
    with pytest.raises(RequestError) as refusal:
        compose_config(words.split())
    assert refusal.value.codes == [code]
    for part in parts:
        assert part in str(refusal.value)


def test_the_tracker_is_no_part_of_what_a_run_is_named_after() -> None:
    assert len({config_hash(compose_config([f"logger={name}"])) for name in trackers()}) == 1
    assert compose_config(["logger=csv"]).to_dict()["logger"] == {"name": "csv"}


@pytest.mark.parametrize("mode", [None, "disabled", "online"])
def test_the_variable_of_wandb_sets_the_mode(
    monkeypatch: pytest.MonkeyPatch, mode: str | None
) -> None:
    if mode is None:
        monkeypatch.delenv("WANDB_MODE", raising=False)
    else:
        monkeypatch.setenv("WANDB_MODE", mode)
    logger: Any = compose_config(["logger=wandb"]).logger
    assert logger.mode == (mode or "offline")
    logger = compose_config(["logger=wandb", "logger.mode=offline"]).logger
    assert logger.mode == "offline"
