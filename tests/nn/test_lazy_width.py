"""A gate without a width takes that of the first message, as PyG's lazy layers do."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest
import torch
from gated_graphs import several_graphs
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import GATConv, GCNConv, LGConv, MessagePassing, SAGEConv

from unionsnn import StructuralGate, UnionPlugin
from unionsnn.base.errors import RequestError
from unionsnn.nn.gates import PRESETS

MAKERS: dict[str, tuple[Callable[[], MessagePassing], int]] = {
    "without a width": (LGConv, 3),
    "lazy": (lambda: GCNConv(-1, 4), 4),
    "lazy pair": (lambda: SAGEConv((-1, -1), 4), 3),
    "heads": (lambda: GATConv(3, 4, heads=2), 8),
}


@pytest.fixture(scope="module")
def data() -> Data:
    return several_graphs()


def lazy(name: str, data: Data, gate: str = "default") -> UnionPlugin:
    torch.manual_seed(0)
    plugin = UnionPlugin(MAKERS[name][0](), channels=-1, gate=gate).double()
    return plugin.fit_statistics(data)


def apply(plugin: UnionPlugin, data: Data) -> Tensor:
    return plugin(data.x, data.edge_index, edge_coefficient=data.edge_coefficient)


@pytest.mark.parametrize("gate", PRESETS)
@pytest.mark.parametrize("name", MAKERS)
def test_the_first_pass_is_that_of_the_width_found(name: str, gate: str, data: Data) -> None:
    plugin = lazy(name, data, gate)
    assert plugin.gate.is_lazy
    with torch.no_grad():
        first = apply(plugin, data)
    assert plugin.gate.channels == MAKERS[name][1]
    assert torch.equal(apply(plugin, data), first)
    sized = UnionPlugin(MAKERS[name][0](), channels=MAKERS[name][1], gate=gate).double()
    sized.fit_statistics(data)
    apply(sized, data)
    sized.load_state_dict(plugin.state_dict())
    assert torch.equal(apply(sized, data), first)
    assert repr(sized.gate) == repr(plugin.gate)
    assert type(plugin.gate.last) is torch.nn.Linear


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW])
def test_an_optimiser_made_before_the_first_pass_trains_the_gate(
    data: Data, optimizer: type[torch.optim.Optimizer]
) -> None:
    plugin = lazy("without a width", data)
    steps = optimizer(plugin.parameters(), lr=0.1)  # type: ignore[call-arg]
    apply(plugin, data).sum().backward()
    before = copy.deepcopy(plugin.gate.state_dict())
    steps.step()
    after = plugin.gate.state_dict()
    assert not torch.equal(after["last.weight"], before["last.weight"])
    assert not torch.equal(after["last.bias"], before["last.bias"])


@pytest.mark.parametrize("gate", PRESETS)
def test_a_state_dict_is_loaded_before_the_first_pass(data: Data, gate: str) -> None:
    trained = lazy("heads", data, gate)
    out = apply(trained, data)
    fresh = lazy("heads", data, gate)
    fresh.load_state_dict(trained.state_dict())
    assert fresh.gate.channels == 8
    assert torch.equal(apply(fresh, data), out)
    # A state from before the first pass, into one that had none either.
    unused = lazy("heads", data, gate)
    fresh = lazy("heads", data, gate)
    fresh.load_state_dict(unused.state_dict())
    assert fresh.gate.is_lazy
    apply(fresh, data)


@pytest.mark.parametrize("how", ["deepcopy", "pickle"])
def test_a_copy_made_before_the_first_pass_finds_its_own_width(data: Data, how: str) -> None:
    plugin = lazy("without a width", data)
    twin = copy.deepcopy(plugin) if how == "deepcopy" else pickle.loads(pickle.dumps(plugin))
    apply(twin, data)
    assert plugin.gate.is_lazy
    assert twin.gate.channels == 3
    wide = Data(x=torch.ones(data.num_nodes, 5, dtype=torch.float64)).update(
        {"edge_index": data.edge_index, "edge_coefficient": data.edge_coefficient}
    )
    apply(plugin, wide)
    assert plugin.gate.channels == 5
    with pytest.raises(RequestError, match="width 3, but the gate has 5 channels"):
        apply(plugin, data)


def test_a_first_pass_for_inference_leaves_weights_that_train(data: Data) -> None:
    plugin = lazy("without a width", data)
    with torch.inference_mode():
        apply(plugin, data)
    apply(plugin, data).sum().backward()
    assert plugin.gate.last.weight.grad is not None


def test_a_gate_without_a_width_may_be_given_one() -> None:
    gate = StructuralGate(-1, features=("normalized",), radius=1, layers=2)
    gate.reset_parameters()
    assert UnionPlugin(LGConv(), channels=6, gate=gate).gate.channels == 6
    assert [linear.weight.shape for linear in (gate.hidden, gate.last)] == [(6, 1), (6, 6)]
    assert UnionPlugin(LGConv(), gate=lambda channels: StructuralGate(channels)).gate.is_lazy


def test_alone_it_says_who_gives_it_a_width(data: Data) -> None:
    gate = StructuralGate.preset("paper", -1, columns=data.coefficient_columns[0].split(","))
    with pytest.raises(RequestError, match="channels=-1: UnionPlugin gives it the width"):
        gate(data.edge_coefficient, data.edge_index, data.num_nodes)
    with pytest.raises(RequestError, match="channels"):
        StructuralGate(0)
