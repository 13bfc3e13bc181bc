"""Readers of a user's own graphs: what each format says, and one message for each fault."""

from __future__ import annotations

import pickle
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
from scipy import sparse
from torch_geometric.data import Data, InMemoryDataset

from unionsnn.base.errors import DataError
from unionsnn.data.sources.graph_files import FORMATS, GraphFile, format_of, read_graph_file


def written(tmp_path: Path, name: str, content: str | bytes) -> Path:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def pairs(graphs: GraphFile) -> list[tuple[object, object]]:
    names = graphs.node_names().tolist()
    return [(names[v], names[u]) for v, u in graphs.edge_index.T.tolist()]


# -- edge lists ----------------------------------------------------------------------------

LISTS = {
    "blanks": "a b\nb c\n",
    "tabs and many blanks": "a\tb\n  b   c  \n",
    "commas": "a,b\nb, c\n",
    "comments and empty lines": "# one\n% two\n// three\n\na b\n\nb c\n",
    "header": "source,target\na,b\nb,c\n",
    "header after a comment": "# x\nFrom To\na b\nb c\n",
    "weights": "a b 0.5\nb c 2\n",
    "quoted": '"a",b\nb,"c"\n',
    "byte order mark": "\ufeffa b\nb c\n",
    "Windows ends of lines": "a b\r\nb c\r\n",
    "no end of the last line": "a b\nb c",
}


@pytest.mark.parametrize("kind", LISTS)
def test_edge_lists_of_every_kind(tmp_path: Path, kind: str) -> None:
    graphs = read_graph_file(written(tmp_path, "g.txt", LISTS[kind]))
    assert pairs(graphs) == [("a", "b"), ("b", "c")]
    assert graphs.directed
    assert (graphs.num_graphs, graphs.num_nodes, graphs.num_edges) == (1, 3, 2)


@pytest.mark.parametrize("first", ["u v", "v u", "U v", "source target", "node1 node2 weight"])
def test_a_first_line_like_a_header_is_an_edge_where_one_of_its_names_comes_again(
    tmp_path: Path, first: str
) -> None:
    v, u, *more = first.split()
    second = [u, "w", *("1" for _ in more)]
    graphs = read_graph_file(written(tmp_path, "g.txt", f"{first}\n{' '.join(second)}\n"))
    assert pairs(graphs) == [(v, u), (u, "w")]


@pytest.mark.parametrize("text", ["u v\n", "# x\nsource,target\n"])
def test_a_header_alone_is_no_graph(tmp_path: Path, text: str) -> None:
    with pytest.raises(DataError, match="holds no edge"):
        read_graph_file(written(tmp_path, "g.txt", text))


def test_order_repeats_and_loops_of_the_file_stay(tmp_path: Path) -> None:
    graphs = read_graph_file(written(tmp_path, "g.csv", "z,a\na,z\nz,z\nz,a\n"))
    assert pairs(graphs) == [("z", "a"), ("a", "z"), ("z", "z"), ("z", "a")]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("7 3\n3 7\n", [7, 3]),
        ("-1 3\n3 -1\n", [-1, 3]),
        ("07 3\n3 07\n", ["07", "3"]),
        ("7 x\nx 7\n", ["7", "x"]),
        ("1e3 2\n2 1e3\n", ["1e3", "2"]),
    ],
)
def test_names_are_integers_only_if_nothing_is_lost(
    tmp_path: Path, text: str, names: list[object]
) -> None:
    assert read_graph_file(written(tmp_path, "g.txt", text)).node_names().tolist() == names


def test_names_with_blanks_between_commas(tmp_path: Path) -> None:
    graphs = read_graph_file(written(tmp_path, "g.csv", "New York, São Paulo\n"))
    assert pairs(graphs) == [("New York", "São Paulo")]


BAD_LISTS = {
    "a line of one name": ("a b\nc\n", "line 2: 'c' is not an edge"),
    "another separator": ("a;b\n", "line 1: 'a;b' is not an edge"),
    "mixed separators": ("a,b\nb c\n", "line 2: 'b c' is not an edge"),
    "an empty name": ("a,\n", "line 1"),
    "other columns": ("a b 1\nb c\n", "line 2: 'b c' has 2 columns, the lines before have 3"),
    "nothing": ("# only a comment\n", "holds no edge"),
    "binary": ("a b\n\0\n", "line 2: this is not a text file"),
    "an open quote": ('a,b\n"c,d\n', "line 2"),
}


@pytest.mark.parametrize("fault", BAD_LISTS)
def test_faults_of_edge_lists_are_named_with_their_line(tmp_path: Path, fault: str) -> None:
    text, message = BAD_LISTS[fault]
    with pytest.raises(DataError) as caught:
        read_graph_file(written(tmp_path, "g.txt", text))
    assert message in str(caught.value)
    assert "g.txt" in str(caught.value)


def test_another_encoding_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not a text file in UTF-8"):
        read_graph_file(written(tmp_path, "g.txt", "ä b\n".encode("latin-1")))


