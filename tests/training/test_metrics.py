"""Metrics are those of OGB's evaluator and of scikit-learn, whatever the batches."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn import metrics as sklearn
from torchmetrics import Metric

from unionsnn.base.errors import UndefinedMetricError
from unionsnn.config.schema import METRICS, TASK_METRICS
from unionsnn.data.splits import Split
from unionsnn.training.evaluation import require_metric
from unionsnn.training.metrics import ColumnMean, class_metric

RNG = np.random.default_rng(0)


def measured(metric: Metric, output: np.ndarray, target: np.ndarray) -> float:
    """The value of a metric over batches of 7 rows."""
    for rows in torch.arange(len(target)).split(7):
        metric.update(torch.from_numpy(output[rows]), torch.from_numpy(target[rows]))
    return float(metric.compute())


def labels(columns: int, missing: float) -> np.ndarray:
    y = RNG.integers(0, 2, (200, columns)).astype(np.float32)
    y[RNG.random(y.shape) < missing] = np.nan
    return y


@pytest.mark.parametrize("missing", [0.0, 0.5])
@pytest.mark.parametrize(
    ("metric", "name", "columns"),
    [
        ("rocauc", "ogbg-moltox21", 12),
        ("rocauc", "ogbg-molhiv", 1),
        ("ap", "ogbg-molmuv", 17),
        ("rmse", "ogbg-molesol", 1),
    ],
)
def test_the_metric_is_that_of_ogbs_evaluator(
    metric: str, name: str, columns: int, missing: float
) -> None:
    from ogb.graphproppred import Evaluator

    y = labels(columns, missing)
    if columns > 1:
        # Columns of one label, and of none, which the evaluator leaves out of the mean.
        y[:, 0] = np.where(np.isnan(y[:, 0]), np.nan, 1)
        y[:, 1] = np.nan
    # Ties, values inside and outside of [0, 1], and large ones that a sigmoid makes equal.
    output = (RNG.standard_normal(y.shape) * 30 + 40 * (RNG.random(y.shape) < 0.5)).round(1)
    output[:50] /= 100
    official = Evaluator(name).eval({"y_true": y, "y_pred": output})[metric]
    found = measured(ColumnMean(metric), output.astype(np.float32), y)
    assert found == pytest.approx(float(official), abs=1e-6, rel=1e-6)


SKLEARN: dict[str, Any] = {
    "rocauc": sklearn.roc_auc_score,
    "ap": sklearn.average_precision_score,
    "mae": sklearn.mean_absolute_error,
    "rmse": sklearn.root_mean_squared_error,
    "r2": sklearn.r2_score,
}


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("metric", SKLEARN)
def test_the_metric_is_that_of_scikit_learn(metric: str, columns: int) -> None:
    numbers = metric in ("mae", "rmse", "r2")
    y = RNG.normal(5, 2, (200, columns)).astype(np.float32) if numbers else labels(columns, 0)
    output = RNG.normal(0, 1, y.shape).astype(np.float32) + y * 0.2
    found = measured(ColumnMean(metric), output, y)
    assert found == pytest.approx(SKLEARN[metric](y, output), abs=1e-6, rel=1e-6)


@pytest.mark.parametrize("classes", [3, 5])
def test_accuracy_and_macro_f1_are_those_of_scikit_learn(classes: int) -> None:
    # With 5 classes the last two occur in no target, and the last in no prediction either.
    y = RNG.integers(0, 3, 200)
    output = RNG.standard_normal((200, classes)).astype(np.float32)
    output[:, classes - 1 :] -= 100 * (classes == 5)
    guess = output.argmax(axis=1)
    found = {name: measured(class_metric(name, classes), output, y) for name in ("accuracy", "f1")}
    assert found["accuracy"] == pytest.approx(sklearn.accuracy_score(y, guess), abs=1e-6)
    assert found["f1"] == pytest.approx(sklearn.f1_score(y, guess, average="macro"), abs=1e-6)
    binary, score = labels(1, 0), output[:, :1]
    for name, official in (
        ("accuracy", sklearn.accuracy_score(binary, score > 0)),
        ("f1", sklearn.f1_score(binary, score > 0, average="macro")),
    ):
        assert measured(ColumnMean(name), score, binary[:, 0]) == pytest.approx(official, abs=1e-6)


def test_every_metric_of_a_task_has_a_direction_and_a_key_without_underscore() -> None:
    named = {metric for metrics in TASK_METRICS.values() for metric in metrics}
    assert named == METRICS.keys() - {"loss", "parameters"}
    assert not any("_" in metric for metric in METRICS)


def part_of(y: Any, metric: str, task: str = "graph_multilabel_classification") -> None:
    """Require a metric where the training part is sound and both other parts have these targets."""
    sound = np.array([[0, 1], [1, 0]], dtype=np.float32)
    y = np.array(y, dtype=np.float32)
    source = SimpleNamespace(known=None)
    data: Any = SimpleNamespace(
        task=task, metric=metric, targets=np.concatenate([sound, y]), source=source
    )
    rest = np.arange(2, 2 + len(y))
    require_metric(data, Split(np.arange(2), rest, rest))


def test_an_undefined_metric_is_refused_before_training() -> None:
    nan = np.nan
    # A column of one class is left out; one label suffices for the accuracy.
    part_of([[0, 1], [0, 0]], "rocauc")
    part_of([[0, 1], [0, 1]], "accuracy")
    for y, metric, words in (
        ([[0, 1], [0, 1]], "rocauc", "needs both labels in one column, which no column of its 2"),
        ([[nan, 1], [nan, 0]], "ap", "column 0 of y: no graph of the validation part has this"),
        ([[nan, nan], [nan, nan]], "ap", "columns 0, 1 of y: no graph of the validation"),
    ):
        with pytest.raises(UndefinedMetricError, match=words):
            part_of(y, metric)
    part_of([[3, nan], [4, 2]], "rmse", "graph_regression")
    for y, metric, words in (
        ([[3, nan], [4, nan]], "mae", "column 1 of y: no graph of the validation part"),
        ([[3, 1], [3, 2]], "r2", "two different targets in each column, which column 0 of its 2"),
    ):
        with pytest.raises(UndefinedMetricError, match=words):
            part_of(y, metric, "graph_regression")


def test_a_column_that_is_missing_in_training_is_refused_in_every_set() -> None:
    y = np.array([[np.nan, 1], [np.nan, 0], [1, 0], [0, 1]], dtype=np.float32)
    rest = np.array([2, 3])
    for known in (None, "a published set"):
        data: Any = SimpleNamespace(
            task="graph_multilabel_classification",
            metric="ap",
            targets=y,
            source=SimpleNamespace(known=known),
        )
        with pytest.raises(UndefinedMetricError, match="no graph of the train part"):
            require_metric(data, Split(np.arange(2), rest, rest))
        data.targets = y[::-1]
        if known:
            # Left out of the mean, as in OGB's evaluator.
            require_metric(data, Split(np.arange(2), rest, rest))


def test_a_metric_without_a_column_is_an_error_and_not_a_number() -> None:
    metric = ColumnMean("rocauc")
    metric.update(torch.zeros(2, 1), torch.ones(2, 1))
    with pytest.raises(UndefinedMetricError, match="rocauc is undefined"):
        metric.compute()
