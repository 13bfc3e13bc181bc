"""Splits are drawn as they were: a result is compared with earlier ones on the same splits."""

from __future__ import annotations

from pathlib import Path

import pytest

from freeze import product
from freeze.frozen import check

CYCLES = "data=4cycles_small data.num_train=48 data.num_validation=16 data.num_test=16"
DRAWN = (
    CYCLES,
    f"{CYCLES} protocol=repeated_seeds seed=1",
    f"{CYCLES} protocol=cross_validation protocol.folds=5",
    f"{CYCLES} protocol=cross_validation protocol.folds=5 seed=1",
    f"{CYCLES} protocol=cross_validation_paper protocol.folds=5",
    "data=mutag",
    "data=mutag seed=1",
    "data=mutag protocol=repeated_seeds",
    "data=mutag protocol=cross_validation protocol.folds=5",
    "data=mutag protocol=cross_validation protocol.folds=5 seed=1",
    "data=mutag protocol=cross_validation protocol.folds=5 protocol.train_size=20",
    "data=mutag protocol=cross_validation_paper protocol.folds=5",
    "data=enzymes protocol=cross_validation protocol.folds=5",
    "data=cora protocol=repeated_seeds",
    "data=cora seed=1",
    "data=photo protocol=repeated_seeds",
    "data=photo seed=1",
    "data=molbbbp",
    "data=zinc10k protocol=repeated_seeds",
)


def test_hashes_of_splits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {}
    for words in DRAWN:
        asked = ["model=gin", *words.split()]
        files = [] if "4cycles" in words else product.files_for(asked, tmp_path / "m", monkeypatch)
        found[words] = product.hash_of_splits([*asked, *files, f"paths.data={tmp_path / 'data'}"])
    check("splits.json", found)
