"""Encodings: parity with other formulas, and what holds for every graph."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Batch, Data
from torch_geometric.transforms import AddRandomWalkPE

from graphs import cycle, random_graphs, rook, shrikhande, star
from unionsnn.data.encodings import definitions as encodings
from unionsnn.data.encodings.definitions import (
    ENCODINGS,
    FARTHEST,
    UNREACHABLE,
    Encodings,
    distance,
    laplacian,
    pair_slices,
    random_walk,
)
from unionsnn.data.transforms import DistanceEncoding, LaplacianEncoding, RandomWalkEncoding

Edges = list[tuple[int, int]]
PATH = [(i, i + 1) for i in range(7)]
# Trees, cycles, strongly regular graphs, several components, isolated nodes, no edges, no nodes.
CASES: list[tuple[Edges, int]] = [
    (star(4), 5),
    (cycle(6), 6),
    (rook(), 16),
    (shrikhande(), 16),
    (PATH, 8),
    ([*cycle(3), (3, 4), (4, 5)], 8),
    ([(0, 1)], 2),
    ([(0, 1)], 3),
    ([], 3),
    ([], 1),
    ([], 0),
]


def both_ways(edges: Edges) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array([*edges, *((b, a) for a, b in edges)], dtype=np.int64).reshape(-1, 2).T


def whole(cases: list[tuple[Edges, int]]) -> tuple[Any, Any]:
    """Edges of all graphs as one, and the node slices."""
    slices = np.cumsum([0, *(n for _, n in cases)])
    edges = [both_ways(e) + first for (e, _), first in zip(cases, slices, strict=False)]
    return np.concatenate(edges, axis=1), slices


def networkx_graph(edges: Edges, num_nodes: int) -> nx.Graph:
    made = nx.Graph()
    made.add_nodes_from(range(num_nodes))
    made.add_edges_from(edges)
    return made


def random_cases(seed: int, count: int, most: int = 14) -> list[tuple[Edges, int]]:
    generator = np.random.default_rng(seed)
    cases = []
    for _ in range(count):
        n = int(generator.integers(0, most))
        density = generator.random()
        edges = [(i, j) for j in range(n) for i in range(j) if generator.random() < density]
        cases.append((edges, n))
    return cases


EVERY = [*CASES, *random_cases(0, 40)]


@pytest.fixture(params=[256, 3], ids=["dense", "sparse"])
def _route(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the route of small and that of large graphs; a small stack makes several blocks."""
    monkeypatch.setattr(encodings, "_DENSE_NODES", request.param)
    monkeypatch.setattr(encodings, "_STACK", 100)


def per_graph(rows: Any, slices: Any) -> Iterator[Any]:
    for low, high in itertools.pairwise(slices):
        yield rows[low:high]


@pytest.mark.usefixtures("_route")
def test_random_walk_is_pyg_s_and_the_diagonal_of_powers() -> None:
    edges, slices = whole(EVERY)
    found = per_graph(random_walk(edges, slices, 9), slices)
    for (own, n), rows in zip(EVERY, found, strict=True):
        if n == 0:
            continue
        data = Data(edge_index=torch.from_numpy(both_ways(own)), num_nodes=n)
        pyg = AddRandomWalkPE(9, "pe")(data).pe.numpy()
        np.testing.assert_allclose(rows, pyg, atol=1e-6)
        matrix = nx.to_numpy_array(networkx_graph(own, n))
        walk = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
        powers = [np.diag(np.linalg.matrix_power(walk, k)) for k in range(1, 10)]
        np.testing.assert_allclose(rows, np.stack(powers, axis=1), atol=1e-6)


def test_random_walk_sees_self_loops_as_pyg_does() -> None:
    edges = np.array([[0, 0, 1, 1, 2], [0, 1, 0, 2, 1]])
    data = Data(edge_index=torch.from_numpy(edges), num_nodes=3)
    expected = AddRandomWalkPE(5, "pe")(data).pe.numpy()
    assert expected[0, 0] == 0.5
    np.testing.assert_allclose(random_walk(edges, np.array([0, 3]), 5), expected, atol=1e-6)


@pytest.mark.usefixtures("_route")
def test_distances_are_networkx_s() -> None:
    edges, slices = whole(EVERY)
    flat = distance(edges, slices)
    assert flat.dtype == np.uint8
    for (own, n), rows in zip(EVERY, per_graph(flat, pair_slices(slices)), strict=True):
        expected = np.full((n, n), UNREACHABLE)
        for source, lengths in nx.all_pairs_shortest_path_length(networkx_graph(own, n)):
            for target, length in lengths.items():
                expected[source, target] = length
        np.testing.assert_array_equal(rows.reshape(n, n), expected)


def test_distances_beyond_the_cap_are_not_taken_for_no_path() -> None:
    n = 300
    edges, slices = whole([([(i, i + 1) for i in range(n - 2)], n)])
    lengths = distance(edges, slices).reshape(n, n)
    assert lengths[0, [0, 1, FARTHEST - 1, FARTHEST, FARTHEST + 1, n - 2]].tolist() == [
        0, 1, FARTHEST - 1, FARTHEST, FARTHEST, FARTHEST,
    ]  # fmt: skip
    assert (lengths[:-1, -1] == UNREACHABLE).all()
    assert lengths[-1, -1] == 0


