"""Batches: those of PyG bit for bit, dealt out without duplicates."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from batches import assert_equal
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode
from torch_geometric.data import Batch, Data, InMemoryDataset

from graphs import cycle, graph, random_graphs, star
from unionsnn.base.rows import noted_loops
from unionsnn.data.batching import BatchLoader
from unionsnn.data.datasets import GraphDataset
from unionsnn.data.store import GraphStore


def dataset(graphs: list[Data]) -> GraphDataset:
    for data in graphs:
        data.pop("coefficient_columns", None)
        data.pop("edge_coefficient_ends", None)
    return GraphDataset(*InMemoryDataset.collate(graphs))


GRAPHS = [
    *random_graphs(30, torch.Generator().manual_seed(0)),
    graph([], 2, channels=3),
    graph(cycle(3), 3, channels=3),
    graph([], 0, channels=3),
    graph([(0, 1), (1, 0), (2, 2), (0, 0)], 3, channels=3),
    graph(star(4), 5, channels=3),
]
STORE = GraphStore(dataset(GRAPHS))


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, len(GRAPHS) - 1), min_size=1, max_size=12))
def test_a_batch_is_pyg_s_bit_for_bit(index: list[int]) -> None:
    expected = Batch.from_data_list([GRAPHS[i] for i in index])
    assert_equal(STORE.batch(torch.tensor(index)), expected)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.lists(st.integers(0, len(GRAPHS) - 1), min_size=1, max_size=5), min_size=1))
def test_batches_gathered_at_once_are_pyg_s_bit_for_bit(indices: list[list[int]]) -> None:
    block = list(STORE.gather([torch.tensor(index) for index in indices]))
    for batch, index in zip(block, indices, strict=True):
        assert_equal(batch, Batch.from_data_list([GRAPHS[i] for i in index]))
        assert batch.edge_index.is_contiguous()
        assert batch._sizes == tuple(GRAPHS[i].num_nodes for i in index)
        loops = int((batch.edge_index[0] == batch.edge_index[1]).sum())
        assert noted_loops(batch.edge_index) == loops
        assert copy.copy(batch).to("cpu")._sizes == batch._sizes


def test_a_network_may_change_its_batch_in_place() -> None:
    weight = torch.ones((), requires_grad=True)
    first, second = STORE.gather([torch.tensor([0, 1]), torch.tensor([2, 3])])
    losses = []
    for batch in (first, second):
        batch.x += weight
        losses.append(batch.x.square().sum())
    sum(losses).backward()
    assert weight.grad == 2 * sum(batch.x.sum() for batch in (first, second))
    assert_equal(STORE.batch(torch.tensor([2, 3])), Batch.from_data_list(GRAPHS[2:4]))


@pytest.mark.parametrize("size", [1, 3000, 2**30], ids=["single", "some", "whole"])
@pytest.mark.parametrize("options", [{}, {"max_pairs": 400}, {"accumulated": 3}], ids=str)
def test_blocks_and_streams_do_not_change_an_epoch(
    monkeypatch: pytest.MonkeyPatch, size: int, options: dict[str, int]
) -> None:
    def loader(store: GraphStore) -> BatchLoader:
        order = torch.Generator().manual_seed(0)
        graphs = torch.arange(1, len(GRAPHS))
        return BatchLoader(store, graphs, batch_size=4, shuffle=True, generator=order, **options)

    alone = loader(STORE)
    expected = [(STORE.batch(graphs), weight) for graphs, weight in alone._weighted()]
    for name in ("_CPU_BLOCK", "_STREAMED_BLOCK"):
        monkeypatch.setattr(f"unionsnn.data.store.{name}", size)
    for store in (STORE, STORE.streaming(torch.device("cpu"))):
        for batch, (single, weight) in zip(loader(store), expected, strict=True):
            assert batch.get("loss_weight") == weight
            batch.pop("loss_weight", None)
            assert_equal(batch, single)
        # Whoever stops early leaves no thread behind.
        batches = iter(loader(store))
        next(batches)
        batches.close()


def test_an_epoch_of_a_store_on_a_device_takes_one_copy_and_reads_nothing_back() -> None:
    class Copies(TorchDispatchMode):
        number = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            if func is torch.ops.aten._to_copy.default:
                self.number += 1
                assert kwargs["non_blocking"]
            return func(*args, **(kwargs or {}))

    # A meta tensor has no values: whatever reads one fails.
    store = STORE.to(torch.device("meta"))
    order = torch.Generator().manual_seed(0)
    here = list(BatchLoader(STORE, range(30), batch_size=4, shuffle=True, generator=order))
    order.manual_seed(0)
    loader = BatchLoader(store, range(30), batch_size=4, shuffle=True, generator=order)
    with Copies() as copies:
        there = list(loader)
    assert copies.number == 1
    for batch, other in zip(there, here, strict=True):
        for key, value in other:
            assert batch[key].is_meta, key
            assert (batch[key].shape, batch[key].dtype) == (value.shape, value.dtype), key


def test_regression_targets_and_further_attributes() -> None:
    graphs = random_graphs(6, torch.Generator().manual_seed(1))
    for data in graphs:
        data.y = torch.randn(1, 2)
        data.edge_attr = torch.randn(data.num_edges, 2)
        data.position = torch.randn(data.num_nodes, 4)
    store = GraphStore(dataset(graphs))
    assert_equal(
        store.batch(torch.tensor([5, 0, 3])), Batch.from_data_list([graphs[i] for i in (5, 0, 3)])
    )


def test_an_attribute_that_is_no_tensor_is_refused() -> None:
    plain = graph(star(2), 3)
    with pytest.raises(TypeError, match=r"\['coefficient_columns'\] are not tensors"):
        GraphStore(GraphDataset(*InMemoryDataset.collate([plain, plain])))


def flat(lists: list[list[Any]]) -> list[Any]:
    return [item for part in lists for item in part]


def seen(loader: BatchLoader) -> list[list[float]]:
    return [batch.y.tolist() for batch in loader]


def numbered(count: int) -> GraphStore:
    graphs = [graph(star(2), 3, y=i) for i in range(count)]
    return GraphStore(dataset(graphs))


def test_each_graph_comes_once_in_new_orders_from_the_generator_alone() -> None:
    store = numbered(10)

    def seeded() -> BatchLoader:
        order = torch.Generator().manual_seed(0)
        return BatchLoader(store, range(1, 10), batch_size=4, shuffle=True, generator=order)

    loader = seeded()
    assert len(loader) == 3
    torch.manual_seed(1)
    first, second = seen(loader), seen(loader)
    assert sorted(flat(first)) == sorted(flat(second)) == list(range(1, 10))
    assert first != second
    torch.manual_seed(2)
    assert seen(seeded()) == first
    assert seen(BatchLoader(store, [3, 1, 2], batch_size=2)) == [[3, 1], [2]]
    with pytest.raises(ValueError, match="batch_size is 0"):
        BatchLoader(store, [0], batch_size=0)


@pytest.mark.parametrize("max_pairs", [None, 100])
@pytest.mark.parametrize(("count", "world"), [(7, 2), (2, 4), (1, 3), (8, 4)])
def test_processes_share_each_batch(
    as_process: Callable[[int, int], None], count: int, world: int, max_pairs: int | None
) -> None:
    store = numbered(8)

    def loader(shuffle: bool) -> BatchLoader:
        generator = torch.Generator().manual_seed(3)
        return BatchLoader(
            store, range(count), batch_size=3, max_pairs=max_pairs, shuffle=shuffle,
            generator=generator,
        )  # fmt: skip

    def bounds(loader: BatchLoader) -> list[tuple[int, int]]:
        return [(extent.num_graphs, extent.largest) for extent in loader.extents]

    alone, whole = list(loader(True)), seen(loader(False))
    assert bounds(loader(True)) == [(min(3, count), 3)]
    shares = []
    for rank in range(world):
        as_process(rank, world)
        shares.append(list(loader(True)))
        assert len(loader(True)) == len(alone)
        assert bounds(loader(True)) == [(-(-min(3, count) // world), 3)]
        assert seen(loader(False)) == whole
    for batch, *parts in zip(alone, *shares, strict=True):
        weights = torch.tensor([part.loss_weight for part in parts])
        used = [part for part in parts if part.loss_weight > 0]
        assert sorted(flat([part.y.tolist() for part in used])) == sorted(batch.y.tolist())
        means = torch.tensor([part.y.double().mean() for part in parts])
        assert (weights * means).mean().item() == pytest.approx(batch.y.double().mean().item())


def test_shares_of_a_batch_weigh_as_much_as_their_terms(
    as_process: Callable[[int, int], None],
) -> None:
    terms = torch.tensor([3, 0, 1, 2, 5, 0])
    values = torch.arange(6.0)
    total = (terms * values).sum() / terms.sum()
    parts = []
    for rank in range(2):
        as_process(rank, 2)
        loader = BatchLoader(numbered(6), range(6), batch_size=6, shuffle=True, terms=terms,
                             generator=torch.Generator().manual_seed(0))  # fmt: skip
        (batch,) = loader
        graphs = batch.y
        mean = (terms[graphs] * values[graphs]).sum() / terms[graphs].sum().clamp(min=1)
        parts.append(batch.loss_weight * mean)
    assert sum(parts) / 2 == pytest.approx(total)
