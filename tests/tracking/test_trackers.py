"""Trackers: what they hold equals the record."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unionsnn.base.errors import RequestError
from unionsnn.config.compose import compose_config
from unionsnn.config.identity import config_hash
from unionsnn.config.schema import Config
from unionsnn.runs.experiment import run_experiment
from unionsnn.runs.run_folder import RunFolder
from unionsnn.tracking.tracker import trackers
from unionsnn.tracking.wandb import Wandb
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
        final = {**row.metrics, "best_epoch": row.best_epoch, "epochs": row.epochs}
        assert {key: read.summary[f"final/{key}"] for key in final} == final
        assert read.run.display_name == f"4cycles_small/unionsnn/fold {row.index + 1}"
        assert read.config["parameters"] == results.parameters
        for epoch in epochs:
            assert epoch["lr"] == config.optimizer.lr
            assert epoch["gradient_norm"] > 0
            assert epoch["epoch_seconds"] > 0
        assert read.summarized == {"train_loss": "min", "val_loss": "min", "val_accuracy": "max"}
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
    assert not list((tmp_path / "tracked").rglob("failure_*.txt"))


def hyperparameters(held: Any) -> dict[str, Any]:
    """Columns of a run in TensorBoard's table HParams."""
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    data = held.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    started = HParamsPluginData.FromString(data).session_start_info
    return {k: getattr(v, v.WhichOneof("kind")) for k, v in started.hparams.items()}


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
        # No chart of one point: final values are columns of HParams, and text.
        assert all(len(held.Scalars(tag)) == row.epochs for tag in held.Tags()["scalars"])
        shown = hyperparameters(held)
        assert {name: shown[f"final/{name}"] for name in row.metrics} == row.metrics
        assert shown["optimizer.lr"] == config.optimizer.lr
        text = held.Tensors("result/text_summary")[0].tensor_proto.string_val[0].decode()
        assert all(f"|final/{k}|{v}|" in text for k, v in row.metrics.items())
        assert "model.hidden_channels" in str(held.Tensors("config/text_summary"))
        assert held.Tensors("status/text_summary")[0].tensor_proto.string_val == [b"finished"]
        assert "learning_curves" in held.Tags()["images"]
    (path,) = folder.path.glob(f"tracking/tensorboard/{key}-results-*")
    held = EventAccumulator(str(path)).Reload()
    assert held.Tags()["scalars"] == []
    assert hyperparameters(held)["mean"] == results.result.mean
    assert "repetitions/text_summary" in held.Tags()["tensors"]


def test_no_two_runs_share_an_id(tiny: Maker, tmp_path: Path) -> None:
    config = tiny("logger=none")
    ids = {
        tracking.GuardedRun(config, tmp_path, "repetition", 0).description.run_id
        for _ in range(100)
    }
    assert len(ids) == 100


