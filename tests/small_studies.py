"""Studies whose trials take a second, or a formula in place of a training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from unionsnn.config.schema import Config
from unionsnn.training.records import Repetition

TINY = [
    "data.num_train=48",
    "data.num_validation=16",
    "data.num_test=16",
    "data.batch_size=16",
    "model.num_layers=1",
    "model.hidden_channels=4",
    "trainer.max_epochs=1",
    "trainer.accelerator=cpu",
    "trainer.progress=none",
    "protocol=cross_validation",
    "protocol.folds=3",
]

CONTENT: Mapping[str, Any] = {
    "overrides": TINY,
    "space": {"optimizer.lr": "choice(0.1, 0.01, 0.001)", "optimizer.weight_decay": "choice(0, 1)"},
    "objective": "val_loss",
    "sampler": {"name": "grid"},
    "heartbeat": 1,
}


def write(path: Path, content: Mapping[str, Any]) -> Path:
    path.write_text(yaml.safe_dump(dict(content)))
    return path


def formula(config: Config, index: int) -> float:
    """A loss that a point of the space and a fold determine."""
    section = config.optimizer
    return section.lr + section.weight_decay + 0.01 * index


def made_record(index: int, metrics: Mapping[str, float], data: Any) -> Repetition:
    content = {"index": index, "metrics": dict(metrics), "dataset": data.dataset_id}
    return Repetition.from_json(content)


def points(cells: Sequence[Any]) -> list[tuple[Any, ...]]:
    return [(c.index, c.state, tuple(c.parameters.items()), c.values) for c in cells]
