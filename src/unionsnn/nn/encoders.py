"""Encoders from raw node features to the width of the network."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch_geometric.nn import BatchNorm


class LinearEncoder(nn.Linear):
    """Linear encoder of real-valued or one-hot node features.

    Shapes:
        - x: [num_nodes, in_features], any numeric type
        - output: [num_nodes, out_features]
    """

    def forward(self, x: Tensor) -> Tensor:
        """Encode node features."""
        return super().forward(x.to(self.weight.dtype))


class CategoricalEncoder(nn.Module):
    r"""Sum of one embedding for each categorical node feature.

    .. math::
        h_v = \sum_k E_k[x_{vk}]

    Like the AtomEncoder of "Open Graph Benchmark" (Hu et al., NeurIPS 2020), with its
    Xavier-uniform weights, but with one table, so that all features are looked up at once.

    Args:
        cardinalities: Number of values of each feature.
        out_features: Width of the network.

    Shapes:
        - x: [num_nodes, len(cardinalities)], integers from 0
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
        """Reinitialise each feature's embeddings as a separate matrix."""
        for rows in torch.split(self.table.weight.data, list(self.cardinalities)):
            nn.init.xavier_uniform_(rows)

    def forward(self, x: Tensor) -> Tensor:
        """Encode node features."""
        encoded: Tensor = self.table(x + self.starts)
        return encoded

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.cardinalities}, {self.table.embedding_dim})"


class RandomWalkEncoder(nn.Module):
    r"""Linear encoder of normalised landing probabilities of a random walk (RWSE).

    .. math::
        W \, \mathrm{BN}([P_{vv}, P^2_{vv}, \dots, P^K_{vv}]) + b

    "Graph Neural Networks with Learnable Structural and Positional Representations" (Dwivedi et
    al., ICLR 2022), encoded as in "Recipe for a General, Powerful, Scalable Graph Transformer"
    (Rampášek et al., NeurIPS 2022).

    Args:
        steps: Number of steps K.
        out_features: Width of the network.

    Shapes:
        - random_walk: [num_nodes, steps]
        - output: [num_nodes, out_features]
    """

    def __init__(self, steps: int, out_features: int) -> None:
        super().__init__()
        # A training batch may consist of a single node.
        self.norm = BatchNorm(steps, allow_single_element=True)
        self.linear = nn.Linear(steps, out_features)

    def forward(self, random_walk: Tensor) -> Tensor:
        """Encode landing probabilities."""
        return self.linear(self.norm(random_walk.to(self.linear.weight.dtype)))


class LaplacianEncoder(nn.Linear):
    r"""Linear encoder of the first eigenvectors of the graph's Laplacian.

    The sign of an eigenvector is arbitrary: in training each graph's columns are multiplied by
    random signs ("Benchmarking Graph Neural Networks", Dwivedi et al., JMLR 2023, section 4.1); in
    evaluation they are used unchanged.

    Shapes:
        - laplacian: [num_nodes, in_features]
        - batch: [num_nodes], the graph of each node
        - output: [num_nodes, out_features]
    """

    def forward(self, laplacian: Tensor, batch: Tensor, num_graphs: int) -> Tensor:  # type: ignore[override]
        """Encode eigenvectors."""
        laplacian = laplacian.to(self.weight.dtype)
        if self.training:
            signs = torch.rand(num_graphs, self.in_features, device=laplacian.device) < 0.5
            laplacian = torch.where(signs[batch], laplacian, -laplacian)
        return super().forward(laplacian)


def make_encoder(in_channels: int | Sequence[int], out_channels: int) -> nn.Module:
    """Make the encoder of features of a width, or of categories with given cardinalities."""
    if isinstance(in_channels, int):
        return LinearEncoder(in_channels, out_channels)
    return CategoricalEncoder(in_channels, out_channels)
