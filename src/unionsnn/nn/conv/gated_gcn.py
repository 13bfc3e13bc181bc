"""The GatedGCN operator, with a stream of edge features."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.inits import reset
from torch_geometric.utils import scatter

# As in the code of benchmarking-gnns.
_EPSILON = 1e-6


class GatedGCNConv(MessagePassing):
    r"""The GatedGCN layer; the network adds the residual connection of the nodes.

    .. math::
        \hat e_{vu} &\leftarrow \hat e_{vu} + \mathrm{ReLU}(\mathrm{norm}(
        A h_v + B h_u + C \hat e_{vu})) \\
        h_v &\leftarrow U h_v + \sum_{u \in N(v)} \eta_{vu} \odot V h_u, \qquad
        \eta_{vu} = \frac{\sigma(\hat e_{vu})}{\sum_{w \in N(v)} \sigma(\hat e_{vw}) + \epsilon}

    "Residual Gated Graph ConvNets" (Bresson and Laurent, 2017) in the form of "Benchmarking Graph
    Neural Networks" (Dwivedi et al., 2020), with its equations: normalised gates, and edge features
    passed on from layer to layer. (The code of that paper applies σ before the norm and the
    residual connection of the edges.) PyG's `ResGatedGraphConv` has neither.

    Args:
        channels: Width of node and edge features, before and after.
        edge_norm: Normalisation of edge features of that width.

    Shapes:
        - x: [num_nodes, channels]
        - edge_index: [2, num_edges]
        - edge: [num_edges, channels]
        - output: new x and new edge, with the shapes of the inputs
    """

    def __init__(self, channels: int, edge_norm: nn.Module) -> None:
        super().__init__(aggr="add")
        self.message_channels = channels
        self.own = nn.Linear(channels, channels)
        self.sent = nn.Linear(channels, channels)
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

    def forward(self, x: Tensor, edge_index: Tensor, edge: Tensor) -> tuple[Tensor, Tensor]:
        """Return new node and edge features."""
        sender, receiver = edge_index
        update = (
            self.edge_of_receiver(x).index_select(0, receiver)
            + self.edge_of_sender(x).index_select(0, sender)
            + self.edge_of_edge(edge)
        )
        edge = edge + torch.relu(self.edge_norm(update))
        gate = torch.sigmoid(edge)
        total = scatter(gate, receiver, dim=0, dim_size=x.size(0), reduce="sum")
        gate = gate / (total + _EPSILON).index_select(0, receiver)
        return self.own(x) + self.propagate(edge_index, x=self.sent(x), gate=gate), edge

    def message(self, x_j: Tensor, gate: Tensor) -> Tensor:
        """Return gated features of the senders, [num_edges, channels]."""
        return gate * x_j
