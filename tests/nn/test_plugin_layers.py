"""UnionPlugin on PyG's layers against dense formulas written here."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from gated_graphs import COLUMNS, several_graphs, with_loops
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import (
    ARMAConv,
    GATConv,
    GCNConv,
    GINConv,
    GINEConv,
    GraphConv,
    MessagePassing,
    SAGEConv,
    SGConv,
    TransformerConv,
)

from unionsnn import UnionPlugin
from unionsnn.nn.plugin import message_width

Dense = Callable[[MessagePassing, Tensor, Tensor, Tensor, Tensor], Tensor]


def mlp() -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 4))


def gin(conv: MessagePassing, x: Tensor, A: Tensor, W: Tensor, E: Tensor) -> Tensor:
    return conv.nn((1 + conv.eps) * x + torch.einsum("vu,vuc,uc->vc", A, W, x))


def gine(conv: MessagePassing, x: Tensor, A: Tensor, W: Tensor, E: Tensor) -> Tensor:
    message = W * (x.unsqueeze(0) + conv.lin(E)).relu()
    return conv.nn((1 + conv.eps) * x + torch.einsum("vu,vuc->vc", A, message))


def sage(conv: MessagePassing, x: Tensor, A: Tensor, W: Tensor, E: Tensor) -> Tensor:
    mean = torch.einsum("vu,vuc,uc->vc", A, W, x) / A.sum(1, keepdim=True).clamp(min=1)
    return conv.lin_l(mean) + conv.lin_r(x)


def graph_conv(conv: MessagePassing, x: Tensor, A: Tensor, W: Tensor, E: Tensor) -> Tensor:
    return conv.lin_rel(torch.einsum("vu,vuc,uc->vc", A, W, x)) + conv.lin_root(x)


def closed(A: Tensor, W: Tensor) -> tuple[Tensor, Tensor]:
    """Every node its own neighbour, with the weight 1."""
    I = torch.eye(len(A), dtype=A.dtype)
    return A * (1 - I) + I, W * (1 - I).unsqueeze(-1) + I.unsqueeze(-1)


def symmetric(A: Tensor) -> Tensor:
    scale = A.sum(dim=1).rsqrt()
    return scale.unsqueeze(1) * A * scale


def gcn(conv: MessagePassing, x: Tensor, A: Tensor, W: Tensor, E: Tensor) -> Tensor:
    A, W = closed(A, W)
    return torch.einsum("vu,vuc,uc->vc", symmetric(A), W, conv.lin(x)) + conv.bias


def sgc(conv: MessagePassing, x: Tensor, A: Tensor, W: Tensor, E: Tensor) -> Tensor:
    A, W = closed(A, W)
    for _ in range(conv.K):
        x = torch.einsum("vu,vuc,uc->vc", symmetric(A), W, x)
    return conv.lin(x)


def gat(conv: MessagePassing, x: Tensor, A: Tensor, W: Tensor, E: Tensor) -> Tensor:
    A, W = closed(A, W)
    N, H, C = len(x), conv.heads, conv.out_channels
    h = conv.lin(x).view(N, H, C)
    sender, receiver = (h * conv.att_src).sum(-1), (h * conv.att_dst).sum(-1)
    score = nn.functional.leaky_relu(receiver.unsqueeze(1) + sender.unsqueeze(0), 0.2)
    alpha = score.masked_fill(A.unsqueeze(-1) == 0, -torch.inf).softmax(dim=1)
    out = torch.einsum("vuh,vuhc,uhc->vhc", alpha, W.view(N, N, H, C), h)
    return (out.reshape(N, H * C) if conv.concat else out.mean(dim=1)) + conv.bias


def arma(conv: MessagePassing, x: Tensor, A: Tensor, W: Tensor, E: Tensor) -> Tensor:
    degree = A.sum(dim=1)
    scale = torch.where(degree > 0, degree.clamp(min=1).rsqrt(), 0)
    A = scale.unsqueeze(1) * A * scale
    stacks = [
        torch.einsum("vu,vuc,uc->vc", A, W, x @ conv.init_weight[k])
        + x @ conv.root_weight[0, k]
        + conv.bias[0, k]
        for k in range(conv.num_stacks)
    ]
    return torch.stack(stacks).relu().mean(dim=0)


@dataclass
class Layer:
    make: Callable[..., MessagePassing]
    dense: Dense
    width: int
    adds_loops: bool = False
    edge_features: bool = False


LAYERS = {
    "GINConv": Layer(lambda **k: GINConv(mlp(), eps=0.3, train_eps=True, **k), gin, 3),
    "GINEConv": Layer(
        lambda **k: GINEConv(mlp(), eps=0.3, edge_dim=2, **k), gine, 3, edge_features=True
    ),
    "SAGEConv": Layer(lambda **k: SAGEConv(3, 4, **k), sage, 3),
    "GraphConv": Layer(lambda **k: GraphConv(3, 4, **k), graph_conv, 3),
    "GCNConv": Layer(lambda **k: GCNConv(3, 4, **k), gcn, 4, adds_loops=True),
    "SGConv": Layer(lambda **k: SGConv(3, 4, **k), sgc, 3, adds_loops=True),
    "SGConv-2": Layer(lambda **k: SGConv(3, 4, K=2, **k), sgc, 3, adds_loops=True),
    "GATConv": Layer(lambda **k: GATConv(3, 4, **k), gat, 4, adds_loops=True),
    "GATConv-heads": Layer(lambda **k: GATConv(3, 4, heads=3, **k), gat, 12, adds_loops=True),
    "GATConv-mean": Layer(
        lambda **k: GATConv(3, 4, heads=3, concat=False, **k), gat, 12, adds_loops=True
    ),
    "ARMAConv": Layer(lambda **k: ARMAConv(3, 4, num_stacks=2, **k), arma, 4),
}
ADDING = [name for name, layer in LAYERS.items() if layer.adds_loops]


@pytest.fixture
def batch() -> Data:
    return several_graphs()


def edge_arguments(layer: Layer, data: Data) -> tuple[Tensor, ...]:
    """Edge features that tell every edge from every other."""
    if not layer.edge_features:
        return ()
    index = data.edge_index.double()
    return (torch.stack([index[0].sin(), (2 * index[1]).cos()], dim=1),)


def plugged(name: str, data: Data, gate: str, **arguments: object) -> UnionPlugin:
    torch.manual_seed(0)
    layer = LAYERS[name]
    conv = layer.make(**arguments)
    width = layer.width if layer.edge_features else None
    plugin = UnionPlugin(conv, channels=width, gate=gate).double()
    plugin.gate.set_columns(COLUMNS)
    for parameter in conv.parameters():
        # Biases too, which are 0 at first.
        nn.init.normal_(parameter)
    return plugin.fit_statistics(data.edge_coefficient)


def call(name: str, plugin: UnionPlugin, data: Data) -> Tensor:
    extra = edge_arguments(LAYERS[name], data)
    return plugin(data.x, data.edge_index, *extra, edge_coefficient=data.edge_coefficient)


def dense(name: str, plugin: UnionPlugin, data: Data) -> Tensor:
    """The layer's formula with matrices: A, the weights W and edge features at [v, u]."""
    layer, N = LAYERS[name], data.num_nodes
    edges = data.edge_index
    if plugin.conv.flow == "target_to_source":
        edges = edges.flip(0)
    weight = plugin.gate(data.edge_coefficient.clone(), edges, N)
    u, v = edges
    A = torch.zeros(N, N, dtype=torch.float64)
    W = torch.zeros(N, N, layer.width, dtype=torch.float64)
    E = torch.zeros(N, N, 2, dtype=torch.float64)
    A[v, u] = 1
    W[v, u] = weight
    for features in edge_arguments(layer, data):
        E[v, u] = features
    return layer.dense(plugin.conv, data.x, A, W, E)


