"""Fixtures that all tests share."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from unionsnn.config.schema import Config


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


@pytest.fixture(autouse=True)
def _level_of_the_logger() -> Iterator[None]:
    """Put back the level that a command sets for its process."""
    logger = logging.getLogger("unionsnn")
    level = logger.level
    yield
    logger.setLevel(level)


TINY = [
    "data.num_train=48",
    "data.num_validation=16",
    "data.num_test=16",
    "data.batch_size=16",
    "model.hidden_channels=8",
    "model.num_layers=2",
    "trainer.max_epochs=2",
    "trainer.accelerator=cpu",
    "trainer.progress=none",
]


@pytest.fixture
def tiny(tmp_path: Path) -> Callable[..., Config]:
    """Return a maker of checked configurations that write below the test's folder."""

    def make(*overrides: str, run_dir: str | None = None) -> Config:
        paths = [f"paths.output={tmp_path / 'runs'}", f"paths.data={tmp_path / 'data'}"]
        given = {o.partition("=")[0] for o in overrides}
        base = [o for o in TINY if o.partition("=")[0] not in given]
        if "model.parameter_budget" in given:
            base.remove("model.hidden_channels=8")
        if any(o.startswith("data=") and "cycles" not in o for o in overrides):
            base = [o for o in base if not o.startswith("data.num_")]
        from unionsnn.config.compose import compose_config

        config = compose_config([*overrides, *base, *paths])
        if run_dir is not None:
            config = config.replace({"run_dir": str(tmp_path / run_dir)})
        return config

    return make


@pytest.fixture
def _no_account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep the user's account at W&B out."""
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path / "wandb_config"))
