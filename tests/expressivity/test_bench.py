"""The bench: choices, controls and verdicts that are known."""

import networkx as nx
import numpy as np
import pytest

from structure_reference import directed
from unionsnn.base.errors import RequestError
from unionsnn.expressivity.bench import Bench
from unionsnn.expressivity.edge_colorings import DEFAULT, EdgeColoring, all_colorings
from unionsnn.expressivity.graph_sets import Family, circular_skip_links


def family(name, *graphs):
    return Family(name, name, tuple((directed(g), len(g)) for g in graphs))


def squares():
    bridged = nx.disjoint_union(nx.cycle_graph(4), nx.cycle_graph(4))
    bridged.add_edge(0, 4)
    chord = nx.cycle_graph(8)
    chord.add_edge(0, 4)
    return family("squares", bridged, chord)


def told(choice, *families):
    return Bench(families, threads=1).run(EdgeColoring.parse(choice)).told.tolist()


def test_the_pair_of_squares_is_seen_by_union_alone():
    for choice, expected in (("1wl", False), ("overlap", False), ("union_minus", False)):
        assert told(choice, squares()) == [expected]
    for choice in (
        "a",
        "a~",
        "excess",
        "cyclomatic",
        "spectrum",
        "rooted",
        "betweenness",
        "marked",
        "cycles",
    ):
        assert told(choice, squares()) == [True], choice


@pytest.mark.parametrize(
    ("choice", "classes"),
    [("1wl", 1), ("a", 3), ("marked", 3), ("cycle_count", 6), ("distances@3", 10), ("cycles", 10)],
)
def test_how_many_of_the_ten_classes_of_csl_are_told_apart(choice, classes):
    outcome = Bench(circular_skip_links(), threads=1).run(EdgeColoring.parse(choice))
    assert outcome.classes.tolist() == [classes]
    assert not outcome.at_fault.any()
    assert not outcome.unstable.any()


def test_a_regular_edge_transitive_pair_is_beyond_the_normalised_coefficient():
    pair = family("C6", nx.cycle_graph(6), nx.disjoint_union(*[nx.cycle_graph(3)] * 2))
    assert told("a", pair) == [True]
    assert told("a~", pair) == [False]


def test_a_family_counts_classes():
    graphs = [nx.path_graph(4), nx.star_graph(3), nx.path_graph(4)]
    outcome = Bench([family("three", *graphs)], threads=1).run(EdgeColoring.parse("a"))
    assert outcome.classes.tolist() == [2]
    assert outcome.told.tolist() == [False]


def test_whole_says_where_the_substructure_is_the_graph():
    families = [family("K4", nx.complete_graph(4)), family("P6", nx.path_graph(6)), squares()]
    bench = Bench(families, threads=1)
    assert bench.run(EdgeColoring.parse("a")).whole.tolist() == [True, False, False]
    assert bench.run(EdgeColoring.parse("rooted@8")).whole.tolist() == [True, True, True]
    assert bench.run(EdgeColoring.parse("1wl")).whole is None
    assert bench.run(EdgeColoring.parse("cycle_count")).whole is None


def test_a_choice_that_depends_on_the_names_of_nodes_is_at_fault(monkeypatch):
    """The control can fail: a number made of node names tells a graph from its own copy."""

    def by_name(self, choice, progress=None):
        return self.union.edge_index.sum(axis=0)[:, None] * 1.5

    monkeypatch.setattr(Bench, "values", by_name)
    outcome = Bench([squares()], threads=1).run(EdgeColoring.parse("a"))
    assert outcome.at_fault.tolist() == [True]
    assert outcome.told.tolist() == [False]


def test_a_verdict_that_hangs_on_the_tolerance_is_unstable(monkeypatch):
    """Numbers that differ by 10 tolerances are equal with a tolerance 100 times larger."""

    def nearly_equal(self, choice, progress=None):
        second = self.union.graph_of_edge >= 2
        return (1.25 + 2e-10 * second)[:, None]

    monkeypatch.setattr(Bench, "values", nearly_equal)
    outcome = Bench([squares()], threads=1).run(EdgeColoring.parse("a"))
    assert outcome.told.tolist() == [True]
    assert outcome.unstable.tolist() == [True]


def test_normalised_values_sum_to_one_around_each_receiver():
    bench = Bench([squares()], threads=1)
    values = bench.values(EdgeColoring.parse("a~@2"))[:, 0]
    np.testing.assert_allclose(np.bincount(bench.union.edge_index[1], values), 1.0)


def test_several_radii_are_several_columns():
    bench = Bench([squares()], threads=1)
    both = bench.values(EdgeColoring.parse("a@1+2"))
    parts = [bench.values(EdgeColoring.parse(name)) for name in ("a", "a@2")]
    np.testing.assert_array_equal(both, np.concatenate(parts, axis=1))


def test_every_colouring_runs_and_faults_no_copy():
    random = [nx.gnp_random_graph(9, 0.4, seed=seed) for seed in (0, 1)]
    bench = Bench([squares(), family("random", *random)], threads=1)
    for choice in all_colorings(radii=(1, 2)):
        assert not bench.run(choice).at_fault.any(), choice.name


def test_names_are_read_back():
    names = [choice.name for choice in all_colorings()]
    assert len(set(names)) == len(names)
    assert all(EdgeColoring.parse(name).name == name for name in DEFAULT)


@pytest.mark.parametrize(
    ("text", "code", "parts"),
    [
        ("b", "expressivity.choice", ["'b'", "1wl"]),
        ("spectrm", "expressivity.choice", ["Did you mean 'spectrum'"]),
        ("a@x", "expressivity.radius", ["'x'", "@1+2"]),
        ("a@0", "expressivity.choice", ["radius"]),
        ("excess@2", "expressivity.radius", ["radius 1"]),
        ("union/laplacian/entry_sum", "expressivity.choice", []),
        ("cycle_count@2", "expressivity.choice", []),
        ("cycles@2", "expressivity.choice", ["whole graph", "radius [2]"]),
        ("union/path", "expressivity.choice", ["allowed"]),
    ],
)
def test_a_name_of_no_colouring_says_what_is_allowed(text, code, parts):
    with pytest.raises(RequestError) as error:
        EdgeColoring.parse(text)
    assert error.value.codes == [code]
    for part in parts:
        assert part in str(error.value)
