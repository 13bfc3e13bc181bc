"""The paper's theorems on all small graphs, and canonical forms behind them."""

import itertools

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structure_reference import directed
from unionsnn.base.errors import RequestError
from unionsnn.coefficients.graph import SimpleGraph
from unionsnn.expressivity.bench import Bench
from unionsnn.expressivity.edge_colorings import EdgeColoring
from unionsnn.expressivity.fingerprints import distances
from unionsnn.expressivity.graph_sets import Family
from unionsnn.expressivity.theorems import (
    MAX_NODES,
    NUM_CONNECTED,
    Census,
    canonical_form,
    coarser_pairs,
    collisions,
    connected_graphs,
    edge_form,
    four_cycles,
    one_wl_classes,
    substructure,
    theorem_one,
    theorem_one_converse,
)

SIZES = [6, pytest.param(7, marks=pytest.mark.slow)]


def matrix(graph):
    return nx.to_numpy_array(graph).astype(bool)


# -- canonical forms -----------------------------------------------------------------------


def test_forms_are_equal_exactly_where_networkx_finds_an_isomorphism():
    rng = np.random.default_rng(0)
    graphs = []
    for _ in range(40):
        graph = nx.gnp_random_graph(5, 0.5, seed=int(rng.integers(2**31)))
        nx.set_node_attributes(graph, dict(enumerate(rng.integers(2, size=5).tolist())), "mark")
        graphs.append(graph)
    marks = [np.array([g.nodes[i]["mark"] for i in range(5)]) for g in graphs]
    forms = [canonical_form(matrix(g), m) for g, m in zip(graphs, marks, strict=True)]
    same = 0
    for i, j in itertools.combinations(range(40), 2):
        match = nx.is_isomorphic(graphs[i], graphs[j], node_match=lambda a, b: a == b)
        assert (forms[i] == forms[j]) == match
        same += match
    assert same


def test_substructures_of_an_edge():
    graph = nx.Graph([(0, 1), (0, 2), (1, 2), (0, 3), (1, 4), (3, 4), (4, 5)])
    inside, nodes = substructure(matrix(graph), 0, 1, "union")
    assert nodes.tolist() == [0, 1, 2, 3, 4]
    assert inside.sum() == 12
    minus, _ = substructure(matrix(graph), 0, 1, "union_minus")
    assert minus.sum() == 10
    overlap, nodes = substructure(matrix(graph), 0, 1, "overlap")
    assert nodes.tolist() == [0, 1, 2]
    assert overlap.sum() == 6


def test_a_root_tells_the_ends_of_a_path_apart():
    path = matrix(nx.path_graph(3))
    for rooted in (False, True):
        forms = {edge_form(path, v, u, "union", rooted=rooted) for v, u in ((0, 1), (1, 0))}
        assert len(forms) == 1 + rooted


def test_large_graphs_have_no_form():
    size = MAX_NODES + 1
    with pytest.raises(RequestError) as refused:
        canonical_form(np.zeros((size, size), bool), np.zeros(size, np.int64))
    assert refused.value.codes == ["expressivity.max_nodes"]


# -- theorem 1 -----------------------------------------------------------------------------


@pytest.mark.parametrize("max_nodes", SIZES)
def test_theorem_1_holds_for_isomorphisms_that_carry_the_edge(max_nodes):
    assert theorem_one(Census(connected_graphs(max_nodes)), rooted=True) == []


@pytest.mark.parametrize("max_nodes", SIZES)
def test_theorem_1_fails_for_any_isomorphism(max_nodes):
    """The smallest counterexample inside one graph is the complement of P3 and K3."""
    census = Census(connected_graphs(max_nodes))
    failures = theorem_one(census, rooted=False)
    assert len(failures) == {6: 1, 7: 6}[max_nodes]
    first = failures[0]
    assert first.graphs[0] == first.graphs[1]
    found = nx.from_numpy_array(census.adjacencies[first.graphs[0]])
    known = nx.complement(nx.disjoint_union(nx.path_graph(3), nx.complete_graph(3)))
    assert nx.is_isomorphic(found, known)
    # The union subgraphs around the two nodes are the whole graph.
    for node in first.nodes:
        for other in found[node]:
            assert {node, other, *found[node], *found[other]} == set(found)


