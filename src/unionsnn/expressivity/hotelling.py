r"""Whether two graphs get different embeddings: a paired Hotelling test over relabelled copies.

Source: Wang and Zhang, "An Empirical Study of Realized GNN Expressiveness" (ICML 2024), section 5,
the Reliable Paired Comparison.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

RESOLUTION = float(np.finfo(np.float32).eps)
"""Differences below this share of an embedding's length are rounding to a trained network."""


@dataclass(frozen=True)
class PairedTest:
    """How different the embeddings of two graphs' copies are.

    Attributes:
        statistic: T².
        rank: Directions in which the differences vary by more than the resolution.
        distance: Length of the mean difference, as a share of the embeddings' length.
        spread: Largest standard deviation of the differences in any direction, as such a share;
            rounding only for a network that does not depend on the order of nodes.
    """

    statistic: float
    rank: int
    distance: float
    spread: float


def paired_t2(
    first: NDArray[Any], second: NDArray[Any], resolution: float = RESOLUTION
) -> PairedTest:
    r"""Hotelling's T² of paired differences, which are known up to a resolution only.

    .. math::
        T^2 = q\, \bar d^\top (S + \tau^2 I)^{-1} \bar d, \qquad \tau = \rho s

    q is the number of copies, d the difference of a copy's embeddings, S the covariance of d, s the
    root mean square length of an embedding and rho the resolution. Copies of a graph get the same
    embedding from an invariant network, so that S is made of rounding and the plain T² compares
    rounding with rounding; with tau it is a mean difference measured by the resolution. Adding to S
    can only lower T², whatever its rank, so the test never rejects more often than it should.

    Args:
        first: Embeddings of the copies of one graph.
        second: Those of the other, in the order of their partners.
        resolution: rho.

    Shapes:
        first, second [q, d].

    Raises:
        ValueError: The shapes differ, or there are fewer than two copies.
        FloatingPointError: An embedding is not finite.
    """
    if first.shape != second.shape or first.ndim != 2 or len(first) < 2:
        raise ValueError(
            f"first and second have the shapes {first.shape} and {second.shape}; both must be "
            "[q, d] with at least 2 rows."
        )
    both = np.stack([first, second]).astype(np.float64)
    if not np.isfinite(both).all():
        raise FloatingPointError("An embedding is NaN or infinite.")
    length = float(np.sqrt((both**2).sum(axis=-1).mean()))
    if length == 0:
        return PairedTest(0.0, 0, 0.0, 0.0)
    differences = (both[0] - both[1]) / length
    mean = differences.mean(axis=0)
    variances, directions = np.linalg.eigh(np.atleast_2d(np.cov(differences, rowvar=False)))
    # Rounding can leave a variance of nothing below 0.
    variances = variances.clip(min=0)
    along = directions.T @ mean
    return PairedTest(
        statistic=float(len(differences) * (along**2 / (variances + resolution**2)).sum()),
        rank=int((variances > resolution**2).sum()),
        distance=float(np.linalg.norm(mean)),
        spread=float(np.sqrt(variances[-1])),
    )


def t2_threshold(channels: int, copies: int, alpha: float) -> float:
    r"""Value that T² exceeds with probability alpha if the mean difference is 0.

    .. math::
        \frac{d (q - 1)}{q - d} F_{d,\, q - d}(1 - \alpha)

    Args:
        channels: d, the width of an embedding.
        copies: q.
        alpha: Size of the test.

    Raises:
        ValueError: There are not more copies than channels, or alpha is no probability.
    """
    if copies <= channels or channels < 1:
        raise ValueError(
            f"copies is {copies} and channels {channels}; there must be more copies than channels."
        )
    if not 0 < alpha < 1:
        raise ValueError(f"alpha is {alpha}; it must be between 0 and 1.")
    quantile = stats.f.isf(alpha, channels, copies - channels)
    return float(channels * (copies - 1) / (copies - channels) * quantile)


def chance_bound(tests: int, alpha: float, level: float = 0.99) -> int:
    """Rejections that chance explains: upper bound of Binomial(tests, alpha) at a level."""
    return int(stats.binom.ppf(level, tests, alpha)) if tests else 0
