"""The files of finished experiments and of a study, whole: others read them."""

from __future__ import annotations

import json
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from freeze import product
from freeze.frozen import check, check_text, tree, without_volatile

SMALL = [
    "trainer.max_epochs=2",
    "trainer.accelerator=cpu",
    "trainer.threads=1",
    "model.hidden_channels=8",
    "model.num_layers=2",
]
CYCLES = ["data.num_train=48", "data.num_validation=16", "data.num_test=16", "data.batch_size=16"]
RUNS = {
    "cycles_gin_holdout": ["data=4cycles_small", "model=gin", *CYCLES],
    "mutag_unionsnn_folds": [
        "data=mutag",
        "model=unionsnn",
        "protocol=cross_validation",
        "protocol.folds=3",
    ],
    "cora_union_gcn_seeds": [
        "data=cora",
        "model=union_gcn",
        "protocol=repeated_seeds",
        "protocol.seeds=2",
    ],
}
STUDIES = {
    "tu_grid_smoke": ["--trials", "3"],
    "tu_tpe_smoke": ["--trials", "4"],
}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UNIONSNN_DATA", str(tmp_path / "data"))


def read(path: Path, folder: Path) -> Any:
    return without_volatile(json.loads(path.read_text()), folder)


@pytest.mark.parametrize("name", RUNS)
def test_record_of_an_experiment(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = RUNS[name]
    files = [] if "4cycles_small" in words[0] else product.files_for(words, tmp_path, monkeypatch)
    printed = product.command("train", *words, *files, *SMALL)
    (config,) = Path("runs").rglob("config.json")
    folder = config.parent
    assert printed == json.loads((folder / "results.json").read_text())
    check(f"records/{name}/files.json", tree(Path("runs")))
    last = max((folder / "repetitions").iterdir())
    for file in (config, folder / "results.json", last):
        check(f"records/{name}/{file.name}", read(file, tmp_path))
    check_text(
        f"records/{name}/metrics_header.csv",
        (folder / "logs" / last.stem / "metrics.csv").read_text().splitlines()[0] + "\n",
    )


@pytest.mark.parametrize("name", STUDIES)
def test_record_of_a_study(name: str, tmp_path: Path) -> None:
    small = ["data.num_train=48", "trainer.accelerator=cpu", "trainer.threads=1"]
    if name == "tu_tpe_smoke" and version("optuna") < "5":
        pytest.skip("frozen with Optuna 5, whose sampler proposes other trials than Optuna 4")
    printed = product.command("sweep", name, *STUDIES[name], *small)
    (record,) = Path("runs").rglob("study.json")
    folder = record.parent
    assert printed == json.loads(record.read_text())
    check(f"records/{name}/files.json", tree(Path("runs")))
    check(f"records/{name}/study.json", read(record, tmp_path))
    best = (folder / "experiment" / "best.yaml").read_text()
    # The value of the objective is in study.json.
    best = re.sub(r"(: val_\w+) [-.\de+]+\.$", r"\1 <value>.", best, flags=re.MULTILINE)
    check_text(f"records/{name}/best.yaml", best.replace(str(tmp_path), "<folder>"))
