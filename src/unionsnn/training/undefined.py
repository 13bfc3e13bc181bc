"""Metrics that a part of a split has no value of."""

from __future__ import annotations

import numpy as np

from unionsnn.base.errors import UndefinedMetricError
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.data.splits import Split


def require_metric(data: GraphDataModule, split: Split) -> None:
    """Refuse a split on which the area under the ROC curve is undefined: a part of one class.

    torchmetrics would return 0 there, a value like any other in a mean over folds.

    Args:
        data: With its targets.
        split: Of which validation and test are looked at.

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
