"""Means and intervals over repetitions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy import stats


@dataclass(frozen=True)
class Summary:
    """A metric over repetitions.

    Args:
        mean: Arithmetic mean.
        std: Standard deviation with n - 1 in the denominator; None for one value.
        interval: 95 % confidence interval of the mean; None for one value.
        method: Name of the interval's method.
        values: One value a repetition.
        epoch: The shared epoch, where the protocol chooses one.
    """

    mean: float
    std: float | None
    interval: tuple[float, float] | None
    method: str
    values: tuple[float, ...]
    epoch: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain types for a record."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}


def summarize_seeds(values: Sequence[float]) -> Summary:
    """Student t interval over independent runs."""
    return _summary(values, 1 / len(values), "Student t over seeds")


def summarize_folds(
    values: Sequence[float], test_to_train: float, epoch: int | None = None
) -> Summary:
    r"""Corrected resampled t interval over folds.

    .. math::
        \bar x \pm t_{k-1} \sqrt{(1/k + n_{test}/n_{train})\, s^2}

    "Inference for the Generalization Error" (Nadeau and Bengio, 2003), section 3: folds share
    training data, so the plain t interval is too short.

    Args:
        values: One value a fold.
        test_to_train: Test items over training items of a fold.
        epoch: The shared epoch, where the protocol chooses one.
    """
    share = 1 / len(values) + test_to_train
    return _summary(values, share, "corrected resampled t over folds", epoch)


def _summary(
    values: Sequence[float], share: float, method: str, epoch: int | None = None
) -> Summary:
    count, mean = len(values), float(np.mean(values))
    if count < 2:
        return Summary(mean, None, None, "single run", tuple(values), epoch)
    std = float(np.std(values, ddof=1))
    half = float(stats.t.ppf(0.975, count - 1)) * std * math.sqrt(share)
    return Summary(mean, std, (mean - half, mean + half), method, tuple(values), epoch)
