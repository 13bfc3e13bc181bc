"""Batch norms whose batches a network counts together, compared with torch's."""

from __future__ import annotations

import contextlib
import copy

import pytest
import torch
from torch import nn
from torch_geometric.nn import BatchNorm

from unionsnn.models import GIN
from unionsnn.nn.batch import GraphBatch
from unionsnn.nn.norms import BatchCounts, batch_norm


@pytest.mark.parametrize("momentum", [0.1, None])
@pytest.mark.parametrize("passes", [0, 1, 2])
def test_outputs_statistics_and_counts_are_those_of_torch(
    passes: int, momentum: float | None
) -> None:
    """In a pass that calls the norm once or twice, and outside of one."""
    ours, theirs = batch_norm(3), BatchNorm(3, allow_single_element=True)
    counts = BatchCounts(ours)
    ours.module.momentum = theirs.module.momentum = momentum
    for rows in (5, 1, 4):
        x = torch.randn(rows, 3)
        with counts.of_a_pass() if passes else contextlib.nullcontext():
            for _ in range(max(passes, 1)):
                assert torch.equal(ours(x), theirs(x))
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    for name, value in theirs.state_dict().items():
        assert torch.equal(ours.state_dict()[name], value)
    assert torch.equal(ours.eval()(x), theirs.eval()(x))


def test_each_training_pass_of_a_network_counts_once() -> None:
    network = GIN(in_channels=2, out_channels=1, hidden_channels=4, num_layers=2)
    batch = GraphBatch.single(torch.randn(3, 2), torch.tensor([[0, 1, 2], [1, 2, 0]]))
    network(batch)
    network.embed(batch)
    other = copy.deepcopy(network).eval()
    other(batch)
    other.train()(batch)

    def counts(of: nn.Module) -> set[int]:
        return {int(v) for k, v in of.state_dict().items() if k.endswith("num_batches_tracked")}

    assert counts(network) == {2}
    assert counts(other) == {3}
