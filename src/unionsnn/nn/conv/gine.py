"""GINE for data without edge features."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.nn import GINConv


class AlikeGINEConv(nn.Module):
    r"""GINE with one learned vector for all edges.

    .. math::
        h_v \leftarrow \mathrm{MLP}(h_v + \sum_{u \in N(v)} \mathrm{ReLU}(h_u + e))

    "Strategies for Pre-training Graph Neural Networks" (Hu et al., ICLR 2020), in the form of
    `torch_geometric.nn.GINEConv`, for data without edge features. A node sends the same message to
    all its neighbours, so it is computed once per node.

    Args:
        mlp: The MLP.
        channels: Width of the node features.

    Shapes:
        - h: [num_nodes, channels]
        - edge_index: [2, num_edges]
        - output: [num_nodes, width of the MLP's output]
    """

    def __init__(self, mlp: nn.Module, channels: int) -> None:
        super().__init__()
        self.conv = GINConv(mlp)
        self.edge = nn.Parameter(torch.empty(channels))
        nn.init.normal_(self.edge)

    def forward(self, h: Tensor, edge_index: Tensor) -> Tensor:
        """Return new node features."""
        return self.conv((torch.relu(h + self.edge), h), edge_index)
