"""The layers of GatedGCN, GeniePath, GraphSNN and CurvGN against dense formulas written here."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from gated_graphs import fitted, several_graphs, with_loops
from torch import Tensor, nn
from torch_geometric.data import Data

from unionsnn import UnionPlugin
from unionsnn.nn.conv.curvgn import CurvGNConv
from unionsnn.nn.conv.gated_gcn import GatedGCNConv
from unionsnn.nn.conv.geniepath import GeniePathConv
from unionsnn.nn.conv.graphsnn import GraphSNNConv

C = 3
CLOSE = {"rtol": 1e-10, "atol": 1e-10}


def dense(data: Data, values: Tensor) -> Tensor:
    """Values of the edges at [receiver, sender]."""
    out = torch.zeros(data.num_nodes, data.num_nodes, *values.shape[1:], dtype=torch.float64)
    out[data.edge_index[1], data.edge_index[0]] = values
    return out


def adjacency(data: Data) -> Tensor:
    return dense(data, torch.ones(data.num_edges, dtype=torch.float64))


def share(A: Tensor) -> Tensor:
    total = A.sum(dim=1, keepdim=True)
    return torch.where(total > 0, A / total, 0)


def closed(A: Tensor) -> Tensor:
    return A + torch.eye(len(A), dtype=A.dtype)


def masked_softmax(score: Tensor, A: Tensor) -> Tensor:
    """Over the neighbours, [v, u, channels]."""
    return score.masked_fill(A.unsqueeze(-1) == 0, -torch.inf).softmax(dim=1)


def edge_features(data: Data) -> Tensor:
    u, v = data.edge_index.double()
    return torch.stack([u.sin(), (2 * v).cos(), (u * v).sin()], dim=1)


def memory(data: Data) -> Tensor:
    return data.x.flip(0).sin()


def omega(data: Data) -> Tensor:
    """A positive number for each edge, another one each way."""
    return 0.5 + edge_features(data)[:, 2].square()


def graphsnn(conv: GraphSNNConv, data: Data, W: Tensor) -> Tensor:
    A, a = adjacency(data), share(dense(data, omega(data)))
    own = conv.gamma * (a.sum(dim=1, keepdim=True) + 1) * data.x
    return conv.mlp(own + torch.einsum("vu,vuc,uc->vc", (a + 1) * A, W, data.x))


def curvgn(conv: CurvGNConv, data: Data, W: Tensor) -> Tensor:
    I = torch.eye(data.num_nodes, dtype=torch.float64).unsqueeze(-1)
    kappa = dense(data, omega(data) - 1)
    tau = masked_softmax(conv.mlp(kappa.unsqueeze(-1)), closed(adjacency(data)))
    return torch.einsum("vuc,uc->vc", tau * (W + I), conv.linear(data.x)) + conv.bias


def gated_gcn(conv: GatedGCNConv, data: Data, W: Tensor) -> tuple[Tensor, Tensor]:
    x, E, A = data.x, dense(data, edge_features(data)), adjacency(data)
    update = (
        conv.edge_of_receiver(x).unsqueeze(1)
        + conv.edge_of_sender(x).unsqueeze(0)
        + conv.edge_of_edge(E)
    )
    E = E + conv.edge_norm(update).relu()
    gate = A.unsqueeze(-1) * E.sigmoid()
    gate = gate / (gate.sum(dim=1, keepdim=True) + 1e-6)
    new = conv.own(x) + torch.einsum("vuc,uc->vc", gate * W, conv.sent(x))
    u, v = data.edge_index
    return new, E[v, u]


def geniepath(conv: GeniePathConv, data: Data, W: Tensor) -> tuple[Tensor, Tensor]:
    x, I = data.x, torch.eye(data.num_nodes, dtype=torch.float64).unsqueeze(-1)
    hidden = (conv.receiver(x).unsqueeze(1) + conv.sender(x).unsqueeze(0)).tanh()
    alpha = masked_softmax(hidden @ conv.attention.weight.T, closed(adjacency(data)))
    met = conv.breadth(torch.einsum("vuc,uc->vc", alpha * (W + I), x)).tanh()
    f, i, o, c = (
        met @ weight.T + bias
        for weight, bias in zip(conv.depth.weight.split(C), conv.depth.bias.split(C), strict=True)
    )
    kept = f.sigmoid() * memory(data) + i.sigmoid() * c.tanh()
    return o.sigmoid() * kept.tanh(), kept


CONVS: dict[str, tuple[Callable, Callable, Callable]] = {
    "GraphSNN": (
        lambda: GraphSNNConv(C, nn.Sequential(nn.Linear(C, 5), nn.Tanh())),
        graphsnn,
        omega,
    ),
    "CurvGN": (lambda: CurvGNConv(C), curvgn, lambda data: omega(data) - 1),
    "GatedGCN": (lambda: GatedGCNConv(C, nn.LayerNorm(C)), gated_gcn, edge_features),
    "GeniePath": (lambda: GeniePathConv(C), geniepath, memory),
}
every_conv = pytest.mark.parametrize("name", CONVS)


def make(name: str) -> nn.Module:
    torch.manual_seed(0)
    conv = CONVS[name][0]().double()
    for parameter in conv.parameters():
        nn.init.normal_(parameter)
    return conv


@every_conv
def test_the_layer_is_its_dense_formula(name: str) -> None:
    data, conv = several_graphs(C), make(name)
    _, formula, given = CONVS[name]
    ones = adjacency(data).unsqueeze(-1)
    out = conv(data.x, data.edge_index, given(data))
    torch.testing.assert_close(out, formula(conv, data, ones), **CLOSE)


@every_conv
@pytest.mark.parametrize("gate", ["default", "paper"])
def test_the_gated_layer_is_its_dense_formula(name: str, gate: str) -> None:
    data, conv = several_graphs(C), make(name)
    _, formula, given = CONVS[name]
    plugin = UnionPlugin(conv, gate=fitted(gate, data, C))
    out = plugin(data.x, data.edge_index, given(data), edge_coefficient=data.edge_coefficient)
    weight = plugin.gate(data.edge_coefficient, data.edge_index, data.num_nodes)
    torch.testing.assert_close(out, formula(conv, data, dense(data, weight)), **CLOSE)


@every_conv
def test_the_width_of_the_message_is_declared(name: str) -> None:
    assert UnionPlugin(make(name), gate="paper").gate.channels == C


@every_conv
def test_new_weights(name: str) -> None:
    conv = make(name)
    before = {key: value.clone() for key, value in conv.state_dict().items()}
    conv.reset_parameters()
    for key, value in conv.state_dict().items():
        assert not torch.equal(value, before[key]), key


@pytest.mark.parametrize("name", ["CurvGN", "GeniePath"])
def test_layers_with_loops_of_their_own_take_those_of_the_data_for_theirs(name: str) -> None:
    data, conv = several_graphs(C), make(name)
    looped = with_loops(data, [4, 1])
    given = CONVS[name][2]
    more = given(data)
    if len(more) == data.num_edges:
        more = torch.cat([more.new_ones(1), more, more.new_ones(1)])
    out, plain = (
        conv(data.x, looped.edge_index, more),
        conv(data.x, data.edge_index, given(data)),
    )
    torch.testing.assert_close(out, plain, **CLOSE)
