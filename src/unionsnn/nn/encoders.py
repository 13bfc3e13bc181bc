"""From raw node features to the width of the network."""

from __future__ import annotations

from collections.abc import Sequence

import torch
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


class CategoricalEncoder(nn.Module):
    r"""The sum of one embedding for each categorical node feature.

    .. math::
        h_v = \sum_k E_k[x_{vk}]

    As the AtomEncoder of "Open Graph Benchmark" (Hu et al., NeurIPS 2020), with its Xavier-uniform
    weights, but as one table, so that all features are looked up at once.

    Args:
        cardinalities: How many values each feature can take.
        out_features: Width of the network.

    Shapes:
        - x: [num_nodes, len(cardinalities)], whole numbers from 0 on
        - output: [num_nodes, out_features]
    """

    def __init__(self, cardinalities: Sequence[int], out_features: int) -> None:
        super().__init__()
        self.cardinalities = tuple(cardinalities)
        self.starts: Tensor
        starts = [sum(self.cardinalities[:k]) for k in range(len(self.cardinalities))]
        self.register_buffer("starts", torch.tensor(starts), persistent=False)
        self.table = nn.EmbeddingBag(sum(self.cardinalities), out_features, mode="sum")
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw each feature's embeddings as a matrix of its own."""
        for rows in torch.split(self.table.weight.data, list(self.cardinalities)):
            nn.init.xavier_uniform_(rows)

    def forward(self, x: Tensor) -> Tensor:
        """Encode node features."""
        encoded: Tensor = self.table(x + self.starts)
        return encoded

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.cardinalities}, {self.table.embedding_dim})"


def make_encoder(in_channels: int | Sequence[int], out_channels: int) -> nn.Module:
    """Make the encoder of node features of a width, or of categories of given numbers of values."""
    if isinstance(in_channels, int):
        return LinearEncoder(in_channels, out_channels)
    return CategoricalEncoder(in_channels, out_channels)
