"""Graph attention network."""

from __future__ import annotations

from typing import Unpack

from torch import Tensor
from torch_geometric.nn import GATConv

from unionsnn.models.arguments import encodes_edges
from unionsnn.models.mpnn import MPNN, StackOptions, State
from unionsnn.nn.attention import head_width
from unionsnn.nn.loops import SelfLoops


class GAT(MPNN):
    r"""GAT: concatenated heads' sums over N[v] of alpha_vu W h_u in each layer.

    "Graph Attention Networks" (Veličković et al., ICLR 2018), equation 5. With a gate, a head's
    message alpha_vu W h_u is gated; the attention does not see the gate. With edge features,
    it sees e_vu, and for a node itself the mean of its edges: a^T W_e e_vu is added to each score,
    as in PyG's `GATConv`.

    Args:
        heads: Number of heads, a divisor of the width.
        stack: Arguments of `MPNN`.

    Raises:
        RequestError: if the width is not a multiple of `heads`.
    """

    reads_edges = True
    adds_loops = True

    def __init__(self, *, heads: int = 8, **stack: Unpack[StackOptions]) -> None:
        def conv(channels: int) -> GATConv:
            width = head_width(channels, heads)
            if not encodes_edges(stack):
                return GATConv(channels, width, heads=heads, add_self_loops=False)
            layer = GATConv(channels, width, heads=heads, edge_dim=channels, add_self_loops=False)
            layer.message_channels = channels
            return layer

        super().__init__(conv, **stack)

    def looped(self, state: State, loops: SelfLoops) -> State:
        """Return encoded edges, those of loops as the mean of a node's edges."""
        return loops.append(state, "mean") if isinstance(state, Tensor) else None
