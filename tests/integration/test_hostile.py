"""Hostile situations: other versions, signals in workers, undefined metrics, caches that go."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from data_files import write_ogb
from unionsnn.base.errors import UndefinedMetricError
from unionsnn.cli import app as cli
from unionsnn.config.compose import compose_config
from unionsnn.data.catalog import CatalogEntry
from unionsnn.data.splits import Split
from unionsnn.runs import pending
from unionsnn.runs.experiment import run_experiment
from unionsnn.runs.run_folder import RunFolder
from unionsnn.training import callbacks
from unionsnn.training.evaluation import require_metric
from warned import user_warnings

SMALL = [
    "data.num_train=48",
    "data.num_validation=16",
    "data.num_test=16",
    "model.hidden_channels=8",
    "model.num_layers=1",
    "trainer.max_epochs=2",
    "trainer.accelerator=cpu",
    "trainer.progress=none",
]
FOLDS = ["protocol=cross_validation", "protocol.folds=3"]

Maker = Callable[..., dict[str, Any]]


@pytest.fixture
def small(tmp_path: Path) -> Maker:
    def make(*words: str) -> dict[str, Any]:
        paths = [f"paths.output={tmp_path / 'runs'}", f"paths.data={tmp_path / 'data'}"]
        given = {word.partition("=")[0] for word in words}
        own = [w for w in SMALL if w.partition("=")[0] not in given]
        if "data" in given:
            own = [w for w in own if not w.startswith("data.")]
        return compose_config([*own, *words, *paths])

    return make


def test_a_folder_of_an_older_version_is_gone_on_with(small: Maker) -> None:
    config = small(*FOLDS)
    run_experiment(small(*FOLDS, "protocol.only=[0]"))
    folder = RunFolder.of(config)
    path = folder.repetition_path(0)
    held = json.loads(path.read_text())
    held["versions"]["unionsnn"] = "0.0.1"
    # Keys that a later version may have added.
    for key in ("layer_coefficient", "encodings", "git_revision", "platform"):
        del held[key]
    path.write_text(json.dumps(held))
    # It holds the digest of the record as it was written.
    folder.results_path.unlink()
    kept = path.stat().st_mtime_ns
    with pytest.warns(UserWarning, match=r"unionsnn 0\.0\.1 -> ") as caught:
        record = run_experiment(config)
    assert len(user_warnings(caught)) == 1
    assert path.stat().st_mtime_ns == kept
    assert record.state == "finished"
    assert {v["unionsnn"] for v in record.versions} >= {"0.0.1"}


def test_a_changed_configuration_goes_to_another_folder(small: Maker) -> None:
    first = run_experiment(small())
    path = RunFolder.of(small()).results_path
    before = path.read_bytes()
    second = small("optimizer.lr=0.005")
    run_experiment(second)
    assert RunFolder.of(second).path != path.parent
    assert path.read_bytes() == before
    assert run_experiment(small()) == first


@pytest.mark.parametrize(("number", "status"), [("SIGTERM", 143), ("SIGINT", 130)])
def test_a_signal_ends_all_workers_and_the_same_command_goes_on(
    small: Maker, tmp_path: Path, number: str, status: int
) -> None:
    long = ["trainer.max_epochs=100000", "protocol.patience=100000", "protocol.workers=2"]
    config = small(*FOLDS, *long)
    paths = [f"paths.{key}={getattr(config.paths, key)}" for key in ("data", "output")]
    words = [*FOLDS, *long, *(w for w in SMALL if not w.startswith("trainer.max_ep")), *paths]

    def run() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.argv = ["unionsnn", "train", *words]
        cli.main()

    process = multiprocessing.get_context("fork").Process(target=run)
    process.start()
    folder, limit = RunFolder.of(config).path, time.monotonic() + 120
    while len(list(folder.glob("unfinished/*.ckpt"))) < 2 and time.monotonic() < limit:
        assert process.is_alive()
        time.sleep(0.05)
    assert process.pid is not None
    workers = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(process.pid, getattr(signal, number))
    process.join(60)
    assert process.exitcode == status
    assert len(workers) >= 2
    limit = time.monotonic() + 30
    while any(Path(f"/proc/{pid}").exists() for pid in workers) and time.monotonic() < limit:
        time.sleep(0.05)
    assert not [pid for pid in workers if Path(f"/proc/{pid}").exists()]
    assert len(list(folder.glob("unfinished/*.ckpt"))) == 2
    with RunFolder.of(config).locked():
        pass


def test_a_fold_without_a_class_fails_with_the_reason_and_the_others_count(
    small: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CatalogEntry, "check", lambda *args: None)
    config = small("data=molbbbp", "protocol=repeated_seeds", "protocol.seeds=3")
    write_ogb(tmp_path, config.data.folder)
    config = config.replace({"data.mirror": str(tmp_path), "data.offline": True})
    original = pending.recorded_splits

    def one_class(folder: Any, protocol: Any, data: Any, seed: int) -> Any:
        splits = original(folder, protocol, data, seed)
        test = splits[1].test
        same = test[np.asarray(data.targets)[test] == np.asarray(data.targets)[test[0]]]
        splits[1] = replace(splits[1], test=same)
        return splits

    monkeypatch.setattr(pending, "recorded_splits", one_class)
    record = run_experiment(config)
    (failed,) = record.failed
    assert (failed.index, failed.kind) == (1, "UndefinedMetricError")
    assert "rocauc is undefined on the test part" in failed.reason
    assert "smaller protocol.folds" in failed.reason
    assert len(record.result.values) == 2


def test_other_metrics_need_no_second_class() -> None:
    part = np.arange(4)
    split = Split(part, part, part)
    data: Any = SimpleNamespace(
        task="graph_classification", metric=None, targets=np.zeros(4, dtype=int)
    )
    require_metric(data, split)
    data.task = "graph_binary_classification"
    with pytest.raises(UndefinedMetricError, match="its 4 graphs are all of class 0"):
        require_metric(data, split)
    data.targets = np.array([0, 1, 1, 0])
    require_metric(data, split)


def test_a_cache_that_goes_in_mid_run_stops_nothing(
    small: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = run_experiment(small(*FOLDS, "seed=0")).result
    shutil.rmtree(tmp_path / "runs")
    original = callbacks.Curves.on_train_epoch_end

    def delete(self: Any, *arguments: Any) -> None:
        shutil.rmtree(tmp_path / "data", ignore_errors=True)
        original(self, *arguments)

    monkeypatch.setattr(callbacks.Curves, "on_train_epoch_end", delete)
    assert run_experiment(small(*FOLDS)).result == expected
    assert not (tmp_path / "data").exists()


def test_workers_make_a_cache_anew_that_went_before_they_read_it(
    small: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = run_experiment(small(*FOLDS)).result
    shutil.rmtree(tmp_path / "runs")
    original = pending.train_in_workers

    def delete(*arguments: Any) -> Any:
        shutil.rmtree(tmp_path / "data")
        return original(*arguments)

    monkeypatch.setattr(pending, "train_in_workers", delete)
    assert run_experiment(small(*FOLDS, "protocol.workers=2")).result == expected
