from __future__ import annotations

from collections import Counter
from functools import cache

import networkx as nx
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom
from sklearn.ensemble import RandomForestClassifier

from unionsnn.data.arrays import GraphArrays
from unionsnn.data.sources.cycles import (
    MEAN_EDGES,
    NUM_NODES,
    SPLIT_SIZES,
    VARIANTS,
    Cycles,
    generate_cycles,
)
from unionsnn.data.splits import Split, check_split

KINDS = [(length, variant) for length in NUM_NODES for variant in VARIANTS]


@cache
def generated(length: int, variant: str) -> GraphArrays:
    return generate_cycles(length, variant=variant, num_graphs=2000, seed=11)


def edges_of(graphs: GraphArrays, i: int) -> NDArray[np.int64]:
    return graphs.edge_index[:, graphs.edge_slices[i] : graphs.edge_slices[i + 1]]


def as_networkx(graphs: GraphArrays, i: int) -> nx.Graph:
    graph = nx.Graph()
    graph.add_nodes_from(range(graphs.node_slices[i + 1] - graphs.node_slices[i]))
    graph.add_edges_from(edges_of(graphs, i).T.tolist())
    return graph


def degree_features(graph: nx.Graph) -> NDArray[np.float64]:
    """Count nodes by degree and edges by the degrees of their ends: the first rounds of 1-WL."""
    limit = 8
    degree = {node: min(d, limit) for node, d in graph.degree()}
    nodes = np.bincount(list(degree.values()), minlength=limit + 1)
    edges = np.zeros((limit + 1, limit + 1))
    for u, v in graph.edges():
        edges[min(degree[u], degree[v]), max(degree[u], degree[v])] += 1
    return np.concatenate([nodes, edges[np.triu_indices(limit + 1)]])


@pytest.mark.parametrize(("length", "variant"), KINDS)
def test_labels_agree_with_an_independent_search_for_cycles(length: int, variant: str) -> None:
    graphs = generated(length, variant)
    for i in range(60):
        cycles = nx.simple_cycles(as_networkx(graphs, i), length_bound=length)
        assert any(len(cycle) == length for cycle in cycles) == bool(graphs.y[i])


@pytest.mark.parametrize(("length", "variant"), KINDS)
def test_graphs_are_valid_simple_sorted_and_given_in_both_directions(
    length: int, variant: str
) -> None:
    graphs = generated(length, variant)
    graphs.validate()
    for i in range(graphs.num_graphs):
        row, column = edges_of(graphs, i)
        codes = row * NUM_NODES[length] + column
        assert (np.diff(codes) > 0).all()
        assert (row != column).all()
        np.testing.assert_array_equal(np.sort(column * NUM_NODES[length] + row), codes)


@pytest.mark.parametrize(("length", "variant"), KINDS)
def test_sizes_and_balance_are_those_of_the_paper(length: int, variant: str) -> None:
    graphs = generated(length, variant)
    np.testing.assert_array_equal(np.diff(graphs.node_slices), NUM_NODES[length])
    np.testing.assert_array_equal(graphs.y.reshape(-1, 2).sum(axis=1), 1)
    edges = np.diff(graphs.edge_slices) / 2
    independent = 1000 if variant == "matched" else 2000
    assert abs(edges.mean() - MEAN_EDGES[length]) < 4 * edges.std() / np.sqrt(independent)
    assert len(np.unique(edges)) > 10


@pytest.mark.parametrize("length", NUM_NODES)
def test_matched_pairs_agree_in_degrees_joint_degrees_and_triangles(length: int) -> None:
    graphs = generated(length, "matched")
    for i in range(0, 400, 2):
        first, second = as_networkx(graphs, i), as_networkx(graphs, i + 1)
        assert dict(first.degree()) == dict(second.degree())
        joint = [
            Counter(tuple(sorted((graph.degree[u], graph.degree[v]))) for u, v in graph.edges())
            for graph in (first, second)
        ]
        assert joint[0] == joint[1]
        triangles = [sum(nx.triangles(graph).values()) for graph in (first, second)]
        assert triangles[0] == triangles[1]
        assert set(first.edges()) != set(second.edges())


