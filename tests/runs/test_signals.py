"""Signals of terminals and batch systems, and variables that launchers set."""

from __future__ import annotations

import functools
import multiprocessing
import operator
import os
import signal
import subprocess
import sys
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pytorch_lightning.utilities import rank_zero_only

from unionsnn.base.processes import STOP_SIGNALS, ProcessPool, held_back_signals
from unionsnn.cli import app
from unionsnn.config.schema import Config
from unionsnn.runs.experiment import run_experiment
from unionsnn.runs.run_folder import RunFolder
from unionsnn.tracking.tracker import TrackedRun
from unionsnn.tracking.wandb import Wandb
from unionsnn.training import repetition
from unionsnn.training.callbacks import ResumePoint
from unionsnn.training.records import Result
from unionsnn.training.tasks import Task

Maker = Callable[..., Config]
SLURM = {
    "SLURM_NTASKS": "2",
    "SLURM_NTASKS_PER_NODE": "2",
    "SLURM_PROCID": "1",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "0",
    "SLURM_NODELIST": "n1",
    "SLURM_JOB_ID": "17",
    "SLURM_JOB_NAME": "train",
    "RANK": "1",
}


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    handlers = {each: signal.getsignal(each) for each in (signal.SIGINT, *STOP_SIGNALS)}
    hook = sys.unraisablehook
    yield
    sys.unraisablehook = hook
    for each, handler in handlers.items():
        signal.signal(each, handler)


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The second task of a job, whose working folder has a checkpoint that Lightning would load."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hpc_ckpt_1.ckpt").write_bytes(b"of another fold")
    for name, value in SLURM.items():
        monkeypatch.setenv(name, value)
    # As Lightning reads it from the variables when it is imported.
    monkeypatch.setattr(rank_zero_only, "rank", 1)


def words_of(config: Config, *more: str) -> list[str]:
    """Return overrides of a tiny run for the command line."""
    kept = ["data.num_train", "data.num_validation", "data.num_test", "data.batch_size"]
    kept += ["model.hidden_channels", "model.num_layers", "trainer.max_epochs"]
    kept += ["trainer.accelerator", "trainer.progress", "paths.output", "paths.data"]
    given = {word.partition("=")[0] for word in more}
    sections: Any = config.to_dict()
    return [
        *more,
        *(f"{k}={sections[k.split('.')[0]][k.split('.')[1]]}" for k in kept if k not in given),
    ]


def results(record: Result) -> list[Any]:
    return [(row.index, row.metrics, row.epochs) for row in record.repetitions]


@pytest.mark.parametrize("number", ["SIGUSR1", "SIGUSR2"])
def test_a_requeued_job_ends_with_the_numbers_of_an_undisturbed_one(
    tiny: Maker,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    number: str,
) -> None:
    settings = ["protocol=cross_validation", "protocol.folds=3", "trainer.max_epochs=25"]
    settings.append("protocol.patience=25")
    expected = run_experiment(tiny(*settings, run_dir="whole"))
    request.getfixturevalue("slurm")
    config = tiny(*settings, run_dir="requeued")
    words = words_of(config, *settings, f"run_dir={config.run_dir}")

    point = functools.partial(ResumePoint, interval=0.0, costs=0.0)

    def run() -> None:
        monkeypatch.setattr(repetition, "ResumePoint", point)
        sys.argv = ["unionsnn", "train", *words]
        with open("stderr", "w") as sys.stderr, open("stdout", "w") as sys.stdout:
            app.main()

    child = multiprocessing.get_context("fork").Process(target=run)
    child.start()
    folder, limit = RunFolder.of(config).path, time.monotonic() + 60
    while not (folder / "unfinished" / "01.ckpt").exists() and time.monotonic() < limit:
        time.sleep(0.002)
    assert child.pid is not None
    os.kill(child.pid, getattr(signal, number))
    child.join(60)
    assert child.exitcode == app.TERMINATED, Path("stderr").read_text()
    assert Path("stderr").read_text().splitlines()[-1] == f"Terminated. {app.KEPT}"
    assert (folder / "unfinished" / "01.ckpt").exists()
    assert results(run_experiment(config)) == results(expected)
    assert sorted(p.name for p in tmp_path.glob("*.ckpt")) == ["hpc_ckpt_1.ckpt"]


