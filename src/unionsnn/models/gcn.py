"""Graph convolutional network."""

from __future__ import annotations

from typing import Literal, Unpack

from torch_geometric.nn import GCNConv, MessagePassing, SGConv

from unionsnn.base.arguments import require_choice
from unionsnn.models.arguments import encodes_edges
from unionsnn.models.mpnn import MPNN, StackOptions
from unionsnn.nn.conv.edge_gcn import EdgeGCNConv


class GCN(MPNN):
    r"""GCN: W sum_u h_u / sqrt(d_v d_u) over N[v] in each layer.

    "Semi-Supervised Classification with Graph Convolutional Networks" (Kipf and Welling, ICLR
    2017), equation 2. With edge features, the message is ReLU(h_u + e_vu), see `EdgeGCNConv`. With
    a gate it is UnionGCN, equation 5 of "Union Subgraph Neural Networks".

    Args:
        gate_on: ``input`` gates h_u before W, which is exactly equation 5; ``message`` gates W h_u.
            Without gate and edge features both are the same function.
        stack: Arguments of `MPNN`.

    Raises:
        RequestError: if `gate_on` is neither.
    """

    reads_edges = True

    def __init__(
        self, *, gate_on: Literal["input", "message"] = "input", **stack: Unpack[StackOptions]
    ) -> None:
        # SGConv of one hop is the same operator with W applied after the sum.
        layers = {"input": SGConv, "message": GCNConv}
        require_choice("gate_on", gate_on, layers)

        def conv(channels: int) -> MessagePassing:
            if encodes_edges(stack):
                return EdgeGCNConv(channels, map_first=gate_on == "message")
            return layers[gate_on](channels, channels, add_self_loops=False)

        super().__init__(conv, **stack)
        # `EdgeGCNConv` has a message of its own for them.
        self.adds_loops = not encodes_edges(stack)
