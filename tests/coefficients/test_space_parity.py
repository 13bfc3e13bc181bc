"""Every substructure, descriptor, encoding and radius against the slow references."""

import itertools
import math

import networkx as nx
import numpy as np
import pytest
from scipy.optimize import linprog

from space_reference import (
    LOCAL_CHOICES,
    MATRIX_CHOICES,
    SUBSTRUCTURES,
    WHOLE_CHOICES,
    curvature,
    equations,
    local_value,
    substructure,
    whole_value,
)
from structure_reference import directed, random_graph, simple_graph
from unionsnn.coefficients import structural_coefficients
from unionsnn.coefficients.kernels.curvature import as_ratio
from unionsnn.coefficients.kernels.transport import transport

RADII = (1, 2, 3)
QUANTITIES = ("a", "nodes", "edges")


def assert_parity(edge_index, num_nodes, rng, *, edges, local=LOCAL_CHOICES, whole=WHOLE_CHOICES):
    """Compare the space on a few edges of a graph."""
    graph = simple_graph(edge_index, num_nodes)
    proper = np.flatnonzero(edge_index[0] != edge_index[1])
    if len(proper) == 0:
        return
    columns = rng.choice(proper, min(edges, len(proper)), replace=False)
    for kind in SUBSTRUCTURES if local else ():
        values = {
            choice: structural_coefficients(
                edge_index,
                num_nodes,
                substructure=kind,
                descriptor=choice[0],
                encoding=choice[1],
                radius=RADII,
                quantities=QUANTITIES,
                threads=1,
            )
            for choice in local
        }
        for column, (place, radius) in itertools.product(columns, enumerate(RADII)):
            v, u = edge_index[:, column].tolist()
            S = substructure(graph, v, u, kind, radius)
            for choice in local:
                right = (local_value(S, v, u, *choice), len(S), S.number_of_edges())
                got = values[choice][column, 3 * place : 3 * place + 3]
                np.testing.assert_allclose(
                    got, right, rtol=1e-9, atol=1e-9, err_msg=f"{kind} {choice} {radius} {v}-{u}"
                )
    for descriptor, _ in whole:
        got = structural_coefficients(edge_index, num_nodes, descriptor=descriptor, threads=1)
        for column in columns:
            right = whole_value(graph, *edge_index[:, column].tolist(), descriptor)
            assert got[column] == pytest.approx(right, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(
    "choice", LOCAL_CHOICES + WHOLE_CHOICES, ids=lambda choice: "-".join(filter(None, choice))
)
def test_a_choice_on_random_graphs(choice):
    rng = np.random.default_rng(7)
    whole = choice in WHOLE_CHOICES
    for _ in range(24):
        assert_parity(
            *random_graph(rng),
            rng,
            edges=2,
            local=() if whole else (choice,),
            whole=(choice,) if whole else (),
        )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100))
def test_ten_thousand_random_graphs(seed):
    rng = np.random.default_rng([8, seed])
    for _ in range(100):
        assert_parity(*random_graph(rng), rng, edges=1)


@pytest.mark.parametrize(
    "graph",
    [
        nx.gnp_random_graph(75, 0.1, seed=2),
        nx.complete_bipartite_graph(31, 36),
        nx.powerlaw_cluster_graph(90, 4, 0.7, seed=5),
        nx.wheel_graph(66),
        nx.complete_graph(66),
        nx.grid_2d_graph(9, 9),
        nx.random_regular_graph(3, 80, seed=1),
    ],
    ids=str,
)
def test_subgraphs_on_both_sides_of_a_word(graph):
    graph = nx.convert_node_labels_to_integers(graph)
    # Their cycles are too many to be listed by the reference.
    rng, whole = np.random.default_rng(1), WHOLE_CHOICES[:1]
    assert_parity(directed(graph), len(graph), rng, edges=1, whole=whole)


def test_cycles_of_dense_graphs_in_closed_form():
    n, p, q = 40, 20, 30
    paths = [math.perm(n - 2, inner) for inner in (1, 2, 3, 4)]
    got = structural_coefficients(directed(nx.complete_graph(n)), n, descriptor="cycle_count")
    assert (got == sum(paths)).all()
    graph = nx.complete_bipartite_graph(p, q)
    got = structural_coefficients(directed(graph), p + q, descriptor="cycle_count")
    assert (got == (p - 1) * (q - 1) * (1 + (p - 2) * (q - 2))).all()


