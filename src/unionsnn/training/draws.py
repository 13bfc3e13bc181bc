"""Networks that draw at random in evaluation too: what other draws make of their metrics."""

from __future__ import annotations

from typing import Any

import pytorch_lightning as pl

from unionsnn.data.datamodules import GraphDataModule
from unionsnn.training.tasks import Task

EVALUATIONS = 5
"""How often the selected weights are tested, where the network draws."""


def other_evaluations(
    trainer: pl.Trainer, task: Task, data: GraphDataModule
) -> list[dict[str, float]]:
    """Test the weights with other draws than those of the reported evaluation.

    A network that draws in evaluation has an attribute ``evaluation_seed``, which is 0 before and
    after.

    Returns:
        The test metrics of each further evaluation; nothing of a network that does not draw.
    """
    network: Any = task.model
    if not hasattr(network, "evaluation_seed"):
        return []
    found = []
    for seed in range(1, EVALUATIONS):
        network.evaluation_seed = seed
        values = trainer.test(task, data.test_dataloader(), verbose=False)[0]
        found.append({key: float(value) for key, value in values.items()})
    network.evaluation_seed = 0
    return found
