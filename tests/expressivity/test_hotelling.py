"""Hotelling's T² of paired differences: parity, invariance, and the size that it promises."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from unionsnn.base.errors import RequestError
from unionsnn.expressivity.pair_test import (
    RESOLUTION,
    chance_bound,
    paired_t2,
    t2_threshold,
)

COPIES, CHANNELS = 32, 16
Embeddings = NDArray[np.float64]


@pytest.fixture
def generator() -> np.random.Generator:
    return np.random.default_rng(0)


def noise(generator: np.random.Generator) -> Embeddings:
    mixing = generator.normal(size=(CHANNELS, CHANNELS))
    return generator.normal(size=(COPIES, CHANNELS)) @ mixing


def test_threshold_is_the_published_one() -> None:
    assert f"{t2_threshold(CHANNELS, COPIES, 0.05):.2f}" == "72.34"


def test_one_channel_is_students_t(generator: np.random.Generator) -> None:
    first, second = generator.normal(size=(2, COPIES, 1))
    student = stats.ttest_rel(first[:, 0], second[:, 0])
    found = paired_t2(first, second)
    assert found.statistic == pytest.approx(student.statistic**2)
    threshold = t2_threshold(1, COPIES, float(student.pvalue))
    assert found.statistic == pytest.approx(threshold)


def test_parity_with_the_inverse(generator: np.random.Generator) -> None:
    first, second = noise(generator), noise(generator) + 1
    differences = first - second
    mean = differences.mean(axis=0)
    inverse = np.linalg.inv(np.cov(differences.T))
    found = paired_t2(first, second)
    assert found.statistic == pytest.approx(COPIES * mean @ inverse @ mean, rel=1e-6)
    assert found.rank == CHANNELS


def test_rotation_scale_and_side_do_not_matter(generator: np.random.Generator) -> None:
    first, second = noise(generator), noise(generator) + 1
    rotation = np.linalg.qr(generator.normal(size=(CHANNELS, CHANNELS)))[0]
    expected = paired_t2(first, second)
    for found in (paired_t2(-1e6 * first @ rotation, -1e6 * second @ rotation),
                  paired_t2(second, first)):  # fmt: skip
        assert found.statistic == pytest.approx(expected.statistic)
        assert found.distance == pytest.approx(expected.distance)
        assert found.spread == pytest.approx(expected.spread)


@pytest.mark.parametrize("value", [0.0, 1.0, 1e-30, 1e20])
@pytest.mark.parametrize("rounding", [0.0, 1e-15, 1e-9])
def test_equal_embeddings_up_to_rounding(
    value: float, rounding: float, generator: np.random.Generator
) -> None:
    """What plain covariances would divide rounding by."""
    first, second = value * (1 + rounding * generator.normal(size=(2, COPIES, CHANNELS)))
    found = paired_t2(first, second)
    assert found.statistic < 1
    assert found.rank == 0


def test_a_difference_without_spread_counts_from_the_resolution_on(
    generator: np.random.Generator,
) -> None:
    threshold = t2_threshold(CHANNELS, COPIES, 0.05)
    first = np.ones((COPIES, CHANNELS)) + 1e-15 * generator.normal(size=(COPIES, CHANNELS))
    for factor, told in ((0.1, False), (10, True), (1e6, True)):
        found = paired_t2(first, (1 + factor * RESOLUTION) * first)
        assert (found.statistic > threshold) == told
        assert found.rank == 0
        assert found.distance == pytest.approx(factor * RESOLUTION, rel=0.1)


@pytest.mark.parametrize("rank", [CHANNELS, 3])
def test_noise_is_rejected_as_often_as_promised(rank: int, generator: np.random.Generator) -> None:
    """Full covariances at the size of the test; singular ones less often, never more."""
    tests, alpha = 2000, 0.05
    threshold = t2_threshold(CHANNELS, COPIES, alpha)
    mixing = generator.normal(size=(rank, CHANNELS))
    rejected = 0
    for _ in range(tests):
        first, second = generator.normal(size=(2, COPIES, rank)) @ mixing
        found = paired_t2(first, second)
        assert found.rank == rank
        rejected += found.statistic > threshold
    assert rejected <= chance_bound(tests, alpha, 0.999)
    if rank == CHANNELS:
        assert rejected >= stats.binom.ppf(0.001, tests, alpha)


@pytest.mark.parametrize("tests", [1, 20, 400])
def test_chance_bound_is_the_smallest_that_holds(tests: int) -> None:
    bound = chance_bound(tests, 0.05)
    assert stats.binom.cdf(bound, tests, 0.05) >= 0.99 > stats.binom.cdf(bound - 1, tests, 0.05)
    assert chance_bound(0, 0.05) == 0


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: t2_threshold(16, 16, 0.05), "expressivity.copies"),
        (lambda: t2_threshold(16, 32, 1.0), "expressivity.alpha"),
        (lambda: paired_t2(np.zeros((3, 2)), np.zeros((4, 2))), "expressivity.shape"),
    ],
)
def test_impossible_arguments_are_refused(call: Callable[[], object], code: str) -> None:
    with pytest.raises(RequestError) as refused:
        call()
    assert refused.value.codes == [code]


def test_embeddings_that_are_not_finite_are_an_error() -> None:
    with pytest.raises(FloatingPointError, match="NaN or infinite"):
        paired_t2(np.full((3, 2), np.nan), np.zeros((3, 2)))
