"""Colour refinement against a slow independent one, invariance, and classes of numbers."""

import networkx as nx
import numpy as np
import pytest

from structure_reference import directed
from unionsnn.expressivity.color_refinement import (
    TOLERANCE,
    GraphUnion,
    Margin,
    cluster,
    edge_colors,
    graph_classes,
    refine,
)


def colored_graph(rng, num_colors):
    """edge_index, number of nodes and a symmetric or directed colour of each edge."""
    graph = nx.gnp_random_graph(int(rng.integers(1, 9)), 0.5, seed=int(rng.integers(2**31)))
    edge_index = directed(graph)
    return edge_index, len(graph), rng.integers(num_colors, size=edge_index.shape[1])


def slow_refinement(edge_index, num_nodes, colors):
    """The definition, written out: as many rounds as there are nodes."""
    names = [0] * num_nodes
    for _ in range(num_nodes):
        around = [[] for _ in names]
        for (u, v), color in zip(edge_index.T.tolist(), colors.tolist(), strict=True):
            around[v].append((names[u], color))
        seen = {}
        full = [(names[v], tuple(sorted(around[v]))) for v in range(num_nodes)]
        names = [seen.setdefault(each, len(seen)) for each in full]
    return names


def in_rows(union, edge_index, colors):
    """Colours in the order of the union's edges."""
    by_edge = {(u, v): c for (u, v), c in zip(edge_index.T.tolist(), colors.tolist(), strict=True)}
    return np.array([by_edge[u, v] for u, v in union.edge_index.T.tolist()], np.int64)


@pytest.mark.parametrize("num_colors", [1, 3])
def test_stable_colours_are_those_of_the_definition(num_colors):
    rng = np.random.default_rng(num_colors)
    for _ in range(60):
        edge_index, num_nodes, colors = colored_graph(rng, num_colors)
        union = GraphUnion.of([(edge_index, num_nodes)])
        found = refine(union, in_rows(union, edge_index, colors))
        names = slow_refinement(edge_index, num_nodes, colors)
        pairs = set(zip(found.tolist(), names, strict=True))
        assert len(pairs) == len(set(names)) == len(set(found.tolist()))


def test_without_colours_it_is_the_weisfeiler_lehman_test_of_networkx():
    graphs = [g for g in nx.graph_atlas_g() if 2 <= len(g) <= 6]
    union = GraphUnion.of([(directed(g), len(g)) for g in graphs])
    found = graph_classes(union, refine(union, np.zeros(union.edge_index.shape[1], np.int64)))
    hashes = []
    for graph in graphs:
        # Without an attribute networkx warns that its hashes once changed.
        nx.set_node_attributes(graph, "", "label")
        rounds = {"iterations": len(graph), "node_attr": "label"}
        hashes.append(nx.weisfeiler_lehman_graph_hash(graph, **rounds))
    names = {}
    expected = [
        names.setdefault((len(g), h), len(names)) for g, h in zip(graphs, hashes, strict=True)
    ]
    assert len(set(zip(found.tolist(), expected, strict=True))) == len(names) == found.max() + 1


def test_relabelled_copies_have_the_same_class_and_order_of_graphs_is_kept():
    rng = np.random.default_rng(0)
    graphs, colors = [], {}
    for _ in range(20):
        edge_index, num_nodes, own = colored_graph(rng, 2)
        order = rng.permutation(num_nodes)
        shuffled = rng.permutation(edge_index.shape[1])
        first = sum(n for _, n in graphs)
        for edges, values in ((edge_index, own), (order[edge_index][:, shuffled], own[shuffled])):
            graphs.append((edges, num_nodes))
            for (u, v), c in zip(edges.T.tolist(), values.tolist(), strict=True):
                colors[first + u, first + v] = c
            first += num_nodes
    union = GraphUnion.of(graphs)
    found = refine(union, np.array([colors[u, v] for u, v in union.edge_index.T.tolist()]))
    classes = graph_classes(union, found)
    assert (classes[::2] == classes[1::2]).all()
    assert len(np.unique(classes)) > 5
    assert union.num_graphs == 40
    assert (np.diff(union.node_slices) == [n for _, n in graphs]).all()


def test_a_directed_colour_is_seen_by_the_receiver():
    union = GraphUnion.of([([[0, 1], [1, 0]], 2)])
    assert len(set(refine(union, np.array([0, 0])).tolist())) == 1
    assert len(set(refine(union, np.array([0, 1])).tolist())) == 2


def test_graphs_without_edges_and_isolated_nodes():
    none = np.empty((2, 0), np.int64)
    union = GraphUnion.of([(none, 0), (none, 1), (none, 2), ([[0, 1], [1, 0]], 3)])
    classes = graph_classes(union, refine(union, np.zeros(2, np.int64)))
    assert len(set(classes.tolist())) == 4


# -- classes of numbers --------------------------------------------------------------------


def test_signed_zeros_are_one_number():
    """In a hashed spectrum, -0.0 and 0.0 once faked 42 differences."""
    classes, margin = cluster(np.array([0.0, -0.0, 1e-15, -1e-15, 0.5]), np.zeros(5, np.int64))
    assert classes.tolist()[:4] == [classes[0]] * 4
    assert classes[4] != classes[0]
    assert margin.equal == pytest.approx(2e-15)
    assert margin.different == pytest.approx(0.5)
    assert not margin.exact


def test_the_margin_names_the_widest_class_and_the_narrowest_gap():
    values = np.array([10.0, 10.0 + 5.5e-12, 10.0 + 1.1e-6, 20.0])
    classes, margin = cluster(values, np.zeros(4, np.int64))
    assert classes.tolist() == [0, 0, 1, 2]
    assert margin.equal == pytest.approx(5e-13, rel=1e-3)
    assert margin.different == pytest.approx(1e-7, rel=1e-3)


def test_whole_numbers_need_no_tolerance():
    values = np.array([1e15, 1e15 + 1, 1e15 + 1])
    classes, margin = cluster(values, np.zeros(3, np.int64))
    assert classes.tolist() == [0, 1, 1]
    assert margin.exact
    assert TOLERANCE > 1 / 1e15


def test_groups_are_never_compared():
    values, groups = np.array([1.0, 1.0, 2.0, 2.0]), np.array([0, 1, 0, 1])
    classes, margin = cluster(values, groups)
    assert len(set(classes.tolist())) == 4
    assert margin.different == pytest.approx(0.5)


def test_a_row_is_equal_where_all_its_columns_are():
    values = np.array([[1.0, 2.0], [1.0, 2.5], [1.0, 2.0], [3.0, 2.5]])
    colors, margin = edge_colors(values, np.zeros(4, np.int64))
    assert colors[0] == colors[2]
    assert len(set(colors.tolist())) == 3
    assert margin.different == pytest.approx(0.5 / 3)


def test_margins_join_to_the_narrower():
    joined = Margin(1e-15, 0.5, exact=True) | Margin(1e-13, None, exact=False)
    assert joined == Margin(1e-13, 0.5, exact=False)


def test_no_number_is_no_class():
    with pytest.raises(ValueError, match="not finite"):
        cluster(np.array([1.0, np.nan]), np.zeros(2, np.int64))
    classes, margin = cluster(np.empty(0), np.empty(0, np.int64))
    assert len(classes) == 0
    assert margin.exact