@pytest.mark.parametrize("length", NUM_NODES)
def test_matched_positives_have_few_cycles(length: int) -> None:
    graphs = generated(length, "matched")
    counts = [
        sum(
            len(cycle) == length
            for cycle in nx.simple_cycles(as_networkx(graphs, i), length_bound=length)
        )
        for i in np.flatnonzero(graphs.y)[:60]
    ]
    assert np.median(counts) <= 3


@pytest.mark.parametrize("length", NUM_NODES)
def test_degrees_tell_nothing_in_matched_and_much_in_plain(length: int) -> None:
    accuracies = {}
    for variant in VARIANTS:
        graphs = generated(length, variant)
        x = np.stack([degree_features(as_networkx(graphs, i)) for i in range(graphs.num_graphs)])
        forest = RandomForestClassifier(n_estimators=200, min_samples_leaf=5, random_state=0)
        forest.fit(x[:1000], graphs.y[:1000])
        accuracies[variant] = forest.score(x[1000:], graphs.y[1000:])
    # A chance classifier of 1000 graphs stays below this with probability 1 - 1e-6.
    bound = binom.ppf(1 - 1e-6, 1000, 0.5) / 1000
    print(f"\n{length}-cycles, forest on degrees and joint degrees: {accuracies}")
    assert 1 - bound < accuracies["matched"] < bound
    assert accuracies["plain"] > bound


@pytest.mark.parametrize(("length", "variant"), KINDS)
def test_a_smaller_set_is_the_beginning_of_a_larger_one(length: int, variant: str) -> None:
    large = generated(length, variant)
    small = generate_cycles(length, variant=variant, num_graphs=502, seed=11)
    np.testing.assert_array_equal(small.edge_slices, large.edge_slices[:503])
    np.testing.assert_array_equal(small.edge_index, large.edge_index[:, : small.num_edges])
    np.testing.assert_array_equal(small.y, large.y[:502])


def test_seed_length_and_variant_each_change_the_graphs_and_global_seeds_do_not() -> None:
    def make(seed: int, variant: str = "matched") -> str:
        return generate_cycles(4, variant=variant, num_graphs=4, seed=seed).content_hash()

    np.random.seed(1)  # noqa: NPY002 - the global state must not matter
    first = make(0)
    np.random.seed(2)  # noqa: NPY002
    assert first == make(0)
    assert len({first, make(1), make(2), make(0, "plain")}) == 4


@pytest.mark.parametrize(
    ("length", "variant", "start"),
    [
        (4, "matched", "93f457b5741ca4c8"),
        (4, "plain", "e82a6422d4ee5f75"),
        (6, "matched", "699e9ea7b9ac5523"),
        (6, "plain", "befe4e0627b8a591"),
    ],
)
def test_the_sets_stay_what_they_are(length: int, variant: str, start: str) -> None:
    graphs = generate_cycles(length, variant=variant, num_graphs=10, seed=0)
    assert graphs.content_hash().startswith(start)


def test_no_two_pairs_are_alike() -> None:
    graphs = generated(4, "matched")
    assert len({edges_of(graphs, i).tobytes() for i in range(graphs.num_graphs)}) == 2000


def test_progress_counts_up_to_all_graphs() -> None:
    seen: list[tuple[int, int]] = []
    generate_cycles(4, num_graphs=1002, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(500, 1002), (1000, 1002), (1002, 1002)]


def split_of(num_train: int, num_validation: int, num_test: int) -> Split:
    sizes = {"num_train": num_train, "num_validation": num_validation, "num_test": num_test}
    return Cycles(length=4, variant="matched", **sizes).split


def test_split_keeps_pairs_together_and_has_the_sizes_of_the_paper() -> None:
    split = split_of(*SPLIT_SIZES)
    check_split(split, sum(SPLIT_SIZES))
    assert tuple(len(part) for part in split.parts().values()) == SPLIT_SIZES
    odd = split_of(7, 3, 5)
    check_split(odd, 12)
    assert odd.train.tolist() == [0, 1, 2, 3, 4, 5]
    assert odd.validation.tolist() == [6, 7]
    assert odd.test.tolist() == [8, 9, 10, 11]


def test_split_without_a_pair_in_a_part_is_refused() -> None:
    with pytest.raises(ValueError, match="num_validation"):
        split_of(10, 1, 10)
