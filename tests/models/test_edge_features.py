"""Edge features: every network that reads them, and refusals of the others."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from formulas import EXACT, all_sizes, edge_matrix, matrices, plain, shaken
from networks import (
    NAMES,
    UNGATED,
    apply,
    auxiliary_of,
    build,
    composed,
    layer_coefficient,
    read_by,
    train_statistics,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch_geometric.data import Batch

from graphs import COLUMNS, random_graphs
from unionsnn.base.errors import RequestError
from unionsnn.models.drop_gin import DropGIN
from unionsnn.nn.encoders import StructuralEdgeEncoder
from unionsnn.nn.features import structural_modules
from unionsnn.nn.gates import StructuralGate
from unionsnn.training.build import locate

READERS = [
    name
    for name in NAMES
    if locate(
        composed(name, "none" if name in UNGATED else "default").model.target, object, ""
    ).reads_edges
]
CATEGORIES = (3, 2)


def _cases() -> list[object]:
    """Every reader with real numbers, categories, and the coefficient, alone and with a gate."""
    cases = []
    for name in READERS:
        plain_gate = "default" if name == "unionsnn" else "none"
        cases += [
            pytest.param(name, plain_gate, 2, "gate", id=f"{name}-attributes"),
            pytest.param(name, plain_gate, CATEGORIES, "gate", id=f"{name}-labels"),
        ]
        if name not in UNGATED:
            cases.append(pytest.param(name, "default", CATEGORIES, "both", id=f"{name}-both"))
        if name != "unionsnn":
            cases.append(pytest.param(name, "default", None, "edge", id=f"{name}-coefficient"))
    return cases


readers = pytest.mark.parametrize(("name", "gate", "edges", "inject"), _cases())


def with_edges(edges: int | tuple[int, ...] | None, count: int = 24) -> Batch:
    """Random graphs in double precision, with features that differ between an edge's directions."""
    generator = torch.Generator().manual_seed(0)
    made = random_graphs(count, generator)
    for data in made:
        data.x, data.edge_coefficient = data.x.double(), data.edge_coefficient.double()
        if isinstance(edges, int):
            data.edge_attr = torch.randn(data.num_edges, edges, generator=generator).double()
        elif edges is not None:
            columns = [torch.randint(n, (data.num_edges,), generator=generator) for n in edges]
            data.edge_attr = torch.stack(columns, dim=1)
    return Batch.from_data_list(made)


def made(name: str, gate: str, edges: object, inject: str, data: Batch) -> torch.nn.Module:
    network = build(name, gate, edges=edges, inject=inject).double()
    return train_statistics(network, data)


@readers
def test_permutation_of_nodes_and_edges(name: str, gate: str, edges: object, inject: str) -> None:
    data = with_edges(edges)
    network = made(name, gate, edges, inject, data)
    generator = torch.Generator().manual_seed(1)
    nodes = torch.randperm(data.num_nodes, generator=generator)
    order = torch.randperm(data.num_edges, generator=generator)
    other = data.clone()
    if isinstance(network, DropGIN):
        data.dropped = network.draw(data.batch, data.num_graphs)
        other.dropped = data.dropped[nodes]
    new_name = torch.empty_like(nodes)
    new_name[nodes] = torch.arange(len(nodes))
    other.x, other.batch = data.x[nodes], data.batch[nodes]
    other.edge_index = new_name[data.edge_index[:, order]]
    for key in ("edge_coefficient", "edge_attr"):
        if key in data:
            other[key] = data[key][order]
    torch.testing.assert_close(apply(network, other), apply(network, data))


@readers
def test_a_prediction_does_not_depend_on_the_batch(
    name: str, gate: str, edges: object, inject: str
) -> None:
    data = with_edges(edges)
    network = made(name, gate, edges, inject, data)
    alone = torch.cat([apply(network, one) for one in data.to_data_list()])
    torch.testing.assert_close(alone, apply(network, data))


@readers
def test_what_is_encoded_matters(name: str, gate: str, edges: object, inject: str) -> None:
    data = with_edges(edges)
    network = made(name, gate, edges, inject, data)
    out = apply(network, data)
    for key in ("edge_attr", "edge_coefficient"):
        if key == "edge_attr" and edges is None:
            continue
        other = data.clone()
        other.layer_coefficient = layer_coefficient(data)
        rows = other[key]
        other[key] = rows.roll(1, dims=0)
        reads = key == "edge_attr" or gate != "none"
        assert torch.equal(apply(network, other), out) != reads


@readers
def test_a_training_step(name: str, gate: str, edges: object, inject: str) -> None:
    data = with_edges(edges)
    network = build(name, gate, edges=edges, inject=inject).double().train()
    (apply(network, data).sum() + auxiliary_of(network, torch.sum)).backward()
    for key, parameter in network.named_parameters():
        if key.startswith("edge_encoder"):
            assert parameter.grad is not None
            assert torch.isfinite(parameter.grad).all()
            assert parameter.grad.abs().sum() > 0
    copy.deepcopy(network).load_state_dict(network.state_dict())


