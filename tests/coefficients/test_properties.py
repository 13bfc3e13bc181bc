"""What must hold for every graph."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from structure_reference import random_graph
from unionsnn.coefficients import BASIC_QUANTITIES, SimpleGraph, engine, structural_coefficients
from unionsnn.coefficients.kernels.routes import DIRECT
from unionsnn.coefficients.passes import RadiusOne

seeds = st.integers(0, 2**32 - 1).map(np.random.default_rng)
few = settings(max_examples=60, deadline=None)


def columns(edge_index, num_nodes, threads=1):
    return structural_coefficients(
        edge_index, num_nodes, quantities=BASIC_QUANTITIES, threads=threads
    ).reshape(-1, 4)


@few
@given(seeds)
def test_relabelling_the_nodes_changes_nothing(rng):
    edge_index, n = random_graph(rng)
    values = columns(rng.permutation(n)[edge_index], n)
    np.testing.assert_allclose(values, columns(edge_index, n), rtol=1e-12)


@few
@given(seeds)
def test_rows_follow_the_order_of_the_edges(rng):
    edge_index, n = random_graph(rng)
    order = rng.permutation(edge_index.shape[1])
    assert (columns(edge_index[:, order], n) == columns(edge_index, n)[order]).all()


@few
@given(seeds)
def test_both_directions_have_the_same_bits(rng):
    edge_index, n = random_graph(rng)
    assert (columns(edge_index[::-1], n) == columns(edge_index, n)).all()


@few
@given(seeds)
def test_a_disjoint_union_is_its_parts(rng):
    (first, n), (second, m) = random_graph(rng), random_graph(rng)
    joined = columns(np.concatenate([first, second + n], axis=1), n + m)
    assert (joined == np.concatenate([columns(first, n), columns(second, m)])).all()


@few
@given(seeds, st.integers(2, 4))
def test_threads_change_no_bit(rng, threads):
    edge_index, n = random_graph(rng)
    assert (columns(edge_index, n, threads) == columns(edge_index, n)).all()


@few
@given(seeds)
def test_chunks_change_no_bit(rng):
    graph = SimpleGraph.from_edge_index(*random_graph(rng))
    m = graph.num_undirected_edges
    if m == 0:
        return
    cuts = [0, *sorted({int(c) for c in rng.integers(1, m + 1, 5)} - {m}), m]
    values = np.empty((m, 4))
    routes = np.full(m, DIRECT, np.int32)
    edge_pass = RadiusOne(graph, BASIC_QUANTITIES)
    for begin, end in itertools.pairwise(cuts):
        edge_pass.compute(begin, end, routes, edge_pass.new_workspace(), values)
    assert (values == engine.compute_values(edge_pass, threads=1)).all()


def test_many_chunks_on_many_threads_change_no_bit():
    rng = np.random.default_rng(8)
    # Union subgraphs of 30 to 150 nodes, so that both solvers and both layouts take part.
    source, target = rng.integers(300, size=(2, 4000)) ** 2 // 300
    edge_index = np.concatenate([[source, target], [target, source]], axis=1)
    graph = SimpleGraph.from_edge_index(edge_index, 300)
    edge_pass = RadiusOne(graph, BASIC_QUANTITIES)
    costs, _ = edge_pass.costs(np.full(graph.num_undirected_edges, DIRECT, np.int32))
    assert len(engine.plan_chunks(costs, 3, None)[0]) > 10
    one = engine.compute_values(edge_pass, threads=1)
    assert (engine.compute_values(edge_pass, threads=3) == one).all()
