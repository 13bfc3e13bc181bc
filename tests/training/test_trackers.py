"""Trackers: what they hold, and that none of them ever stops a training."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unionsnn.training import repetition, tracked_runs, trackers
from unionsnn.training.callbacks import Curves, NonFiniteLossError
from unionsnn.training.config import RequestError, compose_config, config_hash
from unionsnn.training.experiment import run_experiment
from unionsnn.training.records import RunFolder

Maker = Callable[..., dict[str, Any]]
FOLDS = ["protocol=cross_validation", "protocol.folds=3"]


@pytest.fixture(autouse=True)
def _no_account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep the user's account and settings out."""
    for name in [n for n in os.environ if n.startswith(("WANDB_", "MLFLOW_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path / "wandb_config"))


def wandb_records(path: Path) -> Iterator[Any]:
    """Records of a .wandb file: a log in blocks of 32 KiB, as of LevelDB, after 7 bytes."""
    from wandb.proto.wandb_internal_pb2 import Record

    content, at, whole = path.read_bytes(), 7, b""
    while at + 7 <= len(content):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        size, kind = int.from_bytes(content[at + 4 : at + 6], "little"), content[at + 6]
        whole += content[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):
            record = Record()
            record.ParseFromString(whole)
            yield record
            whole = b""


class Read:
    """What a .wandb file holds."""

    def __init__(self, path: Path) -> None:
        self.history: list[dict[str, Any]] = []
        self.summary: dict[str, Any] = {}
        self.config: dict[str, Any] = {}
        self.exit_code: int | None = None
        for record in wandb_records(path):
            kind = record.WhichOneof("record_type")
            if kind == "run":
                self.run = record.run
                self.config = decoded(record.run.config.update)
            elif kind == "history":
                self.history.append(decoded(record.history.item))
            elif kind == "summary":
                self.summary |= decoded(record.summary.update)
            elif kind == "exit":
                self.exit_code = record.exit.exit_code


def decoded(items: Any) -> dict[str, Any]:
    return {i.key or "/".join(i.nested_key): json.loads(i.value_json) for i in items}


def wandb_runs(folder: Path) -> list[Read]:
    return [Read(path) for path in sorted(folder.glob("tracking/wandb/*/*.wandb"))]


def table_of(run_folder: Path, value: dict[str, Any]) -> dict[str, Any]:
    (path,) = run_folder.glob(f"tracking/wandb/*/files/{value['path']}")
    content: dict[str, Any] = json.loads(path.read_text())
    return content


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
    parts = {read.config["repetition"]: read for read in runs}
    for row in results["repetitions"]:
        read = parts[row["index"]]
        record = json.loads(folder.repetition_path(row["index"]).read_text())
        assert read.run.job_type == "repetition"
        epochs = [h for h in read.history if "val_loss" in h]
        kept = [{k: h[k] for k in ("epoch", *record["curves"][0])} for h in epochs]
        assert kept == [{"epoch": i, **curve} for i, curve in enumerate(record["curves"])]
        assert {key: read.summary[key] for key in row["metrics"]} == row["metrics"]
        assert [read.summary[k] for k in ("best_epoch", "epochs")] == [
            row["best_epoch"],
            row["epochs"],
        ]
        expected = {**config, "force": False}
        assert {key: read.config[key] for key in expected} == expected
        assert read.config["environment"]["versions"] == results["versions"]
        curve = table_of(folder.path, read.summary["epochs_table"])
        assert curve["data"] == [[i, *each.values()] for i, each in enumerate(record["curves"])]
        assert read.summary["learning_curves"]["_type"] == "image-file"
    whole = parts[None]
    assert whole.run.job_type == "results"
    assert whole.summary["mean"] == results["result"]["mean"]
    table = table_of(folder.path, whole.summary["repetitions"])
    for row, held in zip(results["repetitions"], table["data"], strict=True):
        told = dict(zip(table["columns"], held, strict=True))
        assert {key: told.pop(key) for key in row["metrics"]} == row["metrics"]
        assert told == {key: row[key] for key in told}


def without_time(results: dict[str, Any]) -> list[Any]:
    return [[row["metrics"], row["best_epoch"]] for row in results["repetitions"]]


@pytest.mark.parametrize("name", ["none", "tensorboard"])
def test_a_tracker_changes_no_result(tiny: Maker, name: str) -> None:
    tracked = run_experiment(tiny(f"logger={name}", run_dir="tracked"))
    assert without_time(tracked) == without_time(run_experiment(tiny(run_dir="plain")))


def test_tensorboard_files_equal_the_record(tiny: Maker) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    config = tiny("logger=tensorboard", *FOLDS)
    results = run_experiment(config)
    folder = RunFolder.of(config)
    key = config_hash(config)
    for row in results["repetitions"]:
        record = json.loads(folder.repetition_path(row["index"]).read_text())
        (path,) = folder.path.glob(f"tracking/tensorboard/{key}-{row['index']:02d}-*")
        held = EventAccumulator(str(path)).Reload()
        for name in record["curves"][0]:
            values = [(e.step, e.value) for e in held.Scalars(name)]
            assert values == [(i, np.float32(c[name])) for i, c in enumerate(record["curves"])]
        for name, value in row["metrics"].items():
            assert held.Scalars(f"final/{name}")[0].value == np.float32(value)
        assert held.Tensors("status/text_summary")[0].tensor_proto.string_val == [b"finished"]
        assert "learning_curves" in held.Tags()["images"]
    (path,) = folder.path.glob(f"tracking/tensorboard/{key}-results-*")
    held = EventAccumulator(str(path)).Reload()
    assert held.Scalars("final/mean")[0].value == np.float32(results["result"]["mean"])
    assert "repetitions/text_summary" in held.Tags()["tensors"]


@pytest.mark.parametrize("error", [NonFiniteLossError, KeyboardInterrupt, SystemExit])
def test_a_training_that_is_ended_is_marked_failed(
    tiny: Maker, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    def stop(*args: object) -> None:
        raise error

    monkeypatch.setattr(repetition, "evaluate", stop)
    config = tiny("logger=wandb")
    with pytest.raises(error):
        run_experiment(config)
    (read,) = wandb_runs(RunFolder.of(config).path)
    assert read.exit_code == 1
    assert [h["epoch"] for h in read.history] == [0, 1]

    monkeypatch.undo()
    monkeypatch.setenv("NETRC", "absent")
    run_experiment(config)
    codes = sorted(each.exit_code or 0 for each in wandb_runs(RunFolder.of(config).path))
    assert codes == [0, 0, 1]


def test_no_two_runs_share_an_id(tiny: Maker, tmp_path: Path) -> None:
    config = tiny("logger=wandb")
    ids = {trackers.describe_run(config, tmp_path, "repetition", 0).run_id for _ in range(100)}
    assert len(ids) == 100


class Broken(tracked_runs.TrackedRun):
    """A tracker that fails at one of its calls."""

    fails_at: str
    calls: list[str]

    def __init__(self, run: tracked_runs.RunDescription) -> None:
        self._do("start")

    def _do(self, name: str) -> None:
        self.calls.append(name)
        if name == self.fails_at:
            os.environ["LEFT_BEHIND"] = "1"
            raise ConnectionError("the server\nanswers 500")

    def log(self, *args: object, **kwargs: object) -> None:
        self._do("log")

    def report(self, *args: object, **kwargs: object) -> None:
        self._do("report")

    def finish(self, *, failed: bool) -> None:
        self._do("finish")


@pytest.mark.parametrize("call", ["start", "log", "report", "finish"])
def test_whatever_fails_is_one_warning_and_no_more(
    tiny: Maker, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    broken = type("Broken", (Broken,), {"fails_at": call, "calls": []})
    monkeypatch.setattr(trackers, "TRACKERS", {"wandb": ("W&B", broken)})
    config = tiny("logger=wandb", *FOLDS)
    with pytest.warns(UserWarning, match=r"W&B failed \(ConnectionError: the server answers 500\)"
                      ) as caught:  # fmt: skip
        results = run_experiment(config)
    assert len(caught) == 1
    assert "results.json" in str(caught[0].message)
    assert results["state"] == "finished"
    assert broken.calls.count(call) <= 2
    assert "LEFT_BEHIND" not in os.environ
    # The next command asks the tracker again.
    folder = RunFolder.of(config).path
    assert (folder / "tracking" / "failure.txt").exists()
    trackers.prepare_tracking(folder)
    broken.fails_at = ""
    run = trackers.GuardedRun(folder, trackers.describe_run(config, folder, "repetition", 0))
    before = len(broken.calls)
    run.call(lambda run: run.log({}, 0))
    assert len(broken.calls) == before + 1


def test_a_resumed_training_logs_all_epochs_once(tiny: Maker, tmp_path: Path) -> None:
    logged: list[int] = []

    class Kept(Broken):
        fails_at, calls = "", []  # noqa: RUF012

        def log(self, values: object, epoch: int) -> None:  # type: ignore[override]
            logged.append(epoch)

    config = tiny("logger=wandb")
    run = trackers.GuardedRun(tmp_path, trackers.describe_run(config, tmp_path, "repetition", 0))
    run._run = Kept(run.description)
    curves = Curves()
    tracking = trackers.Tracking(run, curves)
    for epoch in range(5):
        curves.history.append({"val_loss": 1.0, "val_accuracy": 0.5})
        if epoch >= 2:
            tracking._log_epochs()
    tracking.complete({}, None)
    assert logged == [0, 1, 2, 3, 4]


class Errors(BaseHTTPRequestHandler):
    """Answers every request with status 500."""

    def do_POST(self) -> None:
        self.send_response(500)
        self.send_header("Content-Length", "0")
        self.end_headers()
        self.server.requests.append(self.path)  # type: ignore[attr-defined]

    do_GET = do_PUT = do_POST

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def failing_server() -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Errors)
    server.requests = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def command(config: dict[str, Any], *overrides: str, **environment: str) -> Any:
    """Run the command line on a small experiment."""
    small = ["data.num_train=32", "data.num_validation=16", "data.num_test=16"]
    words = [*small, "model.hidden_channels=8", "trainer.max_epochs=2", "trainer.accelerator=cpu"]
    paths = [f"paths.{key}={value}" for key, value in config["paths"].items()]
    return subprocess.run(
        [sys.executable, "-m", "unionsnn.cli", "--quiet", "train", *words, *paths, *overrides],
        env={**os.environ, **environment},
        cwd=Path(config["paths"]["output"]).parent,
        capture_output=True,
        text=True,
        timeout=300,
    )
