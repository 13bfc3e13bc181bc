"""The GatedGCN operator with a second stream of positional features."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.inits import reset
from torch_geometric.utils import scatter

# As in the code of benchmarking-gnns.
_EPSILON = 1e-6


class GatedGCNLSPEConv(MessagePassing):
    r"""The GatedGCN-LSPE layer; the network adds norm and residual connection of the nodes.

    .. math::
        \hat\eta_{vu} &= B_1 h_v + B_2 h_u + B_3 e_{vu}, \qquad
        \eta_{vu} = \sigma(\hat\eta_{vu}) / (\sum_{w \in N(v)} \sigma(\hat\eta_{vw}) + \epsilon) \\
        h_v &\leftarrow A_1 [h_v, p_v] + \sum_{u \in N(v)} \eta_{vu} \odot A_2 [h_u, p_u] \\
        p_v &\leftarrow p_v + \tanh(C_1 p_v + \sum_{u \in N(v)} \eta_{vu} \odot C_2 p_u) \\
        e_{vu} &\leftarrow e_{vu} + \mathrm{ReLU}(\mathrm{norm}(\hat\eta_{vu}))

    "Graph Neural Networks with Learnable Structural and Positional Representations" (Dwivedi et
    al., ICLR 2022), section 3.1. Features and positions are sent as one message, so that a
    structural gate weights both.

    Args:
        channels: Width of features, positions and edge features, before and after.
        edge_norm: Normalisation of edge features of that width; None in the last layer, which
            leaves the edge features unchanged.

    Shapes:
        - x: [num_nodes, channels]
        - edge_index: [2, num_edges]
        - edge: [num_edges, channels]
        - position: [num_nodes, channels]
        - output: new x, edge and position, with the shapes of the inputs
    """

    def __init__(self, channels: int, edge_norm: nn.Module | None) -> None:
        super().__init__(aggr="add")
        self.message_channels = 2 * channels
        self.own = nn.Linear(2 * channels, channels)
        self.sent = nn.Linear(2 * channels, channels)
        self.own_position = nn.Linear(channels, channels)
        self.sent_position = nn.Linear(channels, channels)
        self.edge_of_receiver = nn.Linear(channels, channels)
        # Their biases would add up to a single one.
        self.edge_of_sender = nn.Linear(channels, channels, bias=False)
        self.edge_of_edge = nn.Linear(channels, channels, bias=False)
        self.edge_norm = edge_norm

    def reset_parameters(self) -> None:
        """Reinitialise the weights."""
        super().reset_parameters()
        for module in self.children():
            reset(module)

    def forward(
        self, x: Tensor, edge_index: Tensor, edge: Tensor, position: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return new node features, edge features and positions."""
        sender, receiver = edge_index
        eta = (
            self.edge_of_receiver(x).index_select(0, receiver)
            + self.edge_of_sender(x).index_select(0, sender)
            + self.edge_of_edge(edge)
        )
        gate = torch.sigmoid(eta)
        total = scatter(gate, receiver, dim=0, dim_size=x.size(0), reduce="sum")
        gate = gate / (total + _EPSILON).index_select(0, receiver)
        both = torch.cat([x, position], dim=1)
        sent = torch.cat([self.sent(both), self.sent_position(position)], dim=1)
        features, positions = self.propagate(edge_index, x=sent, gate=gate).chunk(2, dim=1)
        new_position = position + torch.tanh(self.own_position(position) + positions)
        if self.edge_norm is not None:
            edge = edge + torch.relu(self.edge_norm(eta))
        return self.own(both) + features, edge, new_position

    def message(self, x_j: Tensor, gate: Tensor) -> Tensor:
        """Return gated features and positions of the senders, [num_edges, 2 * channels]."""
        return torch.cat([gate, gate], dim=1) * x_j