def test_the_converse_of_theorem_1_fails():
    """P2 and P3: the overlap subgraphs are single edges, the union subgraphs are not."""
    census = Census(connected_graphs(3))
    (first, *_) = theorem_one_converse(census)
    assert sorted(len(census.adjacencies[g]) for g in first.graphs) == [2, 3]


# -- theorem 2 -----------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 12), st.randoms(use_true_random=False))
def test_theorem_2_the_path_matrix_and_the_subgraph_determine_each_other(size, random):
    """S gives P, and S is where P is 1; so two P are equal for a fixed order iff the S are."""
    graph = nx.gnp_random_graph(size, 0.4, seed=random.randrange(2**31))
    if not graph.edges:
        return
    v, u = random.choice(list(graph.edges))
    inside, _ = substructure(matrix(graph), v, u, "union")
    simple = SimpleGraph.from_edge_index(np.argwhere(inside).T, len(inside))
    P = distances(simple.indptr, simple.indices)
    assert ((P == 1) == inside).all()
    assert P.max() <= 3
    other = inside.copy()
    i, j = random.sample(range(len(inside)), 2)
    other[i, j] = other[j, i] = not inside[i, j]
    changed = SimpleGraph.from_edge_index(np.argwhere(other).T, len(inside))
    assert (distances(changed.indptr, changed.indices) != P).any()


# -- theorem 3 -----------------------------------------------------------------------------


@pytest.mark.parametrize("max_nodes", SIZES)
def test_theorem_3_a_is_never_coarser_than_1wl_and_strictly_finer(max_nodes):
    graphs = connected_graphs(max_nodes)
    small = Family("small", "small", tuple((np.argwhere(g).T, len(g)) for g in graphs))
    bench = Bench([small], threads=1)
    one_wl = bench.graph_classes(bench.values(EdgeColoring.parse("1wl")))
    for name in ("a", "a~", "a@2", "excess", "overlap", "spectrum", "rooted"):
        classes = bench.graph_classes(bench.values(EdgeColoring.parse(name)))
        assert coarser_pairs(classes, one_wl) == 0, name
        assert coarser_pairs(one_wl, classes) > 0, name
        if name in ("a", "a~", "spectrum", "rooted"):
            # All connected graphs of so few nodes are told apart.
            assert len(np.unique(classes)) == len(graphs), name


def test_collisions_come_smallest_first():
    classes = np.array([0, 1, 0, 1, 2, 0])
    sizes = [(6, 7), (5, 9), (6, 7), (5, 4), (3, 3), (4, 4)]
    assert collisions(classes, sizes) == [(3, 1), (5, 0)]


def test_the_smallest_pair_that_1wl_cannot_tell_apart_has_6_nodes_and_7_edges():
    graphs = connected_graphs(6)
    sizes = [(len(g), int(g.sum()) // 2) for g in graphs]
    census = Census(graphs)
    pairs = collisions(one_wl_classes(census.union), sizes)
    assert [sizes[g] for g in pairs[0]] == [(6, 7), (6, 7)]


def test_cycles_of_length_four():
    for graph, count in ((nx.cycle_graph(4), 1), (nx.complete_graph(4), 3), (nx.cycle_graph(5), 0)):
        assert four_cycles(matrix(graph)) == count
    cube = nx.convert_node_labels_to_integers(nx.hypercube_graph(3))
    assert four_cycles(matrix(cube)) == 6


# -- the graphs ----------------------------------------------------------------------------


def test_the_atlas_holds_as_many_connected_graphs_as_there_are():
    counts = np.bincount([len(g) for g in connected_graphs(7)])
    assert counts[2:].tolist() == list(NUM_CONNECTED[1:7])
    assert directed(nx.path_graph(2)).shape == (2, 2)


@pytest.mark.slow
def test_rooted_fingerprints_find_every_connected_graph_of_eight_nodes():
    assert len(connected_graphs(8)) == sum(NUM_CONNECTED[1:])
