"""The UnionSNN operator."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.inits import reset

from unionsnn.nn.gates import StructuralGate


class UnionConv(MessagePassing):
    r"""The UnionSNN layer.

    .. math::
        h_v \leftarrow \mathrm{MLP}_1 \Bigl( (1 + \epsilon) h_v
        + \sum_{u \in N(v)} \mathrm{Trans}(\tilde a_{vu}) \odot h_u \Bigr)

    Equation 3 of "Union Subgraph Neural Networks" (Xu et al., AAAI 2024). The operator maps
    features of width `gate.channels`. With edge features e, the message is Trans * ReLU(h_u + e_vu)
    as in GINE ("Strategies for Pre-training Graph Neural Networks", Hu et al., ICLR 2020).

    Args:
        mlp: MLP_1, applied to the sum.
        gate: Trans.
        input_linear: Whether a linear map comes before message and self term, as in the authors'
            code.

    Without the linear map it is `UnionPlugin` on PyG's ``GINConv(mlp, train_eps=True)``, or on
    `GINEConv`.

    Shapes:
        - x: [num_nodes, gate.channels]
        - edge_index: [2, num_edges]
        - edge_attr: [num_edges, gate.channels], e
        - edge_coefficient: [num_edges, len(gate.columns)]
        - output: [num_nodes, width of mlp's output]
    """

    def __init__(self, mlp: nn.Module, gate: StructuralGate, *, input_linear: bool = False) -> None:
        super().__init__(aggr="add")
        self.mlp = mlp
        self.gate = gate
        self.linear = nn.Linear(gate.channels, gate.channels) if input_linear else None
        self.epsilon = nn.Parameter(torch.zeros(()))

    def reset_parameters(self) -> None:
        """Reinitialise the weights; epsilon becomes 0, the gate's statistics are kept."""
        super().reset_parameters()
        reset(self.mlp)
        self.gate.reset_parameters()
        if self.linear is not None:
            self.linear.reset_parameters()
        nn.init.zeros_(self.epsilon)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        *,
        edge_coefficient: Tensor,
    ) -> Tensor:
        """Return new node features."""
        if self.linear is not None:
            x = self.linear(x)
        given = edge_coefficient, edge_index, x.size(0)
        quotient = self.gate.quotient(*given)
        weight, of_receiver = (self.gate(*given), None) if quotient is None else quotient
        total = self.propagate(edge_index, x=x, edge_attr=edge_attr, weight=weight)
        if of_receiver is not None:
            total = total / of_receiver.to(total.dtype)
        return self.mlp((1 + self.epsilon) * x + total)

    def message(self, x_j: Tensor, edge_attr: Tensor | None, weight: Tensor) -> Tensor:
        """Return gated features of the senders and their edges, [num_edges, channels]."""
        sent = x_j if edge_attr is None else torch.relu(x_j + edge_attr)
        return weight.to(sent.dtype) * sent
