"""StructuralGate: copies, states and precision."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch
from gated_graphs import PRESETS, apply, fitted, make, several_graphs, with_loops
from torch_geometric.data import Data

from unionsnn import StructuralGate


@pytest.fixture
def batch() -> Data:
    return several_graphs()


@pytest.mark.parametrize("preset", PRESETS)
def test_copies_and_pickles_are_equal_and_apart(batch: Data, preset: str) -> None:
    gate = fitted(preset, batch)
    before = apply(gate, batch)
    for twin in (copy.deepcopy(gate), pickle.loads(pickle.dumps(gate))):
        assert torch.equal(apply(twin, batch), before)
        twin.reset_parameters()
        twin.fit_statistics(3 * batch.edge_coefficient[:9])
        assert not torch.equal(apply(twin, batch), before)
        assert torch.equal(apply(gate, batch), before)


@pytest.mark.parametrize("preset", PRESETS)
def test_a_loaded_gate_is_the_same_function(batch: Data, preset: str) -> None:
    gate = fitted(preset, batch)
    file = io.BytesIO()
    torch.save(gate.state_dict(), file)
    file.seek(0)
    loaded = make(preset, seed=1)
    loaded.load_state_dict(torch.load(file, weights_only=True))
    assert loaded.fitted
    assert torch.equal(apply(loaded, batch), apply(gate, batch))


def test_a_gate_that_is_loaded_without_statistics_has_none(batch: Data) -> None:
    gate = fitted("default", batch)
    gate.load_state_dict(make("default").state_dict())
    with pytest.raises(RuntimeError, match="no statistics"):
        apply(gate, batch)


@pytest.mark.parametrize("preset", PRESETS)
def test_single_and_double_precision_agree(batch: Data, preset: str) -> None:
    gate = fitted(preset, batch)
    single = copy.deepcopy(gate).float()
    exact = apply(gate, batch)
    for rows in (batch.edge_coefficient, batch.edge_coefficient.float()):
        weight = single(rows, batch.edge_index, batch.num_nodes)
        assert weight.dtype == torch.float32
        torch.testing.assert_close(weight.double(), exact, rtol=1e-4, atol=1e-4)
    assert exact.dtype == torch.float64


@pytest.mark.parametrize("preset", PRESETS)
def test_bfloat16_autocast_changes_little_and_softmax_stays_exact(batch: Data, preset: str) -> None:
    gate = fitted(preset, batch).float()
    data = with_loops(batch, [0, batch.num_nodes - 1])
    data.edge_coefficient = data.edge_coefficient.float()
    exact = apply(gate, data)
    with torch.autocast("cpu", torch.bfloat16):
        weight = apply(gate, data)
    assert weight.dtype == torch.float32
    torch.testing.assert_close(weight, exact, rtol=0.03, atol=0.03)
    if preset == "paper":
        loops = data.edge_index[0] == data.edge_index[1]
        total = torch.zeros(data.num_nodes, 4)
        total.index_add_(0, data.edge_index[1][~loops], weight[~loops])
        torch.testing.assert_close(total[total > 0], torch.ones_like(total[total > 0]))
    weight.sum().backward()
    for parameter in gate.parameters():
        assert parameter.grad is not None
        assert torch.isfinite(parameter.grad).all()


def test_the_representation_tells_gates_apart() -> None:
    texts = {repr(StructuralGate.preset(name, 4)) for name in PRESETS}
    assert len(texts) == 3
    assert "features=('normalized',), radius=(1,), normalization='batch'" in repr(
        StructuralGate.preset("authors-code", 4)
    )