def test_mlflow_gets_what_the_record_has(
    tiny: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Artifacts of another database than ours are in the working folder.
    monkeypatch.chdir(tmp_path)
    client = pytest.importorskip("mlflow.tracking", reason="the extra mlflow is not installed")
    mlflow = pytest.importorskip("mlflow")
    uri = f"sqlite:///{tmp_path}/own.db"
    words = [f"logger.uri={uri}", "logger.tags=[x]", "logger.log_model=true"]
    config = tiny("logger=mlflow", *words, *FOLDS)
    before = mlflow.is_tracking_uri_set(), mlflow.get_tracking_uri()
    results = run_experiment(config)
    assert (mlflow.is_tracking_uri_set(), mlflow.get_tracking_uri()) == before
    folder = RunFolder.of(config)
    store = client.MlflowClient(uri)
    experiment = store.get_experiment_by_name("unionsnn")
    held = {run.info.run_name: run for run in store.search_runs([experiment.experiment_id])}
    assert {run.info.status for run in held.values()} == {"FINISHED"}
    stem = "4cycles_small/unionsnn"
    for row in results.repetitions:
        run = held.pop(f"{stem}/fold {row.index + 1}")
        record = json.loads(folder.repetition_path(row.index).read_text())
        for key in record["curves"][0]:
            values = [(m.step, m.value) for m in store.get_metric_history(run.info.run_id, key)]
            assert values == [(i, epoch[key]) for i, epoch in enumerate(record["curves"])]
        final = {**row.metrics, "best_epoch": row.best_epoch, "epochs": row.epochs}
        assert {k: run.data.metrics[f"final/{k}"] for k in final} == final
        assert {"lr", "gradient_norm", "epoch_seconds"} <= run.data.metrics.keys()
        assert run.data.params["optimizer.lr"] == str(config.optimizer.lr)
        assert run.data.params["parameters"] == str(results.parameters)
        assert run.data.tags["x"] == "true"
        files = {each.path for each in store.list_artifacts(run.info.run_id)}
        assert files == {"config.yaml", "curves.csv", "learning_curves.png", "model"}
        (model,) = store.list_artifacts(run.info.run_id, "model")
        assert model.path == f"model/{row.index:02d}.ckpt"
    (whole,) = held.values()
    assert whole.info.run_name == f"{stem}/results"
    assert whole.data.metrics["mean"] == results.result.mean
    files = {each.path for each in store.list_artifacts(whole.info.run_id)}
    assert files == {"config.yaml", "repetitions.csv", "learning_curves.png"}


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
    assert held.display_name == "4cycles_small/unionsnn"


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
    ("logger=[csv,tensorboard] +logger.entity=x", "config.no_effect", ["type logger=wandb"]),
    ("logger=[csv,csv]", "logger.several", ["each tracker once"]),
    ("logger=[none,wandb]", "logger.several", ["none by itself"]),
    ("logger=[]", "config.several", ["logger takes one of"]),
    ("logger=[csv,wand]", "config.unknown_option", ["wandb"]),
    ("logger=csv,wandb", "config.sweep", ["type logger=[csv,wandb]"]),
    ("logger=[csv,wandb] logger.foo=1", "config.unknown_key", ["logger.foo"]),
    (
        "logger=wandb logger.log_model=true trainer.keep_checkpoints=false",
        "config.no_effect",
        ["logger.log_model"],
    ),
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


def test_several_trackers_take_the_options_that_they_have() -> None:
    words = ["logger=[tensorboard,mlflow,wandb]", "logger.project=p", "logger.mode=disabled"]
    config = compose_config([*words, "logger.group=g"])
    first, second, third = config.logger.parts
    assert (first.name, second.name, third.name) == ("tensorboard", "mlflow", "wandb")
    assert (second.project, third.project, third.mode) == ("p", "p", "disabled")
    plain = config.to_dict()
    assert plain["logger"]["name"] == ["tensorboard", "mlflow", "wandb"]
    again = Config.from_dict(json.loads(json.dumps(plain)))
    assert again.to_dict() == plain
    assert again.logger == config.logger
    assert config_hash(config) == config_hash(compose_config([]))
    assert compose_config(["logger=[csv]"]).to_dict() == compose_config([]).to_dict()


def test_a_file_of_ones_own_may_be_one_of_several(tmp_path: Path) -> None:
    (tmp_path / "logger").mkdir()
    (tmp_path / "logger" / "mine.yaml").write_text("name: wandb\nproject: p\n")
    plain = compose_config(["logger=[csv,mine]"], tmp_path).to_dict()["logger"]
    assert plain == {"name": ["csv", "wandb"], "project": "p", "mode": "offline", "tags": []}


def test_several_loggers_in_a_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "experiment").mkdir()
    path = tmp_path / "experiment" / "mine.yaml"
    path.write_text("# @package _global_\ndefaults:\n  - override /logger: [tensorboard, csv]\n")
    with pytest.raises(RequestError) as refusal:
        compose_config(["experiment=mine"], tmp_path)
    assert refusal.value.codes == ["config.several"]


def test_one_of_several_trackers_may_fail(tiny: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ConnectionError("no server")

    monkeypatch.setattr(Wandb, "start", fail)
    config = tiny("logger=[csv,wandb,tensorboard]")
    with pytest.warns(UserWarning, match="W&B failed") as caught:
        results = run_experiment(config)
    assert sum(issubclass(each.category, UserWarning) for each in caught) == 1
    assert results.state == "finished"
    folder = RunFolder.of(config).path
    assert [path.name for path in folder.rglob("failure_*")] == ["failure_wandb.txt"]
    assert len(list(folder.glob("tracking/tensorboard/*/events*"))) == 2
    assert (folder / "logs" / "00" / "metrics.csv").exists()


def test_a_model_is_an_artifact_if_asked_for(tiny: Maker) -> None:
    config = tiny("logger=wandb", "logger.log_model=true")
    run_experiment(config)
    read, whole = sorted(wandb_runs(RunFolder.of(config).path), key=lambda r: r.run.job_type)
    ((artifact),) = [each for each in read.artifacts if each.type == "model"]
    assert artifact.name == f"model-{read.run.run_id}"
    assert [each.path for each in artifact.manifest.contents] == ["00.ckpt"]
    assert not [each for each in whole.artifacts if each.type == "model"]