@pytest.mark.usefixtures("_route")
@pytest.mark.parametrize("count", [1, 4, 20])
def test_laplacian_vectors_are_orthonormal_eigenvectors_to_the_smallest_values(count: int) -> None:
    edges, slices = whole(EVERY)
    found = per_graph(laplacian(edges, slices, count).astype(float), slices)
    for (own, n), rows in zip(EVERY, found, strict=True):
        real = min(count, max(n - 1, 0))
        assert not rows[:, real:].any()
        if n < 2:
            continue
        matrix = nx.normalized_laplacian_matrix(networkx_graph(own, n)).toarray()
        vectors, values = rows[:, :real], np.linalg.eigvalsh(matrix)[1 : real + 1]
        np.testing.assert_allclose(matrix @ vectors, vectors * values, atol=1e-5)
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(real), atol=1e-5)
        for vector in vectors.T:
            largest = np.abs(vector).max()
            assert vector[np.abs(vector) >= (1 - 1e-5) * largest][0] > 0


def test_no_laplacian_vector_is_the_trivial_one_of_a_connected_graph() -> None:
    edges, slices = whole([(PATH, 8)])
    degree = np.bincount(edges[0])
    np.testing.assert_allclose(np.sqrt(degree) @ laplacian(edges, slices, 7), 0, atol=1e-6)


# Subgraphs have no row for each node or pair: see test_subgraphs.py.
@pytest.mark.parametrize("name", [name for name in ENCODINGS if name != "subgraph"])
def test_a_graph_s_rows_depend_on_nothing_else(name: str) -> None:
    edges, slices = whole(EVERY)
    together = ENCODINGS[name](edges, slices, 4, None)
    np.testing.assert_array_equal(together, ENCODINGS[name](edges, slices, 4, None))
    bounds = pair_slices(slices) if name == "distance" else slices
    for case, rows in zip(EVERY, per_graph(together, bounds), strict=True):
        np.testing.assert_array_equal(rows, ENCODINGS[name](*whole([case]), 4, None))
    shuffled = edges[:, np.random.default_rng(0).permutation(edges.shape[1])]
    np.testing.assert_array_equal(together, ENCODINGS[name](shuffled, slices, 4, None))
    twice = np.concatenate([edges, edges], axis=1)
    np.testing.assert_array_equal(together, ENCODINGS[name](twice, slices, 4, None))


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6))
def test_renumbered_nodes_take_their_rows_along(seed: int) -> None:
    ((edges, n),) = random_cases(seed, 1)
    order = np.random.default_rng(seed).permutation(n)
    given_edges, slices = whole([(edges, n)])
    moved = order[given_edges] if n else given_edges
    np.testing.assert_allclose(
        random_walk(moved, slices, 6)[order], random_walk(given_edges, slices, 6), atol=1e-6
    )
    lengths = distance(moved, slices).reshape(n, n)
    np.testing.assert_array_equal(
        lengths[np.ix_(order, order)], distance(given_edges, slices).reshape(n, n)
    )


def test_progress_ends_with_all_graphs() -> None:
    edges, slices = whole(EVERY)
    for name, make in ENCODINGS.items():
        seen: list[tuple[int, int]] = []
        make(edges, slices, 3, lambda done, total, to=seen: to.append((done, total)))
        dones = [done for done, _ in seen]
        assert dones == sorted(dones), name
        assert seen[-1][0] <= seen[-1][1] == len(EVERY), name


def test_transforms_store_the_same_rows_and_batch() -> None:
    graphs = random_graphs(5, torch.Generator().manual_seed(0))
    plain = [Data(edge_index=g.edge_index, num_nodes=g.num_nodes) for g in graphs]
    transforms = [RandomWalkEncoding(5), LaplacianEncoding(3), DistanceEncoding()]
    for transform in transforms:
        plain = [transform(data) for data in plain]
    batch = Batch.from_data_list(plain)
    edges, slices = batch.edge_index.numpy(), batch.ptr.numpy()
    assert np.array_equal(batch.random_walk.numpy(), random_walk(edges, slices, 5))
    assert np.array_equal(batch.laplacian.numpy(), laplacian(edges, slices, 3))
    assert np.array_equal(batch.distance.numpy(), distance(edges, slices))
    assert [repr(t) for t in transforms] == [
        "RandomWalkEncoding(5)", "LaplacianEncoding(3)", "DistanceEncoding()",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="steps is 0; it must be at least 1"):
        RandomWalkEncoding(0)
    with pytest.raises(ValueError, match="count is -1"):
        LaplacianEncoding(-1)


def test_the_choice_of_encodings() -> None:
    assert Encodings().wanted() == {}
    chosen = Encodings(random_walk=3, distance=True)
    assert chosen.wanted() == {"random_walk": 3, "distance": 1}
    assert Encodings(**chosen.to_dict()) == chosen
    assert set(chosen.sizes()) == set(ENCODINGS)
    with pytest.raises(ValueError, match=r"encodings\.laplacian is -1"):
        Encodings(laplacian=-1)
