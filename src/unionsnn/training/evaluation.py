"""Evaluation: whether a metric is defined, and the metrics of a network that draws at random."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytorch_lightning as pl

from unionsnn.base.errors import UndefinedMetricError
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.data.splits import Split
from unionsnn.training.tasks import Task

EVALUATIONS = 5
"""How often the selected weights are tested, where the network draws."""


def require_metric(data: GraphDataModule, split: Split) -> None:
    """Refuse a split on which the area under the ROC curve is undefined: a part of one class.

    torchmetrics would return 0 there, a value like any other in a mean over folds.

    Args:
        data: With its targets.
        split: Its validation and test parts are looked at.

    Raises:
        UndefinedMetricError: With the part, its class, and what to type.
    """
    if data.task != "graph_binary_classification":
        return
    for part in ("validation", "test"):
        items = split.parts()[part]
        classes = np.unique(np.asarray(data.targets)[items])
        if len(classes) < 2:
            raise UndefinedMetricError(
                f"rocauc is undefined on the {part} part: its {len(items)} graphs are all of class "
                f"{classes[0] if len(classes) else 'none'}. Type a smaller protocol.folds, another "
                "seed, or data with more graphs of each class."
            )


def other_evaluations(
    trainer: pl.Trainer, task: Task, data: GraphDataModule
) -> list[dict[str, float]]:
    """Test the weights with other draws than those of the reported evaluation.

    A network that draws in evaluation has an attribute ``evaluation_seed``, which is 0 before and
    after.

    Returns:
        The test metrics of each further evaluation; empty for a network that does not draw.
    """
    network: Any = task.model
    if not hasattr(network, "evaluation_seed"):
        return []
    evaluations = []
    for seed in range(1, EVALUATIONS):
        network.evaluation_seed = seed
        values = trainer.test(task, data.test_dataloader(), verbose=False)[0]
        evaluations.append({key: float(value) for key, value in values.items()})
    network.evaluation_seed = 0
    return evaluations
