"""The engine against the slow reference."""

import networkx as nx
import numpy as np
import pytest

from structure_reference import (
    directed,
    disjoint_union,
    random_graph,
    reference_columns,
    reference_row,
    tu_graphs,
)
from unionsnn.coefficients import BASIC_QUANTITIES, structural_coefficients


def assert_parity(edge_index, num_nodes, **options):
    values = structural_coefficients(
        edge_index, num_nodes, quantities=BASIC_QUANTITIES, threads=1, **options
    )
    np.testing.assert_allclose(values, reference_columns(edge_index, num_nodes), rtol=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_random_graphs(seed):
    rng = np.random.default_rng([2024, seed])
    for _ in range(100):
        assert_parity(*random_graph(rng))


def test_random_graphs_as_one_disjoint_union():
    rng = np.random.default_rng(5)
    assert_parity(*disjoint_union([random_graph(rng) for _ in range(50)]))


@pytest.mark.parametrize(
    "graph",
    [
        nx.gnp_random_graph(40, 0.5, seed=1),
        nx.gnp_random_graph(75, 0.3, seed=2),
        nx.gnp_random_graph(90, 0.15, seed=3),
        nx.complete_graph(63),
        nx.complete_bipartite_graph(31, 33),
        nx.complete_multipartite_graph(10, 30, 25),
        nx.barabasi_albert_graph(60, 6, seed=4),
        nx.powerlaw_cluster_graph(80, 5, 0.8, seed=5),
        *(nx.wheel_graph(n) for n in (16, 17, 31, 33)),
    ],
    ids=str,
)
def test_larger_graphs(graph):
    edge_index = directed(graph)
    values = structural_coefficients(edge_index, len(graph), quantities=BASIC_QUANTITIES, threads=1)
    for i in np.random.default_rng(0).choice(edge_index.shape[1], 12, replace=False):
        right = reference_row(graph, *edge_index[:, i].tolist())
        np.testing.assert_allclose(values[i], right, rtol=1e-9)


def spoke_values(graph, spoke):
    """Engine and reference on one edge of a graph too large for the reference as a whole."""
    edge_index = directed(graph)
    column = np.flatnonzero((edge_index == np.array(spoke)[:, None]).all(axis=0))[0]
    values = structural_coefficients(edge_index, len(graph), quantities=BASIC_QUANTITIES, threads=1)
    return values[column], reference_row(graph, *spoke)


@pytest.mark.parametrize("size", [63, 64, 65, 127, 128, 129, 130])
def test_word_boundaries_of_the_bit_rows(size):
    # In a wheel every rim node is its own class: nothing for the twin reduction to fold.
    graph = nx.wheel_graph(size)
    values, right = spoke_values(graph, (0, 1))
    assert values[2] == size
    np.testing.assert_allclose(values, right, rtol=1e-9)


@pytest.mark.parametrize("size", [62, 64, 66, 126, 128, 130, 200])
def test_true_and_false_twins_on_both_sides_of_the_boundary(size):
    graph = nx.complete_graph(size // 3)
    hub, other = 0, 1
    start = len(graph)
    graph.add_edges_from((hub, start + i) for i in range(size // 3))
    graph.add_edges_from((other, start + i) for i in range(size // 3, 2 * size // 3))
    graph.add_edge(start, start + size // 3)
    values, right = spoke_values(graph, (hub, other))
    np.testing.assert_allclose(values, right, rtol=1e-9)


def test_a_neighbor_of_far_higher_degree_than_the_subgraph():
    # Nodes 1 and 2 see few nodes, their neighbour 0 sees hundreds.
    graph = nx.star_graph(400)
    graph.add_edges_from([(1, 2), (1, 401), (2, 402), (402, 403), (401, 402)])
    values, right = spoke_values(graph, (401, 402))
    np.testing.assert_allclose(values, right, rtol=1e-9)
    edge_index = directed(graph)
    values = structural_coefficients(edge_index, len(graph), quantities=("a", "edges"))
    pair = np.flatnonzero((edge_index[0] == 1) & (edge_index[1] == 401))[0]
    assert values[pair, 1] == graph.subgraph([0, 1, 2, 401, 402]).number_of_edges()


def test_mutag():
    assert_parity(*disjoint_union(tu_graphs("MUTAG")))


def test_proteins_sample():
    graphs = tu_graphs("PROTEINS")
    chosen = np.random.default_rng(0).choice(len(graphs), 60, replace=False)
    assert_parity(*disjoint_union([graphs[i] for i in chosen]))


def shrikhande():
    steps = [(0, 1), (1, 0), (1, 1)]
    cells = [(x, y) for x in range(4) for y in range(4)]
    return nx.Graph(
        (cell, ((cell[0] + dx) % 4, (cell[1] + dy) % 4)) for cell in cells for dx, dy in steps
    )


@pytest.mark.parametrize(
    ("graph", "value"),
    [
        (nx.star_graph(2), 5.4641),
        (nx.star_graph(3), 9.2915),
        (nx.line_graph(nx.complete_bipartite_graph(4, 4)), 27.7309),
        (shrikhande(), 29.6938),
        (nx.cycle_graph(4), 8.0),
        (nx.complete_graph(5), 8.0),
    ],
    ids=["K1,2", "K1,3", "Rook", "Shrikhande", "C4", "K5"],
)
def test_golden_values(graph, value):
    values = structural_coefficients(directed(graph), len(graph))
    np.testing.assert_allclose(values, value, atol=5e-5)


@pytest.mark.parametrize("seed", range(5))
def test_a_tree_is_a_on_trees_to_the_last_bit(seed):
    # The excess a_tree - a must be exactly 0 there.
    tree = nx.random_labeled_tree(300, seed=seed)
    tree.add_edges_from((0, 300 + i) for i in range(150))
    values = structural_coefficients(directed(tree), len(tree), quantities=("a", "a_tree"))
    assert (values[:, 0] == values[:, 1]).all()


def test_a_tree_of_high_degrees():
    values = structural_coefficients(
        directed(nx.star_graph(1000)), 1001, quantities=("a", "a_tree")
    )
    p = 999
    # Star on n nodes: λ_max of 2(J - I) with the centre at distance 1, in closed form.
    largest = p + np.sqrt(p * p + p + 1)
    np.testing.assert_allclose(values, 2 * largest, rtol=1e-12)
