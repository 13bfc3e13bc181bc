"""Metrics of the tasks, over the whole part whatever the batches, by OGB's rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.classification import MulticlassAccuracy, MulticlassF1Score

from unionsnn.base.errors import UndefinedMetricError

Column = NDArray[np.float64]


def _rocauc(target: Column, output: Column) -> float:
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(target, output))


def _average_precision(target: Column, output: Column) -> float:
    from sklearn.metrics import average_precision_score

    return float(average_precision_score(target, output))


def _accuracy(target: Column, output: Column) -> float:
    return float(((output > 0) == (target > 0)).mean())


def _macro_f1(target: Column, output: Column) -> float:
    from sklearn.metrics import f1_score

    return float(f1_score(target > 0, output > 0, average="macro", zero_division=0.0))


def _mae(target: Column, output: Column) -> float:
    return float(np.abs(output - target).mean())


def _rmse(target: Column, output: Column) -> float:
    return float(np.sqrt(np.square(output - target).mean()))


def _r2(target: Column, output: Column) -> float:
    residual = np.square(target - output).sum()
    return float(1 - residual / np.square(target - target.mean()).sum())


_SCORES: Mapping[str, Callable[[Column, Column], float]] = {
    "rocauc": _rocauc,
    "ap": _average_precision,
    "accuracy": _accuracy,
    "f1": _macro_f1,
    "mae": _mae,
    "rmse": _rmse,
    "r2": _r2,
}
# What has no value on targets that are all equal.
_NEEDS_TWO_VALUES = ("rocauc", "ap", "r2")


def defined(metric: str, targets: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return in which columns of targets a metric has a value, whatever is predicted.

    Without a target it has none; rocauc and ap need both labels, r2 two different targets.

    Shapes:
        targets [N, T], NaN where missing -> [T].
    """
    known = ~np.isnan(targets)
    if metric not in _NEEDS_TWO_VALUES:
        return np.asarray(known.any(axis=0))
    low = np.where(known, targets, np.inf).min(axis=0, initial=np.inf)
    high = np.where(known, targets, -np.inf).max(axis=0, initial=-np.inf)
    return np.asarray(low < high)


class ColumnMean(Metric):
    r"""Mean of a metric over the columns of targets in which it is defined.

    \(\frac{1}{|D|} \sum_{t \in D} m(y_t, \hat y_t)\), where m sees the items whose target t is
    known, and D are the columns that `defined` names: the rule of OGB's evaluator (Hu et al. 2020,
    "Open Graph Benchmark"). Without missing targets these are scikit-learn's ``roc_auc_score``,
    ``average_precision_score``, ``mean_absolute_error``, ``root_mean_squared_error`` and
    ``r2_score``, averaged over the columns; for one binary column also its accuracy, and macro F1.

    Args:
        metric: Its name in `config.schema.METRICS`.

    Shapes:
        update: output [N, T] (scores, whose sign is the label, or values), target [N, T] or [N].

    Raises:
        UndefinedMetricError: It is not defined in any column.
    """

    full_state_update = False

    def __init__(self, metric: str) -> None:
        # Each process evaluates the whole part.
        super().__init__(sync_on_compute=False)
        self.metric = metric
        self.outputs: list[Tensor]
        self.targets: list[Tensor]
        self.add_state("outputs", [], dist_reduce_fx="cat")
        self.add_state("targets", [], dist_reduce_fx="cat")

    def update(self, output: Tensor, target: Tensor) -> None:
        """Add the rows of a batch."""
        self.outputs.append(output.detach())
        self.targets.append(target.detach().reshape(output.shape))

    def compute(self) -> Tensor:
        """Return the mean over the columns."""
        output, target = (
            torch.cat(rows).cpu().double().numpy() for rows in (self.outputs, self.targets)
        )
        columns = np.flatnonzero(defined(self.metric, target))
        if not len(columns):
            raise UndefinedMetricError(
                f"{self.metric} is undefined: no column of the {len(target)} targets has what it "
                "needs."
            )
        known = ~np.isnan(target)
        score = _SCORES[self.metric]
        values = [score(target[known[:, t], t], output[known[:, t], t]) for t in columns]
        return torch.tensor(np.mean(values), dtype=torch.float32)


def class_metric(metric: str, num_classes: int) -> Metric:
    """Return the accuracy, or the mean of the classes' F1, of logits [N, C] and classes [N].

    F1 is averaged over the classes that occur among targets or predictions, as scikit-learn does.
    """
    if metric == "f1":
        return MulticlassF1Score(num_classes, average="macro", sync_on_compute=False)
    return MulticlassAccuracy(num_classes, average="micro", sync_on_compute=False)
