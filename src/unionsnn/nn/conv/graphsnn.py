"""The GraphSNN operator."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.inits import reset
from torch_geometric.utils import scatter

from unionsnn.nn.features import shares


class GraphSNNConv(MessagePassing):
    r"""The GraphSNN layer.

    .. math::
        h_v \leftarrow \mathrm{MLP} \Bigl( \gamma \bigl( \textstyle\sum_{u \in N(v)} \tilde a_{vu}
        + 1 \bigr) h_v + \sum_{u \in N(v)} (\tilde a_{vu} + 1) h_u \Bigr), \qquad
        \tilde a_{vu} = \omega_{vu} / \sum_{w \in N(v)} \omega_{vw}

    "A New Perspective on 'How Graph Neural Networks Go Beyond Weisfeiler-Lehman?'" (Wijesinghe
    and Wang, ICLR 2022). The paper's ω is the node/edge count of the overlap subgraph.
    With edge features e, ReLU(h_u + e_vu) is sent in the place of h_u, as in GINE ("Strategies for
    Pre-training Graph Neural Networks", Hu et al., ICLR 2020).

    Args:
        channels: Width of the features.
        mlp: Applied to the sum.

    Shapes:
        - x: [num_nodes, channels]
        - edge_index: [2, num_edges]
        - coefficient: [num_edges], ω
        - edge_attr: [num_edges, channels], e
        - output: [num_nodes, width of mlp's output]
    """

    def __init__(self, channels: int, mlp: nn.Module) -> None:
        super().__init__(aggr="add")
        self.message_channels = channels
        self.mlp = mlp
        self.gamma = nn.Parameter(torch.ones(()))

    def reset_parameters(self) -> None:
        """Reinitialise the weights; gamma becomes 1."""
        super().reset_parameters()
        reset(self.mlp)
        nn.init.ones_(self.gamma)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        coefficient: Tensor,
        edge_attr: Tensor | None = None,
    ) -> Tensor:
        """Return new node features."""
        share = shares(coefficient, edge_index[1], x.size(0))
        total = scatter(share, edge_index[1], dim=0, dim_size=x.size(0), reduce="sum")
        own = (self.gamma * (total + 1)).unsqueeze(-1).to(x.dtype) * x
        met = self.propagate(edge_index, x=x, share=share, edge_attr=edge_attr)
        return self.mlp(own + met)

    def message(self, x_j: Tensor, share: Tensor, edge_attr: Tensor | None) -> Tensor:
        """Return weighted features of the senders and their edges, [num_edges, channels]."""
        sent = x_j if edge_attr is None else torch.relu(x_j + edge_attr)
        return (share + 1).unsqueeze(-1).to(sent.dtype) * sent
