"""Intervals and paired tests against scipy and against the published formula."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, stats

from unionsnn.training.statistics import (
    compare_folds,
    compare_seeds,
    summarize_folds,
    summarize_seeds,
)


def test_interval_over_seeds_is_student_s() -> None:
    values = [0.71, 0.74, 0.69, 0.77]
    summary = summarize_seeds(values)
    low, high = stats.t.interval(0.95, 3, loc=np.mean(values), scale=stats.sem(values))
    assert summary.interval == pytest.approx((low, high), abs=1e-12)
    assert summary.std == pytest.approx(np.std(values, ddof=1), abs=1e-15)


def test_interval_over_folds_is_nadeau_and_bengio_s() -> None:
    values = [0.8, 0.9, 0.85, 0.7, 0.95]
    summary = summarize_folds(values, test_to_train=0.25)
    half = stats.t.ppf(0.975, 4) * math.sqrt((1 / 5 + 0.25) * np.var(values, ddof=1))
    mean = float(np.mean(values))
    assert summary.interval == pytest.approx((mean - half, mean + half), abs=1e-12)
    plain = summarize_seeds(values).interval
    assert plain is not None
    assert summary.interval is not None
    assert summary.interval[0] < plain[0]


def test_a_single_run_has_no_spread() -> None:
    summary = summarize_seeds([0.5])
    assert (summary.mean, summary.std, summary.interval) == (0.5, None, None)
    assert summary.method == "single run"


@pytest.mark.parametrize("seed", range(5))
def test_paired_test_over_seeds_is_scipy_s(seed: int) -> None:
    generator = np.random.default_rng(seed)
    one, other = generator.normal(0.8, 0.05, (2, 3 + seed))
    difference = compare_seeds(one, other)
    expected = stats.ttest_rel(other, one)
    assert difference.p_value == pytest.approx(expected.pvalue, rel=1e-10)
    assert difference.interval == pytest.approx(tuple(expected.confidence_interval(0.95)))
    assert difference.mean == pytest.approx(np.mean(other) - np.mean(one))
    assert difference.std == pytest.approx(np.std(other - one, ddof=1))
    assert difference.method == "paired Student t over seeds"


@pytest.mark.parametrize(("folds", "test_to_train"), [(10, 0.125), (5, 1 / 3), (3, 1.0)])
def test_paired_test_over_folds_is_nadeau_and_bengio_s(folds: int, test_to_train: float) -> None:
    generator = np.random.default_rng(folds)
    one, other = generator.normal(0.8, 0.05, (2, folds))
    difference = compare_folds(one, other, test_to_train)
    # Written out anew; p by integrating the density, the interval as the set that is not rejected.
    values = [b - a for a, b in zip(one, other, strict=True)]
    mean = sum(values) / folds
    variance = sum((v - mean) ** 2 for v in values) / (folds - 1)
    error = math.sqrt(variance / folds + variance * test_to_train)
    tail, _ = integrate.quad(stats.t(folds - 1).pdf, abs(mean) / error, math.inf)
    assert difference.p_value == pytest.approx(2 * tail, rel=1e-6)
    assert difference.interval is not None
    for bound in difference.interval:
        t = abs(mean - bound) / error
        rejected, _ = integrate.quad(stats.t(folds - 1).pdf, t, math.inf)
        assert 2 * rejected == pytest.approx(0.05, rel=1e-6)
    assert difference.method == "corrected resampled t over folds"
    # Without the correction it is the paired t test, whose interval is shorter.
    plain = compare_folds(one, other, 0.0)
    assert plain.p_value == pytest.approx(stats.ttest_rel(other, one).pvalue)
    assert plain.p_value < difference.p_value


def test_the_order_of_the_two_turns_the_sign_alone() -> None:
    one, other = [0.7, 0.8, 0.75, 0.9], [0.8, 0.79, 0.85, 0.92]
    there, back = compare_folds(one, other, 0.125), compare_folds(other, one, 0.125)
    assert back.mean == -there.mean
    assert back.values == tuple(-v for v in there.values)
    assert back.p_value == there.p_value
    assert there.interval is not None
    assert back.interval == (-there.interval[1], -there.interval[0])


def correlated(generator: np.random.Generator, folds: int, test_to_train: float) -> np.ndarray:
    """Differences of mean 0 and variance 1, correlated as folds are taken to be."""
    correlation = test_to_train / (1 + test_to_train)
    shared, own = generator.standard_normal(), generator.standard_normal(folds)
    return math.sqrt(correlation) * shared + math.sqrt(1 - correlation) * own


def coverage(method: str, draws: int = 2000) -> float:
    """Share of 95 % intervals that hold the true difference, 0, over 10 correlated folds."""
    generator, ratio, held = np.random.default_rng(0), 0.125, 0
    for _ in range(draws):
        values = correlated(generator, 10, 0.0 if method == "seeds" else ratio)
        baseline = np.ones(10)
        difference = (
            compare_folds(baseline, baseline + values, ratio)
            if method == "folds"
            else compare_seeds(baseline, baseline + values)
        )
        assert difference.interval is not None
        assert difference.p_value is not None
        low, high = difference.interval
        held += low <= 0 <= high
        assert (low <= 0 <= high) == (difference.p_value >= 0.05)
    return held / draws


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    # The standard deviation of a share of 2000 draws is 0.005.
    assert coverage("seeds") == pytest.approx(0.95, abs=0.02)
    assert coverage("folds") == pytest.approx(0.95, abs=0.02)
    # Why folds are corrected: the plain interval of the same draws is too short.
    assert coverage("seeds over folds") < 0.89


@pytest.mark.parametrize("shift", [0.0, 0.125])
def test_differences_without_spread_have_no_test(shift: float) -> None:
    one = [float(np.float32(v)) for v in (0.6, 0.7, 0.8)]
    other = [float(np.float32(v + shift)) for v in (0.6, 0.7, 0.8)]
    for difference in (compare_seeds(one, other), compare_folds(one, other, 0.125)):
        assert difference.mean == pytest.approx(shift, abs=1e-6)
        assert (difference.interval, difference.p_value) == (None, None)
        assert "undefined: no spread" in difference.method


def test_a_single_pair_has_a_difference_only() -> None:
    difference = compare_seeds([0.5], [0.75])
    assert difference.values == (0.25,)
    assert (difference.std, difference.interval, difference.p_value) == (None, None, None)
    assert difference.method == "single pair"