@pytest.mark.parametrize("substructure", SUBSTRUCTURES)
@pytest.mark.parametrize("choice", LOCAL_CHOICES, ids=str)
def test_a_radius_has_the_same_bits_alone_and_among_others(substructure, choice):
    edge_index = directed(nx.powerlaw_cluster_graph(40, 3, 0.6, seed=3))
    options = {"substructure": substructure, "descriptor": choice[0], "encoding": choice[1]}
    together = structural_coefficients(edge_index, 40, radius=RADII, **options)
    for place, radius in enumerate(RADII):
        alone = structural_coefficients(edge_index, 40, radius=radius, **options)
        assert (together[:, place] == alone).all()


def value(graph, edge, **options):
    """Coefficient of one edge of a graph with any node names."""
    nodes = list(graph)
    edge_index = directed(graph)
    wanted = [[nodes.index(edge[0])], [nodes.index(edge[1])]]
    column = np.flatnonzero((edge_index == np.array(wanted)).all(axis=0))[0]
    return structural_coefficients(edge_index, len(nodes), **options)[column]


def test_the_example_of_the_claim_on_edges_outside():
    S = nx.Graph([("v", "u"), ("v", "x"), ("v", "z"), ("u", "y"), ("z", "y")])
    assert value(S, "vu", descriptor="edge_betweenness") == pytest.approx(3.5)
    assert value(S, "vu", descriptor="curvature") == pytest.approx(1 / 6)
    S.add_edge("x", "z")
    assert value(S, "vu", descriptor="edge_betweenness") == pytest.approx(3.0)
    assert value(S, "vu", descriptor="curvature") == pytest.approx(0.25)


def test_curvature_of_the_five_cycle():
    edge_index = directed(nx.cycle_graph(5))
    inside = structural_coefficients(edge_index, 5, descriptor="curvature")
    np.testing.assert_allclose(inside, 0, atol=1e-15)
    for options in (
        {"descriptor": "curvature_graph"},
        {"descriptor": "curvature", "radius": 2},
    ):
        np.testing.assert_allclose(structural_coefficients(edge_index, 5, **options), 0.25)


@pytest.mark.parametrize("seed", range(5))
def test_curvature_in_the_ball_of_radius_two_is_that_of_the_graph(seed):
    edge_index = directed(nx.gnp_random_graph(40, 0.08, seed=seed))
    whole = structural_coefficients(edge_index, 40, descriptor="curvature_graph")
    inside = structural_coefficients(edge_index, 40, descriptor="curvature", radius=[1, 2])
    assert (inside[:, 1] == whole).all()
    assert (inside[:, 0] != whole).any()


@pytest.mark.parametrize("kind", SUBSTRUCTURES)
def test_curvature_inside_is_that_of_the_substructure_alone(kind):
    graph = nx.powerlaw_cluster_graph(40, 3, 0.5, seed=6)
    edge_index = directed(graph)
    inside = structural_coefficients(edge_index, 40, substructure=kind, descriptor="curvature")
    for column in range(0, edge_index.shape[1], 9):
        v, u = edge_index[:, column].tolist()
        S = substructure(graph, v, u, kind, 1)
        alone = value(S, (v, u), descriptor="curvature_graph")
        assert inside[column] == pytest.approx(alone, rel=1e-15)


@pytest.mark.parametrize("alpha", [0, 0.1, 1 / 3, 0.5, 0.75, 0.999, 1, math.sqrt(0.5)])
def test_curvature_for_any_alpha(alpha):
    graph = nx.powerlaw_cluster_graph(30, 3, 0.5, seed=6)
    edge_index = directed(graph)
    options = {"alpha": alpha, "threads": 1}
    whole = structural_coefficients(edge_index, 30, descriptor="curvature_graph", **options)
    inside = structural_coefficients(edge_index, 30, descriptor="curvature", radius=2, **options)
    np.testing.assert_allclose(inside, whole, rtol=1e-9, atol=1e-9)
    for column in range(0, edge_index.shape[1], 29):
        right = curvature(graph, *edge_index[:, column].tolist(), alpha)
        assert whole[column] == pytest.approx(right, rel=1e-9, abs=1e-9)


