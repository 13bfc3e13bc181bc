"""Graph isomorphism network."""

from __future__ import annotations

from typing import Unpack

from torch_geometric.nn import GINConv

from unionsnn.models.mpnn import MPNN, StackOptions
from unionsnn.models.network import two_layer_mlp


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
