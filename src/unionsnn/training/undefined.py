"""Metrics that a part of a split has no value of."""

from __future__ import annotations

import numpy as np

from unionsnn.data.datamodules import GraphDataModule


class UndefinedMetricError(RuntimeError):
    """The metric is undefined on a part of a split."""


def require_metric(data: GraphDataModule) -> None:
    """Refuse a split on which the area under the ROC curve is undefined: a part of one class.

    torchmetrics would return 0 there, a value like any other in a mean over folds.

    Args:
        data: With its split.

    Raises:
        UndefinedMetricError: With the part, its class, and what to type.
    """
    if data.task != "graph_binary_classification":
        return
    for part in ("validation", "test"):
        classes = np.unique(np.asarray(data.targets)[data.split.parts()[part]])
        if len(classes) < 2:
            count = len(data.split.parts()[part])
            raise UndefinedMetricError(
                f"rocauc is undefined on the {part} part: its {count} graphs are all of class "
                f"{classes[0] if len(classes) else 'none'}. Type a smaller protocol.folds, another "
                "seed, or data with more graphs of each class."
            )
