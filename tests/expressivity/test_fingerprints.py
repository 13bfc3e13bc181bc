"""Fingerprints against exact determinants and numpy's spectra, and that they are invariant."""

from fractions import Fraction

import networkx as nx
import numpy as np
import pytest

from structure_reference import directed
from unionsnn.coefficients import SimpleGraph
from unionsnn.expressivity.fingerprints import (
    PRIME,
    determinant,
    distances,
    fingerprints,
)


def exact_determinant(matrix):
    """Elimination over the rational numbers."""
    rows = [[Fraction(int(x)) for x in row] for row in matrix]
    result = Fraction(1)
    for k in range(len(rows)):
        pivot = next((i for i in range(k, len(rows)) if rows[i][k]), None)
        if pivot is None:
            return 0
        if pivot != k:
            rows[k], rows[pivot] = rows[pivot], rows[k]
            result = -result
        result *= rows[k][k]
        for i in range(k + 1, len(rows)):
            factor = rows[i][k] / rows[k][k]
            rows[i] = [x - factor * y for x, y in zip(rows[i], rows[k], strict=True)]
    return int(result)


@pytest.mark.parametrize("size", [0, 1, 2, 5, 8])
def test_the_determinant_is_that_of_the_rational_numbers(size):
    rng = np.random.default_rng(size)
    for _ in range(10):
        # Small entries make zero pivots and singular matrices likely.
        matrix = rng.integers(0, 3, (size, size))
        assert determinant(matrix % PRIME) == exact_determinant(matrix) % PRIME


def test_distances_are_those_of_networkx():
    graph = nx.convert_node_labels_to_integers(nx.petersen_graph())
    graph.add_edge(0, 10)
    simple = SimpleGraph.from_edge_index(directed(graph), 11)
    found = distances(simple.indptr, simple.indices)
    lengths = dict(nx.all_pairs_shortest_path_length(graph))
    assert found.tolist() == [[lengths[i][j] for j in range(11)] for i in range(11)]


@pytest.mark.parametrize("kind", ["spectrum", "rooted"])
def test_a_relabelled_graph_has_the_same_fingerprints_bit_for_bit(kind):
    rng = np.random.default_rng(1)
    for seed in range(10):
        edge_index = directed(nx.gnp_random_graph(12, 0.35, seed=seed))
        order = rng.permutation(12)
        graphs = [SimpleGraph.from_edge_index(e, 12) for e in (edge_index, order[edge_index])]
        first, second = (fingerprints(g, kind, (1, 2)) for g in graphs)
        relabelled = np.sort(order[graphs[0].edges], axis=0)
        places = map(tuple, graphs[1].edges.T)
        place = dict(zip(places, second.tolist(), strict=True))
        assert [place[tuple(pair)] for pair in relabelled.T] == first.tolist()


def test_equal_spectra_and_only_those_have_equal_fingerprints():
    """Over the edges of random graphs, at radius 1: the same as numpy's eigenvalues say."""
    seen = {}
    for seed in range(12):
        graph = nx.gnp_random_graph(9, 0.45, seed=seed)
        simple = SimpleGraph.from_edge_index(directed(graph), 9)
        for (v, u), (value,) in zip(
            simple.edges.T.tolist(), fingerprints(simple, "spectrum", (1,)).tolist(), strict=True
        ):
            part = graph.subgraph({v, u, *graph[v], *graph[u]})
            lengths = dict(nx.all_pairs_shortest_path_length(part))
            matrix = np.array([[lengths[i][j] for j in part] for i in part], float)
            spectrum = tuple(np.round(np.linalg.eigvalsh(matrix), 7) + 0.0)
            assert seen.setdefault(value, spectrum) == spectrum
    assert len(set(seen.values())) == len(seen) > 20


def test_the_rooted_fingerprint_sees_the_ends():
    """Of all edges of this graph but one the union subgraph is the whole graph."""
    graph = nx.complement(nx.disjoint_union(nx.path_graph(3), nx.complete_graph(3)))
    simple = SimpleGraph.from_edge_index(directed(graph), 6)
    whole = [{v, u, *graph[v], *graph[u]} == set(graph) for v, u in simple.edges.T.tolist()]
    assert sum(whole) == len(whole) - 1
    assert len(np.unique(fingerprints(simple, "spectrum", (1,))[whole])) == 1
    assert len(np.unique(fingerprints(simple, "rooted", (1,))[whole])) > 1


def test_progress_and_graphs_without_edges():
    calls = []
    simple = SimpleGraph.from_edge_index(directed(nx.cycle_graph(5)), 5)
    fingerprints(simple, "rooted", (1, 2), progress=lambda *state: calls.append(state))
    assert calls == [(5, 10), (10, 10)]
    empty = SimpleGraph.from_edge_index(np.empty((2, 0), np.int64), 3)
    assert fingerprints(empty, "rooted", (1, 2)).shape == (0, 2)
