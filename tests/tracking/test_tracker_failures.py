"""Trackers that fail, and trainings that do: neither hides or stops the other."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from unionsnn.base.errors import NonFiniteLossError, RequestError
from unionsnn.runs.experiment import run_experiment
from unionsnn.runs.run_folder import RunFolder
from unionsnn.tracking import tracker
from unionsnn.tracking.tracker import TrackedRun
from unionsnn.tracking.wandb import Wandb
from unionsnn.training import repetition, tracking
from unionsnn.training.callbacks import Curves
from wandb_files import wandb_runs

Maker = Callable[..., dict[str, Any]]
pytestmark = pytest.mark.usefixtures("_no_account")
FOLDS = ["protocol=cross_validation", "protocol.folds=3"]


@pytest.mark.parametrize("error", [NonFiniteLossError, KeyboardInterrupt, SystemExit])
def test_a_training_that_is_ended_is_marked_failed(
    tiny: Maker, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    def stop(*args: object, **options: object) -> None:
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


class Broken(TrackedRun):
    """A tracker that fails at one of its calls."""

    fails_at: str
    calls: list[str]

    def __init__(self) -> None:
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
    monkeypatch.setattr(Wandb, "start", lambda options, run: broken())
    config = tiny("logger=wandb", *FOLDS)
    with pytest.warns(UserWarning, match=r"W&B failed \(ConnectionError: the server answers 500\)"
                      ) as caught:  # fmt: skip
        results = run_experiment(config)
    # Newer Pythons deprecate what other packages use.
    (said,) = (each for each in caught if issubclass(each.category, UserWarning))
    assert "results.json" in str(said.message)
    assert results.state == "finished"
    assert broken.calls.count(call) <= 2
    assert "LEFT_BEHIND" not in os.environ
    # The next command asks the tracker again.
    folder = RunFolder.of(config).path
    assert (folder / "tracking" / "failure_wandb.txt").exists()
    tracking.prepare_tracking(folder)
    broken.fails_at = ""
    run = tracking.GuardedRun(config, folder, "repetition", 0)
    before = len(broken.calls)
    run.call(lambda run: run.log({}, 0))
    assert len(broken.calls) == before + 1


def test_a_resumed_training_logs_all_epochs_once(
    tiny: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged: list[int] = []

    class Kept(Broken):
        fails_at, calls = "", []

        def log(self, values: object, epoch: int) -> None:  # type: ignore[override]
            logged.append(epoch)

    config = tiny("logger=wandb")
    monkeypatch.setattr(Wandb, "start", lambda options, run: Kept())
    run = tracking.GuardedRun(config, tmp_path, "repetition", 0)
    curves = Curves()
    callback = tracking.Tracking(run, curves)
    for epoch in range(5):
        curves.history.append({"val_loss": 1.0, "val_accuracy": 0.5})
        if epoch >= 2:
            callback._log_epochs()
    callback.complete({}, None, None)
    assert logged == [0, 1, 2, 3, 4]


class Errors(BaseHTTPRequestHandler):
    """Answers every request with status 500."""

    def do_POST(self) -> None:
        self.send_response(500)
        self.send_header("Content-Length", "0")
        self.end_headers()
        self.server.requests.append(self.path)  # type: ignore[attr-defined]

    do_GET = do_PUT = do_POST  # noqa: N815

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


def train(*overrides: str, cwd: Path, **environment: str) -> subprocess.Popen[str]:
    """Start the command on a small experiment."""
    code = "import sys; from unionsnn.cli import main; sys.argv[0] = 'unionsnn'; main()"
    small = ["data.num_train=32", "data.num_validation=16", "data.num_test=16"]
    small += ["model.hidden_channels=8", "trainer.accelerator=cpu", f"paths.data={cwd / 'data'}"]
    return subprocess.Popen(
        [sys.executable, "-c", code, "--quiet", "train", *small, *overrides],
        env={**os.environ, **environment},
        cwd=cwd,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("workers", [1, 2])
def test_a_server_that_answers_errors_leaves_one_warning(
    tmp_path: Path, failing_server: ThreadingHTTPServer, workers: int
) -> None:
    process = train(
        *("logger=wandb", "logger.mode=online", f"protocol.workers={workers}", *FOLDS),
        *("trainer.max_epochs=1", f"paths.output={tmp_path / 'runs'}"),
        cwd=tmp_path,
        WANDB_API_KEY="0" * 40,
        WANDB_BASE_URL=f"http://127.0.0.1:{failing_server.server_port}",
    )
    _, said = process.communicate(timeout=400)
    assert process.returncode == 0, said
    assert failing_server.requests  # type: ignore[attr-defined]
    assert said.count("W&B failed") == 1
    assert said.lower().count("warning: w&b failed") == 1
    (path,) = tmp_path.rglob("results.json")
    assert json.loads(path.read_text())["state"] == "finished"
    assert not (tmp_path / "wandb").exists()


def test_sigterm_marks_a_run_as_failed_and_nothing_is_printed(tmp_path: Path) -> None:
    process = train(
        *("logger=wandb", "trainer.max_epochs=100000", "protocol.patience=100000"), cwd=tmp_path
    )
    while process.poll() is None and not list(tmp_path.rglob("metrics.csv")):
        threading.Event().wait(0.1)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 143
    assert said.startswith("Terminated.")
    assert len(said.splitlines()) == 1
    assert [p.name for p in tmp_path.iterdir() if "wandb" in p.name] == []
    (folder,) = (tmp_path / "runs").glob("*/*/*")
    (read,) = wandb_runs(folder)
    assert read.exit_code == 1


@pytest.mark.parametrize("name", ["mlflow", "tensorboard", "wandb"])
def test_an_absent_package_is_refused_before_training(
    tiny: Maker, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(tracker, "find_spec", lambda name: None)
    config = tiny(f"logger={name}")
    with pytest.raises(RequestError, match=rf"'unionsnn\[{name}\]'") as refused:
        run_experiment(config)
    assert refused.value.codes == ["logger.not_installed"]
    assert not RunFolder.of(config).path.exists()


def test_online_without_a_key_is_refused(
    tiny: Maker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = tiny("logger=wandb", "logger.mode=online")
    with pytest.raises(RequestError) as refused:
        run_experiment(config)
    assert refused.value.codes == ["logger.no_key"]
    (tmp_path / "netrc").write_text("machine api.wandb.ai login user password secret\n")
    config.logger.check()
    (tmp_path / "netrc").unlink()
    monkeypatch.setenv("WANDB_API_KEY", "key")
    config.logger.check()


def test_two_jobs_at_once_never_share_a_run(tmp_path: Path) -> None:
    jobs = [
        train("logger=wandb", "trainer.max_epochs=1", f"paths.output={folder}", cwd=tmp_path)
        for folder in ("one", "two")
    ]
    for job in jobs:
        _, said = job.communicate(timeout=300)
        assert (job.returncode, said) == (0, "")
    runs = [[r.run for r in wandb_runs(p)] for p in tmp_path.glob("*/4cycles_small/*/*")]
    assert [len(each) for each in runs] == [2, 2]
    assert len({run.run_id for each in runs for run in each}) == 4
    assert len({run.run_group for each in runs for run in each}) == 1
