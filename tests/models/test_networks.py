"""What every network must do, whatever its layers and gate."""

from __future__ import annotations

import copy
import dataclasses

import pytest
import torch
from networks import (
    CASES,
    GATED,
    apply,
    auxiliary_of,
    build,
    composed,
    every_name,
    every_network,
    having,
    layer_coefficient,
    own_gate,
    read_by,
    train_statistics,
    width_step,
)
from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GINConv

from graphs import cycle, graph, random_graphs
from model_names import UNGATED
from unionsnn import StructuralGate
from unionsnn.base.errors import RequestError
from unionsnn.models.drop_gin import DropGIN
from unionsnn.models.gcn import GCN
from unionsnn.models.gin import GIN
from unionsnn.models.mpnn import MPNN
from unionsnn.models.parts import two_layer_mlp
from unionsnn.models.transformer import GraphTransformer
from unionsnn.models.unionsnn import UnionSNN
from unionsnn.nn.batch import ATTRIBUTES, GraphBatch
from unionsnn.nn.features import structural_modules
from unionsnn.training.build import build_model, count_parameters

levels = pytest.mark.parametrize("level", ["graph", "node"])
# Tasks on nodes have no readout.
levels_and_readouts = pytest.mark.parametrize(
    ("level", "readout"), [("node", "sum"), ("graph", "sum"), ("graph", "mean"), ("graph", "max")]
)
# A network that represents a graph by its token has no choice of the readout.
networks_and_readouts = pytest.mark.parametrize(
    ("name", "gate", "readout"),
    [
        pytest.param(*case.values, readout, id=f"{case.id}-{readout}")
        for case in CASES
        for readout in ("sum", "mean", "max")
        if readout == "sum" or having(str(case.values[0]), readout=readout)
    ],
)


def many(count: int = 32) -> Batch:
    return Batch.from_data_list(random_graphs(count, torch.Generator().manual_seed(0)))


def double(data: Batch) -> Batch:
    return data.apply(lambda value: value.double(), "x", "edge_coefficient")


def permuted(data: Batch, seed: int) -> tuple[Batch, torch.Tensor]:
    """Rename all nodes of a batch; row i of the result was row order[i]."""
    order = torch.randperm(data.num_nodes, generator=torch.Generator().manual_seed(seed))
    new_name = torch.empty_like(order)
    new_name[order] = torch.arange(len(order))
    other = data.clone()
    other.x, other.batch = data.x[order], data.batch[order]
    other.edge_index = new_name[data.edge_index]
    if "dropped" in data:
        other.dropped = data.dropped[order]
    return other, order


@every_network
@levels
def test_permutation_of_nodes(name: str, gate: str, level: str) -> None:
    data = double(many())
    network = train_statistics(build(name, gate, level=level).double(), data)
    if isinstance(network, DropGIN):
        # Equal in distribution: equal where the same nodes are dropped.
        data.dropped = network.draw(data.batch, data.num_graphs)
    out = apply(network, data)
    other, order = permuted(data, seed=1)
    expected = out[order] if level == "node" else out
    torch.testing.assert_close(apply(network, other), expected)


@every_network
@levels
def test_order_of_edges(name: str, gate: str, level: str) -> None:
    data = double(many())
    network = train_statistics(build(name, gate, level=level).double(), data)
    order = torch.randperm(data.num_edges, generator=torch.Generator().manual_seed(1))
    other = data.clone()
    other.edge_index = data.edge_index[:, order]
    other.edge_coefficient = data.edge_coefficient[order]
    torch.testing.assert_close(apply(network, other), apply(network, data))


@pytest.mark.parametrize(
    ("name", "gate"), [case for case in CASES if case.values[1] != "authors-code"]
)
@levels_and_readouts
def test_a_prediction_does_not_depend_on_the_batch(
    name: str, gate: str, level: str, readout: str
) -> None:
    data = many(32)
    network = build(name, gate, level=level, **having(name, readout=readout))
    network = train_statistics(network, data)
    alone = [apply(network, one) for one in data.to_data_list()]
    torch.testing.assert_close(torch.cat(alone), apply(network, data), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", GATED)
def test_with_authors_code_a_prediction_depends_on_the_batch(name: str) -> None:
    data = many(32)
    network = train_statistics(build(name, "authors-code"), data)
    alone = torch.cat([apply(network, one) for one in data.to_data_list()])
    assert (alone - apply(network, data)).abs().max() > 1e-3


def awkward(last_nodes: int) -> Batch:
    """A hexagon, an edge, a single node, and last a graph without edges, or without nodes."""
    return Batch.from_data_list(
        [
            graph(cycle(6), 6, channels=3),
            graph([(0, 1)], 2, channels=3),
            graph([], 1, channels=3),
            graph([], last_nodes, channels=3),
        ]
    )


@networks_and_readouts
@pytest.mark.parametrize("last_nodes", [3, 0])
def test_graphs_without_edges_or_nodes(name: str, gate: str, readout: str, last_nodes: int) -> None:
    network = build(name, gate, dropout=0.2, **having(name, readout=readout)).train()
    out = apply(network, awkward(last_nodes))
    assert out.shape == (4, 4)
    assert torch.isfinite(out).all()
    (out.square().sum() + auxiliary_of(network, lambda one: one.square().sum())).backward()
    for parameter in network.parameters():
        assert parameter.grad is not None
        assert torch.isfinite(parameter.grad).all()


@every_network
@levels
def test_a_training_batch_of_one_node(name: str, gate: str, level: str) -> None:
    network = build(name, gate, level=level).train()
    out = apply(network, graph([], 1, channels=3))
    assert out.shape == (1, 4)
    assert torch.isfinite(out).all()
    out.sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in network.parameters() if p.grad is not None)


