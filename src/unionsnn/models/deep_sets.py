"""A baseline that sees no edges."""

from __future__ import annotations

from typing import Unpack

from torch import Tensor, nn

from unionsnn.models.arguments import Gate, NetworkOptions, Norm, Readout, refuse_gate
from unionsnn.models.network import Network
from unionsnn.models.parts import make_head, make_norm
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
        out_channels: Number of classes or targets.
        gate: Must be None.
        num_layers: Linear maps of each node.
        dropout: Share of values that are set to 0 in training, after each layer and in the head.
        norm: ``batch``, ``layer`` or ``none``, after each linear map.
        readout: ``sum``, ``mean`` or ``max`` over the nodes.
        options: Arguments of `Network`, without edge features.

    Raises:
        RequestError: if edge features or a gate are given, or a choice is not allowed.
    """

    at_most_1wl = True

    def __init__(
        self,
        *,
        out_channels: int,
        gate: Gate | None = None,
        num_layers: int = 2,
        dropout: float = 0.0,
        norm: Norm = "batch",
        readout: Readout = "sum",
        **options: Unpack[NetworkOptions],
    ) -> None:
        super().__init__(
            out_channels=out_channels, num_layers=num_layers, readout=readout, **options
        )
        refuse_gate(gate, "DeepSets", "it sends no messages")
        channels = self.hidden_channels
        self.layers = nn.Sequential()
        for _ in range(num_layers):
            self.layers.append(nn.Linear(channels, channels))
            self.layers.append(make_norm(norm, channels))
            self.layers.append(nn.ReLU())
            self.layers.append(nn.Dropout(dropout))
        self.head = make_head(channels, out_channels, dropout, self.level)

    def embed(self, batch: GraphBatch) -> Tensor:
        """Map each node by itself, then read out."""
        return self.pool(self.layers(self.encoder(batch.x)), batch)
