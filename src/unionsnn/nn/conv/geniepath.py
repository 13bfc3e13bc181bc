"""The GeniePath operator: adaptive breadth, then adaptive depth."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.inits import reset
from torch_geometric.utils import softmax

from unionsnn.nn.loops import SelfLoops


class GeniePathConv(MessagePassing):
    r"""The GeniePath layer.

    .. math::
        t_v &= \tanh \Bigl( W \sum_{u \in N(v) \cup \{v\}} \alpha_{vu} h_u \Bigr), \qquad
        \alpha_{vu} = \mathrm{softmax}_{u \in N(v) \cup \{v\}}
        \bigl( q^\top \tanh(W_s h_v + W_d h_u) \bigr) \\
        C_v &\leftarrow \sigma(W_f t_v) \odot C_v + \sigma(W_i t_v) \odot \tanh(W_c t_v), \qquad
        h_v \leftarrow \sigma(W_o t_v) \odot \tanh(C_v)

    "GeniePath: Graph Neural Networks with Adaptive Receptive Paths" (Liu et al., AAAI 2019),
    equations of the breadth and of the depth function. The memory C is passed from layer to layer.
    With `edge_dim`, W_e e_vu is added inside the attention's tanh, which is an extension; from a
    node to itself it is 0.

    Args:
        channels: Width of features and memory, before and after.
        edge_dim: Width of the edge features e; None for none.
        add_self_loops: Whether to add the edge from each node to itself; otherwise the edges must
            have it, with edge features of 0.

    Shapes:
        - x: [num_nodes, channels]
        - edge_index: [2, num_edges]
        - memory: [num_nodes, channels]
        - edge_attr: [num_edges, edge_dim], e
        - output: new x and new memory, with the shapes of the inputs
    """

    def __init__(
        self, channels: int, *, edge_dim: int | None = None, add_self_loops: bool = True
    ) -> None:
        super().__init__(aggr="add")
        self.add_self_loops = add_self_loops
        self.message_channels = channels
        self.receiver = nn.Linear(channels, channels, bias=False)
        self.sender = nn.Linear(channels, channels, bias=False)
        self.attention = nn.Linear(channels, 1, bias=False)
        self.breadth = nn.Linear(channels, channels, bias=False)
        self.depth = nn.Linear(channels, 4 * channels)
        self.edge = None if edge_dim is None else nn.Linear(edge_dim, channels, bias=False)

    def reset_parameters(self) -> None:
        """Reinitialise the weights."""
        super().reset_parameters()
        for module in self.children():
            reset(module)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        memory: Tensor,
        edge_attr: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return new node features and memory."""
        if self.add_self_loops:
            loops = SelfLoops(edge_index, x.size(0))
            edge_index = loops.edge_index
            edge_attr = None if edge_attr is None else loops.append(edge_attr)
        sender, receiver = edge_index
        hidden = self.receiver(x).index_select(0, receiver)
        hidden = hidden + self.sender(x).index_select(0, sender)
        if self.edge is not None:
            hidden = hidden + self.edge(edge_attr)
        hidden = torch.tanh(hidden)
        # Under autocast a linear map returns half precision, too coarse for a softmax.
        score = self.attention(hidden).to(x.dtype)
        alpha = softmax(score, receiver, num_nodes=x.size(0))
        met = torch.tanh(self.breadth(self.propagate(edge_index, x=x, alpha=alpha)))
        forget, take, give, new = self.depth(met).chunk(4, dim=-1)
        memory = torch.sigmoid(forget) * memory + torch.sigmoid(take) * torch.tanh(new)
        return torch.sigmoid(give) * torch.tanh(memory), memory

    def message(self, x_j: Tensor, alpha: Tensor) -> Tensor:
        """Return attended features of the senders, [num_edges + num_nodes, channels]."""
        return alpha * x_j
