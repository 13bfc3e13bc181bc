"""plug_in: all layers of a network are gated, and nothing passes them ungated without a word."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from gated_graphs import several_graphs
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import (
    GAT,
    GCN,
    GIN,
    GCN2Conv,
    GCNConv,
    GINConv,
    GPSConv,
    GraphSAGE,
    HeteroConv,
    RGCNConv,
    SAGEConv,
    Sequential,
    global_add_pool,
)

from unionsnn import StructuralGate, UnionPlugin, fit_statistics, plug_in
from unionsnn.base.errors import RequestError
from warned import user_warnings


@pytest.fixture(scope="module")
def data() -> Data:
    return several_graphs()


class Own(nn.Module):
    """Layers in the forms in which people hold them: a list, a dictionary, a nested module."""

    def __init__(self) -> None:
        super().__init__()
        self.first = GCNConv(3, 8)
        self.blocks = nn.ModuleList([nn.ModuleDict({"conv": SAGEConv(8, 8)}) for _ in range(2)])
        self.twice = GINConv(nn.Linear(8, 8))
        self.head = nn.Linear(8, 2)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor | None = None) -> Tensor:
        x = self.first(x=x, edge_index=edge_index)
        for block in self.blocks:
            x = block["conv"](x, edge_index).relu()
        x = self.twice(self.twice(x, edge_index), edge_index)
        return self.head(global_add_pool(x, batch))


class OfData(nn.Module):
    """A network that is called with a graph."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = GCNConv(3, 4)

    def forward(self, data: Data) -> Tensor:
        return self.conv(data.x, data.edge_index)


class Initial(nn.Module):
    """A layer with the edges in the third place."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = GCN2Conv(3, alpha=0.1)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv(x, 0.5 * x, edge_index)


NETWORKS: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "GCN": (lambda: GCN(3, 8, 2, 4, norm="batch_norm"), 2),
    "GIN": (lambda: GIN(3, 8, 3, jk="cat"), 3),
    "GraphSAGE": (lambda: GraphSAGE(3, 8, 2, dropout=0.1), 2),
    "GAT": (lambda: GAT(3, 8, 2, 4, heads=2), 2),
    "GAT v2": (lambda: GAT(3, 8, 2, v2=True), 2),
    "lazy GCN": (lambda: GCN(-1, 8, 2), 2),
    "GPSConv": (lambda: GPSConv(3, GINConv(nn.Linear(3, 3)), heads=1), 1),
    "own": (Own, 4),
    "initial": (Initial, 1),
    "sequential": (
        lambda: Sequential(
            "x, edge_index",
            [
                (GCNConv(3, 4), "x, edge_index -> x"),
                nn.ReLU(),
                (GCNConv(4, 2), "x, edge_index -> x"),
            ],
        ),
        2,
    ),
}


def plugged(make: Callable[[], nn.Module], data: Data, gate: Any = "default") -> nn.Module:
    torch.manual_seed(0)
    network = plug_in(make(), gate).double().eval()
    fit_statistics(network, data)
    return network


def call(network: nn.Module, data: Data) -> Tensor:
    return network(data.x, data.edge_index, edge_coefficient=data.edge_coefficient)


def by_hand(network: nn.Module, data: Data) -> Tensor:
    """The network of plug-ins, each given the rows by its own call."""
    copied = copy.deepcopy(network)
    copied._forward_pre_hooks.clear()
    copied._forward_hooks.clear()
    for part in copied.modules():
        if isinstance(part, UnionPlugin):
            part.given = data.edge_coefficient
    return copied(data.x, data.edge_index)


@pytest.mark.parametrize("name", NETWORKS)
def test_every_layer_gets_the_rows(name: str, data: Data) -> None:
    make, count = NETWORKS[name]
    network = plugged(make, data)
    assert len(network.plugged.gated) == count
    assert not network.plugged.left
    plugins = [part for part in network.modules() if isinstance(part, UnionPlugin)]
    assert len(plugins) == count
    out = call(network, data)
    assert torch.equal(out, by_hand(network, data))
    for plugin in plugins:
        # A pass that has no gate any more would not notice a gate of zeros.
        kept = copy.deepcopy(plugin.gate.state_dict())
        for parameter in plugin.gate.parameters():
            nn.init.zeros_(parameter)
        assert not torch.allclose(call(network, data), out)
        plugin.gate.load_state_dict(kept)
    assert all(plugin.given is None for plugin in plugins)


@pytest.mark.parametrize("name", NETWORKS)
def test_with_gates_of_ones_the_network_is_the_plain_one(name: str, data: Data) -> None:
    torch.manual_seed(0)
    plain = NETWORKS[name][0]().double().eval()
    plain(data.x, data.edge_index)
    network = plug_in(copy.deepcopy(plain))
    fit_statistics(network.double(), data.edge_coefficient)
    call(network, data)
    for part in network.modules():
        if isinstance(part, StructuralGate):
            for parameter in part.parameters():
                nn.init.zeros_(parameter)
    assert torch.equal(call(network, data), plain(data.x, data.edge_index))


def test_a_network_of_graphs_takes_the_rows_from_the_graph(data: Data) -> None:
    network = plugged(OfData, data)
    out = network(data)
    assert torch.equal(out, network(data, edge_coefficient=data.edge_coefficient))
    assert torch.equal(
        out, network.conv(data.x, data.edge_index, edge_coefficient=data.edge_coefficient)
    )
    bare = Data(x=data.x, edge_index=data.edge_index)
    with pytest.raises(RequestError, match="call OfData with edge_coefficient=") as missing:
        network(bare)
    assert missing.value.codes == ["batch.attribute"]


def test_the_gate_of_each_layer_is_made_from_its_width(data: Data) -> None:
    widths: list[int] = []

    def gate(channels: int) -> StructuralGate:
        widths.append(channels)
        return StructuralGate(channels, features=("normalized",), normalization="neighborhood")

    network = plugged(lambda: GAT(3, 8, 2, 4, heads=2), data, gate)
    assert widths == [8, 8]
    call(network, data).sum().backward()
    with pytest.raises(RequestError, match="every layer needs its own; pass a function"):
        plug_in(GCN(3, 4, 1), StructuralGate(4))  # type: ignore[arg-type]


@pytest.mark.parametrize("how", ["deepcopy", "pickle"])
def test_a_copy_hands_out_its_own_rows(data: Data, how: str) -> None:
    network = plugged(Own, data)
    out = call(network, data)
    twin = copy.deepcopy(network) if how == "deepcopy" else pickle.loads(pickle.dumps(network))
    for parameter in network.parameters():
        nn.init.zeros_(parameter)
    assert torch.equal(call(twin, data), out)
    assert torch.equal(call(twin, data), by_hand(twin, data))


# Nothing passes ungated without a word.


class Hiding(nn.Module):
    """A network that also holds its layer in a list of Python's."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = GCNConv(3, 3)
        self.hidden = [self.conv]

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.hidden[0](x, edge_index)


