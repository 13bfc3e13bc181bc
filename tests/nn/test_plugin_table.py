"""UnionPlugin on PyG's layers as docs/plugin_layers.md lists them."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch_geometric.nn as pyg
from gated_graphs import fitted, several_graphs
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import MessagePassing

from unionsnn import StructuralCoefficients, UnionPlugin

PAGE = Path(__file__).parents[2] / "docs" / "plugin_layers.md"
IN, OUT, EDGE = 3, 4, 2


def mlp(width: int = IN) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, 5), nn.Tanh(), nn.Linear(5, OUT))


def pna() -> MessagePassing:
    degrees = torch.tensor([1, 2, 3])
    return pyg.PNAConv(IN, OUT, ["mean", "max"], ["identity"], degrees)


MAKERS: dict[str, Callable[[], Any]] = {
    "GCNConv": lambda: pyg.GCNConv(IN, OUT),
    "SAGEConv": lambda: pyg.SAGEConv(IN, OUT),
    "GINConv": lambda: pyg.GINConv(mlp()),
    "GINEConv": lambda: pyg.GINEConv(mlp(), edge_dim=EDGE),
    "GATConv": lambda: pyg.GATConv(IN, OUT, heads=2),
    "GATv2Conv": lambda: pyg.GATv2Conv(IN, OUT, heads=2),
    "SuperGATConv": lambda: pyg.SuperGATConv(IN, OUT, heads=2).eval(),
    "TransformerConv": lambda: pyg.TransformerConv(IN, OUT, heads=2),
    "AGNNConv": lambda: pyg.AGNNConv(),
    "GraphConv": lambda: pyg.GraphConv(IN, OUT),
    "GatedGraphConv": lambda: pyg.GatedGraphConv(OUT, num_layers=2),
    "ResGatedGraphConv": lambda: pyg.ResGatedGraphConv(IN, OUT),
    "TAGConv": lambda: pyg.TAGConv(IN, OUT, K=2),
    "SGConv": lambda: pyg.SGConv(IN, OUT, K=2),
    "SSGConv": lambda: pyg.SSGConv(IN, OUT, alpha=0.1, K=2),
    "APPNP": lambda: pyg.APPNP(K=3, alpha=0.1),
    "LGConv": lambda: pyg.LGConv(),
    "ARMAConv": lambda: pyg.ARMAConv(IN, OUT, num_stacks=2),
    "ChebConv": lambda: pyg.ChebConv(IN, OUT, K=3),
    "LEConv": lambda: pyg.LEConv(IN, OUT),
    "ClusterGCNConv": lambda: pyg.ClusterGCNConv(IN, OUT),
    "GENConv": lambda: pyg.GENConv(IN, OUT),
    "GeneralConv": lambda: pyg.GeneralConv(IN, OUT),
    "FiLMConv": lambda: pyg.FiLMConv(IN, OUT),
    "MFConv": lambda: pyg.MFConv(IN, OUT),
    "NNConv": lambda: pyg.NNConv(IN, OUT, nn.Linear(EDGE, IN * OUT)),
    "PNAConv": pna,
    "EGConv": lambda: pyg.EGConv(IN, OUT, num_heads=2, num_bases=2),
    "EdgeConv": lambda: pyg.EdgeConv(mlp(2 * IN)),
    "FeaStConv": lambda: pyg.FeaStConv(IN, OUT, heads=2),
    "PDNConv": lambda: pyg.PDNConv(IN, OUT, edge_dim=EDGE, hidden_channels=3),
    "FastRGCNConv": lambda: pyg.FastRGCNConv(IN, OUT, num_relations=2),
    "GCN2Conv": lambda: pyg.GCN2Conv(IN, alpha=0.1),
    "RGCNConv": lambda: pyg.RGCNConv(IN, OUT, num_relations=2),
    "HypergraphConv": lambda: pyg.HypergraphConv(IN, OUT),
}
WITH_EDGES = ("GINEConv", "NNConv", "PDNConv")
WITH_TYPES = ("FastRGCNConv",)


def table() -> dict[str, list[str]]:
    """Cells after the name of each layer of the page."""
    rows = [line.strip("|").split("|") for line in PAGE.read_text().splitlines() if "`" in line]
    return {
        row[0].strip().strip("`"): [cell.strip() for cell in row[1:]]
        for row in rows
        if re.fullmatch(r"`\w+`", row[0].strip())
    }


TABLE = table() if PAGE.exists() else {}
GATED = [name for name, cells in TABLE.items() if "refused" not in cells[0]]
REFUSED = [name for name in TABLE if name not in GATED]


@pytest.fixture
def data() -> Data:
    return several_graphs(IN)


def arguments(name: str, data: Data) -> tuple[Tensor, ...]:
    if name in WITH_TYPES:
        return (data.edge_index.sum(dim=0) % 2,)
    if name not in WITH_EDGES:
        return ()
    index = data.edge_index.double()
    return (torch.stack([index[0].sin().square(), (2 * index[1]).cos()], dim=1),)


def conv_of(name: str) -> Any:
    torch.manual_seed(0)
    return MAKERS[name]().double()


def features(name: str, data: Data) -> tuple[Tensor, ...]:
    """What the layer takes before the edges."""
    return (data.x, data.x.cos()) if name == "GCN2Conv" else (data.x,)


def width(name: str) -> int:
    return int(eval(TABLE[name][1], {"in": IN}, {"input": IN, "out": OUT, "heads": 2, "bases": 2}))


def multiplied(conv: MessagePassing, weight: Tensor, nodes: int) -> MessagePassing:
    """A copy of the layer whose `message` multiplies by hand; loops that it adds come last."""
    copied = copy.deepcopy(conv)
    make = copied.message

    def message(*args: Any, **kwargs: Any) -> Tensor:
        out = make(*args, **kwargs)
        first = copied.node_dim % out.dim()
        W = weight
        if out.size(first) == len(weight) + nodes:
            W = torch.cat([weight, weight.new_ones(nodes, weight.size(1))])
        return out * W.reshape(out.shape[first:])

    copied.message = message  # type: ignore[method-assign]
    return copied


def test_the_page_lists_every_layer_here() -> None:
    assert TABLE.keys() == MAKERS.keys()
    assert len(GATED) >= 20


@pytest.mark.parametrize("preset", ["default", "paper"])
@pytest.mark.parametrize("name", GATED)
def test_the_layer_is_the_one_whose_messages_are_multiplied(
    name: str, preset: str, data: Data
) -> None:
    conv, x, extra = conv_of(name), features(name, data), arguments(name, data)
    plugin = UnionPlugin(conv, gate=fitted(preset, data, width(name)))
    out = plugin(*x, data.edge_index, *extra, edge_coefficient=data.edge_coefficient)
    weight = plugin.gate(data.edge_coefficient, data.edge_index, data.num_nodes)
    by_hand = multiplied(conv_of(name), weight, data.num_nodes)
    expected = by_hand(*x, data.edge_index, *extra)
    torch.testing.assert_close(out, expected, rtol=1e-10, atol=1e-10)
    assert not torch.allclose(out, conv(*x, data.edge_index, *extra))


@pytest.mark.parametrize("name", GATED)
def test_with_a_gate_of_ones_the_layer_is_the_plain_one(name: str, data: Data) -> None:
    conv, x, extra = conv_of(name), features(name, data), arguments(name, data)
    plain = copy.deepcopy(conv)(*x, data.edge_index, *extra)
    plugin = UnionPlugin(conv, gate=fitted("default", data, width(name)))
    for parameter in plugin.gate.parameters():
        nn.init.zeros_(parameter)
    out = plugin(*x, data.edge_index, *extra, edge_coefficient=data.edge_coefficient)
    assert torch.equal(out, plain)


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_layer_says_why(name: str, data: Data) -> None:
    reason = re.escape(TABLE[name][0].removeprefix("refused: "))

    def call() -> Tensor:
        plugin = UnionPlugin(conv_of(name), gate=fitted("default", data, OUT))
        return plugin(data.x, data.edge_index, edge_coefficient=data.edge_coefficient)

    with pytest.raises(TypeError, match=f"{name}.*{reason}"):
        call()


def test_what_sends_no_messages_is_refused() -> None:
    with pytest.raises(TypeError, match="wraps a PyG MessagePassing layer, but got Linear"):
        UnionPlugin(nn.Linear(3, 3))  # type: ignore[arg-type]


@pytest.mark.parametrize("preset", ["default", "paper", "authors-code"])
def test_the_columns_of_the_transform_need_no_name(preset: str, data: Data) -> None:
    plugin = UnionPlugin(conv_of("SAGEConv"), gate=preset).double()
    plugin.fit_statistics(data.edge_coefficient)
    out = plugin(data.x, data.edge_index, edge_coefficient=data.edge_coefficient)
    plugin.gate.set_columns(StructuralCoefficients().spec.columns)
    expected = plugin(data.x, data.edge_index, edge_coefficient=data.edge_coefficient)
    assert torch.equal(out, expected)


def test_a_missing_coefficient_is_named(data: Data) -> None:
    plugin = UnionPlugin(conv_of("SAGEConv"), gate="paper").double()
    with pytest.raises(ValueError, match=r"pass edge_coefficient=data\.edge_coefficient"):
        plugin(data.x, data.edge_index, edge_coefficient=None)
