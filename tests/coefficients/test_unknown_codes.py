"""A choice without a kernel fails by name: no kernel takes it for another choice."""

import numpy as np
import pytest

from unionsnn.coefficients import SimpleGraph, space
from unionsnn.coefficients.engine import compute_values
from unionsnn.coefficients.kernels.any_radius import Choice, compute_chunk
from unionsnn.coefficients.kernels.arguments import Numbers, new_workspace
from unionsnn.coefficients.kernels.routes import DIRECT
from unionsnn.coefficients.passes import AnyRadius

# Node 0 has so many neighbours that its edges leave the bit rows: the lists are built at radius 1.
WHEEL = np.array([[0] * 70 + list(range(1, 70)), list(range(1, 71)) + list(range(2, 71))])
SQUARE = np.array([[0, 1, 2, 3, 0], [1, 2, 3, 0, 2]])
UNKNOWN = 99
SUBSTRUCTURE = "no kernel builds this substructure"


def graph_of(edges):
    return SimpleGraph.from_edge_index(edges, int(edges.max()) + 1, symmetrize=True)


@pytest.mark.parametrize("radius", [1, 2])
@pytest.mark.parametrize("edges", [SQUARE, WHEEL])
@pytest.mark.parametrize("wanted", [(0, -1, -1), (-1, 0, -1)])
def test_a_code_without_a_kernel(edges, radius, wanted):
    graph = graph_of(edges)
    num_edges = graph.num_undirected_edges
    work, routes = new_workspace(graph.num_nodes, num_edges), np.full(num_edges, DIRECT, np.int32)
    choice, values = Choice(UNKNOWN, True, Numbers(2.0, 0.5, 1, 2)), np.empty((num_edges, 1))
    arguments = graph.csr, 0, 1, routes, choice, np.array([radius]), work, np.array(wanted)
    with pytest.raises(NotImplementedError, match=SUBSTRUCTURE):
        compute_chunk(*arguments, values)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_failure_of_a_kernel_is_that_of_the_run(monkeypatch, threads):
    rows = {**space.SUBSTRUCTURES, "new": space.Substructure(UNKNOWN, "", "", "")}
    monkeypatch.setattr(space, "SUBSTRUCTURES", rows)
    edge_pass = AnyRadius(graph_of(WHEEL), "new", "path", "entry_sum", (1,), ("a",))
    with pytest.raises(NotImplementedError, match=SUBSTRUCTURE):
        compute_values(edge_pass, threads=threads, block_size=9)


def test_each_row_has_a_kernel_of_its_own():
    pairs = [(d, e) for d in space.DESCRIPTORS for e in space.encodings_of(d)]
    functions = [space.kernel_of(*pair).function for pair in pairs]
    assert len(set(functions)) == len(pairs)
    # Machine code on disk is found by the name.
    assert len({function.__name__ for function in functions}) == len(pairs)
    codes = [row.code for row in space.SUBSTRUCTURES.values()]
    assert len(set(codes)) == len(codes)


def test_matrices_have_an_encoding_and_encodings_a_matrix():
    assert all(space.encodings_of(name) for name in space.DESCRIPTORS)
    assert all(row.kernels for row in space.ENCODINGS.values())
    assert {name for row in space.ENCODINGS.values() for name in row.kernels} == set(
        space.matrices()
    )
