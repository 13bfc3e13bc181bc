"""A baseline that sees no edges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from torch import Tensor, nn

from unionsnn.models.network import (
    EdgeCoefficients,
    Gate,
    Level,
    Network,
    make_head,
    make_norm,
    refuse_gate,
)
from unionsnn.nn.batch import GraphBatch


class DeepSets(Network):
    r"""Deep Sets: a network of each node's features alone, summed over the graph.

    .. math::
        h_v \leftarrow \mathrm{ReLU}(W h_v + b), \qquad
        h_G = \sum_{v \in V} h_v

    "Deep Sets" (Zaheer et al., NeurIPS 2017), theorem 2; the structure-agnostic baseline of "A Fair
    Comparison of Graph Neural Networks for Graph Classification" (Errica et al., ICLR 2020), which
    a network that sees edges should beat.

    Args:
        in_channels: Width of the node features, or the cardinality of each categorical one.
        out_channels: Number of classes or targets.
        level: ``graph`` for one row per graph, ``node`` for one per node, ``link`` for one per pair
            of nodes.
        edge_channels: Must be None.
        gate: Must be None.
        structural_encoder: Must be None.
        hidden_channels: Width.
        num_layers: Linear maps of each node.
        dropout: Share of values that are set to 0 in training, after each layer and in the head.
        norm: ``batch``, ``layer`` or ``none``, after each linear map.
        readout: ``sum``, ``mean`` or ``max`` over the nodes.

    Raises:
        RequestError: if edge features or a gate are given, or a choice is not allowed.
    """

    at_most_1wl = True

    def __init__(
        self,
        *,
        in_channels: int | Sequence[int],
        out_channels: int,
        level: Level = "graph",
        edge_channels: int | Sequence[int] | None = None,
        gate: Gate | None = None,
        structural_encoder: EdgeCoefficients | None = None,
        hidden_channels: int = 64,
        num_layers: int = 2,
        dropout: float = 0.0,
        norm: Literal["batch", "layer", "none"] = "batch",
        readout: Literal["sum", "mean", "max"] = "sum",
    ) -> None:
        super().__init__(
            in_channels=in_channels,
            out_channels=out_channels,
            level=level,
            hidden_channels=hidden_channels,
            num_layers=num_layers,
            readout=readout,
            edge_channels=edge_channels,
            structural_encoder=structural_encoder,
        )
        refuse_gate(gate, "DeepSets", "it sends no messages")
        self.layers = nn.Sequential()
        for _ in range(num_layers):
            self.layers.append(nn.Linear(hidden_channels, hidden_channels))
            self.layers.append(make_norm(norm, hidden_channels))
            self.layers.append(nn.ReLU())
            self.layers.append(nn.Dropout(dropout))
        self.head = make_head(hidden_channels, out_channels, dropout, level)

    def embed(self, batch: GraphBatch) -> Tensor:
        """Map each node by itself, then read out."""
        return self.pool(self.layers(self.encoder(batch.x)), batch)
