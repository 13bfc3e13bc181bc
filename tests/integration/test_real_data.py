"""The commands of the README on real data; started by hand with `make test-slow`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

CODE = "import sys; from unionsnn.cli import main; sys.argv[0] = 'unionsnn'; main()"
FOLDS = ["-q", "train", "protocol=cross_validation"]


def start(cwd: Path, mirror: Path, *arguments: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "UNIONSNN_MIRROR": str(mirror), "UNIONSNN_DATA": str(cwd / "data")}
    return subprocess.Popen([sys.executable, "-c", CODE, *arguments], cwd=cwd, env=environment)


def trained(cwd: Path, mirror: Path, *arguments: str) -> None:
    assert start(cwd, mirror, *arguments).wait() == 0


def record(folder: Path) -> dict[str, Any]:
    (path,) = folder.rglob("results.json")
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def comparable(content: dict[str, Any]) -> tuple[Any, ...]:
    rows = [(r["metrics"], r["best_epoch"], r["split_hash"]) for r in content["repetitions"]]
    return content["state"], content["result"], rows


def test_mutag_killed_after_three_folds_ends_like_an_uninterrupted_run(
    tmp_path: Path, mirror: Path
) -> None:
    trained(tmp_path, mirror, *FOLDS, "data=mutag", "paths.output=whole")
    expected = record(tmp_path / "whole")
    killed = start(tmp_path, mirror, *FOLDS, "data=mutag", "paths.output=killed")
    while len(kept := list((tmp_path / "killed").rglob("repetitions/[0-9]*.json"))) < 3:
        assert killed.poll() is None
        time.sleep(0.01)
    killed.kill()
    killed.wait()
    times = {path: path.stat().st_mtime_ns for path in kept}
    trained(tmp_path, mirror, *FOLDS, "data=mutag", "paths.output=killed")
    assert {path: path.stat().st_mtime_ns for path in kept} == times
    assert comparable(record(tmp_path / "killed")) == comparable(expected)
    workers = [*FOLDS, "data=mutag", "protocol.workers=2", "paths.output=workers"]
    trained(tmp_path, mirror, *workers)
    assert comparable(record(tmp_path / "workers")) == comparable(expected)


def test_proteins_runs_the_same_way(tmp_path: Path, mirror: Path) -> None:
    trained(tmp_path, mirror, *FOLDS, "data=proteins", "protocol.workers=2")
    content = record(tmp_path / "runs")
    assert content["state"] == "finished"
    assert len(content["result"]["values"]) == 10
    # The share of the larger class: below it nothing was learned.
    assert content["result"]["mean"] > 663 / 1113


@pytest.mark.parametrize(("model", "low", "high"), [("unionsnn", 0.99, 1.0), ("gin", 0.45, 0.60)])
def test_default_experiment_and_its_control(
    tmp_path: Path, mirror: Path, model: str, low: float, high: float
) -> None:
    trained(tmp_path, mirror, "-q", "train", f"model={model}")
    assert low <= record(tmp_path / "runs")["result"]["mean"] <= high
