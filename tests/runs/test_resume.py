"""Killed runs: nothing finished is lost, and the end is that of an uninterrupted run."""

from __future__ import annotations

import csv
import errno
import io
import json
import multiprocessing
import os
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest
import torch

from interrupted import StopHereError, every_epoch, run_until
from unionsnn.base.errors import RunFolderError
from unionsnn.base.files import atomic_write
from unionsnn.config.identity import config_hash
from unionsnn.config.schema import Config
from unionsnn.data.splits import Split
from unionsnn.runs import experiment
from unionsnn.runs.experiment import run_experiment
from unionsnn.runs.run_folder import RunFolder
from unionsnn.training import callbacks, checkpoints, repetition
from unionsnn.training.callbacks import ResumePoint
from unionsnn.training.records import Result
from unionsnn.training.repetition import Training
from warned import user_warnings

Maker = Callable[..., dict[str, Any]]
FOLDS = ["protocol=cross_validation", "protocol.folds=5"]


def killed_when(config: Config, condition: Callable[[], bool]) -> None:
    """Run in a forked process and kill it as soon as the condition holds."""
    child = multiprocessing.get_context("fork").Process(target=run_experiment, args=(config,))
    child.start()
    limit = time.monotonic() + 120
    while not condition() and child.is_alive() and time.monotonic() < limit:
        time.sleep(0.002)
    child.kill()
    child.join()


def repetitions(config: Config) -> list[Path]:
    return sorted((RunFolder.of(config).path / "repetitions").glob("[0-9]*.json"))


def comparable(record: Result) -> tuple[Any, ...]:
    rows = [(r.index, r.metrics, r.best_epoch, r.epochs) for r in record.repetitions]
    return record.result, rows, record.state


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


@pytest.mark.parametrize("precision", ["32-true", "64-true", "bf16-mixed"])
def test_a_long_repetition_goes_on_from_its_last_checkpoint_bit_for_bit(
    tiny: Maker, monkeypatch: pytest.MonkeyPatch, precision: str
) -> None:
    settings = ["trainer.max_epochs=6", "model.dropout=0.5", "protocol.patience=3"]
    settings.append(f"trainer.precision={precision}")
    expected = run_experiment(tiny(*settings, run_dir="whole"))
    config = tiny(*settings, run_dir="stopped")
    run_until(3, config, monkeypatch)
    unfinished = RunFolder.of(config).path / "unfinished"
    assert [path.name for path in unfinished.iterdir()] == ["00.ckpt"]
    trained: list[int] = []

    original = callbacks.Curves.on_train_epoch_end

    def note(self: Any, trainer: Any, module: Any) -> None:
        trained.append(trainer.current_epoch)
        original(self, trainer, module)

    monkeypatch.setattr(callbacks.Curves, "on_train_epoch_end", note)
    record = run_experiment(config)
    assert trained[0] == 3
    assert comparable(record) == comparable(expected)
    folders = [RunFolder.of(c) for c in (config, Config.from_dict(expected.config))]
    curves = [folder.finished()[0].curves for folder in folders]
    assert curves[0] == curves[1]
    tables = [(folder.path / "logs" / "00" / "metrics.csv").read_text() for folder in folders]
    assert tables[0] == tables[1]
    rows = list(csv.DictReader(tables[0].splitlines()))
    assert [int(row["epoch"]) for row in rows] == list(range(len(curves[0])))
    assert [float(row["val_loss"]) for row in rows] == [epoch["val_loss"] for epoch in curves[0]]
    assert not unfinished.exists()


STOPPED = ["trainer.max_epochs=9", "protocol.patience=1", "optimizer.lr=0.1", "model.dropout=0.5"]
ENDED = ["trainer.max_epochs=3"]