# -- formats of networkx -------------------------------------------------------------------


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph, nx.MultiGraph])
def test_graphml_keeps_names_direction_and_nodes_without_edges(tmp_path: Path, kind: type) -> None:
    graph = kind([("x", "y"), ("y", "z"), ("y", "y")])
    graph.add_node("alone")
    nx.write_graphml(graph, tmp_path / "g.graphml")
    graphs = read_graph_file(tmp_path / "g.graphml")
    assert graphs.num_nodes == 4
    assert graphs.directed == (kind is nx.DiGraph)
    wanted = {frozenset(p) for p in [("x", "y"), ("y", "z"), ("y", "y")]}
    assert {frozenset(p) for p in pairs(graphs)} == wanted


def test_graph6_and_sparse6_with_several_graphs(tmp_path: Path) -> None:
    ones = [nx.petersen_graph(), nx.path_graph(3), nx.empty_graph(2), nx.cycle_graph(70)]
    lines = [
        nx.to_graph6_bytes(ones[0], header=True),
        nx.to_sparse6_bytes(ones[1], header=False),
        b"\n",
        nx.to_graph6_bytes(ones[2], header=False),
        nx.to_sparse6_bytes(ones[3], header=True),
    ]
    graphs = read_graph_file(written(tmp_path, "g.g6", b"".join(lines)))
    assert not graphs.directed
    assert graphs.num_graphs == 4
    assert np.diff(graphs.node_slices).tolist() == [10, 3, 2, 70]
    names = graphs.node_names()
    for number, one in enumerate(ones):
        rows = graphs.graph_of_edge == number
        found = {frozenset(p) for p in names[graphs.edge_index[:, rows]].T.tolist()}
        assert found == {frozenset(p) for p in one.edges}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("g.graphml", "<graphml", "is not GraphML"),
        ("g.graphml", "<html></html>", "is not GraphML"),
        ("g.g6", b"DQc\n\xff\xff\n", "line 2 is not graph6"),
        ("g.g6", b"D\n", "line 1 is not graph6"),
        ("g.s6", b":\n", "line 1 is not sparse6"),
        ("g.g6", b"\n", "holds no graph"),
        ("g.npz", b"PK nothing", "is not an npz file"),
        ("g.pt", b"nothing", "is not a file that torch.save wrote"),
    ],
)
def test_damaged_files_are_named(
    tmp_path: Path, name: str, content: str | bytes, message: str
) -> None:
    with pytest.raises(DataError) as caught:
        read_graph_file(written(tmp_path, name, content))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


# -- arrays --------------------------------------------------------------------------------

EDGES = np.array([[0, 1, 1, 2], [1, 0, 2, 1]])


@pytest.mark.parametrize("num_nodes", [None, 5])
def test_npz_with_edge_index(tmp_path: Path, num_nodes: int | None) -> None:
    extra = {} if num_nodes is None else {"num_nodes": num_nodes}
    np.savez(tmp_path / "g.npz", edge_index=EDGES, **extra)
    graphs = read_graph_file(tmp_path / "g.npz")
    assert (graphs.edge_index == EDGES).all()
    assert graphs.num_nodes == (num_nodes or 3)
    assert graphs.directed


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_npz_of_scipy(tmp_path: Path, form: str) -> None:
    matrix = sparse.coo_matrix((np.ones(4), tuple(EDGES)), shape=(4, 4)).asformat(form)
    sparse.save_npz(tmp_path / "g.npz", matrix)
    graphs = read_graph_file(tmp_path / "g.npz")
    assert sorted(pairs(graphs)) == sorted(map(tuple, EDGES.T.tolist()))
    assert graphs.num_nodes == 4


def test_stored_zeros_are_no_edges(tmp_path: Path) -> None:
    matrix = sparse.coo_matrix(([1, 0], ([0, 1], [1, 0])), shape=(2, 2))
    sparse.save_npz(tmp_path / "g.npz", matrix)
    assert pairs(read_graph_file(tmp_path / "g.npz")) == [(0, 1)]


BAD_ARRAYS = {
    "objects": ({"edge_index": np.array([[{}], [{}]], dtype=object)}, "never unpickled"),
    "real numbers": ({"edge_index": EDGES * 1.0}, "dtype float64"),
    "transposed": ({"edge_index": np.zeros((5, 2), int)}, "Transpose it"),
    "too few nodes": (
        {"edge_index": EDGES, "num_nodes": 2},
        "names node 2, but the nodes are 0..1",
    ),
    "negative": ({"edge_index": -EDGES}, "names node -2"),
    "no edges": ({"x": EDGES}, "holds x; needed is edge_index"),
    "two numbers of nodes": ({"edge_index": EDGES, "num_nodes": EDGES}, "num_nodes must be"),
}


@pytest.mark.parametrize("fault", BAD_ARRAYS)
def test_faults_of_npz_files_are_named(tmp_path: Path, fault: str) -> None:
    arrays, message = BAD_ARRAYS[fault]
    np.savez(tmp_path / "g.npz", **arrays)
    with pytest.raises(DataError) as caught:
        read_graph_file(tmp_path / "g.npz")
    assert message in str(caught.value)


