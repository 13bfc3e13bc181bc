"""Evaluation: checks that a metric is defined, and repeated evaluation of random networks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytorch_lightning as pl
from numpy.typing import NDArray

from unionsnn.base.errors import UndefinedMetricError
from unionsnn.config.schema import TASK_METRICS
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.data.splits import Split
from unionsnn.training.metrics import defined
from unionsnn.training.tasks import Task

EVALUATIONS = 5
"""Number of tests of the selected weights if the network is random in evaluation."""


_BOTH = ("rocauc", "ap")


def require_metric(data: GraphDataModule, split: Split) -> None:
    """Refuse a split on which the metric is undefined, or a target is never known.

    Of several binary labels those without both classes in a part are left out of its mean, as in
    OGB's evaluator; at least one must be left. A target that no item of a part has is refused,
    except in a known set with its own split.

    Args:
        data: The data with its targets.
        split: The split, whose validation and test parts are checked.

    Raises:
        UndefinedMetricError: The metric is undefined; names the part, its class and the remedy.
    """
    targets = np.asarray(data.targets)
    metric = data.metric or TASK_METRICS[data.task][0]
    if data.task.endswith("_classification") and targets.ndim == 1:
        ranks = data.task == "graph_binary_classification" and metric in _BOTH
        for part in ("validation", "test") if ranks else ():
            items = split.parts()[part]
            classes = np.unique(targets[items])
            if len(classes) < 2:
                raise UndefinedMetricError(
                    f"{metric} is undefined on the {part} part: its {len(items)} graphs are "
                    f"all of class {classes[0] if len(classes) else 'none'}. Type a smaller "
                    "protocol.folds, another seed, or data with more graphs of each class."
                )
        return
    if data.task == "link_prediction":
        for part, items in split.parts().items():
            labels = np.unique(data.arrays.targets_of(items))
            if 1 not in labels or (len(labels) < 2 and (part == "train" or metric in _BOTH)):
                raise UndefinedMetricError(
                    f"{metric} is undefined on the {part} part, or nothing is learned there: of "
                    f"the labelled pairs of nodes of its {len(items)} graphs none is "
                    f"{'1' if 1 not in labels else '0'}. Type another seed, or data with more "
                    "labelled pairs."
                )
        return
    several = data.task == "graph_multilabel_classification"
    for part, items in split.parts().items():
        rows = targets[items]
        never = np.flatnonzero(np.isnan(rows).all(axis=0))
        # The evaluators of published sets leave such columns out.
        if len(never) and (part == "train" or not (several and data.source.known)):
            raise UndefinedMetricError(
                f"{_columns(never)} of y: no graph of the {part} part has this target, which "
                "cannot be learned or measured there. Leave the column out of the data, or type "
                "another seed or a smaller protocol.folds."
            )
        measured = part == "train" or defined(metric, rows)
        if np.all(measured) or (several and np.any(measured)):
            continue
        needs = "both labels in one column" if several else "two different targets in each column"
        which = "no column" if several else _columns(np.flatnonzero(~measured))
        raise UndefinedMetricError(
            f"{metric} is undefined on the {part} part: it needs {needs}, which {which} of "
            f"its {len(items)} graphs has. Type another seed, a smaller protocol.folds, or another "
            "data.metric."
        )


def _columns(numbers: NDArray[np.intp]) -> str:
    shown = ", ".join(map(str, numbers[:5])) + (", ..." if len(numbers) > 5 else "")
    return f"column{'s' if len(numbers) > 1 else ''} {shown}"


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
