"""Equation 3, and its relation to the plug-in on GIN."""

from __future__ import annotations

import pytest
import torch
from gated_graphs import several_graphs, with_loops
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GINConv, GINEConv

from graphs import COLUMNS
from unionsnn import StructuralGate, UnionPlugin
from unionsnn.nn.conv.union import UnionConv


@pytest.fixture
def batch() -> Data:
    return several_graphs(channels=4)


def union_conv(data: Data, preset: str = "paper", *, input_linear: bool = False) -> UnionConv:
    torch.manual_seed(0)
    mlp = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))
    gate = StructuralGate.preset(preset, 4, columns=COLUMNS)
    conv = UnionConv(mlp, gate, input_linear=input_linear).double()
    gate.fit_statistics(data.edge_coefficient)
    nn.init.constant_(conv.epsilon, 0.7)
    return conv


def apply(conv: nn.Module, data: Data) -> Tensor:
    return conv(data.x, data.edge_index, edge_coefficient=data.edge_coefficient)


@pytest.mark.parametrize("preset", ["paper", "authors-code", "default"])
@pytest.mark.parametrize("input_linear", [False, True])
def test_it_is_equation_3(batch: Data, preset: str, input_linear: bool) -> None:
    conv = union_conv(batch, preset, input_linear=input_linear)
    weight = conv.gate(batch.edge_coefficient, batch.edge_index, batch.num_nodes)
    x = batch.x
    if conv.linear is not None:
        x = x @ conv.linear.weight.t() + conv.linear.bias
    rows = []
    for v in range(batch.num_nodes):
        total = 1.7 * x[v]
        for e, (u, receiver) in enumerate(batch.edge_index.t().tolist()):
            if receiver == v:
                total = total + weight[e] * x[u]
        rows.append(conv.mlp(total))
    torch.testing.assert_close(apply(conv, batch), torch.stack(rows))


@pytest.mark.parametrize("preset", ["paper", "authors-code", "default"])
def test_it_is_the_plugin_on_gin(batch: Data, preset: str) -> None:
    conv = union_conv(batch, preset)
    gin = GINConv(conv.mlp, train_eps=True).double()
    plugin = UnionPlugin(gin, gate=conv.gate)
    nn.init.constant_(gin.eps, 0.7)
    for data in (batch, with_loops(batch, [2, 0, batch.num_nodes - 1])):
        torch.testing.assert_close(apply(plugin, data), apply(conv, data))


def test_with_edge_features_it_is_the_plugin_on_gine(batch: Data) -> None:
    conv = union_conv(batch)
    plugin = UnionPlugin(GINEConv(conv.mlp, train_eps=True).double(), gate=conv.gate)
    nn.init.constant_(plugin.conv.eps, 0.7)
    edge_attr = torch.randn(batch.num_edges, 4, generator=torch.Generator().manual_seed(1)).double()
    given = batch.x, batch.edge_index, edge_attr
    rows = batch.edge_coefficient
    out = conv(*given, edge_coefficient=rows)
    torch.testing.assert_close(out, plugin(*given, edge_coefficient=rows))
    assert not torch.allclose(out, apply(conv, batch))


def test_epsilon_is_learned(batch: Data) -> None:
    conv = union_conv(batch)
    apply(conv, batch).square().sum().backward()
    assert conv.epsilon.grad is not None
    assert conv.epsilon.grad != 0


def test_reset_parameters_draws_all_weights_anew(batch: Data) -> None:
    conv = union_conv(batch, "default", input_linear=True)
    before = {name: value.clone() for name, value in conv.state_dict().items()}
    conv.reset_parameters()
    assert conv.epsilon == 0
    same = {k for k, v in conv.state_dict().items() if torch.equal(v, before[k])}
    assert same == {"gate.feature_mean", "gate.feature_std", "gate._extra_state"}


def test_bfloat16_messages_stay_short(batch: Data) -> None:
    conv = union_conv(batch).float()
    weight = torch.rand(5, 4)
    assert (
        conv.message(torch.rand(5, 4, dtype=torch.bfloat16), None, weight).dtype == torch.bfloat16
    )
