"""Comparison of batches."""

from __future__ import annotations

import torch
from torch_geometric.data import Batch


def assert_equal(one: Batch, other: Batch) -> None:
    """Assert that two batches hold the same, and fall into the same graphs."""
    assert set(one.keys()) == set(other.keys())
    for key in other.keys():  # noqa: SIM118  (Data is no mapping)
        assert one[key].dtype == other[key].dtype, key
        assert torch.equal(one[key], other[key]), key
    assert one.num_graphs == other.num_graphs
    assert type(one) is type(other)
    for mine, theirs in zip(one.to_data_list(), other.to_data_list(), strict=True):
        assert set(mine.keys()) == set(theirs.keys())
        for key in theirs.keys():  # noqa: SIM118
            assert torch.equal(mine[key], theirs[key]), key