class Idle(nn.Module):
    """A network that leaves its layer out, or fails."""

    def __init__(self, *, fails: bool = False) -> None:
        super().__init__()
        self.conv, self.fails = GCNConv(3, 3), fails

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        if self.fails:
            self.conv(x, edge_index)
            raise ArithmeticError("after the layer")
        return x


class Dropping(nn.Module):
    """A network that sends along other edges than those it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = GCNConv(3, 3)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv(x, edge_index[:, 2:])


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (Hiding, TypeError, "Hiding|calls a GCNConv past its plug-in"),
        (Idle, RequestError, "Idle called none of the layers that plug_in has wrapped"),
        (Dropping, RequestError, "rows for"),
    ],
)
def test_a_pass_that_would_not_be_gated_is_refused(
    data: Data, make: Callable[[], nn.Module], error: type[Exception], message: str
) -> None:
    network = plugged(make, data)
    for _ in range(2):
        with pytest.raises(error, match=message):
            call(network, data)


def test_a_failure_leaves_no_rows_behind(data: Data) -> None:
    network = plugged(lambda: Idle(fails=True), data)
    with pytest.raises(ArithmeticError, match="after the layer"):
        call(network, data)
    assert network.conv.given is None
    with pytest.raises(RequestError, match="edge_coefficient is missing"):
        network.conv(data.x, data.edge_index)
    with pytest.raises(RequestError, match="edge_coefficient is missing: call Idle with"):
        network(data.x, data.edge_index)


class Mixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.good = GCNConv(3, 4)
        self.relations = RGCNConv(4, 4, 2)
        self.pieces = SAGEConv(4, 4, decomposed_layers=2)
        self.hetero = HeteroConv({("a", "to", "a"): GCNConv(4, 4)})

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.good(x, edge_index)


def test_layers_that_are_left_are_said_with_what_works_instead(data: Data) -> None:
    with pytest.warns(UserWarning, match="3 of 4 layers of Mixed are not gated") as warned:
        network = plug_in(Mixed())
    report = network.plugged
    assert report.gated == {"good": "GCNConv"}
    assert "use FastRGCNConv" in report.left["relations"]
    assert "set it to 1" in report.left["pieces"]
    assert "data.to_homogeneous()" in report.left["hetero"]
    assert any(str(report) in each for each in user_warnings(warned))
    fit_statistics(network.double(), data.edge_coefficient)
    assert torch.isfinite(call(network, data)).all()


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (nn.Linear(2, 2), "Linear has no layer that can be gated"),
        (nn.ModuleList([RGCNConv(4, 4, 2)]), "(?s)no layer that can be gated.*FastRGCNConv"),
        (GCNConv(3, 4), r"GCNConv is a single layer; wrap it: UnionPlugin\(layer\)"),
        (RGCNConv(4, 4, 2), "^RGCNConv .*use FastRGCNConv"),
        (UnionPlugin(GCNConv(3, 4)), "UnionPlugin is a single layer"),
        (plug_in(GCN(3, 4, 1)), "GCN was plugged in already"),
        (nn.ModuleList([plug_in(GCN(3, 4, 1))]), "0 was plugged in already"),
        (
            nn.ModuleList([UnionPlugin(conv) for conv in [GCNConv(3, 4)] for _ in range(2)]),
            "wrap the same layer",
        ),
    ],
)
def test_networks_that_cannot_be_plugged_in(network: nn.Module, message: str) -> None:
    with pytest.raises(RequestError, match=message) as refused:
        plug_in(network)
    assert refused.value.codes == ["plugin.network"]


def test_a_layer_that_was_wrapped_by_hand_gets_the_rows_too(data: Data) -> None:
    network = Own()
    network.first = UnionPlugin(network.first, gate="paper")  # type: ignore[assignment]
    before = network.first
    plug_in(network)
    assert network.first is before
    assert len(network.plugged.gated) == 4
    fit_statistics(network.double(), data.edge_coefficient)
    call(network, data)


def test_a_whole_network_in_a_plug_in_is_told_of_plug_in() -> None:
    with pytest.raises(TypeError, match=r"but got GCN\. For all layers .* unionsnn\.plug_in"):
        UnionPlugin(GCN(3, 4, 2))  # type: ignore[arg-type]