@every_network
def test_a_batch_without_any_node(name: str, gate: str) -> None:
    network = build(name, gate)
    for mode in (True, False):
        out = apply(network.train(mode), graph([], 0, channels=3))
        if having(name, readout=None):
            torch.testing.assert_close(out, network.head(torch.zeros(1, 8)))
        else:
            assert out.shape == (1, 4)
            assert torch.isfinite(out).all()


@every_network
def test_the_coefficient_matters_to_gated_networks_only(name: str, gate: str) -> None:
    data = many()
    network = train_statistics(build(name, gate), data)
    other = data.clone()
    other.layer_coefficient = layer_coefficient(data)
    generator = torch.Generator().manual_seed(1)
    other.edge_coefficient = data.edge_coefficient * (
        0.5 + torch.rand(data.edge_coefficient.shape, generator=generator)
    )
    same = torch.equal(apply(network, data), apply(network, other))
    assert same == (gate == "none")
    shared = isinstance(network, GraphTransformer)
    assert len(structural_modules(network)) == (0 if gate == "none" else 1 if shared else 3)


@every_network
def test_the_layers_own_coefficient_matters_where_there_is_one(name: str, gate: str) -> None:
    data = many()
    network = train_statistics(build(name, gate), data)
    other = data.clone()
    generator = torch.Generator().manual_seed(1)
    other.layer_coefficient = torch.rand(data.num_edges, 1, generator=generator)
    same = torch.equal(apply(network, data), apply(network, other))
    assert same == ("coefficient" not in composed(name, gate).model.to_dict())


@pytest.mark.parametrize("name", ["graphsnn", "curvgn"])
def test_a_layer_without_its_coefficient_is_refused(name: str) -> None:
    data = many()
    network = build(name, "none")
    for given in (None, data.edge_coefficient):
        with pytest.raises(ValueError, match=r"needs layer_coefficient of the shape \[\d+, 1\]"):
            network(dataclasses.replace(read_by(network, data), layer_coefficient=given))


@every_network
def test_one_graph_needs_no_batch(name: str, gate: str) -> None:
    data = graph(cycle(5), 5, channels=3)
    network = train_statistics(build(name, gate), many())
    given = read_by(network, Batch.from_data_list([data]))
    attributes = {key: getattr(given, key) for key in ATTRIBUTES}
    alone = network(GraphBatch.single(data.x, data.edge_index, **attributes))
    assert torch.equal(alone, network(given))


@every_network
@levels
@pytest.mark.parametrize("kind", ["float64", "bfloat16"])
def test_a_training_step(name: str, gate: str, level: str, kind: str) -> None:
    data = many()
    network = build(name, gate, level=level).train()
    if kind == "float64":
        network, data = network.double(), double(data)
    before = copy.deepcopy(list(network.parameters()))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    with torch.autocast("cpu", torch.bfloat16, enabled=kind == "bfloat16"):
        out = apply(network, data)
        target = torch.arange(len(out)) % 4
        loss = nn.functional.cross_entropy(out, target)
    assert out.dtype == getattr(torch, kind)
    loss.backward()
    optimizer.step()
    for old, new in zip(before, network.parameters(), strict=True):
        assert new.dtype == old.dtype
        assert torch.isfinite(new).all()
    changed = [
        parameter_name
        for (parameter_name, new), old in zip(network.named_parameters(), before, strict=True)
        if not torch.equal(old, new)
    ]
    assert {"encoder.weight", "head.3.weight"} <= set(changed)
    if gate != "none":
        assert any("gate.last" in parameter_name for parameter_name in changed)


@every_network
def test_copies_and_state_dicts(name: str, gate: str) -> None:
    data = many()
    network = train_statistics(build(name, gate), data)
    out = apply(network, data)
    assert torch.equal(apply(copy.deepcopy(network), data), out)
    other = build(name, gate).eval()
    other.load_state_dict(network.state_dict())
    assert torch.equal(apply(other, data), out)


