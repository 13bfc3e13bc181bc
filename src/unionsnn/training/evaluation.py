"""Evaluation: checks that a metric is defined, and repeated evaluation of random networks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytorch_lightning as pl

from unionsnn.base.errors import UndefinedMetricError
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.data.splits import Split
from unionsnn.training.tasks import Task

EVALUATIONS = 5
"""Number of tests of the selected weights if the network is random in evaluation."""


def require_metric(data: GraphDataModule, split: Split) -> None:
    """Refuse a split on which the area under the ROC curve is undefined: a part of one class.

    torchmetrics would return 0, which would silently enter the mean over folds.

    Args:
        data: The data with its targets.
        split: The split, whose validation and test parts are checked.

    Raises:
        UndefinedMetricError: The metric is undefined; names the part, its class and the remedy.
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
    """Test the weights with other seeds than in the reported evaluation.

    A network that is random in evaluation has an attribute ``evaluation_seed``, which is 0 before
    and after.

    Returns:
        The test metrics of each further evaluation; empty for a deterministic network.
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
