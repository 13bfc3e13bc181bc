"""Batches with a bound of pairs: kept, complete, random, shared among processes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from unionsnn.base.errors import DataError
from unionsnn.base.memory import Extent
from unionsnn.data.batching import BatchLoader
from unionsnn.data.buckets import size_buckets
from unionsnn.data.datasets import GraphDataset
from unionsnn.data.store import GraphStore


def store_of(sizes: list[int]) -> GraphStore:
    """Edgeless graphs of given sizes; y is the number of each."""
    count = len(sizes)
    data = Data(
        x=torch.ones(sum(sizes), 1),
        edge_index=torch.empty(2, 0, dtype=torch.long),
        y=torch.arange(count),
    )
    slices = {
        "x": torch.tensor([0, *sizes]).cumsum(0),
        "edge_index": torch.zeros(count + 1, dtype=torch.long),
        "y": torch.arange(count + 1),
    }
    return GraphStore(GraphDataset(data, slices))


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def contents(loader: BatchLoader) -> list[list[int]]:
    return [batch.y.tolist() for batch in loader]


def many_sizes(count: int = 200) -> list[int]:
    return np.random.default_rng(0).integers(3, 60, count).tolist()


requests = st.tuples(
    st.lists(st.integers(0, 40), min_size=1, max_size=60), st.integers(1, 12), st.integers(0, 4000)
)


@settings(deadline=None, max_examples=200)
@given(requests, st.booleans())
def test_every_batch_keeps_both_bounds_and_every_graph_comes_once(
    request_: tuple[list[int], int, int], shuffle: bool
) -> None:
    sizes, batch_size, more = request_
    max_pairs = max(max(sizes) ** 2, 1) + more
    loader = BatchLoader(
        store_of(sizes),
        range(len(sizes)),
        batch_size=batch_size,
        max_pairs=max_pairs,
        shuffle=shuffle,
        generator=seeded(),
    )
    for _ in range(2):
        batches = contents(loader)
        assert len(batches) == len(loader)
        assert all(batches)
        assert sorted(i for batch in batches for i in batch) == list(range(len(sizes)))
        for batch in batches:
            largest = max(sizes[i] for i in batch)
            assert len(batch) <= batch_size
            assert len(batch) * largest**2 <= max_pairs
            rows = {"x": sum(sizes[i] for i in batch), "edge_index": 0, "y": len(batch)}
            assert any(
                len(batch) <= bound.num_graphs
                and largest <= bound.largest
                and sum(sizes[i] ** 2 for i in batch) <= bound.pairs
                and all(rows[key] <= bound.rows[key] for key in rows)
                for bound in loader.extents
            )


@settings(deadline=None, max_examples=100)
@given(requests)
def test_graphs_of_a_bucket_are_alike_unless_it_would_not_fill_a_batch(
    request_: tuple[list[int], int, int],
) -> None:
    sizes, batch_size, more = request_
    max_pairs = max(max(sizes) ** 2, 1) + more
    buckets = size_buckets(torch.tensor(sizes), batch_size=batch_size, max_pairs=max_pairs)
    for bucket in buckets[:-1]:
        capacity = min(batch_size, max_pairs // max(bucket.largest**2, 1))
        smallest = sizes[int(bucket.members[-1])]
        assert 2 * smallest**2 >= bucket.largest**2 or len(bucket.members) <= capacity
        assert len(bucket.members) >= capacity
    assert torch.cat([b.members for b in buckets]).sort().values.tolist() == [*range(len(sizes))]


def test_orders_come_from_the_generator_alone() -> None:
    sizes = many_sizes()
    options = {"batch_size": 16, "max_pairs": 20_000, "shuffle": True}

    def epochs(seed: int) -> list[list[list[int]]]:
        loader = BatchLoader(store_of(sizes), range(200), generator=seeded(seed), **options)
        return [contents(loader) for _ in range(2)]

    torch.manual_seed(1)
    one = epochs(0)
    torch.manual_seed(2)
    assert epochs(0) == one
    assert epochs(1) != one
    first, second = one
    # Other batches, not just the same ones in another order.
    together = [{frozenset(batch) for batch in epoch} for epoch in one]
    assert len(together[0] & together[1]) < len(first) / 4
    largest = [max(sizes[i] for i in batch) for batch in first]
    assert largest != sorted(largest)
    assert largest != sorted(largest, reverse=True)
    assert len(first) == len(second)


def test_padding_is_small() -> None:
    sizes = many_sizes(1000)
    loader = BatchLoader(
        store_of(sizes), range(1000), batch_size=64, max_pairs=40_000, shuffle=True,
        generator=seeded(),
    )  # fmt: skip
    padded = [len(batch) * max(sizes[i] for i in batch) ** 2 for batch in contents(loader)]
    assert sum(n**2 for n in sizes) > 0.6 * sum(padded)


def test_a_part_of_the_graphs_is_bucketed_for_itself() -> None:
    store = store_of([3, 50, 4, 5])
    loader = BatchLoader(store, [2, 0, 3], batch_size=2, max_pairs=50)
    assert sorted(i for batch in contents(loader) for i in batch) == [0, 2, 3]
    with pytest.raises(DataError, match=r"max_pairs is 24, but a single graph of 5 nodes .*=2500"):
        BatchLoader(store, [2, 0, 3], batch_size=2, max_pairs=24)
    with pytest.raises(ValueError, match="max_pairs is 0; it must be at least 1"):
        BatchLoader(store, [0], batch_size=2, max_pairs=0)
    empty = BatchLoader(store, [], batch_size=2, max_pairs=50, shuffle=True)
    assert (len(empty), contents(empty), empty.extents) == (0, [], [])
    assert BatchLoader(store, [], batch_size=2).extents == []


def test_without_a_bound_nothing_changes() -> None:
    store = store_of(many_sizes(20))
    loader = BatchLoader(store, range(20), batch_size=8, shuffle=True, generator=seeded())
    order = torch.randperm(20, generator=seeded()).tolist()
    assert contents(loader) == [order[:8], order[8:16], order[16:]]
    sizes = sorted(many_sizes(20))
    rows = {"x": sum(sizes[-8:]), "edge_index": 0, "y": 8}
    assert loader.extents == [Extent(8, sizes[-1], sum(n**2 for n in sizes[-8:]), rows)]
    assert BatchLoader(store, range(3), batch_size=8).extents[0].num_graphs == 3
