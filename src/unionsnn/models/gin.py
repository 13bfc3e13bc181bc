"""Graph isomorphism network."""

from __future__ import annotations

from typing import Unpack

from torch_geometric.nn import GINConv, GINEConv, MessagePassing

from unionsnn.models.arguments import encodes_edges
from unionsnn.models.mpnn import MPNN, StackOptions
from unionsnn.models.parts import two_layer_mlp
from unionsnn.nn.plugin import UnionPlugin

# Rows of the network's width that a layer keeps for the gradients: per node in the MLP and the
# norm, per edge as message of GINE, as message and weight, and more if a softmax normalises the
# weights.
_KEPT_OF_A_NODE = 10
_KEPT_OF_AN_EDGE = 1
_KEPT_OF_A_GATED_EDGE = 3
_KEPT_OF_A_NORMALIZED_EDGE = 7
# Messages of one layer and their gradients, which exist only briefly.
_SENT = 2


class GIN(MPNN):
    r"""GIN: MLP((1 + eps) h_v + sum_u h_u) in each layer; with edge features GINE.

    .. math::
        h_v \leftarrow \mathrm{MLP}\Bigl((1 + \epsilon) h_v
        + \sum_{u \in N(v)} \mathrm{ReLU}(h_u + e_{vu})\Bigr)

    "How Powerful are Graph Neural Networks?" (Xu et al., ICLR 2019), equation 4.1, and "Strategies
    for Pre-training Graph Neural Networks" (Hu et al., ICLR 2020) in the form of PyG's `GINEConv`.
    With a gate it is UnionGIN, equation 5 of "Union Subgraph Neural Networks".

    Args:
        train_eps: Whether eps is learned.
        stack: Arguments of `MPNN`.
    """

    reads_edges = True

    def __init__(self, *, train_eps: bool = True, **stack: Unpack[StackOptions]) -> None:
        norm = stack.get("norm", "batch")

        def conv(channels: int) -> MessagePassing:
            mlp = two_layer_mlp(channels, norm)
            if not encodes_edges(stack):
                return GINConv(mlp, train_eps=train_eps)
            layer = GINEConv(mlp, train_eps=train_eps)
            layer.message_channels = channels
            return layer

        super().__init__(conv, **stack)

    def layer_bytes(self, num_nodes: int, num_edges: int) -> int:
        """Estimate the memory of the layers for a number of nodes and edges, including copies.

        Args:
            num_nodes: Number of nodes.
            num_edges: Number of edges, in both directions.
        """
        kept = len(self.convs) if self.training else 1
        encoded = int(self.edge_encoder is not None)
        edge_rows = _KEPT_OF_AN_EDGE * encoded
        if isinstance(first := self.convs[0], UnionPlugin):
            plain = first.gate.normalization == "none"
            edge_rows = _KEPT_OF_A_GATED_EDGE if plain else _KEPT_OF_A_NORMALIZED_EDGE
        edge_rows = edge_rows * kept + encoded + _SENT
        rows = num_nodes * _KEPT_OF_A_NODE * kept + num_edges * edge_rows
        return rows * self.hidden_channels * self.element_size
