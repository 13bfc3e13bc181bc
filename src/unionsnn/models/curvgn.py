"""Curvature graph network."""

from __future__ import annotations

from typing import Unpack

from unionsnn.models.mpnn import CoefficientMPNN, StackOptions
from unionsnn.nn.conv.curvgn import CurvGNConv


class CurvGN(CoefficientMPNN):
    r"""CurvGN-n: the sum over N[v] of softmax(MLP(kappa_vu)) * W h_u in each layer.

    "Curvature Graph Network" (Ye et al., ICLR 2020), see `CurvGNConv`. kappa is the model's own
    coefficient (`layer_coefficient`): the Ollivier-Ricci curvature in the whole graph.

    Args:
        stack: Arguments of `MPNN`.
    """

    def __init__(self, **stack: Unpack[StackOptions]) -> None:
        super().__init__(CurvGNConv, **stack)
