"""Fixtures of the tests of data."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch


@pytest.fixture
def as_process(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    """Return what makes this process one of several, to those who ask torch.distributed."""

    def become(rank: int, world: int) -> None:
        monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
        monkeypatch.setattr(torch.distributed, "get_rank", lambda: rank)
        monkeypatch.setattr(torch.distributed, "get_world_size", lambda: world)

    return become