def test_which_alphas_are_simple_fractions():
    assert as_ratio(0.5) == (1, 2)
    assert as_ratio(0.1) == (1, 10)
    assert as_ratio(1 / 3) == (1, 3)
    assert as_ratio(1.0) == (1, 1)
    assert as_ratio(math.sqrt(0.5)) is None
    assert as_ratio(1 / 1001) is None


@pytest.mark.parametrize("seed", range(60))
def test_transport_is_exact(seed):
    rng = np.random.default_rng(seed)
    m, n = rng.integers(1, 9, size=2)
    cost = rng.integers(0, 4, (m, n)).astype(np.int8)
    supply = rng.integers(0, 30, m)
    demand = rng.multinomial(supply.sum(), np.full(n, 1 / n))
    masses = np.concatenate([supply, demand])
    right = linprog(cost.ravel(), A_eq=equations(m, n), b_eq=masses, method="highs").fun
    got = transport(supply.astype(np.int64), demand.astype(np.int64), cost)
    assert isinstance(got, int)
    assert got == pytest.approx(right, abs=1e-6)


def test_curvature_at_hubs():
    # Masses are multiples of 1 / lcm(101, 80), times 1 / 1000 for the second alpha.
    graph = nx.star_graph(101)
    graph.add_edges_from([(1, 102 + i) for i in range(79)])
    graph.add_edges_from([(2 + i, 102 + i) for i in range(50)])
    for alpha in (0.5, 0.123):
        got = value(graph, (0, 1), descriptor="curvature_graph", alpha=alpha)
        assert got == pytest.approx(curvature(graph, 0, 1, alpha), rel=1e-9)


def test_the_laplacian_sum_is_its_trace():
    edge_index = directed(nx.gnp_random_graph(30, 0.2, seed=1))
    values = structural_coefficients(
        edge_index, 30, descriptor="laplacian", radius=[1, 2], quantities=["a", "edges"]
    )
    assert (values[:, [0, 2]] == 2 * values[:, [1, 3]]).all()


def test_the_exponent_of_the_count():
    graph = nx.gnp_random_graph(12, 0.4, seed=4)
    edge_index = directed(graph)
    for exponent in (1, 0, -1.5, 2):
        values = structural_coefficients(
            edge_index,
            12,
            descriptor="node_edge_count",
            exponent=exponent,
            quantities=["a", "nodes", "edges"],
        )
        _, n, m = values.T
        np.testing.assert_allclose(values[:, 0], m / (n * (n - 1)) * n**exponent)


def test_overlap_of_a_bare_edge_is_the_edge():
    values = structural_coefficients(
        directed(nx.path_graph(4)), 4, substructure="overlap", quantities=["a", "nodes", "edges"]
    )
    np.testing.assert_allclose(values, np.tile([2, 2, 1], (6, 1)))


@pytest.mark.parametrize("choice", MATRIX_CHOICES, ids=str)
def test_both_sides_of_the_solver_limit(choice):
    # Every node of a wheel's rim is a class of its own.
    for size in (62, 64, 65, 66, 67):
        graph = nx.wheel_graph(size)
        S = substructure(graph, 0, 1, "union", 1)
        got = value(graph, (0, 1), descriptor=choice[0], encoding=choice[1], radius=[1, 2])
        right = local_value(S, 0, 1, *choice)
        np.testing.assert_allclose(got, [right, right], rtol=1e-9)


def test_an_exponent_that_overflows_says_so():
    edge_index = directed(nx.complete_graph(12))
    with pytest.raises(RuntimeError, match=r"edge 0 - 1 is not finite: .* exponent is too large"):
        structural_coefficients(edge_index, 12, descriptor="node_edge_count", exponent=1000)


def test_a_disjoint_union_of_dense_graphs_is_planned_by_its_components():
    """Walks overestimate balls: many dense graphs once asked for billions of chunks."""
    dense = directed(nx.complete_graph(12))
    copies = [dense + 12 * i for i in range(400)]
    values = structural_coefficients(
        np.concatenate(copies, axis=1), 12 * len(copies), radius=3, quantities=["nodes"]
    )
    assert (values == 12).all()
