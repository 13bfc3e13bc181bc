"""Intervals against scipy and against the published formula."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from unionsnn.training.statistics import summarize_folds, summarize_seeds


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
