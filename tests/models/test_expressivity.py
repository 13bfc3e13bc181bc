"""Equation 5 in the networks, and which graphs they can tell apart."""

from __future__ import annotations

import pytest
import torch
from networks import apply, build
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GCNConv, SGConv

from graphs import graph, random_graphs, rook, shrikhande, star
from unionsnn.nn.loops import SelfLoops
from unionsnn.nn.plugin import UnionPlugin


def double(data: Data) -> Data:
    return data.apply(lambda value: value.double(), "x", "edge_coefficient")


def exact(name: str, gate: str, **model: object) -> nn.Module:
    """Build a network of one layer for constant features, in double precision."""
    arguments = {"num_layers": 1, "norm": "none", "features": 1, **model}
    return build(name, gate, **arguments).double().eval()  # type: ignore[arg-type]


def embeddings(network: nn.Module, data: Data) -> Tensor:
    """Node features after the layers, before the head."""
    head, network.head = network.head, nn.Identity()
    try:
        network.level = "node"
        return apply(network, data)
    finally:
        network.head, network.level = head, "graph"


@pytest.mark.parametrize("gate_on", ["input", "message"])
@pytest.mark.parametrize("gate", ["paper", "default"])
def test_the_two_forms_of_union_gcn(gate_on: str, gate: str) -> None:
    """input is equation 5: W sum_u norm_vu (Trans * h_u); message: sum_u norm_vu Trans * W h_u."""
    network = build("gcn", gate, gate_on=gate_on).double()
    plugin = network.convs[0]
    assert isinstance(plugin, UnionPlugin)
    assert isinstance(plugin.conv, SGConv if gate_on == "input" else GCNConv)
    data = double(Batch.from_data_list(random_graphs(5, torch.Generator().manual_seed(0))))
    h = torch.randn(data.num_nodes, 8, dtype=torch.float64)
    trans = plugin.gate(data.edge_coefficient, data.edge_index, data.num_nodes)
    W = plugin.conv.lin.weight
    bias = plugin.conv.lin.bias if gate_on == "input" else plugin.conv.bias
    nn.init.normal_(bias)
    degree = torch.bincount(data.edge_index[1], minlength=data.num_nodes) + 1
    rows = []
    for v in range(data.num_nodes):
        inputs = h[v] / degree[v]
        messages = W @ h[v] / degree[v]
        for e, (u, receiver) in enumerate(data.edge_index.t().tolist()):
            if receiver == v:
                scale = (degree[v] * degree[u]) ** -0.5
                inputs = inputs + scale * trans[e] * h[u]
                messages = messages + scale * trans[e] * (W @ h[u])
        rows.append((W @ inputs if gate_on == "input" else messages) + bias)
    # The network appends loops once for all layers.
    loops = SelfLoops(data.edge_index, data.num_nodes)
    out = plugin(h, loops.edge_index, edge_coefficient=loops.append(data.edge_coefficient))
    torch.testing.assert_close(out, torch.stack(rows))


def test_plain_gcn_is_the_same_function_in_both_forms() -> None:
    data = double(Batch.from_data_list(random_graphs(5, torch.Generator().manual_seed(0))))
    before = build("gcn", "none", gate_on="input").double().eval()
    after = build("gcn", "none", gate_on="message").double().eval()
    after.load_state_dict(
        {
            key if key in after.state_dict() else key.replace("lin.bias", "bias"): value
            for key, value in before.state_dict().items()
        }
    )
    torch.testing.assert_close(apply(after, data), apply(before, data))


def centres(network: nn.Module) -> tuple[Tensor, Tensor]:
    """Embeddings of the centres of K1,2 and K1,3 with constant features."""
    pair = [double(graph(star(leaves), leaves + 1)) for leaves in (2, 3)]
    first, second = (embeddings(network, data)[0] for data in pair)
    return first, second


@pytest.mark.parametrize("name", ["unionsnn", "union_gin"])
def test_the_softmax_of_the_paper_cannot_see_the_degree(name: str) -> None:
    """A known trap: its weights sum to 1 in every channel, so constant features stay constant.

    The centres of K1,2 and K1,3 get the same embedding in the first layer, where plain GIN and
    the 1-WL test tell them apart.
    """
    same = centres(exact(name, "paper"))
    torch.testing.assert_close(*same, rtol=0, atol=1e-12)
    assert (torch.sub(*centres(exact("gin", "none")))).abs().max() > 1e-3


@pytest.mark.parametrize("name", ["unionsnn", "union_gin", "union_gcn"])
def test_the_default_gate_sees_the_degree(name: str) -> None:
    network = exact(name, "default")
    assert torch.sub(*centres(network)).abs().max() > 1e-3
    mean = exact(name, "default", readout="mean")
    pair = [double(graph(star(leaves), leaves + 1)) for leaves in (2, 3)]
    assert torch.sub(*(apply(mean, data) for data in pair)).abs().max() > 1e-3


def pair_of_regular_graphs() -> list[Data]:
    return [double(graph(edges, 16)) for edges in (rook(), shrikhande())]


@pytest.mark.parametrize("name", ["unionsnn", "union_gin", "union_gcn"])
def test_the_default_gate_tells_rook_from_shrikhande(name: str) -> None:
    network = build(name, "default", features=1).double().eval()
    assert torch.sub(*(apply(network, data) for data in pair_of_regular_graphs())).abs().max() > 0.1


@pytest.mark.parametrize("name", ["unionsnn", "union_gin", "union_gcn"])
@pytest.mark.parametrize("gate", ["paper", "authors-code"])
def test_the_normalised_coefficient_cannot_tell_rook_from_shrikhande(name: str, gate: str) -> None:
    """Both graphs are 6-regular and edge-transitive, so the normalised a is 1/6 on every edge."""
    network = build(name, gate, features=1).double().eval()
    graphs = pair_of_regular_graphs()
    for data in graphs:
        layer = network.convs[0].gate
        seen = layer._features(data.edge_coefficient, data.edge_index, 16)
        torch.testing.assert_close(seen, torch.full_like(seen, 1 / 6 + layer.offset))
    torch.testing.assert_close(*(apply(network, data) for data in graphs))


@pytest.mark.parametrize("name", ["gcn", "gin"])
def test_the_plain_network_cannot_tell_rook_from_shrikhande(name: str) -> None:
    network = build(name, "none", features=1).double().eval()
    torch.testing.assert_close(*(apply(network, data) for data in pair_of_regular_graphs()))


def test_deep_sets_sum_what_they_see_of_each_node_alone() -> None:
    """No edge changes anything, and a graph is embedded as the sum of its nodes."""
    network = build("deep_sets", "none").double().eval()
    data = double(Batch.from_data_list(random_graphs(5, torch.Generator().manual_seed(0))))
    whole = network.embed(data)
    network.level = "node"
    rows = network.embed(data)
    sums = torch.stack([rows[data.batch == i].sum(dim=0) for i in range(data.num_graphs)])
    torch.testing.assert_close(whole, sums)
    alone = Data(x=data.x, edge_index=data.edge_index[:, :0])
    assert torch.equal(network.embed(alone), rows)
