"""Curvature graph network."""

from __future__ import annotations

from typing import Unpack

from unionsnn.models.arguments import encodes_edges
from unionsnn.models.mpnn import CoefficientMPNN, StackOptions
from unionsnn.nn.conv.curvgn import CurvGNConv


class CurvGN(CoefficientMPNN):
    r"""CurvGN-n: the sum over N[v] of softmax(MLP(kappa_vu)) * W h_u in each layer.

    "Curvature Graph Network" (Ye et al., ICLR 2020), see `CurvGNConv`. kappa is the model's own
    coefficient (`layer_coefficient`): the Ollivier-Ricci curvature in the whole graph. With edge
    features, the MLP reads e_vu next to kappa_vu (an extension).

    Args:
        stack: Arguments of `MPNN`.
    """

    reads_edges = True
    adds_loops = True

    def __init__(self, **stack: Unpack[StackOptions]) -> None:
        with_edges = encodes_edges(stack)
        super().__init__(
            lambda c: CurvGNConv(c, edge_dim=c if with_edges else None, add_self_loops=False),
            **stack,
        )
