"""Deletions from union subgraphs, against the engine and against definitions written out."""

from __future__ import annotations

import numpy as np
import pytest

from unionsnn.coefficients import SimpleGraph, structural_coefficients
from unionsnn.expressivity.case_study import (
    KINDS,
    UnionSubgraph,
    delete_each,
    example_subgraph,
    measure,
    path_coefficients,
    random_subgraphs,
    real_subgraphs,
    study,
)


def coefficient(adjacency: np.ndarray) -> float:
    """The engine's a of the edge between nodes 0 and 1."""
    edges = np.argwhere(adjacency).T
    a = structural_coefficients(edges, len(adjacency))
    return float(a[(edges[0] == 0) & (edges[1] == 1)][0])


def drawn(count: int, max_nodes: int = 12, seed: int = 0) -> list[UnionSubgraph]:
    rng = np.random.default_rng(seed)
    return list(random_subgraphs(count, max_nodes=max_nodes, generator=rng))


def kind_by_definition(subgraph: UnionSubgraph, i: int, j: int) -> str:
    closed = [set(np.flatnonzero(subgraph.adjacency[k])) | {k} for k in (0, 1)]
    common = closed[0] & closed[1]
    inside = [x in common for x in (i, j)]
    if all(inside):
        return "E1"
    if any(inside):
        return "E2"
    return "E4" if {i, j} <= closed[0] or {i, j} <= closed[1] else "E3"


@pytest.mark.parametrize("subgraph", [example_subgraph(), *drawn(20)])
def test_drawn_subgraphs_are_union_subgraphs(subgraph: UnionSubgraph) -> None:
    adjacency = subgraph.adjacency
    assert (adjacency == adjacency.T).all()
    assert not adjacency.diagonal().any()
    assert adjacency[0, 1]
    assert adjacency[:2].any(axis=0).all()


def test_the_size_of_drawn_subgraphs_has_its_bounds() -> None:
    sizes = {subgraph.num_nodes for subgraph in drawn(200, 7)}
    assert sizes == {4, 5, 6, 7}


@pytest.mark.parametrize("at_ends", [False, True])
@pytest.mark.parametrize("subgraph", [example_subgraph(), *drawn(10)])
def test_kinds_follow_the_definition(subgraph: UnionSubgraph, at_ends: bool) -> None:
    edges = subgraph.edges(at_ends=at_ends)
    found = [KINDS[k] for k in subgraph.kinds(edges)]
    assert found == [kind_by_definition(subgraph, i, j) for i, j in edges.tolist()]


def test_the_example_has_all_four_kinds_and_readable_names() -> None:
    example = example_subgraph()
    assert set(example.kinds(example.edges(at_ends=False)).tolist()) == {0, 1, 2, 3}
    assert example.names() == ["v", "u", "c1", "c2", "v1", "v2", "u1", "u2"]


@pytest.mark.parametrize("subgraph", [example_subgraph(), *drawn(10, 14, 1)])
def test_effects_are_differences_of_the_engines_values(subgraph: UnionSubgraph) -> None:
    found = delete_each(subgraph)
    assert found.a == pytest.approx(coefficient(subgraph.adjacency), rel=1e-9)
    for (i, j), effect in zip(found.edges.tolist(), found.by_edge, strict=True):
        without = subgraph.adjacency.copy()
        without[i, j] = without[j, i] = False
        assert found.a + effect == pytest.approx(coefficient(without), rel=1e-9)
    for node, effect in enumerate(found.by_node, 2):
        without = np.delete(np.delete(subgraph.adjacency, node, 0), node, 1)
        assert found.a + effect == pytest.approx(coefficient(without), rel=1e-9)


def test_a_deletion_that_disconnects_has_no_effect_and_is_counted() -> None:
    # v - u with one exclusive neighbour of u: without (u, x) nothing reaches x.
    path = np.zeros((3, 3), dtype=bool)
    path[[0, 1, 1, 2], [1, 0, 2, 1]] = True
    found = delete_each(UnionSubgraph(path), at_ends=True)
    assert np.isnan(found.by_edge).all()
    result = measure([UnionSubgraph(path)], at_ends=True)
    assert result.disconnecting == 2
    assert result.edge.cases == 0
    assert result.edge.raised is None
    assert result.node.cases == 1


def test_coefficients_of_known_graphs() -> None:
    path = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], dtype=bool)
    two = np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]], dtype=bool)
    a, nothing = path_coefficients(np.stack([path, two]))
    assert a == pytest.approx(5.4641, abs=1e-4)
    assert np.isnan(nothing)
    assert path_coefficients(np.zeros((0, 4, 4), dtype=bool)).shape == (0,)


def test_shares_count_every_deletion_once() -> None:
    result = study(None, count=50, max_nodes=12, seed=3)
    assert result.subgraphs == 50
    for shares in (result.edge, result.node):
        assert shares.raised is not None
        assert shares.raised + shares.kept + shares.lowered == pytest.approx(1)
    assert sum(s.cases for s in result.kinds.values()) == result.edge.cases
    assert result.edge.mean == pytest.approx(
        np.concatenate([result.effects[kind] for kind in KINDS]).mean()
    )
    assert 0 <= result.ordered <= result.with_all_kinds <= 50


def test_the_same_seed_gives_the_same_numbers() -> None:
    one, same, other = (
        study(None, count=20, max_nodes=10, seed=seed).to_dict() for seed in (5, 5, 6)
    )
    assert one == same
    assert one != other


def test_order_is_judged_by_the_means_of_each_subgraph() -> None:
    # In the example E3 has the largest effect.
    result = measure([example_subgraph()])
    assert (result.with_all_kinds, result.ordered) == (1, 0)
    assert not result.ordered_overall


def test_real_subgraphs_are_those_of_the_graph() -> None:
    rng = np.random.default_rng(0)
    edges = rng.integers(30, size=(2, 60))
    graph = SimpleGraph.from_edge_index(edges, 30, symmetrize=True)
    found, too_large = real_subgraphs(graph, 1000, max_nodes=100, generator=rng)
    assert too_large == 0
    right = structural_coefficients(graph.edges, 30, symmetrize=True)
    assert [delete_each(s).a for s in found] == pytest.approx(right.tolist())
    sizes = [s.num_nodes for s in found]
    kept, too_large = real_subgraphs(graph, 1000, max_nodes=8, generator=rng)
    assert (len(kept), too_large) == (sum(n <= 8 for n in sizes), sum(n > 8 for n in sizes))
    assert len(real_subgraphs(graph, 5, max_nodes=100, generator=rng)[0]) == 5
