"""Fixtures that all tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def mirror() -> Path:
    """Folder with real benchmark files; the test is skipped where there is none."""
    default = Path(__file__).parents[2] / "shared" / "data"
    folder = Path(os.environ.get("UNIONSNN_TEST_MIRROR", default))
    if not (folder / "TUDataset").is_dir():
        pytest.skip(f"no real data: {folder} is absent; UNIONSNN_TEST_MIRROR names another folder")
    return folder


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the user's own settings out of the tests."""
    trackers = [name for name in os.environ if name.startswith(("WANDB_", "MLFLOW_"))]
    for name in ("UNIONSNN_DATA", "UNIONSNN_MIRROR", *trackers):
        monkeypatch.delenv(name, raising=False)
