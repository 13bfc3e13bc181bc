"""Quantities of several columns: of the path matrix with marked ends, and cycles by length."""

import itertools
import math

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from space_reference import COLUMNS_IN_GRAPH, COLUMNS_INSIDE, SUBSTRUCTURES, substructure
from structure_reference import directed, disjoint_union, random_graph, simple_graph
from unionsnn.base.errors import RequestError
from unionsnn.coefficients import CoefficientSpec, passes, space, structural_coefficients
from unionsnn.coefficients.spec import columns_of

RADII = (1, 2, 3, 4)
INSIDE = tuple(COLUMNS_INSIDE)
ALL = (*INSIDE, *COLUMNS_IN_GRAPH)

seeds = st.integers(0, 2**32 - 1).map(np.random.default_rng)
few = settings(max_examples=30, deadline=None)


def columns(edge_index, num_nodes, **options):
    options = {"radius": RADII, "quantities": ALL, "threads": 1, **options}
    return structural_coefficients(edge_index, num_nodes, **options)


def assert_parity(edge_index, num_nodes, kind, rng, *, edges=2):
    """Compare the columns of a few substructures with the slow references."""
    graph = simple_graph(edge_index, num_nodes)
    proper = np.flatnonzero(edge_index[0] != edge_index[1])
    values = columns(edge_index, num_nodes, substructure=kind, quantities=INSIDE)
    for i in rng.choice(proper, min(edges, len(proper)), replace=False):
        v, u = edge_index[:, i].tolist()
        right = []
        for radius in RADII:
            S = substructure(graph, v, u, kind, radius)
            right += [
                number for make in COLUMNS_INSIDE.values() for number in make(S, v, u, radius)
            ]
        np.testing.assert_allclose(values[i], right, rtol=1e-9, atol=1e-9)


def test_every_quantity_has_a_reference():
    assert tuple(q for q in space.QUANTITIES if q not in space.BASIC_QUANTITIES) == ALL


@pytest.mark.parametrize("kind", SUBSTRUCTURES)
def test_parity_on_random_graphs(kind):
    rng = np.random.default_rng(11)
    for _ in range(25):
        assert_parity(*random_graph(rng), kind, rng)


def test_cycles_on_random_graphs():
    rng = np.random.default_rng(12)
    for _ in range(40):
        edge_index, n = random_graph(rng)
        graph = simple_graph(edge_index, n)
        if graph.number_of_edges() < 25:
            counts = columns(edge_index, n, radius=1, quantities="cycles")
            for (v, u), row in zip(edge_index.T.tolist(), counts, strict=True):
                right = COLUMNS_IN_GRAPH["cycles"](graph, v, u) if v != u else np.zeros(6)
                assert row.tolist() == right.tolist()


@pytest.mark.parametrize("kind", SUBSTRUCTURES)
@pytest.mark.parametrize(
    "graph",
    [
        nx.star_graph(80),
        nx.complete_bipartite_graph(31, 36),
        nx.wheel_graph(68),
        nx.complete_graph(66),
        nx.grid_2d_graph(9, 9),
        nx.powerlaw_cluster_graph(90, 4, 0.7, seed=5),
    ],
    ids=str,
)
def test_twins_of_large_subgraphs_keep_their_eigenvalues(graph, kind):
    rng = np.random.default_rng(2)
    assert_parity(directed(graph), len(graph), kind, rng, edges=1)


@few
@given(seeds, st.sampled_from(SUBSTRUCTURES))
def test_relabelling_the_nodes_changes_nothing(rng, kind):
    edge_index, n = random_graph(rng)
    values = columns(rng.permutation(n)[edge_index], n, substructure=kind)
    right = columns(edge_index, n, substructure=kind)
    np.testing.assert_allclose(values, right, rtol=1e-12, atol=1e-12)
    assert (values[:, -6:] == right[:, -6:]).all()


@few
@given(seeds)
def test_both_directions_and_all_threads_give_the_same_bits(rng):
    edge_index, n = random_graph(rng)
    right = columns(edge_index, n)
    assert (columns(edge_index[::-1], n) == right).all()
    assert (columns(edge_index, n, threads=2, block_size=3) == right).all()


@few
@given(seeds)
def test_a_disjoint_union_is_its_parts(rng):
    first, second = random_graph(rng), random_graph(rng)
    joined = columns(*disjoint_union([first, second]))
    assert (joined == np.concatenate([columns(*first), columns(*second)])).all()


def test_a_column_has_the_same_bits_alone_and_among_others():
    edge_index = directed(nx.powerlaw_cluster_graph(40, 3, 0.6, seed=3))
    spec = CoefficientSpec(radius=(1, 2, 3), quantities=("a", "a_tree", "nodes", "edges", *ALL))
    together = spec.compute(edge_index, 40, threads=1)
    assert spec.columns[3:5] == ("edges_r1", "eigenvalues1_r1")
    assert spec.columns[-6:] == tuple(f"cycles{length}" for length in range(3, 9))
    for radius, quantity in itertools.product((1, 2, 3), space.QUANTITIES):
        if quantity == "a_tree" and radius > 1:
            continue
        at = () if space.QUANTITIES[quantity].of_whole_graph else (radius,)
        alone = CoefficientSpec(radius=at or 1, quantities=quantity)
        places = [spec.columns.index(name) for name in alone.columns]
        assert (alone.compute(edge_index, 40, threads=1) == together[:, places]).all(), quantity