def test_a_matrix_that_is_not_square_and_a_bare_array(tmp_path: Path) -> None:
    sparse.save_npz(tmp_path / "g.npz", sparse.coo_matrix(np.ones((2, 3))))
    with pytest.raises(DataError, match="2 x 3; an adjacency matrix is square"):
        read_graph_file(tmp_path / "g.npz")
    with (tmp_path / "b.npz").open("wb") as file:
        np.save(file, EDGES)
    with pytest.raises(DataError, match="single array"):
        read_graph_file(tmp_path / "b.npz")


# -- PyG -----------------------------------------------------------------------------------

TENSOR = torch.from_numpy(EDGES)


@pytest.mark.parametrize(
    ("content", "nodes"),
    [
        (TENSOR, [3]),
        ({"edge_index": TENSOR, "num_nodes": 4}, [4]),
        (Data(edge_index=TENSOR, num_nodes=6), [6]),
        (Data(edge_index=TENSOR, x=torch.ones(5, 2)), [5]),
        ([Data(edge_index=TENSOR), TENSOR], [3, 3]),
    ],
    ids=["tensor", "mapping", "Data", "Data with x", "list"],
)
def test_pt_files(tmp_path: Path, content: object, nodes: list[int]) -> None:
    torch.save(content, tmp_path / "g.pt")
    graphs = read_graph_file(tmp_path / "g.pt")
    assert np.diff(graphs.node_slices).tolist() == nodes
    assert pairs(graphs) == list(map(tuple, EDGES.T.tolist())) * len(nodes)


@pytest.mark.parametrize("with_x", [True, False])
def test_what_an_in_memory_data_set_saves(tmp_path: Path, with_x: bool) -> None:
    ones = [
        Data(edge_index=TENSOR, **({"x": torch.ones(n, 1)} if with_x else {"num_nodes": n}))
        for n in (3, 4)
    ]
    InMemoryDataset.save(ones, tmp_path / "data.pt")
    graphs = read_graph_file(tmp_path / "data.pt")
    assert np.diff(graphs.node_slices).tolist() == [3, 4]
    assert graphs.edge_slices.tolist() == [0, 4, 8]


def test_pickled_objects_are_refused_and_never_run(tmp_path: Path) -> None:
    trap = tmp_path / "ran"

    class Bomb:
        def __reduce__(self) -> tuple[object, tuple[Path]]:
            return Path.touch, (trap,)

    torch.save({"edge_index": TENSOR, "x": Bomb()}, tmp_path / "g.pt")
    with pytest.raises(DataError, match="could run code when loaded, so it is refused"):
        read_graph_file(tmp_path / "g.pt")
    (tmp_path / "raw.pt").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(DataError):
        read_graph_file(tmp_path / "raw.pt")
    assert not trap.exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"x": TENSOR}, "holds dict without a tensor edge_index"),
        (3, "holds int"),
        (TENSOR.float(), "float32"),
        (Data(x=torch.ones(2, 1)), "without a tensor edge_index"),
        ([], "holds no graph"),
    ],
)
def test_pt_files_without_edges_are_named(tmp_path: Path, content: object, message: str) -> None:
    torch.save(content, tmp_path / "g.pt")
    with pytest.raises(DataError) as caught:
        read_graph_file(tmp_path / "g.pt")
    assert message in str(caught.value)


# -- all formats ---------------------------------------------------------------------------


def test_an_unknown_ending_names_those_that_are_known() -> None:
    with pytest.raises(DataError) as caught:
        format_of(Path("graph.gz"))
    for form in FORMATS.values():
        assert all(ending in str(caught.value) for ending in form.extensions)
    assert format_of(Path("G.G6")) == "graph6"


def test_a_file_that_is_not_there_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        read_graph_file(tmp_path / "none.txt")
    with pytest.raises(DataError, match="is a folder"):
        read_graph_file(tmp_path, "npz")


def test_a_format_that_is_given_overrules_the_ending(tmp_path: Path) -> None:
    path = written(tmp_path, "g.data", "a b\n")
    assert pairs(read_graph_file(path, "edgelist")) == [("a", "b")]


def test_an_edge_without_its_reverse_is_named_by_its_own_names(tmp_path: Path) -> None:
    graphs = read_graph_file(written(tmp_path, "g.txt", "a b\nb a\nb c\na a\n"))
    with pytest.raises(DataError, match=r"1 of the 4 edges .* b -> c without c -> b.*--symmetrize"):
        graphs.check_symmetric()
    read_graph_file(written(tmp_path, "h.txt", "a b\nb a\na a\n")).check_symmetric()


def test_reading_a_pt_file_leaves_torch_s_list_of_safe_classes_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "graph.pt"
    torch.save(Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2), path)
    before = set(torch.serialization.get_safe_globals())
    read_graph_file(path)
    assert set(torch.serialization.get_safe_globals()) == before
