"""Graph convolutional network."""

from __future__ import annotations

from typing import Literal, Unpack

from torch_geometric.nn import GCNConv, SGConv

from unionsnn.base.arguments import require_choice
from unionsnn.models.mpnn import MPNN, StackOptions


class GCN(MPNN):
    r"""GCN: W sum_u h_u / sqrt(d_v d_u) over N[v] in each layer.

    "Semi-Supervised Classification with Graph Convolutional Networks" (Kipf and Welling, ICLR
    2017), equation 2. With a gate it is UnionGCN, equation 5 of "Union Subgraph Neural Networks".

    Args:
        gate_on: ``input`` gates h_u before W, which is exactly equation 5; ``message`` gates W h_u.
            Without a gate both are the same function.
        stack: Arguments of `MPNN`.

    Raises:
        RequestError: if `gate_on` is neither.
    """

    def __init__(
        self, *, gate_on: Literal["input", "message"] = "input", **stack: Unpack[StackOptions]
    ) -> None:
        # SGConv of one hop is the same operator with W applied after the sum.
        layers = {"input": SGConv, "message": GCNConv}
        require_choice("gate_on", gate_on, layers)
        super().__init__(lambda c: layers[gate_on](c, c), **stack)
