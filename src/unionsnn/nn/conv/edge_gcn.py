"""GCN with edge embeddings in the message."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing
from torch_geometric.utils import degree


class EdgeGCNConv(MessagePassing):
    r"""The GCN layer of OGB's code for molecules.

    .. math::
        h_v \leftarrow \sum_{u \in N(v)} \frac{1}{\sqrt{d_v d_u}} \mathrm{ReLU}(W h_u + e_{vu})
        + \frac{1}{d_v} \mathrm{ReLU}(W h_v + r), \qquad d_v = |N(v)| + 1

    "Open Graph Benchmark" (Hu et al., NeurIPS 2020), the GCN of its examples; r is learned and
    stands for the edge from a node to itself. As in GCN, W has a bias.

    Args:
        channels: Width of node and edge features, before and after.
        map_first: Whether W comes before the message, as in the equation, or after the sum.

    Shapes:
        - x: [num_nodes, channels]
        - edge_index: [2, num_edges]
        - edge_attr: [num_edges, channels], e
        - output: [num_nodes, channels]
    """

    def __init__(self, channels: int, *, map_first: bool = True) -> None:
        super().__init__(aggr="add")
        self.message_channels = channels
        self.map_first = map_first
        self.linear = nn.Linear(channels, channels)
        self.loop = nn.Parameter(torch.empty(channels))
        nn.init.normal_(self.loop)

    def reset_parameters(self) -> None:
        """Reinitialise the weights."""
        super().reset_parameters()
        self.linear.reset_parameters()
        nn.init.normal_(self.loop)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        """Return new node features."""
        if self.map_first:
            x = self.linear(x)
        sender, receiver = edge_index
        # In half precision, large degrees could not be counted.
        exact = torch.promote_types(x.dtype, torch.float32)
        d = 1 + degree(receiver, x.size(0), dtype=exact)
        norm = (
            (d.index_select(0, receiver) * d.index_select(0, sender))
            .rsqrt()
            .unsqueeze(1)
            .to(x.dtype)
        )
        own = torch.relu(x + self.loop) / d.unsqueeze(1).to(x.dtype)
        out = own + self.propagate(edge_index, x=x, edge_attr=edge_attr, norm=norm)
        return out if self.map_first else self.linear(out)

    def message(self, x_j: Tensor, edge_attr: Tensor, norm: Tensor) -> Tensor:
        """Return normalised features of the senders and their edges, [num_edges, channels]."""
        return norm * torch.relu(x_j + edge_attr)
