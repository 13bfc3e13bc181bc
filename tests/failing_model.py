"""A user's own network with a fault that shows in training only."""

from __future__ import annotations

from torch import Tensor

from unionsnn.models.gin import GIN
from unionsnn.nn.batch import GraphBatch


class FaultyGIN(GIN):
    """GIN that cannot be trained."""

    def forward(self, batch: GraphBatch) -> Tensor:
        """Raise, as a fault of the user's would."""
        raise IndexError("a fault of the user's model")
