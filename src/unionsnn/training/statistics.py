"""Means, intervals and paired differences over repetitions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

# Not scipy.stats, which calls the same and takes a second to import.
from scipy.special import stdtr, stdtrit


@dataclass(frozen=True)
class Summary:
    """A metric over repetitions.

    Args:
        mean: Arithmetic mean.
        std: Standard deviation with denominator n - 1; None for one value.
        interval: 95 % confidence interval of the mean; None for one value.
        method: Name of the interval's method.
        values: One value per repetition.
        epoch: The shared epoch, if the protocol selects one.
    """

    mean: float
    std: float | None
    interval: tuple[float, float] | None
    method: str
    values: tuple[float, ...]
    epoch: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain types for a record."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}


def summarize_seeds(values: Sequence[float]) -> Summary:
    """Summarise independent runs with the Student t interval."""
    return _summary(values, 1 / len(values), "Student t over seeds")


def summarize_folds(
    values: Sequence[float], test_to_train: float, epoch: int | None = None
) -> Summary:
    r"""Summarise folds with the corrected resampled t interval.

    .. math::
        \bar x \pm t_{k-1} \sqrt{(1/k + n_{test}/n_{train})\, s^2}

    "Inference for the Generalization Error" (Nadeau and Bengio, 2003), section 3: folds share
    training data, so the plain t interval is too short.

    Args:
        values: One value per fold.
        test_to_train: Test items over training items of a fold.
        epoch: The shared epoch, if the protocol selects one.
    """
    share = 1 / len(values) + test_to_train
    return _summary(values, share, "corrected resampled t over folds", epoch)


def ratio_test_to_train(sizes: Sequence[Mapping[str, int]]) -> float:
    """Return the mean ratio of test to training items, for the corrected resampled t."""
    return float(np.mean([parts["test"] / parts["train"] for parts in sizes]))


def _summary(
    values: Sequence[float], share: float, method: str, epoch: int | None = None
) -> Summary:
    count, mean = len(values), float(np.mean(values))
    if count < 2:
        return Summary(mean, None, None, "single run", tuple(values), epoch)
    std = float(np.std(values, ddof=1))
    half = float(stdtrit(count - 1, 0.975)) * std * math.sqrt(share)
    return Summary(mean, std, (mean - half, mean + half), method, tuple(values), epoch)


@dataclass(frozen=True)
class PairedDifference:
    """Paired difference of a metric between two configurations.

    Args:
        mean: Mean of other minus baseline.
        std: Standard deviation with denominator n - 1; None for one pair.
        interval: 95 % confidence interval of the mean; None without spread.
        p_value: Two-sided p-value of the hypothesis that the mean is 0; None without spread.
        method: Name of the interval's and the test's method.
        values: One difference per repetition.
    """

    mean: float
    std: float | None
    interval: tuple[float, float] | None
    p_value: float | None
    method: str
    values: tuple[float, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain types for a record."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}


# Metrics are sums in single precision: a relative spread below this is rounding.
_ROUNDING = 1e-6


def compare_seeds(baseline: Sequence[float], other: Sequence[float]) -> PairedDifference:
    """Compare independent seeds with the paired Student t test."""
    return _paired(baseline, other, 0.0, "paired Student t over seeds")


def compare_folds(
    baseline: Sequence[float], other: Sequence[float], test_to_train: float
) -> PairedDifference:
    r"""Compare the same folds with the corrected resampled t test.

    .. math::
        t = \bar d / \sqrt{(1/k + n_{test}/n_{train})\, s_d^2}, \qquad k - 1
        \text{ degrees of freedom}

    "Inference for the Generalization Error" (Nadeau and Bengio, 2003), section 3: folds share
    training data, so the plain paired t test finds spurious differences.

    Args:
        baseline: One value per fold.
        other: One value per fold, in the same order.
        test_to_train: Test items over training items of a fold.
    """
    return _paired(baseline, other, test_to_train, "corrected resampled t over folds")


def _paired(
    baseline: Sequence[float], other: Sequence[float], correction: float, method: str
) -> PairedDifference:
    differences = np.subtract(other, baseline, dtype=np.float64)
    count = len(differences)
    summary = _summary(differences.tolist(), 1 / count + correction, method)
    noise = _ROUNDING * max(np.abs(baseline).max(), np.abs(other).max())
    if summary.std is None or summary.interval is None or summary.std <= noise:
        # With one pair, or equal differences, there is no spread to compare the mean with.
        reason = "single pair" if count < 2 else f"{method}, undefined: no spread"
        return PairedDifference(summary.mean, summary.std, None, None, reason, summary.values)
    error = summary.std * math.sqrt(1 / count + correction)
    p_value = float(2 * stdtr(count - 1, -abs(summary.mean) / error))
    return PairedDifference(
        summary.mean, summary.std, summary.interval, p_value, method, summary.values
    )
