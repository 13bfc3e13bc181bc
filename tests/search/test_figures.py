"""The figures of a study: bad trials do not squash the others, and are named."""

from __future__ import annotations

import math

import pytest

from unionsnn.search.figures import Range

VALUES = [(i, 0.5 + i / 100) for i in range(20)]


@pytest.mark.parametrize(("sign", "direction"), [(1, "minimize"), (-1, "maximize")])
def test_trials_far_worse_than_the_others_are_named_and_drawn_at_the_edge(
    sign: int, direction: str
) -> None:
    bad = [(30, sign * 812.4), (31, sign * 3e6), (32, sign * math.inf)]
    shown = Range.of([(i, sign * value) for i, value in VALUES] + bad, direction)  # type: ignore[arg-type]
    assert shown.beyond == bad
    assert shown.high - shown.low < 1
    assert all(shown.low <= shown.clip(value) <= shown.high for _, value in bad)
    assert "30 (" in shown.words
    assert "31 (" in shown.words
    low, high = shown.axis
    assert low < shown.low < shown.high < high


def test_good_trials_never_lie_beyond() -> None:
    shown = Range.of([*VALUES, (30, -50.0)], "minimize")
    assert not shown.beyond
    assert shown.words == ""
    assert shown.low == -50.0


def test_many_are_counted() -> None:
    shown = Range.of(VALUES + [(100 + i, 1e6) for i in range(6)], "minimize")
    assert len(shown.beyond) == 6
    few = Range(0, 1, [(i, 2.0) for i in range(11)]).words
    assert few.endswith("and 3 more")
    assert Range.of([(0, math.nan)], "minimize").axis[0] < 0