def test_the_distances_reach_as_far_as_the_radius():
    names = CoefficientSpec(radius=(1, 4), quantities="distances").columns
    assert names == (
        *(f"distances{i}_r1" for i in (1, 2, 3)),
        *(f"distances{i}_r4" for i in range(1, 8)),
    )
    # A path of 10 nodes around its middle edge: the last column collects what is longer.
    path = columns(directed(nx.path_graph(10)), 10, radius=4, quantities="distances")
    assert path[8].tolist() == [9, 8, 7, 6, 5, 4, 3 + 2 + 1]
    values = structural_coefficients(
        directed(nx.path_graph(10)), 10, radius=3, quantities=["distances"], threads=1
    )
    total = structural_coefficients(
        directed(nx.path_graph(10)), 10, radius=3, encoding="entry_sum", threads=1
    )
    np.testing.assert_allclose(2 * values @ np.arange(1, 8), total)


def test_cycles_in_closed_form():
    """Of length l through an edge: (n - 2)! / (n - l)! in K_n."""
    n = 12
    counts = columns(directed(nx.complete_graph(n)), n, radius=1, quantities="cycles")
    assert (counts == [math.perm(n - 2, inner) for inner in range(1, 7)]).all()
    p, q = 7, 9
    counts = columns(
        directed(nx.complete_bipartite_graph(p, q)), p + q, radius=1, quantities="cycles"
    )
    fours = (p - 1) * (q - 1)
    sixes = fours * (p - 2) * (q - 2)
    assert (counts == [0, fours, 0, sixes, 0, sixes * (p - 3) * (q - 3)]).all()
    edge_index = directed(nx.powerlaw_cluster_graph(120, 3, 0.3, seed=1))
    counts = columns(edge_index, 120, radius=1, quantities="cycles")
    sums = structural_coefficients(edge_index, 400, descriptor="cycle_count")
    assert (counts[:, :4].sum(axis=1) == sums).all()


def test_cycles_where_balls_are_too_large_for_distances():
    edge_index = directed(nx.random_regular_graph(4, 400, seed=4))
    v, u = edge_index[:, 0].tolist()
    counts = columns(edge_index, 400, radius=1, quantities="cycles")
    assert (
        counts[0].tolist()
        == COLUMNS_IN_GRAPH["cycles"](simple_graph(edge_index, 400), v, u).tolist()
    )


def test_hours_of_counting_are_refused_before_they_begin(monkeypatch):
    graph = directed(nx.complete_graph(300))
    for quantities in ("cycles", ("a", "cycles")):
        with pytest.raises(RequestError) as raised:
            structural_coefficients(graph, 300, quantities=quantities)
        assert raised.value.codes == ["coefficient.work"]
    for part in ("'cycles'", "300 nodes", "44,850 edges", "hours", "Leave 'cycles' out"):
        assert part in str(raised.value)
    # Trees have no cycles, whatever their hubs.
    tree = nx.balanced_tree(60, 2)
    assert not columns(directed(tree), len(tree), radius=1, quantities="cycles").any()
    monkeypatch.setattr(passes, "_MOST_WORK", 0.0)
    with pytest.raises(RequestError, match="of a graph of 3 nodes and 3 edges"):
        columns(directed(nx.cycle_graph(3)), 3)


@pytest.mark.parametrize(
    ("choices", "code", "named"),
    [
        ({"quantities": "cycles", "radius": 2}, "whole_graph", ("cycles", "radius [2]")),
        (
            {"quantities": "cycles", "substructure": "overlap"},
            "whole_graph",
            ("cycles", "substructure overlap"),
        ),
        ({"quantities": "cycle"}, "unknown", ("'cycles'?",)),
    ],
)
def test_what_does_not_apply_is_refused(choices, code, named):
    with pytest.raises(RequestError) as raised:
        CoefficientSpec(**choices)
    assert raised.value.codes == [f"coefficient.{code}"]
    assert all(part in str(raised.value) for part in named)


def test_columns_by_name():
    spec = CoefficientSpec.from_columns(["cycles5", "marked2_r2", "a_r1"])
    assert spec.radius == (1, 2)
    assert spec.quantities == ("a", "marked", "cycles")
    assert CoefficientSpec.from_columns(["cycles3"]).columns == columns_of(["cycles"], ())
    assert CoefficientSpec.from_dict(spec.to_dict()) == spec
    for name in ("cycles3_r1", "cycles9", "marked1", "distances4_r1"):
        with pytest.raises(RequestError):
            CoefficientSpec.from_columns([name])


def test_progress_counts_every_pass():
    seen = []
    columns(directed(nx.cycle_graph(40)), 40, progress=lambda *args: seen.append(args))
    done, totals = zip(*seen, strict=True)
    assert list(done) == sorted(done)
    assert done[-1] == totals[0]
    assert len(set(totals)) == 1