@pytest.mark.parametrize("place", ["evaluate", "save"])
@pytest.mark.parametrize("settings", [STOPPED, ENDED], ids=["stopped early", "all epochs"])
def test_nothing_is_trained_again_between_the_last_epoch_and_the_record(
    tiny: Maker, monkeypatch: pytest.MonkeyPatch, settings: list[str], place: str
) -> None:
    expected = run_experiment(tiny(*settings, run_dir="whole"))
    epochs = expected.repetitions[0].epochs
    assert epochs == 3 if settings is ENDED else epochs < 9
    config = tiny(*settings, run_dir="killed")
    every_epoch(monkeypatch)

    def stop(*args: Any, **options: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        if place == "evaluate":
            patch.setattr(repetition, "evaluate", stop)
        else:
            patch.setattr(RunFolder, "save_repetition", stop)
        with pytest.raises(RunFolderError, match="No space left"):
            run_experiment(config)
    unfinished = RunFolder.of(config).path / "unfinished"
    point = unfinished / "00.ckpt"
    content = torch.load(point, weights_only=True)
    content["callbacks"]["ResumePoint"]["seconds"] += 1000
    torch.save(content, point)
    # As a killed process leaves it in the middle of a file.
    (unfinished / ".00.ckpt.1f.part").write_bytes(b"half")

    def refuse(*args: object) -> None:
        raise AssertionError("an epoch is trained again")

    with monkeypatch.context() as patch:
        patch.setattr(callbacks.Curves, "on_train_epoch_end", refuse)
        record = run_experiment(config)
    assert comparable(record) == comparable(expected)
    assert record.repetitions[0].seconds > 1000
    assert not unfinished.exists()


def test_a_training_that_stops_early_stops_there_after_a_kill_in_any_epoch(
    tiny: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ["trainer.max_epochs=30", "protocol.patience=2", "optimizer.lr=0.02"]
    expected = run_experiment(tiny(*settings, run_dir="whole"))
    epochs = expected.repetitions[0].epochs
    assert 4 <= epochs < 30
    every_epoch(monkeypatch)
    original = ResumePoint.on_train_epoch_end
    for last in range(epochs):
        config = tiny(*settings, run_dir=f"killed{last}")

        def stop(self: Any, trainer: Any, module: Any, last: int = last) -> None:
            original(self, trainer, module)
            if trainer.current_epoch == last:
                raise StopHereError

        with monkeypatch.context() as patch:
            patch.setattr(ResumePoint, "on_train_epoch_end", stop)
            with pytest.raises(StopHereError):
                run_experiment(config)
        assert comparable(run_experiment(config)) == comparable(expected)


def test_a_resumed_end_leaves_the_generator_as_an_uninterrupted_one(
    tiny: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    every_epoch(monkeypatch)
    states: list[torch.Tensor] = []
    original = repetition.evaluate

    def note(*args: Any, **options: Any) -> dict[str, float]:
        states.append(torch.get_rng_state())
        if len(states) == 1:
            raise StopHereError
        return original(*args, **options)

    monkeypatch.setattr(repetition, "evaluate", note)
    with pytest.raises(StopHereError):
        run_experiment(tiny(*ENDED))
    run_experiment(tiny(*ENDED))
    assert torch.equal(*states)


def test_a_point_of_a_recorded_repetition_is_deleted(tiny: Maker) -> None:
    config = tiny()
    run_experiment(config)
    points = RunFolder.of(config).path / "unfinished"
    points.mkdir(exist_ok=True)
    names = ["00.ckpt", "00-003.ckpt", "01.ckpt"]
    for name in names:
        (points / name).touch()
    run_experiment(config)
    assert [path.name for path in points.iterdir()] == ["01.ckpt"]


def test_a_full_disk_is_named_as_such(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Full(io.BytesIO):
        def write(self, data: object) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(checkpoints, "atomic_write", lambda path, write: write(Full()))
    with pytest.raises(OSError, match="No space left"):
        checkpoints.save_tensors(tmp_path / "a.ckpt", {"weight": torch.zeros(9)})


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "other"])
def test_a_damaged_checkpoint_is_set_aside_and_its_repetition_starts_anew(
    tiny: Maker, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    config = tiny()
    expected = run_experiment(config)
    path = RunFolder.of(config).path / "unfinished" / "00.ckpt"
    content = (path.parents[1] / "checkpoints" / "00.ckpt").read_bytes()
    middle = len(content) // 2
    damaged = {
        "cut": content[:middle],
        "flipped": content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :],
        "empty": b"",
        # A sound file, but of selected weights, from which no training can go on.
        "other": content,
    }[damage]
    RunFolder.of(config).repetition_path(0).unlink()
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(damaged)
    with pytest.warns(UserWarning, match=r"00\.ckpt is damaged .* starts over") as caught:
        record = run_experiment(config)
    assert len(user_warnings(caught)) == 1
    assert comparable(record) == comparable(expected)
    assert path.with_name("00.ckpt.damaged").read_bytes() == damaged
    assert not path.exists()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, None),
        ({"config": "00000000"}, "of another training (config 00000000, not "),
        ({"training": "01"}, "of another training (training 01, not 00)"),
        ({"code": {"own.Net": "0"}}, "of other code (own.Net)"),
        ({"code": {"own.Net": "0"}, "accepted": True}, "The file of own.Net has changed since"),
    ],
)
def test_a_resume_point_of_another_training_or_of_other_code_is_named(
    tiny: Maker, tmp_path: Path, changes: dict[str, Any], said: str | None
) -> None:
    empty = np.arange(0)
    accepted = ["accept_code=true"] if changes.pop("accepted", False) else []
    training = Training(tiny(*accepted), Split(empty, empty, empty), 0, tmp_path)
    about = {"config": config_hash(training.config), "training": "00"}
    saved = {"callbacks": {"ResumePoint": {"about": {**about, "code": {}, **changes}}}}
    checkpoints.save_tensors(training.unfinished, saved)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        repetition.check_resume_point(training, about)
    lines = user_warnings(caught)
    assert len(lines) == (said is not None)
    assert all(said in line and str(training.unfinished) in line for line in lines)
    assert training.unfinished.exists() == (said is None or bool(accepted))


