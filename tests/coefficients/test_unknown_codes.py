"""A choice without a kernel fails by name: no kernel takes it for another choice."""

import numpy as np
import pytest

from unionsnn.coefficients import SimpleGraph, space
from unionsnn.coefficients.general import compute_general
from unionsnn.coefficients.kernels import any_radius, neighborhoods, quotients
from unionsnn.coefficients.kernels.any_radius import (
    Choice,
    compute_chunk,
    compute_whole_graph_chunk,
)

# Node 0 has so many neighbours that its edges leave the bit rows: the lists are built at radius 1.
WHEEL = np.array([[0] * 70 + list(range(1, 70)), list(range(1, 71)) + list(range(2, 71))])
SQUARE = np.array([[0, 1, 2, 3, 0], [1, 2, 3, 0, 2]])
UNKNOWN = 99
DESCRIPTOR = "no kernel computes this descriptor"
ENCODING = "no kernel computes this encoding"
SUBSTRUCTURE = "no kernel builds this substructure"


def graph_of(edges):
    return SimpleGraph.from_edge_index(edges, int(edges.max()) + 1, symmetrize=True)


def run(graph, substructure, descriptor, encoding, radius=1, wanted=(0, -1, -1)):
    choice = Choice(substructure, descriptor, encoding, 2.0, 1, 2)
    work = any_radius.new_workspace(graph.num_nodes, graph.num_undirected_edges)
    values = np.empty((graph.num_undirected_edges, 1))
    arrays = graph.indptr, graph.indices, graph.edges, 0, 1, choice
    compute_chunk(*arrays, np.array([radius]), work, np.array(wanted), values)


@pytest.mark.parametrize("radius", [1, 2])
@pytest.mark.parametrize("edges", [SQUARE, WHEEL])
@pytest.mark.parametrize(
    ("codes", "message"),
    [
        ((UNKNOWN, quotients.PATH, quotients.SINGULAR_VALUE_SUM), SUBSTRUCTURE),
        ((neighborhoods.UNION, UNKNOWN, quotients.SINGULAR_VALUE_SUM), DESCRIPTOR),
        ((neighborhoods.UNION, any_radius.CURVATURE_GRAPH, -1), DESCRIPTOR),
        ((neighborhoods.UNION, quotients.PATH, UNKNOWN), ENCODING),
        ((neighborhoods.UNION, quotients.PATH, -1), ENCODING),
        ((neighborhoods.UNION, quotients.LAPLACIAN, UNKNOWN), ENCODING),
        ((neighborhoods.UNION, quotients.LAPLACIAN, quotients.ENTRY_SUM), ENCODING),
    ],
)
def test_a_code_without_a_kernel(edges, radius, codes, message):
    with pytest.raises(NotImplementedError, match=message):
        run(graph_of(edges), *codes, radius)


def test_an_unknown_substructure_has_no_size_either():
    with pytest.raises(NotImplementedError, match=SUBSTRUCTURE):
        run(graph_of(SQUARE), UNKNOWN, quotients.PATH, quotients.ENTRY_SUM, wanted=(-1, 0, -1))


def test_a_matrix_without_a_kernel():
    one = np.ones(1, np.int64)
    with pytest.raises(NotImplementedError, match="no kernel fills the matrix"):
        quotients.matrix_value(
            UNKNOWN, quotients.ENTRY_SUM, one.reshape(1, 1), one, one, 1, np.empty((66, 64))
        )


@pytest.mark.parametrize("descriptor", [UNKNOWN, quotients.PATH])
def test_a_descriptor_that_is_not_of_the_whole_graph(descriptor):
    graph = graph_of(SQUARE)
    work = any_radius.new_workspace(graph.num_nodes, graph.num_undirected_edges)
    choice = Choice(neighborhoods.UNION, descriptor, -1, 2.0, 1, 2)
    arrays = graph.indptr, graph.indices, graph.edges, 0, 1, choice
    with pytest.raises(NotImplementedError, match=DESCRIPTOR):
        compute_whole_graph_chunk(*arrays, work, np.empty(graph.num_undirected_edges))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("table", "choices", "message"),
    [
        ("SUBSTRUCTURES", ("new", "path", "entry_sum"), SUBSTRUCTURE),
        ("DESCRIPTORS", ("union", "new", "entry_sum"), DESCRIPTOR),
        ("ENCODINGS", ("union", "path", "new"), ENCODING),
    ],
)
def test_a_name_that_only_the_space_of_choices_knows(monkeypatch, table, choices, message, threads):
    monkeypatch.setattr(space, table, (*getattr(space, table), "new"))
    with pytest.raises(NotImplementedError, match=message):
        compute_general(graph_of(WHEEL), *choices, (1,), ("a",), threads=threads, block_size=9)


def test_codes_are_positions_in_the_space_of_choices():
    substructures = neighborhoods.UNION, neighborhoods.OVERLAP, neighborhoods.UNION_MINUS
    assert [space.SUBSTRUCTURES[c] for c in substructures] == ["union", "overlap", "union_minus"]
    matrices = quotients.PATH, quotients.LAPLACIAN
    assert [space.DESCRIPTORS[code] for code in matrices] == ["path", "laplacian"]
    encodings = quotients.SINGULAR_VALUE_SUM, quotients.ENTRY_SUM, quotients.LARGEST_EIGENVALUE
    assert [space.ENCODINGS[code] for code in encodings] == [
        "singular_value_sum",
        "entry_sum",
        "largest_eigenvalue",
    ]
    whole = any_radius.CURVATURE_GRAPH, any_radius._CYCLE_COUNT
    assert [space.DESCRIPTORS[code] for code in whole] == ["curvature_graph", "cycle_count"]
    local = any_radius._EDGE_BETWEENNESS, any_radius._NODE_EDGE_COUNT, any_radius._CURVATURE
    assert [space.DESCRIPTORS[code] for code in local] == [
        "edge_betweenness",
        "node_edge_count",
        "curvature",
    ]