@pytest.mark.usefixtures("slurm", "_no_account")
def test_each_task_of_a_job_tracks_its_own_run(
    tiny: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []

    class Noted(TrackedRun):
        def __init__(self) -> None:
            started.append(1)

        def log(self, *args: object, **options: object) -> None:
            pass

        def report(self, *args: object, **options: object) -> None:
            pass

        def finish(self, *, failed: bool) -> None:
            pass

    monkeypatch.setattr(Wandb, "start", lambda *_: Noted())
    record = run_experiment(tiny("logger=wandb"))
    assert record.state == "finished"
    # The repetition, and the table of all repetitions.
    assert len(started) == 2
    assert rank_zero_only.rank == 0


@pytest.mark.parametrize("step", ["training_step", "validation_step", "test_step"])
def test_ctrl_c_ends_with_130_and_one_line(
    tiny: Maker,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    step: str,
) -> None:
    def interrupt(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    words = words_of(tiny())
    monkeypatch.setattr(Task, step, interrupt)
    monkeypatch.setattr(sys, "argv", ["unionsnn", "train", *words])
    with pytest.raises(SystemExit) as ended:
        app.main()
    assert ended.value.code == app.INTERRUPTED
    # click ends the line of ^C first.
    assert capsys.readouterr().err == f"\nInterrupted. {app.KEPT}\n"


def test_ctrl_c_in_the_last_validation_reaches_the_caller_who_can_press_it_again(
    tiny: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupt(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Task, "test_step", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_experiment(tiny())
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        ("coefficients graph.csv", "rerun the command to resume."),
        ("train force=true", "rerun the command without force=true to resume."),
    ],
)
def test_ctrl_c_where_python_ignores_exceptions_is_not_lost(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: str, advice: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["unionsnn", *words.split()])

    class Held:
        pass

    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    def run(**_: object) -> None:
        held = Held()
        reference = weakref.ref(held, interrupt)
        del held
        assert reference() is None
        time.sleep(30)

    monkeypatch.setattr(app.command_line, "main", run)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with pytest.raises(SystemExit) as ended:
        app.main()
    assert ended.value.code == app.INTERRUPTED
    assert capsys.readouterr().err == f"Interrupted. Finished work is kept; {advice}\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGUSR1])
def test_a_signal_that_comes_while_a_worker_starts_waits(number: signal.Signals) -> None:
    seen: list[int] = []
    signal.signal(number, lambda got, _: seen.append(got))
    with held_back_signals():
        signal.raise_signal(number)
        os.kill(os.getpid(), number)
        assert seen == []
    assert seen == [number]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGUSR1])
def test_a_signal_to_all_processes_is_the_parents_alone(number: signal.Signals) -> None:
    with ProcessPool(operator.neg, 1) as pool:
        pool.start(3)
        (child,) = multiprocessing.active_children()
        for _ in range(20):
            assert child.pid is not None
            os.kill(child.pid, number)
            time.sleep(0.01)
        assert pool.ended(60) == [(3, -3)]
        assert list(pool.run(deque([4]))) == [(4, -4)]


GUARDLESS = """
import operator
from unionsnn.base.processes import ProcessPool

with ProcessPool(operator.neg, 2) as pool:
    pool.start(3)
    print(pool.ended(60))
"""


def test_a_script_without_the_guard_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(GUARDLESS)
    words = [sys.executable, str(tmp_path / "script.py")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    # The script's own traceback, and none of its workers'.
    assert done.stderr.count("Traceback") == 1
    assert 'if __name__ == "__main__":' in done.stderr.splitlines()[-1]


def test_a_script_that_a_worker_runs_again_does_not_train(
    tiny: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(multiprocessing.current_process(), "_inheriting", True, raising=False)
    with pytest.raises(SystemExit):
        run_experiment(tiny())