@pytest.mark.parametrize("gate", ["default", "paper", "authors-code"])
@pytest.mark.parametrize("name", LAYERS)
def test_the_gated_layer_is_its_dense_formula(name: str, gate: str, batch: Data) -> None:
    plugin = plugged(name, batch, gate)
    out = call(name, plugin, batch)
    torch.testing.assert_close(out, dense(name, plugin, batch))
    plain = plugin.conv(batch.x, batch.edge_index, *edge_arguments(LAYERS[name], batch))
    assert not torch.allclose(out, plain)


@pytest.mark.parametrize("name", [name for name in LAYERS if name != "ARMAConv"])
def test_flow_from_target_to_source(name: str, batch: Data) -> None:
    """ARMAConv's normalisation knows one direction only."""
    plugin = plugged(name, batch, "paper", flow="target_to_source")
    out = call(name, plugin, batch)
    torch.testing.assert_close(out, dense(name, plugin, batch))
    turned = plugged(name, batch, "paper")
    extra = edge_arguments(LAYERS[name], batch)
    edges = batch.edge_index.flip(0)
    rows = batch.edge_coefficient.clone()
    expected = turned(batch.x, edges, *extra, edge_coefficient=rows)
    torch.testing.assert_close(out, expected)


@pytest.mark.parametrize("name", LAYERS)
def test_with_a_gate_of_ones_the_layer_is_the_plain_one(name: str, batch: Data) -> None:
    plugin = plugged(name, batch, "default")
    for parameter in plugin.gate.parameters():
        nn.init.zeros_(parameter)
    plain = copy.deepcopy(plugin.conv)
    for data in (batch, with_loops(batch, [0, 3, batch.num_nodes - 1])):
        extra = edge_arguments(LAYERS[name], data)
        assert torch.equal(call(name, plugin, data), plain(data.x, data.edge_index, *extra))


