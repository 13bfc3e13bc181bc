"""Studies that write below the test's folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from small_studies import CONTENT, formula, made_record, write
from unionsnn.runs import validation
from unionsnn.search.study import Study, make_study
from unionsnn.training.records import Repetition
from unionsnn.training.repetition import Training


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Study]:
    """Return a maker of studies that write below the test's folder; keys replace the file's."""

    def maker(
        *overrides: str, options: Mapping[str, Any] | None = None, stem: str = "small", **keys: Any
    ) -> Study:
        path = write(tmp_path / f"{stem}.yaml", {**CONTENT, **keys})
        paths = [f"paths.output={tmp_path / 'runs'}", f"paths.data={tmp_path / 'data'}"]
        return make_study(str(path), [*overrides, *paths], **options or {})

    return maker


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, float, int]]:
    """Put the formula in the place of training; return what was trained, in order."""
    made: list[tuple[float, float, int]] = []

    def train(training: Training, data: Any, *_: Any, **options: Any) -> Repetition:
        config, index = training.config, training.index
        assert options["test"] is False
        section = config.optimizer
        made.append((section.lr, section.weight_decay, index))
        return made_record(training, {"val_loss": formula(config, index)}, data)

    monkeypatch.setattr(validation, "train_repetition", train)
    return made