@pytest.mark.parametrize("name", READERS)
def test_edge_features_that_are_missing_are_refused(name: str) -> None:
    network = build(name, "default" if name == "unionsnn" else "none", edges=2)
    data = with_edges(2)
    data.edge_attr = data.edge_attr[:, :1]
    with pytest.raises(RequestError, match="edge_attr of the shape") as caught:
        apply(network, data)
    assert caught.value.codes == ["batch.attribute"]


@pytest.mark.parametrize("name", [name for name in NAMES if name not in READERS])
def test_a_network_that_does_not_read_edges_refuses_them_by_name(name: str) -> None:
    with pytest.raises(RequestError, match="does not read edge features") as caught:
        build(name, "none" if name in UNGATED else "default", edges=2)
    assert caught.value.codes == ["model.edges"]


def test_without_edge_features_the_weights_are_drawn_as_before() -> None:
    """The encoder of edges draws after that of nodes, and not at all without edge features."""
    with_none, with_edge = build("gin", "none"), build("gin", "none", edges=2)
    torch.testing.assert_close(with_none.encoder.weight, with_edge.encoder.weight)
    assert not any("edge" in key for key in with_none.state_dict())


@pytest.mark.parametrize("gate", ["none", "paper", "default"])
def test_gin_with_edge_features_is_gine(gate: str) -> None:
    """MLP((1 + eps) h_v + sum_u Trans * ReLU(h_u + e_vu)), with matrices."""
    generator = torch.Generator().manual_seed(2)
    data = all_sizes()
    data.edge_attr = torch.randn(data.num_edges, 2, generator=generator).double()
    network = shaken(build("gin", gate, edges=2, inject="gate", norm="none").double()).eval()
    edges, rows = edge_matrix(network, data), []
    for nodes, A, W in matrices(network, data):
        h, E = network.encoder(data.x[nodes]), edges[nodes][:, nodes]
        for conv, weight in zip(network.convs, W, strict=True):
            layer = plain(conv)
            sent = A.unsqueeze(2) * weight * torch.relu(h.unsqueeze(0) + E)
            h = h + torch.relu(layer.nn((1 + layer.eps) * h + sent.sum(dim=1)))
        rows.append(h.sum(dim=0))
    expected = network.head(torch.stack(rows))
    torch.testing.assert_close(apply(network, data), expected, **EXACT)


def test_the_encoder_reads_what_the_gate_reads() -> None:
    """The formula written out, with the features of a gate of one channel as its reference."""
    data = with_edges(None)
    torch.manual_seed(0)
    for preset in ("paper", "authors-code", "default"):
        encoder = StructuralEdgeEncoder.preset(preset, 5).double()
        gate = StructuralGate.preset(preset, 1).double()
        columns = encoder.required_columns
        assert columns == gate.required_columns
        for module in (encoder, gate):
            module.set_columns(COLUMNS)
            module.fit_statistics(data.edge_coefficient)
        given = data.edge_coefficient, data.edge_index, data.num_nodes
        f = gate.standardized(*given)
        hidden = (f @ encoder.hidden.weight.T + encoder.hidden.bias).clamp(min=0)
        expected = hidden @ encoder.last.weight.T + encoder.last.bias
        torch.testing.assert_close(encoder(*given), expected)
        loop = torch.zeros(1, len(COLUMNS)).double()
        assert not encoder(loop, torch.zeros(2, 1, dtype=torch.long), 1).any()


def test_both_places_have_their_own_weights() -> None:
    network = build("gin", "default", inject="both")
    kinds = [type(module) for module in structural_modules(network)]
    assert sorted(kind.__name__ for kind in kinds) == ["StructuralEdgeEncoder"] + 3 * [
        "StructuralGate"
    ]
    assert [type(m) for m in structural_modules(build("gin", "default", inject="edge"))] == [
        StructuralEdgeEncoder
    ]


class Waits(TorchDispatchMode):
    """Counts operations whose results a device must hand over before the step can go on."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket._qualified_op_name
        masks = name == "aten::index" and any(
            index is not None and index.dtype == torch.bool for index in args[1]
        )
        self.count += masks or name in ("aten::_local_scalar_dense", "aten::equal", "aten::nonzero")
        return func(*args, **(kwargs or {}))


# Networks of pairs look for the places of edges among them.
@pytest.mark.parametrize("name", [name for name in READERS if name not in ("graphormer", "ppgn")])
def test_a_step_waits_no_longer_for_its_device(name: str) -> None:
    """But for the features of edges that GAT and GeniePath take out with loops, in each layer."""
    found, floats = [], ("x", "edge_attr", "edge_coefficient")
    for edges in (None, 2):
        network = build(name, "default" if name == "unionsnn" else "none", edges=edges)
        data = read_by(network, with_edges(2).apply(lambda value: value.float(), *floats))
        with Waits() as waits, torch.no_grad():
            network(data)
        found.append(waits.count)
    allowed = len(network.convs) if name in ("gat", "geniepath") else 0
    assert found[1] <= found[0] + allowed
