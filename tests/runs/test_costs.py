"""What an epoch costs: which epochs count, and what is refused or left alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from unionsnn.base.errors import TooLargeError
from unionsnn.runs import costs
from unionsnn.runs.costs import timed_training
from unionsnn.training import memory

Maker = Callable[..., dict[str, Any]]


class Clock:
    """Stands still but for what an epoch takes: 8 seconds, then 2, 3, ..."""

    def __init__(self) -> None:
        self.times = iter([0, 8, 10, 12, 20, 23, 30, 34])

    def perf_counter(self) -> float:
        return float(next(self.times))


@pytest.mark.parametrize(("epochs", "timed", "seconds"), [(4, 3, 3.0), (2, 1, 2.0), (1, 1, 8.0)])
def test_the_first_epoch_counts_only_where_it_is_the_only_one(
    tiny: Maker, monkeypatch: pytest.MonkeyPatch, epochs: int, timed: int, seconds: float
) -> None:
    monkeypatch.setattr(costs, "time", Clock())
    found = timed_training(tiny("model=gin", f"trainer.max_epochs={epochs}"))
    assert (found.epochs, found.seconds) == (timed, seconds)
    assert found.device.startswith("cpu")


@pytest.mark.parametrize("words", [["model=unionsnn"], ["model=mewispool"], ["model=ppgn"]])
def test_networks_are_timed_without_a_run_folder(tiny: Maker, words: list[str]) -> None:
    config = tiny(*words, "trainer.max_epochs=2")
    assert timed_training(config).seconds > 0
    assert not Path(config.paths.output).exists()


def test_what_does_not_fit_is_refused(tiny: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda: 1000)
    with pytest.raises(TooLargeError, match=r"about .* of .* free cannot be divided"):
        timed_training(tiny("model=ppgn"))
