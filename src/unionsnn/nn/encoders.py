"""From raw node features to the width of the network."""

from __future__ import annotations

from torch import Tensor, nn


class LinearEncoder(nn.Linear):
    """A linear map of real-valued or one-hot node features.

    Shapes:
        - x: [num_nodes, in_features], any numeric type
        - output: [num_nodes, out_features]
    """

    def forward(self, x: Tensor) -> Tensor:
        """Encode node features."""
        return super().forward(x.to(self.weight.dtype))
