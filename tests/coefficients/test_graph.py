"""The input rules."""

import sys

import numpy as np
import pytest

from unionsnn.base.errors import RequestError
from unionsnn.coefficients import SimpleGraph, structural_coefficients

BOTH_WAYS = np.array([[0, 1, 1, 2], [1, 0, 2, 1]])


def test_rows_are_sorted_and_edges_ascend():
    edge_index = np.array([[3, 0, 2, 0, 1, 0], [0, 3, 0, 2, 0, 1]])
    graph = SimpleGraph.from_edge_index(edge_index, 5)
    assert graph.indptr.tolist() == [0, 3, 4, 5, 6, 6]
    assert graph.indices.tolist() == [1, 2, 3, 0, 0, 0]
    assert graph.edges.tolist() == [[0, 0, 0], [1, 2, 3]]
    assert graph.edge_to_undirected.tolist() == [2, 2, 1, 1, 0, 0]


def test_loops_are_dropped_and_duplicates_count_once():
    edge_index = np.array([[2, 0, 1, 0, 1, 1], [2, 1, 0, 1, 1, 0]])
    graph = SimpleGraph.from_edge_index(edge_index, 3)
    assert graph.edges.tolist() == [[0], [1]]
    assert graph.edge_to_undirected.tolist() == [-1, 0, 0, 0, -1, 0]


def test_symmetrize_adds_the_missing_direction():
    graph = SimpleGraph.from_edge_index([[2, 0, 0], [1, 1, 0]], 3, symmetrize=True)
    assert graph.edges.tolist() == [[0, 1], [1, 2]]
    assert graph.edge_to_undirected.tolist() == [1, 0, -1]


@pytest.mark.parametrize(
    "edge_index",
    [
        BOTH_WAYS.astype(np.int32),
        BOTH_WAYS.astype(np.uint64),
        np.asfortranarray(BOTH_WAYS),
        np.repeat(BOTH_WAYS, 2, axis=1)[:, ::2],
        BOTH_WAYS.tolist(),
    ],
    ids=["int32", "uint64", "fortran", "strided", "list"],
)
def test_whatever_holds_the_integers(edge_index):
    graph = SimpleGraph.from_edge_index(edge_index, np.int64(3))
    assert graph.edges.tolist() == [[0, 1], [1, 2]]


def test_tensors():
    torch = pytest.importorskip("torch")
    graph = SimpleGraph.from_edge_index(torch.tensor(BOTH_WAYS), 3)
    assert graph.edges.tolist() == [[0, 1], [1, 2]]


@pytest.mark.parametrize("num_nodes", [0, 1, 7])
@pytest.mark.parametrize(
    "edge_index", [np.empty((2, 0), np.int64), [[], []]], ids=["array", "list"]
)
def test_graphs_without_edges(edge_index, num_nodes):
    graph = SimpleGraph.from_edge_index(edge_index, num_nodes)
    assert graph.num_undirected_edges == 0
    assert graph.indptr.tolist() == [0] * (num_nodes + 1)


@pytest.mark.parametrize(
    ("edge_index", "num_nodes", "named", "code"),
    [
        (
            [[0, 1, 5], [1, 0, 0]],
            3,
            ("node id 5", "column 2", "0..2", "num_nodes=6"),
            "graph.node_id",
        ),
        ([[0, 1], [1, -2]], 3, ("node id -2", "column 1", "never negative"), "graph.node_id"),
        ([[0], [0]], 0, ("node id 0", "column 0", "no nodes"), "graph.node_id"),
        (
            [[0, 1, 2, 2], [1, 0, 1, 0]],
            3,
            ("2 of its 4", "2 -> 0 without 0 -> 2", "symmetrize=True"),
            "graph.not_symmetric",
        ),
        ([[0, 1], [1, 2], [2, 0]], 3, ("[3, 2]", "Transpose"), "graph.shape"),
        ([0, 1], 3, ("[2, num_edges]", "[2]."), "graph.shape"),
        (np.full((2, 1), 2**64 - 1, np.uint64), 3, ("18446744073709551615",), "graph.node_id"),
        (BOTH_WAYS, -1, ("0..2147483647", "-1"), "graph.num_nodes"),
    ],
)
def test_errors_say_what_and_how(edge_index, num_nodes, named, code):
    with pytest.raises(RequestError) as raised:
        SimpleGraph.from_edge_index(edge_index, num_nodes)
    assert raised.value.codes == [code]
    assert all(part in str(raised.value) for part in named)


@pytest.mark.parametrize(
    ("edge_index", "num_nodes", "given"),
    [
        ([[0.0], [1.0]], 3, "float64"),
        ([[True], [False]], 3, "bool"),
        (BOTH_WAYS, 3.0, "3.0 (float)"),
        (BOTH_WAYS, True, "True"),
    ],
)
def test_what_is_not_an_integer_is_a_wrong_type(edge_index, num_nodes, given):
    with pytest.raises(TypeError) as raised:
        SimpleGraph.from_edge_index(edge_index, num_nodes)
    assert given in str(raised.value)


@pytest.mark.parametrize("kind", ["networkx", "pyg", "scipy"])
def test_a_graph_of_another_library_is_answered_with_the_line_to_type(kind):
    if kind == "networkx":
        import networkx

        graph = networkx.path_graph(3)
    elif kind == "scipy":
        from scipy import sparse

        graph = sparse.csr_array((np.ones(4), tuple(BOTH_WAYS)), shape=(3, 3))
    else:
        torch = pytest.importorskip("torch")
        from torch_geometric.data import Data

        graph = Data(edge_index=torch.tensor(BOTH_WAYS), num_nodes=3)
    with pytest.raises(TypeError, match="; type ") as refused:
        structural_coefficients(graph)
    line = str(refused.value).partition("; type ")[2].partition(", whose rows")[0].rstrip(".")
    names = {"graph": graph, "data": graph, "A": graph, "networkx": sys.modules.get("networkx")}
    names["structural_coefficients"] = structural_coefficients
    *before, last = line.split("; ")
    for statement in before:
        exec(statement, names)
    assert eval(last, names).tolist() == structural_coefficients(BOTH_WAYS, 3).tolist()


def test_the_number_of_nodes_is_asked_for():
    with pytest.raises(TypeError, match="num_nodes is missing"):
        structural_coefficients(BOTH_WAYS)


@pytest.mark.parametrize("radius", [10**9, 2**70, range(10**9), range(1, 10**9)])
def test_a_radius_beyond_any_graph_is_refused_at_once(radius):
    with pytest.raises(RequestError) as refused:
        structural_coefficients(BOTH_WAYS, 3, radius=radius)
    assert "coefficient.radius" in refused.value.codes


def test_an_id_beyond_64_bits_is_refused():
    with pytest.raises(TypeError, match="integer node ids"):
        structural_coefficients([[0, 2**70], [2**70, 0]], 3)
