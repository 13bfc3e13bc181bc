"""Gates of one pass over a network: what they compute once, and when they must not."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest
import torch
import torch_geometric.nn as pyg
from gated_graphs import COLUMNS, several_graphs
from torch import Tensor
from torch_geometric.data import Data

from unionsnn import UnionPlugin, fit_statistics, plug_in
from unionsnn.models import GAT, GCN, GIN, MPNN, GatedGCN, GraphSAGE, UnionSNN
from unionsnn.nn.features import StructuralFeatures, share
from unionsnn.nn.gates import StructuralGate


@pytest.fixture
def batch() -> Data:
    return several_graphs()


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[StructuralFeatures]]:
    """The modules that have computed features."""
    seen: list[StructuralFeatures] = []
    compute = StructuralFeatures._features

    def noted(self: StructuralFeatures, *args: Tensor) -> Tensor:
        seen.append(self)
        return compute(self, *args)

    monkeypatch.setattr(StructuralFeatures, "_features", noted)
    return seen


def network(kind: type[MPNN], data: Data, **options: object) -> MPNN:
    torch.manual_seed(0)
    made = kind(in_channels=3, out_channels=2, hidden_channels=8, **options).double()
    fit_statistics(made, data.edge_coefficient)
    return made


def result(made: MPNN, data: Data) -> list[Tensor]:
    """Output and gradients."""
    made.zero_grad()
    out = made(data)
    out.square().sum().backward()
    return [out.detach(), *(p.grad.clone() for p in made.parameters() if p.grad is not None)]


def apart(made: MPNN, data: Data, monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """The same of gates that share nothing."""
    with monkeypatch.context() as patch:
        patch.setattr("unionsnn.models.mpnn.share", lambda rows, *_: rows)
        return result(made, data)


@pytest.mark.parametrize("gate", ["default", "paper", "authors-code"])
@pytest.mark.parametrize("kind", [UnionSNN, GIN, GraphSAGE, GCN, GAT, GatedGCN])
def test_what_is_shared_changes_no_bit(
    kind: type[MPNN],
    gate: str,
    batch: Data,
    computed: list[StructuralFeatures],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = network(kind, batch, gate=gate)
    # The running statistics of a batch norm change with each pass in training.
    alone = apart(copy.deepcopy(made), batch, monkeypatch)
    assert len(computed) == 4
    computed.clear()
    shared = result(made, batch)
    assert len(computed) == 1
    assert all(torch.equal(a, b) for a, b in zip(shared, alone, strict=True))


def test_gates_with_other_statistics_or_options_share_nothing(
    batch: Data, computed: list[StructuralFeatures], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = network(GIN, batch, gate="default").eval()
    gates = [conv.gate for conv in made.convs]
    before = result(made, batch)
    computed.clear()
    gates[1].fit_statistics(batch.edge_coefficient[:20])
    gates[2].feature_mean += 1
    gates[3].features = ("raw", "excess", "raw")
    assert not torch.equal(result(made, batch)[0], before[0])
    assert computed == gates
    assert torch.equal(result(made, batch)[0], apart(made, batch, monkeypatch)[0])
    computed.clear()
    gates[3].features = gates[0].features
    made.load_state_dict(
        {k: v.clone() for k, v in network(GIN, batch, gate="default").state_dict().items()}
    )
    result(made, batch)
    assert computed == gates[:1]


@pytest.mark.parametrize("how", [copy.deepcopy, lambda made: made.float().double()])
def test_a_copied_or_moved_network_shares(
    how: object, batch: Data, computed: list[StructuralFeatures]
) -> None:
    made = network(GIN, batch, gate="default")
    result(made, batch)
    computed.clear()
    result(how(made), batch)
    assert len(computed) == 1


def test_nothing_outlives_a_pass(batch: Data, computed: list[StructuralFeatures]) -> None:
    """Evaluation leaves no inference tensors behind; coefficients that change are read again."""
    made = network(GIN, batch, gate="default").eval()
    with torch.inference_mode():
        before = made(batch)
    assert torch.equal(result(made, batch)[0], before)
    batch.edge_coefficient[:, 0] *= 2
    assert not torch.equal(made(batch), before)
    assert len(computed) == 3


def test_a_single_node(batch: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    made = network(GIN, batch, gate="default").eval()
    node = Data(
        x=batch.x[:1],
        edge_index=torch.zeros(2, 0, dtype=torch.long),
        edge_coefficient=batch.edge_coefficient[:0],
    )
    assert torch.equal(result(made, node)[0], apart(made, node, monkeypatch)[0])


def test_gradients_reach_the_coefficients(batch: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    made = network(UnionSNN, batch, gate="paper").eval()
    gradients = []
    for run in (result, lambda made, data: apart(made, data, monkeypatch)):
        batch.edge_coefficient = batch.edge_coefficient.detach().requires_grad_()
        run(made, batch)
        gradients.append(batch.edge_coefficient.grad)
    torch.testing.assert_close(*gradients)


def test_the_layers_of_a_whole_network_share(
    batch: Data, computed: list[StructuralFeatures]
) -> None:
    made = plug_in(pyg.GCN(3, 4, num_layers=3)).double()
    fit_statistics(made, batch)
    made(batch.x, batch.edge_index, edge_coefficient=batch.edge_coefficient)
    assert len(computed) == 1


def test_stacked_gates_under_vmap(batch: Data) -> None:
    """Statistics that are mapped over cannot be read, and are not shared."""
    gates = [
        StructuralGate.preset("default", 4, columns=COLUMNS)
        .double()
        .fit_statistics(batch.edge_coefficient[i:])
        for i in range(3)
    ]
    rows = share(batch.edge_coefficient, batch.edge_index)
    stacked = {
        name: torch.stack([gate.state_dict()[name] for gate in gates])
        for name, _ in [*gates[0].named_parameters(), *gates[0].named_buffers()]
    }

    def one(state: dict[str, Tensor]) -> Tensor:
        arguments = (rows, batch.edge_index, batch.num_nodes)
        return torch.func.functional_call(gates[0], state, arguments)

    out = torch.func.vmap(one)(stacked)
    for gate, each in zip(gates, out, strict=True):
        torch.testing.assert_close(
            each, gate(batch.edge_coefficient, batch.edge_index, batch.num_nodes)
        )


# The quotient of sums.


@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_the_quotient_is_the_softmax(batch: Data, scale: float) -> None:
    torch.manual_seed(0)
    gate = StructuralGate.preset("paper", 4, columns=COLUMNS).double()
    with torch.no_grad():
        # Scores far beyond what exp can represent.
        gate.last.weight *= scale
    given = batch.edge_coefficient, batch.edge_index, batch.num_nodes
    quotient = gate.quotient(*given)
    assert quotient is not None
    e, z = quotient
    torch.testing.assert_close(e / z[batch.edge_index[1]], gate(*given), rtol=1e-14, atol=0)


def test_without_such_a_softmax_there_is_no_quotient(batch: Data) -> None:
    given = batch.edge_coefficient, batch.edge_index, batch.num_nodes
    for preset in ("default", "authors-code"):
        gate = StructuralGate.preset(preset, 4, columns=COLUMNS).double()
        assert gate.fit_statistics(given[0]).quotient(*given) is None
    gate = StructuralGate.preset("paper", 4, columns=COLUMNS).double()
    loop = torch.cat([batch.edge_index, torch.zeros(2, 1, dtype=torch.long)], dim=1)
    rows = torch.cat([given[0], given[0].new_zeros(1, given[0].size(1))])
    assert gate.quotient(rows, loop, batch.num_nodes) is None


def test_single_precision_of_the_quotient(batch: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    made = network(UnionSNN, batch, gate="paper").float().eval()
    data = batch.apply(lambda value: value.float(), "x", "edge_coefficient")
    out = made(data)
    monkeypatch.setattr(StructuralGate, "quotient", lambda *_: None)
    torch.testing.assert_close(made(data), out, rtol=4e-6, atol=4e-6)


def test_one_layer_alone_shares_nothing(batch: Data, computed: list[StructuralFeatures]) -> None:
    plugin = UnionPlugin(pyg.SAGEConv(3, 4)).double().fit_statistics(batch)
    for _ in range(2):
        plugin(batch.x, batch.edge_index, edge_coefficient=batch.edge_coefficient)
    assert len(computed) == 2