@every_name
def test_the_widest_network_under_a_budget(name: str) -> None:
    gate, budget = own_gate(name), 20_000
    config = composed(name, gate, parameter_budget=budget)
    network = build_model(config, 3, 4)
    width = network.hidden_channels
    assert {p.device.type for p in network.parameters()} == {"cpu"}

    def size(hidden_channels: int) -> int:
        return count_parameters(
            build_model(composed(name, gate, hidden_channels=hidden_channels), 3, 4)
        )

    assert width % width_step(name) == 0
    assert count_parameters(network) == size(width) <= budget < size(width + width_step(name))


def test_the_budget_with_another_gate_place() -> None:
    config = composed("gcn", "default", parameter_budget=20_000, gate_on="message")
    assert count_parameters(build_model(config, 3, 4)) <= 20_000


@every_name
def test_a_budget_that_is_too_small_is_refused(name: str) -> None:
    gate, step = own_gate(name), width_step(name)
    smallest = count_parameters(build_model(composed(name, gate, hidden_channels=step), 3, 4))
    message = f"parameter_budget is {smallest - 1}, but the smallest model has {smallest} param"
    with pytest.raises(RequestError, match=message):
        build_model(composed(name, gate, parameter_budget=smallest - 1), 3, 4)
    build_model(composed(name, gate, parameter_budget=smallest), 3, 4)


# Errors.


def factory(channels: int) -> StructuralGate:
    return StructuralGate.preset("paper", channels)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"hidden_channels": 0}, "hidden_channels is 0; it must be at least 1"),
        ({"num_layers": 0}, "num_layers is 0; it must be at least 1"),
        ({"norm": "group"}, "norm is 'group'; allowed are batch, layer, none"),
        ({"readout": "last"}, "readout is 'last'; allowed are sum, mean, max"),
        ({"level": "edge"}, "level is 'edge'; allowed are graph, node"),
        ({"dropout": 1.5}, "dropout probability has to be between 0 and 1"),
        ({"gate_on": "output"}, "gate_on is 'output'; allowed are input, message"),
    ],
)
def test_a_choice_that_is_not_allowed_is_refused(
    arguments: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        GCN(in_channels=3, out_channels=2, **arguments)  # type: ignore[arg-type]


def test_heads_that_do_not_divide_the_width_are_refused() -> None:
    message = "hidden_channels is 12 and heads is 8; the width must be a multiple"
    with pytest.raises(RequestError, match=message):
        build("gat", "none", hidden_channels=12)


def test_an_unknown_aggregation_is_refused() -> None:
    with pytest.raises(RequestError, match="aggregation is 'median'; allowed are mean, max"):
        build("sage", "none", aggregation="median")


@pytest.mark.parametrize("name", UNGATED)
def test_a_gate_without_a_meaning_is_refused_with_the_reason(name: str) -> None:
    with pytest.raises(RequestError, match=r"takes no gate, because .*: type gate=none"):
        build_model(composed(name, "default"), 3, 2)


def test_unionsnn_without_a_gate_is_refused() -> None:
    message = "UnionSNN needs a gate; without one it is GIN: use model=gin"
    with pytest.raises(RequestError, match=message):
        UnionSNN(in_channels=3, out_channels=2, gate=None)
    with pytest.raises(RequestError, match=message):
        build_model(composed("unionsnn", "none"), 3, 2)


def test_a_layer_that_cannot_be_gated_is_refused() -> None:
    with pytest.raises(ValueError, match="width of Linear's messages could not be found"):
        MPNN(
            lambda c: nn.Linear(c, c),  # type: ignore[arg-type, return-value]
            in_channels=3,
            out_channels=2,
            gate=factory,
        )


@pytest.mark.parametrize("network", [GIN, UnionSNN])
def test_a_gated_network_without_coefficients_is_refused(network: type[MPNN]) -> None:
    model = network(in_channels=1, out_channels=2, gate=factory)
    data = graph(cycle(4), 4)
    message = r"needs edge_coefficient: .*coefficients=True.*pass data\.edge_coefficient"
    with pytest.raises(ValueError, match=message):
        model(GraphBatch.single(data.x, data.edge_index))


def test_a_network_of_any_pyg_layer() -> None:
    """The stack takes a layer of one's own, plain and gated."""
    for gate in (None, factory):
        model = MPNN(
            lambda c: GINConv(two_layer_mlp(c)), in_channels=3, out_channels=2, gate=gate
        ).eval()
        data: Data = graph(cycle(4), 4, channels=3)
        for one in structural_modules(model):
            one.set_columns(data.coefficient_columns.split(","))
        out = model(GraphBatch.of(data))
        assert torch.isfinite(out).all()
