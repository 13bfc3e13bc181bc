"""Killed runs: nothing finished is lost, and the end is that of an uninterrupted run."""

from __future__ import annotations

import json
import multiprocessing
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unionsnn.training import callbacks, repetition
from unionsnn.training.callbacks import ResumePoint
from unionsnn.training.experiment import run_experiment
from unionsnn.training.records import RunFolder
from unionsnn.training.workers import WorkerDiedError

Maker = Callable[..., dict[str, Any]]
FOLDS = ["protocol=cross_validation", "protocol.folds=5"]


def killed_when(config: dict[str, Any], condition: Callable[[], bool]) -> None:
    """Run in a forked process and kill it as soon as the condition holds."""
    child = multiprocessing.get_context("fork").Process(target=run_experiment, args=(config,))
    child.start()
    limit = time.monotonic() + 120
    while not condition() and child.is_alive() and time.monotonic() < limit:
        time.sleep(0.002)
    child.kill()
    child.join()


def repetitions(config: dict[str, Any]) -> list[Path]:
    return sorted((RunFolder.of(config).path / "repetitions").glob("[0-9]*.json"))


def comparable(record: dict[str, Any]) -> tuple[Any, ...]:
    rows = [(r["index"], r["metrics"], r["best_epoch"], r["epochs"]) for r in record["repetitions"]]
    return record["result"], rows, record["state"]


def test_a_killed_run_keeps_its_folds_and_ends_like_an_uninterrupted_one(tiny: Maker) -> None:
    expected = run_experiment(tiny(*FOLDS, run_dir="whole"))
    config = tiny(*FOLDS, run_dir="killed")
    killed_when(config, lambda: len(repetitions(config)) >= 2)
    kept = {path: path.stat().st_mtime_ns for path in repetitions(config)}
    assert 2 <= len(kept) < 5
    record = run_experiment(config)
    assert comparable(record) == comparable(expected)
    assert {path: path.stat().st_mtime_ns for path in kept} == kept


def test_twenty_kills_at_random_moments_lose_nothing(tiny: Maker) -> None:
    many = ["protocol=cross_validation", "protocol.folds=10", "trainer.max_epochs=4"]
    expected = run_experiment(tiny(*many, run_dir="whole"))
    config = tiny(*many, run_dir="killed")
    generator = np.random.default_rng(0)
    seen: dict[Path, int] = {}
    for _ in range(20):
        end = time.monotonic() + generator.uniform(0.0, 0.6)
        killed_when(config, lambda end=end: time.monotonic() > end)
        now = {path: path.stat().st_mtime_ns for path in repetitions(config)}
        assert seen.items() <= now.items()
        for path in now:
            json.loads(path.read_text())
        seen = now
    assert len(seen) > 0
    assert comparable(run_experiment(config)) == comparable(expected)


class StopHereError(Exception):
    """Raised in mid-training."""


def test_a_long_repetition_goes_on_from_its_last_checkpoint_bit_for_bit(
    tiny: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ["trainer.max_epochs=6", "model.dropout=0.5", "protocol.patience=3"]
    expected = run_experiment(tiny(*settings, run_dir="whole"))
    config = tiny(*settings, run_dir="stopped")
    monkeypatch.setattr(
        repetition, "ResumePoint", lambda path, draw: ResumePoint(path, draw, interval=0.0)
    )
    original = callbacks.Curves.on_train_epoch_end

    def stop(self: Any, trainer: Any, module: Any) -> None:
        if trainer.current_epoch == 3:
            raise StopHereError
        original(self, trainer, module)

    with monkeypatch.context() as patch:
        patch.setattr(callbacks.Curves, "on_train_epoch_end", stop)
        with pytest.raises(StopHereError):
            run_experiment(config)
    unfinished = RunFolder.of(config).path / "unfinished"
    assert [path.name for path in unfinished.iterdir()] == ["00.ckpt"]
    trained: list[int] = []

    def note(self: Any, trainer: Any, module: Any) -> None:
        trained.append(trainer.current_epoch)
        original(self, trainer, module)

    monkeypatch.setattr(callbacks.Curves, "on_train_epoch_end", note)
    record = run_experiment(config)
    assert trained[0] == 3
    assert comparable(record) == comparable(expected)
    curves = [RunFolder.of(c).finished()[0]["curves"] for c in (config, expected["config"])]
    assert curves[0] == curves[1]
    assert list(unfinished.iterdir()) == []


def test_other_versions_on_resume_give_one_warning_and_are_both_recorded(tiny: Maker) -> None:
    config = tiny(*FOLDS)
    run_experiment({**config, "protocol": {**config["protocol"], "only": [0]}})
    (path,) = repetitions(config)
    held = json.loads(path.read_text())
    held["versions"]["torch"] = "1.0.0"
    path.write_text(json.dumps(held))
    with pytest.warns(UserWarning, match=r"torch 1\.0\.0 -> ") as caught:
        record = run_experiment(config)
    assert len(caught) == 1
    assert {v["torch"] for v in record["versions"]} >= {"1.0.0"}
    assert len(record["versions"]) == 2


def test_a_killed_worker_is_told_and_the_rest_goes_on_later(
    tiny: Maker,
) -> None:
    config = tiny(*FOLDS, "protocol.workers=2")
    expected = run_experiment(tiny(*FOLDS, run_dir="whole"))

    def kill_a_child() -> None:
        while not repetitions(config):
            time.sleep(0.002)
        for child in multiprocessing.active_children()[:1]:
            child.kill()

    def run() -> None:

        threading.Thread(target=kill_a_child, daemon=True).start()
        try:
            run_experiment(config)
        except WorkerDiedError as error:
            os._exit(7 if "the same command goes on" in str(error) else 8)
        os._exit(0)

    child = multiprocessing.get_context("fork").Process(target=run)
    child.start()
    child.join()
    assert child.exitcode in (0, 7)
    assert comparable(run_experiment(config)) == comparable(expected)
