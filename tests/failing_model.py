"""A user's own network with a fault that shows in training only."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from unionsnn.models.gin import GIN


class FaultyGIN(GIN):
    """GIN that cannot be trained."""

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        """Raise, as a fault of the user's would."""
        raise IndexError("a fault of the user's model")