@pytest.mark.parametrize("gate", ["default", "paper", "authors-code"])
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("loops", ["some", "all"])
def test_existing_self_loops(name: str, gate: str, loops: str, batch: Data) -> None:
    """With all of them, E' = E + N before the layer as after it, in another order."""
    nodes = [4, 1, batch.num_nodes - 1] if loops == "some" else list(range(batch.num_nodes))
    plugin = plugged(name, batch, gate)
    looped = with_loops(batch, nodes)
    out = call(name, plugin, looped)
    torch.testing.assert_close(out, dense(name, plugin, looped))
    if LAYERS[name].adds_loops:
        torch.testing.assert_close(out, call(name, plugin, batch))


@pytest.mark.parametrize("name", ADDING)
@pytest.mark.parametrize("nodes", [[], [4, 1, 61], range(62)])
def test_without_waiting_for_values_the_layer_is_the_same(
    name: str, nodes: list[int], batch: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on an accelerator after the first pass."""
    plugin = plugged(name, batch, "paper")
    looped = with_loops(batch, list(nodes)) if nodes else batch
    out = call(name, plugin, looped)
    monkeypatch.setattr(UnionPlugin, "_aligned", UnionPlugin._asserted)
    if len(nodes) < batch.num_nodes:
        assert torch.equal(call(name, plugin, looped), out)
    else:
        # As many edges as were given, in another order.
        with pytest.raises(RuntimeError, match="changes the order or number of edges"):
            call(name, plugin, looped)


@pytest.mark.parametrize("name", ADDING)
def test_all_loops_last_need_no_other_order(name: str, batch: Data) -> None:
    plugin = plugged(name, batch, "paper")
    looped = batch.clone()
    nodes = torch.arange(batch.num_nodes).expand(2, -1)
    looped.edge_index = torch.cat([batch.edge_index, nodes], dim=1)
    zeros = batch.edge_coefficient.new_zeros(batch.num_nodes, 10)
    looped.edge_coefficient = torch.cat([batch.edge_coefficient, zeros])
    torch.testing.assert_close(call(name, plugin, looped), call(name, plugin, batch))


@pytest.mark.parametrize("name", LAYERS)
def test_edge_order_is_of_no_matter(name: str, batch: Data) -> None:
    plugin = plugged(name, batch, "default")
    order = torch.randperm(batch.num_edges, generator=torch.Generator().manual_seed(1))
    shuffled = batch.clone()
    shuffled.edge_index = batch.edge_index[:, order]
    shuffled.edge_coefficient = batch.edge_coefficient[order]
    torch.testing.assert_close(call(name, plugin, shuffled), call(name, plugin, batch))


@pytest.mark.parametrize("name", LAYERS)
def test_gradients_are_those_of_the_dense_formula(name: str, batch: Data) -> None:
    plugin = plugged(name, batch, "paper")
    gradients = []
    for output in (call(name, plugin, batch), dense(name, plugin, batch)):
        plugin.zero_grad()
        output.square().sum().backward()
        gradients.append({n: p.grad for n, p in plugin.named_parameters() if p.grad is not None})
    torch.testing.assert_close(*gradients)
    assert all(bool((p.grad != 0).any()) for p in plugin.gate.hidden.parameters())


@pytest.mark.parametrize("name", LAYERS)
def test_no_edges(name: str, batch: Data) -> None:
    plugin = plugged(name, batch, "default")
    empty = Data(
        x=batch.x[:3],
        edge_index=torch.zeros(2, 0, dtype=torch.long),
        edge_coefficient=torch.zeros(0, 10, dtype=torch.float64),
    )
    torch.testing.assert_close(call(name, plugin, empty), dense(name, plugin, empty))


@pytest.mark.parametrize("name", [name for name in LAYERS if name != "GINEConv"])
def test_the_width_of_the_message_is_found(name: str) -> None:
    assert message_width(LAYERS[name].make()) == LAYERS[name].width
    assert UnionPlugin(LAYERS[name].make(), gate="paper").gate.channels == LAYERS[name].width


def test_the_width_of_a_pair_and_of_scaled_attention() -> None:
    assert message_width(SAGEConv((3, 5), 4)) == 3
    assert message_width(TransformerConv(3, 4, heads=2)) == 8


@pytest.mark.parametrize("name", ["SAGEConv", "GraphConv", "GINConv"])
def test_a_pair_of_features_for_sampled_neighbours(name: str, batch: Data) -> None:
    """Only edges into the first nodes are kept, and only these are targets."""
    plugin = plugged(name, batch, "default")
    targets = 7
    kept = batch.edge_index[1] < targets
    part = Data(
        x=batch.x,
        edge_index=batch.edge_index[:, kept],
        edge_coefficient=batch.edge_coefficient[kept],
    )
    pair = (batch.x, batch.x[:targets])
    out = plugin(pair, part.edge_index, edge_coefficient=part.edge_coefficient)
    torch.testing.assert_close(out, call(name, plugin, batch)[:targets])
    of_senders = plugged(name, batch, "authors-code")
    out = of_senders(pair, part.edge_index, edge_coefficient=part.edge_coefficient)
    torch.testing.assert_close(out, call(name, of_senders, part)[:targets])
