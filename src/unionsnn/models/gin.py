"""Graph isomorphism network."""

from __future__ import annotations

from typing import Unpack

from torch_geometric.nn import GINConv

from unionsnn.models.mpnn import MPNN, StackOptions
from unionsnn.models.network import two_layer_mlp
from unionsnn.nn.gates import gates

# Rows of the network's width that a layer keeps for the gradients: per node in the MLP and the
# norm, per edge as message and weight, and more if a softmax normalises the weights.
_KEPT_OF_A_NODE = 10
_KEPT_OF_A_GATED_EDGE = 3
_KEPT_OF_A_NORMALIZED_EDGE = 7
# Messages of one layer and their gradients, which exist only briefly.
_SENT = 2


class GIN(MPNN):
    r"""GIN: MLP((1 + eps) h_v + sum_u h_u) in each layer.

    "How Powerful are Graph Neural Networks?" (Xu et al., ICLR 2019), equation 4.1. With a gate it
    is UnionGIN, equation 5 of "Union Subgraph Neural Networks".

    Args:
        train_eps: Whether eps is learned.
        stack: Arguments of `MPNN`.
    """

    def __init__(self, *, train_eps: bool = True, **stack: Unpack[StackOptions]) -> None:
        norm = stack.get("norm", "batch")
        super().__init__(lambda c: GINConv(two_layer_mlp(c, norm), train_eps=train_eps), **stack)

    def layer_bytes(self, num_nodes: int, num_edges: int) -> int:
        """Estimate the memory of the layers for a number of nodes and edges, including copies.

        Args:
            num_nodes: Number of nodes.
            num_edges: Number of edges, in both directions.
        """
        kept = len(self.convs) if self.training else 1
        edge_rows = 0
        if self.gated:
            plain = gates(self)[0].normalization == "none"
            edge_rows = _KEPT_OF_A_GATED_EDGE if plain else _KEPT_OF_A_NORMALIZED_EDGE
        rows = num_nodes * _KEPT_OF_A_NODE * kept + num_edges * (edge_rows * kept + _SENT)
        return rows * self.hidden_channels * self.element_size
