"""Rooted subgraphs: those of a search from each node, cached, and batched as PyG batches them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from batches import assert_equal
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Batch, Data, InMemoryDataset

from graphs import cycle, graph, random_graphs, star
from positions import rooted
from unionsnn.base.errors import DataError
from unionsnn.data.datasets import GraphDataset, SubgraphData
from unionsnn.data.encodings import cache as encoding_cache
from unionsnn.data.encodings import subgraphs
from unionsnn.data.encodings.cache import EncodingCache
from unionsnn.data.encodings.subgraphs import rooted_subgraphs
from unionsnn.data.store import GraphStore
from unionsnn.data.transforms import RootedSubgraphs

PAIR = Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0, 0, 1], [1, 1, 1]]), y=torch.zeros(1))


def awkward() -> list[Data]:
    """Random graphs, some without edges or nodes, and a star: its ball of 2 hops is all of it."""
    return [
        *random_graphs(12, torch.Generator().manual_seed(0)),
        graph([], 2, channels=3),
        graph([], 0, channels=3),
        graph([], 1, channels=3),
        graph(star(6), 9, channels=3),
        graph(cycle(9), 9, channels=3),
    ]


def arrays(data: Batch) -> tuple[np.ndarray, np.ndarray]:
    return data.edge_index.numpy(), data.ptr.numpy()


def rows(made: dict[str, torch.Tensor]) -> tuple[list[list[int]], list[list[int]]]:
    """Copies and edges as rows; the edges of a subgraph come in no particular order."""
    copies = torch.cat([made["subgraph_index"], made["subgraph_distance"][None]])
    edges = torch.cat([made["subgraph_edge_index"], made["subgraph_edge"][None]])
    return copies.t().tolist(), sorted(edges.t().tolist())


@pytest.mark.parametrize("hops", [1, 2, 3])
@pytest.mark.parametrize("block", [1, 50, 1 << 21])
def test_they_are_those_of_a_search_from_each_node(
    hops: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subgraphs, "_BLOCK", block)
    data = Batch.from_data_list(awkward())
    packed = rooted_subgraphs(*arrays(data), hops)
    assert packed.dtype == np.int32
    copies, edges, held = packed[0]
    assert (len(packed), held) == (1 + copies + edges, hops)
    expected = rows(rooted(data, hops))
    assert packed[1 : copies + 1].tolist() == expected[0]
    assert sorted(packed[copies + 1 :].tolist()) == expected[1]


def test_hops_go_both_ways_and_edges_stay_as_they_are() -> None:
    """An edge that stands twice and a loop are in the subgraphs as often as in the graph."""
    data = Batch.from_data_list([PAIR])
    packed = rooted_subgraphs(*arrays(data), 1)
    assert packed[0].tolist() == [4, 6, 1]
    assert packed[1:5].tolist() == [[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]]
    assert sorted(packed[5:].tolist()) == [
        [0, 1, 0], [0, 1, 1], [1, 1, 2], [2, 3, 0], [2, 3, 1], [3, 3, 2],
    ]  # fmt: skip


@pytest.mark.parametrize("hops", [1, 3])
def test_the_bound_of_memory_is_above_what_is_made(hops: int) -> None:
    data = Batch.from_data_list(awkward())
    nodes, edges = subgraphs._bounds(*arrays(data), hops)
    packed = rooted_subgraphs(*arrays(data), hops)
    assert nodes.sum() >= packed[0, 0]
    assert edges.sum() >= packed[0, 1]
    assert subgraphs.peak_bytes(*arrays(data), hops) > packed.nbytes


def test_more_than_32_bit_numbers_count_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    edge_index = np.array([[0, 1, 1, 2], [1, 0, 2, 1]])
    slices = np.array([0, 3])
    copies, edges, _ = rooted_subgraphs(edge_index, slices, 1)[0]
    assert (copies, edges) == (7, 8)
    monkeypatch.setattr(subgraphs, "_MOST", 8)
    rooted_subgraphs(edge_index, slices, 1)
    monkeypatch.setattr(subgraphs, "_MOST", 7)
    with pytest.raises(DataError, match="subgraphs of 1 hops have more than 7 nodes or edges"):
        rooted_subgraphs(edge_index, slices, 1)


def test_no_graph_and_no_node() -> None:
    nothing = np.zeros((2, 0), dtype=np.int64)
    for slices in ([0], [0, 0]):
        packed = rooted_subgraphs(nothing, np.array(slices), 2)
        assert packed.tolist() == [[0, 0, 2]]


def with_subgraphs(graphs: list[Data]) -> list[Data]:
    transform = RootedSubgraphs(2)
    for data in graphs:
        # What the transform of coefficients adds for its own checks.
        data.pop("coefficient_columns", None)
        data.pop("edge_coefficient_ends", None)
    return [transform(data) for data in graphs]


GRAPHS = with_subgraphs(awkward())


def test_the_transform_says_what_it_is() -> None:
    assert repr(RootedSubgraphs(2)) == "RootedSubgraphs(2)"
    assert isinstance(GRAPHS[0], SubgraphData)
    with pytest.raises(ValueError, match="hops is 0; it must be at least 1"):
        RootedSubgraphs(0)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(0, len(GRAPHS) - 1), min_size=1, max_size=8))
def test_a_batch_is_pyg_s_bit_for_bit(index: list[int]) -> None:
    store = GraphStore(GraphDataset(*InMemoryDataset.collate(GRAPHS)))
    expected = Batch.from_data_list([GRAPHS[i] for i in index])
    made = store.batch(torch.tensor(index))
    assert_equal(made, expected)
    # Numbers count through the batch: its subgraphs are those of the batch as one graph.
    named = {key: made[key] for key in rooted(made, 2)}
    assert rows(named) == rows(rooted(made, 2))


def test_they_are_cached_and_refused_where_they_do_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = EncodingCache(tmp_path)
    data = Batch.from_data_list(awkward())
    first = store.get("subgraph", 2, *arrays(data))
    with monkeypatch.context() as patch:
        patch.setattr(encoding_cache, "ENCODINGS", {})
        np.testing.assert_array_equal(store.get("subgraph", 2, *arrays(data)), first)
    monkeypatch.setattr(encoding_cache, "free_bytes", lambda: 1000)
    with pytest.raises(
        DataError, match=r"subgraph of these graphs.*model\.encodings\.subgraph below 3"
    ):
        store.get("subgraph", 3, *arrays(data))
