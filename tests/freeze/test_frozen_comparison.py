"""The comparison with frozen values notices what it should."""

from __future__ import annotations

from typing import Any

import pytest

from freeze.frozen import differences

FROZEN = {"a": 1, "b": [0.5, None], "c": "x"}


@pytest.mark.parametrize(
    "found",
    [
        {"b": [0.5, None], "a": 1, "c": "x"},
        {"a": 1.0, "b": [0.5, None], "c": "x"},
        {"a": True, "b": [0.5, None], "c": "x"},
        {"a": 1, "b": [0.5001, None], "c": "x"},
        {"a": 1, "b": [0.5], "c": "x"},
        {"a": 1, "b": [0.5, None], "c": "y"},
        {"a": 1, "b": [0.5, None], "c": "x", "d": 0},
        {"a": 1, "b": [0.5, None]},
    ],
)
def test_a_difference_is_noticed(found: Any) -> None:
    assert differences(FROZEN, found)


def test_last_digits_may_differ() -> None:
    assert not differences(FROZEN, {"a": 1, "b": [0.500001, None], "c": "x"})
