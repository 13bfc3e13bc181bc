"""GraphSAGE with edge embeddings in the message."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import MessagePassing


class EdgeSAGEConv(MessagePassing):
    r"""The layer of PyG's `SAGEConv` with the message of OGB's code for molecules.

    .. math::
        h_v \leftarrow W_1 h_v + W_2 \, \mathrm{mean}_{u \in N(v)} \mathrm{ReLU}(h_u + e_{vu}) + b

    "Open Graph Benchmark" (Hu et al., NeurIPS 2020) has this message in its GIN and GCN. Without
    the ReLU, as in "Strategies for Pre-training Graph Neural Networks" (Hu et al., ICLR 2020), the
    mean could not tell which edge leads to which neighbour.

    Args:
        channels: Width of node and edge features, before and after.
        aggregation: ``mean`` or ``max`` over the neighbours.
        normalize: Whether to normalise the output rows to length 1.

    Shapes:
        - x: [num_nodes, channels]
        - edge_index: [2, num_edges]
        - edge_attr: [num_edges, channels], e
        - output: [num_nodes, channels]
    """

    def __init__(
        self, channels: int, *, aggregation: str = "mean", normalize: bool = False
    ) -> None:
        super().__init__(aggr=aggregation)
        self.message_channels = channels
        self.normalize = normalize
        self.own = nn.Linear(channels, channels, bias=False)
        self.sent = nn.Linear(channels, channels)

    def reset_parameters(self) -> None:
        """Reinitialise the weights."""
        super().reset_parameters()
        self.own.reset_parameters()
        self.sent.reset_parameters()

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        """Return new node features."""
        out = self.own(x) + self.sent(self.propagate(edge_index, x=x, edge_attr=edge_attr))
        return functional.normalize(out, dim=-1) if self.normalize else out

    def message(self, x_j: Tensor, edge_attr: Tensor) -> Tensor:
        """Return features of the senders and their edges, [num_edges, channels]."""
        return torch.relu(x_j + edge_attr)
