"""Relabelled copies of a pair: the same graphs, with everything computed anew."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch

from unionsnn.coefficients import CoefficientSpec
from unionsnn.data.encodings.definitions import ENCODINGS
from unionsnn.expressivity.graph_sets import Graph, golden_pairs
from unionsnn.expressivity.relabelled_copies import PairCopies

COPIES = 5
SPEC = CoefficientSpec.from_columns(["a_r1", "nodes_r2"])
PAIR = next(f.graphs for f in golden_pairs() if f.name.startswith("decalin"))
ENCODED = {"random_walk": 4, "laplacian": 2, "distance": 1}


def make(seed: int = 0, **arguments: object) -> PairCopies:
    return PairCopies(PAIR, COPIES, generator=np.random.default_rng(seed), **arguments)


def networkx_graph(graph: Graph) -> nx.Graph:
    edge_index, num_nodes = graph
    found = nx.empty_graph(num_nodes)
    found.add_edges_from(edge_index.T.tolist())
    return found


def test_copies_are_the_graphs_in_another_order() -> None:
    copies = make()
    first, second = (networkx_graph(graph) for graph in PAIR)
    found = [networkx_graph((d.edge_index.numpy(), d.num_nodes)) for d in copies.dataset]
    assert len(found) == 4 * COPIES
    for numbers, graph in zip(copies.test, (first, second), strict=True):
        assert all(nx.is_isomorphic(found[i], graph) for i in numbers)
    checked = [found[i] for numbers in copies.check for i in numbers]
    assert len(checked) == 2 * COPIES
    assert any(all(nx.is_isomorphic(g, graph) for g in checked) for graph in (first, second))
    numbers = torch.cat([*copies.test, *copies.check])
    assert sorted(numbers.tolist()) == list(range(4 * COPIES))
    edges = {tuple(d.edge_index.flatten().tolist()) for d in copies.dataset}
    assert len(edges) == 4 * COPIES


def test_either_graph_is_checked() -> None:
    girths = set()
    for seed in range(10):
        copies = make(seed)
        d = copies.dataset[int(copies.check[0][0])]
        girths.add(nx.girth(networkx_graph((d.edge_index.numpy(), d.num_nodes))))
    assert girths == {5, 6}


def test_coefficients_are_those_of_each_copy() -> None:
    copies = make(spec=SPEC, layer_spec=CoefficientSpec.from_columns(["a_r1"]))
    for d in copies.dataset:
        expected = SPEC.compute(d.edge_index.numpy(), d.num_nodes)
        torch.testing.assert_close(d.edge_coefficient, torch.from_numpy(expected))
        torch.testing.assert_close(d.layer_coefficient, d.edge_coefficient[:, :1])
    assert len(copies.test_rows()) == sum(copies.dataset[i].num_edges for i in range(2 * COPIES))


def test_numbers_are_double_and_encodings_there() -> None:
    copies = make(spec=SPEC, encodings=ENCODED)
    # Subgraphs are attributes of their own kind.
    assert {*ENCODED, "subgraph"} == set(ENCODINGS)
    d = copies.dataset[0]
    assert d.random_walk.shape == (d.num_nodes, 4)
    assert d.laplacian.shape == (d.num_nodes, 2)
    assert d.distance.shape == (d.num_nodes**2,)
    for name in ("x", "edge_coefficient", "random_walk", "laplacian"):
        assert d[name].dtype == torch.float64


def test_controls() -> None:
    constant = make(spec=SPEC, control="constant").dataset._data.edge_coefficient
    assert (constant == constant[0]).all()
    real = make(spec=SPEC)
    torch.testing.assert_close(constant[0], real.test_rows().mean(dim=0))
    shuffled = make(spec=SPEC, control="shuffled")
    assert not torch.equal(shuffled.test_rows(), real.test_rows())
    for column, expected in zip(shuffled.test_rows().T, real.test_rows().T, strict=True):
        torch.testing.assert_close(column.sort().values, expected.sort().values)
    with pytest.raises(ValueError, match="control is 'none at all'"):
        make(spec=SPEC, control="none at all")


def test_a_seed_draws_the_same_copies() -> None:
    one, other, different = (make(seed).dataset._data.edge_index for seed in (3, 3, 4))
    assert torch.equal(one, other)
    assert not torch.equal(one, different)
