"""The CurvGN operator."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.inits import reset
from torch_geometric.utils import softmax

from unionsnn.nn.loops import SelfLoops


class CurvGNConv(MessagePassing):
    r"""The CurvGN-n layer.

    .. math::
        h_v \leftarrow \sum_{u \in N(v) \cup \{v\}} \tau_{vu} \odot W h_u + b, \qquad
        \tau_{vu} = \mathrm{softmax}_{u \in N(v) \cup \{v\}} \mathrm{MLP}(\kappa_{vu})

    "Curvature Graph Network" (Ye et al., ICLR 2020), one softmax per channel. κ is the
    Ollivier-Ricci curvature in the whole graph, and 0 from a node to itself. With `edge_dim`, the
    MLP reads edge features next to κ, which is an extension; they too are 0 from a node to itself.

    Args:
        channels: Width of the features, before and after.
        negative_slope: Slope of the leaky ReLU inside the MLP.
        edge_dim: Width of the edge features; None for none.
        add_self_loops: Whether to add the edge from each node to itself; otherwise the edges must
            have it, with κ and edge features of 0.

    Shapes:
        - x: [num_nodes, channels]
        - edge_index: [2, num_edges]
        - curvature: [num_edges], κ
        - edge_attr: [num_edges, edge_dim]
        - output: [num_nodes, channels]
    """

    def __init__(
        self,
        channels: int,
        *,
        negative_slope: float = 0.2,
        edge_dim: int | None = None,
        add_self_loops: bool = True,
    ) -> None:
        super().__init__(aggr="add")
        self.add_self_loops = add_self_loops
        self.message_channels = channels
        self.linear = nn.Linear(channels, channels, bias=False)
        self.mlp = nn.Sequential(
            nn.Linear(1 + (edge_dim or 0), channels),
            nn.LeakyReLU(negative_slope),
            nn.Linear(channels, channels),
        )
        self.bias = nn.Parameter(torch.zeros(channels))

    def reset_parameters(self) -> None:
        """Reinitialise the weights; the bias becomes 0."""
        super().reset_parameters()
        self.linear.reset_parameters()
        reset(self.mlp)
        nn.init.zeros_(self.bias)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        curvature: Tensor,
        edge_attr: Tensor | None = None,
    ) -> Tensor:
        """Return new node features."""
        read = curvature.unsqueeze(-1)
        if edge_attr is not None:
            read = torch.cat([read, edge_attr.to(read.dtype)], dim=-1)
        if self.add_self_loops:
            loops = SelfLoops(edge_index, x.size(0))
            edge_index, read = loops.edge_index, loops.append(read)
        # Under autocast the MLP returns half precision, too coarse for a softmax.
        score = self.mlp(read).to(curvature.dtype)
        weight = softmax(score, edge_index[1], num_nodes=x.size(0))
        return self.propagate(edge_index, x=self.linear(x), weight=weight) + self.bias

    def message(self, x_j: Tensor, weight: Tensor) -> Tensor:
        """Return weighted features of the senders, [num_edges + num_nodes, channels]."""
        return weight.to(x_j.dtype) * x_j
