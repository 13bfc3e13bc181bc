"""From rows to padded matrices and back."""

from __future__ import annotations

import itertools
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.data import Batch
from torch_geometric.utils import to_dense_adj, to_dense_batch

from graphs import random_graphs
from unionsnn.nn.padding import SPREAD, Padding, similar_sizes


def batches() -> list[tuple[Tensor, int]]:
    """Graph of each node: in order, mixed, with empty graphs, and of nothing."""
    drawn = torch.tensor([0, 0, 0, 1, 3, 3])
    return [(drawn, 4), (drawn[[5, 0, 3, 1, 4, 2]], 6), (drawn[:0], 1), (drawn[:0], 0)]


@pytest.mark.parametrize(("batch", "num_graphs"), batches())
@pytest.mark.parametrize("token", [False, True])
def test_there_and_back(batch: Tensor, num_graphs: int, token: bool) -> None:
    padding = Padding(batch, num_graphs, token=token)
    rows = torch.randn(len(batch) + num_graphs * token, 3)
    padded = padding.pad(rows)
    assert torch.equal(padding.unpad(padded), rows)
    assert torch.equal(padded[~padding.taken], torch.zeros_like(padded[~padding.taken]))
    assert int(padding.taken.sum()) == len(rows)
    # Node by node, in the order of the batch; the token in front.
    seen = [int(token)] * num_graphs
    for row, graph in zip(rows, batch.tolist(), strict=False):
        assert torch.equal(padded[graph, seen[graph]], row)
        seen[graph] += 1
    if token:
        assert torch.equal(padded[:, 0], rows[len(batch) :])


def test_padding_is_that_of_pyg() -> None:
    data = Batch.from_data_list(random_graphs(8, torch.Generator().manual_seed(0)))
    padding = Padding(data.batch, 8)
    padded, taken = to_dense_batch(data.x, data.batch)
    assert torch.equal(padding.pad(data.x), padded)
    assert torch.equal(padding.taken, taken)
    adjacency = torch.zeros(padded.size(0) * padding.size**2)
    adjacency[padding.cells(data.edge_index)] = 1
    expected = to_dense_adj(data.edge_index, data.batch).transpose(1, 2)
    assert torch.equal(adjacency.view_as(expected), expected)


@pytest.mark.parametrize(("batch", "num_graphs"), batches())
@pytest.mark.parametrize("token", [False, True])
def test_every_graph_has_a_key(batch: Tensor, num_graphs: int, token: bool) -> None:
    padding = Padding(batch, num_graphs, token=token)
    assert bool(padding.keys.any(dim=1).all())
    assert bool((padding.keys >= padding.taken).all())
    assert int((padding.keys & ~padding.taken).sum()) == (0 if token else padding.counts.count(0))
    assert int(padding.pairs.sum()) == padding.num_pairs


def test_repeated_edges_and_loops() -> None:
    edge_index = torch.tensor([[0, 0, 1, 2, 0], [1, 1, 0, 2, 1]])
    shares = Padding(torch.zeros(3, dtype=torch.long), 1).edge_shares(edge_index)
    torch.testing.assert_close(shares, torch.tensor([1 / 3, 1 / 3, 1.0, 0.0, 1 / 3]))


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(0, 30), max_size=20))
def test_groups_hold_every_graph_once_and_pad_it_to_twice_its_pairs_at_most(
    sizes: list[int],
) -> None:
    groups = similar_sizes(sizes)
    assert sorted(itertools.chain(*groups)) == list(range(len(sizes)))
    largest = [max((sizes[graph] for graph in group), default=0) for group in groups]
    for group, most in zip(groups, largest, strict=True):
        assert all(most**2 <= SPREAD * max(sizes[graph], 1) ** 2 for graph in group)
    # No more groups than are needed: the largest graph of one does not fit the one before.
    for before, most in pairwise(largest):
        assert before**2 > SPREAD * max(most, 1) ** 2
