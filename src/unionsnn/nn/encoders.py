"""Encoders from features of nodes and edges to the width of the network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import torch
from torch import Tensor, nn

from unionsnn.base.arguments import require_at_least
from unionsnn.nn.batch import GraphBatch, required
from unionsnn.nn.features import FeatureOptions, StructuralFeatures
from unionsnn.nn.gates import given_coefficient, preset_options
from unionsnn.nn.norms import batch_norm


class LinearEncoder(nn.Linear):
    """Linear encoder of real-valued or one-hot features of nodes or edges.

    Shapes:
        - x: [num_nodes, in_features], any numeric type
        - output: [num_nodes, out_features]
    """

    def forward(self, x: Tensor) -> Tensor:
        """Encode node features."""
        return super().forward(x.to(self.weight.dtype))


class CategoricalEncoder(nn.Module):
    r"""Sum of one embedding for each categorical feature of a node or an edge.

    .. math::
        h_v = \sum_k E_k[x_{vk}]

    Like AtomEncoder and BondEncoder of "Open Graph Benchmark" (Hu et al., NeurIPS 2020), with their
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
        self.norm = batch_norm(steps)
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


class StructuralEdgeEncoder(StructuralFeatures):
    r"""Encoder of structural coefficients as features of edges, for any layer that reads these.

    .. math::
        e_{vu} = W_2 \, \mathrm{ReLU}(W_1 f_{vu} + b_1) + b_2

    f are the features of the edge at every radius, see `StructuralFeatures`. v receives the
    message, so the normalised coefficient differs between the directions of an edge. An edge from
    a node to itself gets 0; loops that a layer adds are filled by the layer. An extension of "Union
    Subgraph Neural Networks" (Xu et al., AAAI 2024), whose coefficient multiplies messages
    (`StructuralGate`).

    Args:
        channels: Width of the edge features (`edge_dim` of a PyG layer).
        features: Arguments of `StructuralFeatures`, by default those of the gate's preset
            ``default``.

    Shapes:
        - coefficient: [num_edges, len(columns)]
        - edge_index: [2, num_edges]
        - output: [num_edges, channels]

    Raises:
        RequestError: if a choice is unknown or a required column is missing.
    """

    kind = "encoder"
    made_with = "StructuralEdgeEncoder(channels, radius=1)"

    def __init__(self, channels: int, **features: Unpack[FeatureOptions]) -> None:
        super().__init__(**_of_features(preset_options("default", **features)))
        require_at_least("channels", channels, 1)
        self.channels = channels
        self.hidden = nn.Linear(len(self.feature_mean), channels)
        self.last = nn.Linear(channels, channels)

    @classmethod
    def preset(cls, name: str, channels: int, **overrides: Any) -> StructuralEdgeEncoder:
        """Make an encoder of the features that a gate's preset reads."""
        return cls(channels, **_of_features(preset_options(name, **overrides)))

    def reset_parameters(self) -> None:
        """Reinitialise the weights; the statistics are kept."""
        self.hidden.reset_parameters()
        self.last.reset_parameters()

    def forward(self, coefficient: Tensor, edge_index: Tensor, num_nodes: int) -> Tensor:
        """Return edge features; arguments as in `standardized`."""
        features = self.standardized(coefficient, edge_index, num_nodes)
        encoded: Tensor = self.last(torch.relu(self.hidden(features)))
        return encoded * (edge_index[0] != edge_index[1]).unsqueeze(-1).to(encoded.dtype)

    def extra_repr(self) -> str:
        """Show the features."""
        return f"features={self.features}, radius={self.radius}"


def _of_features(options: Mapping[str, Any]) -> FeatureOptions:
    """Return those of a gate's arguments that choose its features."""
    return {key: options[key] for key in FeatureOptions.__annotations__ if key in options}  # type: ignore[return-value]


class EdgeEncoder(nn.Module):
    r"""Sum of the encodings of given and structural edge features.

    .. math::
        e_{vu} = \mathrm{encode}(x_{vu}) + \mathrm{MLP}(f_{vu})

    Args:
        edge_channels: Width of the edge features, or the cardinality of each categorical one; None
            if none are given.
        structural: Encoder of structural coefficients; None for none.
        out_channels: Width of the network.

    Shapes:
        - batch: as in `GraphBatch`, with `edge_attr` of edge_channels columns, or integers of
          len(edge_channels) columns, and `edge_coefficient`, as far as they are encoded
        - output: [num_edges, out_channels]

    Raises:
        RequestError: if the batch lacks what is encoded.
    """

    def __init__(
        self,
        edge_channels: int | Sequence[int] | None,
        structural: StructuralEdgeEncoder | None,
        out_channels: int,
    ) -> None:
        super().__init__()
        self.columns = len(edge_channels) if isinstance(edge_channels, Sequence) else edge_channels
        self.given = None if edge_channels is None else make_encoder(edge_channels, out_channels)
        self.structural = structural

    def forward(self, batch: GraphBatch) -> Tensor:
        """Encode edges."""
        parts = []
        if self.given is not None:
            edge_attr = required(
                "edge_attr",
                batch.edge_attr,
                [batch.edge_index.size(1), self.columns or 0],
                reader="A network with edge_channels",
                remedy="load the data with data.edge_features, or pass data.edge_attr.",
            )
            parts.append(self.given(edge_attr))
        if self.structural is not None:
            coefficient = given_coefficient(batch.edge_coefficient)
            parts.append(self.structural(coefficient, batch.edge_index, batch.x.size(0)))
        return parts[0] + parts[1] if len(parts) == 2 else parts[0]