def test_a_resume_point_that_cannot_be_written_does_not_stop_the_training(
    tiny: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    every_epoch(monkeypatch)

    def full(path: Path, write: Callable[[BinaryIO], object]) -> None:
        def half(file: BinaryIO) -> None:
            write(file)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        atomic_write(path, half)

    monkeypatch.setattr(checkpoints, "atomic_write", full)
    config = tiny("trainer.max_epochs=3", "trainer.keep_checkpoints=false")
    with pytest.warns(UserWarning, match="No space left") as caught:
        record = run_experiment(config)
    assert len(user_warnings(caught)) == 1
    assert record.state == "finished"
    assert not (RunFolder.of(config).path / "unfinished").exists()


def test_other_versions_on_resume_give_one_warning_and_are_both_recorded(tiny: Maker) -> None:
    config = tiny(*FOLDS)
    run_experiment(config.replace({"protocol.only": [0]}))
    (path,) = repetitions(config)
    held = json.loads(path.read_text())
    held["versions"]["torch"] = "1.0.0"
    path.write_text(json.dumps(held))
    RunFolder.of(config).results_path.unlink()
    with pytest.warns(UserWarning, match=r"torch 1\.0\.0 -> ") as caught:
        record = run_experiment(config)
    assert len(user_warnings(caught)) == 1
    assert {v["torch"] for v in record.versions} >= {"1.0.0"}
    assert len(record.versions) == 2


def test_another_revision_of_the_package_is_named(
    tiny: Maker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    record = run_experiment(tiny("trainer.max_epochs=1"))
    (held,) = RunFolder.of(tiny("trainer.max_epochs=1")).finished().values()
    assert record.state == "finished"
    for now, before, named in (("new", "old", True), ("new", None, False), (None, "old", False)):
        present = {"versions": held.versions, "git_revision": now}
        monkeypatch.setattr(experiment, "environment", lambda present=present: present)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            experiment.warn_of_other_versions(tmp_path, {0: replace(held, git_revision=before)})
        assert ["revision old -> new" in each for each in user_warnings(caught)] == [True] * named


def test_a_killed_worker_loses_its_own_repetition_only(tiny: Maker) -> None:
    config = tiny(*FOLDS, "protocol.workers=2")
    expected = run_experiment(tiny(*FOLDS, run_dir="whole"))

    def kill_a_child() -> None:
        while not repetitions(config):
            time.sleep(0.002)
        for child in multiprocessing.active_children()[:1]:
            child.kill()

    def run() -> None:
        threading.Thread(target=kill_a_child, daemon=True).start()
        record = run_experiment(config)
        reasons = [row.reason for row in record.failed]
        told = all("worker process was killed" in reason for reason in reasons)
        whole = len(record.repetitions) + len(reasons) == 5
        os._exit(0 if told and whole and len(reasons) <= 1 else 8)

    child = multiprocessing.get_context("fork").Process(target=run)
    child.start()
    child.join()
    assert child.exitcode == 0
    assert len(repetitions(config)) >= 4
    assert comparable(run_experiment(config)) == comparable(expected)
