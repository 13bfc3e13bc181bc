"""Studies whose trials take a second, or a formula in place of a training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from unionsnn.base.environment import environment
from unionsnn.config.identity import config_hash
from unionsnn.config.schema import Config
from unionsnn.data.splits import split_hash
from unionsnn.training.records import Repetition
from unionsnn.training.repetition import Training

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


def made_record(training: Training, metrics: Mapping[str, float], data: Any) -> Repetition:
    split = training.split
    return Repetition(
        index=training.index,
        seed=[training.config.seed, training.index],
        split_hash=split_hash([split]),
        sizes={name: len(part) for name, part in split.parts().items()},
        metrics=dict(metrics),
        best_epoch=0,
        epochs=1,
        curves=[dict(metrics)],
        dataset=data.dataset_id,
        parameters=1,
        device="cpu",
        seconds=0.0,
        config_hash=config_hash(training.config),
        **environment(),
    )


def points(cells: Sequence[Any]) -> list[tuple[Any, ...]]:
    return [(c.index, c.state, tuple(c.parameters.items()), c.values) for c in cells]
