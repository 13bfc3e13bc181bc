"""Readers of a user's own graphs: what each format says, and one message for each fault."""

from __future__ import annotations

import io
import os
import pickle
import zipfile
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
from scipy import sparse
from torch_geometric.data import Batch, Data, InMemoryDataset

from unionsnn.base.errors import DataError, RequestError
from unionsnn.data.sources.graph_files import parsed
from unionsnn.data.sources.graph_files.formats import FORMATS, GraphFile, format_of, read_graph_file


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
    "comments and empty lines": "# one\n% two\n#three\n\na b\n\nb c\n",
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


@pytest.mark.parametrize(
    ("file", "text", "names"),
    [
        ("g.csv", '" a ",b\n"#x" ,"c\td"\n', None),
        ("g.csv", '" a ", b \nb\t,"""c"" "\n', [(" a ", "b"), ("b", '"c" ')]),
        ("g.tsv", '"a "\t b\n', [("a ", "b")]),
        ("g.txt", '"# a",b\nb,"# a"\n', [("# a", "b"), ("b", "# a")]),
        ("g.txt", "\u00a0a b\u00a0c\n", [("\u00a0a", "b\u00a0c")]),
        ("g.csv", "\u3000a,b\n", [("\u3000a", "b")]),
        ("g.csv", "\x85a,b\n", None),
        ("g.csv", '"\x1ca",b\n', None),
        ("g.txt", "a\x85 b\n", None),
        ("g.csv", '" ",b\n', None),
        ("g.csv", 'a,"b\n"\nb,a\n', None),
    ],
)
def test_blanks_inside_quotes_and_signs_at_the_edge_of_a_name_stay(
    tmp_path: Path, file: str, text: str, names: list[tuple[str, str]] | None
) -> None:
    path = written(tmp_path, file, text)
    if names is None:
        with pytest.raises(DataError, match=r"not an edge|control character|not as CSV"):
            read_graph_file(path)
    else:
        assert pairs(read_graph_file(path)) == names


BAD_LISTS = {
    "a line of one name": ("a b\nc\n", "line 2: 'c' is not an edge"),
    "another separator": ("a;b\n", "line 1: 'a;b' is not an edge"),
    "mixed separators": ("a,b\nb c\n", "line 1: 'a,b' is not an edge"),
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


def test_the_extension_decides_the_separator(tmp_path: Path) -> None:
    """Names with blanks, commas, # and // are whole nodes where the format allows them."""
    cities = [("New York, NY", "São Paulo"), ("São Paulo", "#1 //x"), ("#1 //x", "New York, NY")]
    texts = {
        "g.tsv": "\n".join("\t".join(edge) for edge in cities),
        "g.csv": "\n".join(f'"{v}","{u}"' for v, u in cities),
    }
    for name, text in texts.items():
        assert pairs(read_graph_file(written(tmp_path, name, text))) == cities
    tabs = written(tmp_path, "g.txt", "New York, NY\tSão Paulo\nSão Paulo\tNew York, NY\n")
    assert pairs(read_graph_file(tabs))[0] == cities[0]
    blanks = written(tmp_path, "g.edgelist", "a,b c,d\nc,d e\n")
    assert pairs(read_graph_file(blanks)) == [("a,b", "c,d"), ("c,d", "e")]


@pytest.mark.parametrize(
    "header",
    [
        *("id_1,id_2", "node_1,node_2", "source_id,target_id", "Source,Target", "from,to,weight"),
        *("FromNodeId,ToNodeId", "u,v"),
    ],
)
def test_headers_are_no_nodes(tmp_path: Path, header: str) -> None:
    rows = ["0,1", "1,0", "2,3"] if header.count(",") == 1 else ["0,1,5", "1,0,5", "2,3,5"]
    graphs = read_graph_file(written(tmp_path, "g.csv", "\n".join([header, *rows])))
    assert pairs(graphs) == [(0, 1), (1, 0), (2, 3)]


@pytest.mark.parametrize("first", ["person,friend", "user id,item id", "alpha,2", "u,v", "// x,y"])
@pytest.mark.parametrize("rest", ["a,b\nb,a\n", "a,b\nc,d\n"])
def test_a_doubtful_first_line_is_refused_and_can_be_told(
    tmp_path: Path, first: str, rest: str
) -> None:
    path = written(tmp_path, "g.csv", f"{first}\n{rest}")
    with pytest.raises(DataError, match=r"line 1.*--header or --no-header") as refused:
        read_graph_file(path)
    assert refused.value.codes == ["data.header"]
    edges = [tuple(line.split(",")) for line in rest.split()]
    assert pairs(read_graph_file(path, header=True)) == edges
    assert pairs(read_graph_file(path, header=False)) == [tuple(first.split(",")), *edges]


def test_a_header_is_skipped_even_if_a_node_is_called_like_it(tmp_path: Path) -> None:
    path = written(tmp_path, "g.csv", "source,target\nsource,b\n")
    assert pairs(read_graph_file(path, header=True)) == [("source", "b")]
    with pytest.raises(RequestError) as refused:
        read_graph_file(written(tmp_path, "g.g6", b"A_\n"), header=True)
    assert refused.value.codes == ["data.header"]


@pytest.mark.parametrize(
    ("text", "edges"),
    [
        ("source,weight,target\na,5,b\nb,5,a\n", [("a", "b"), ("b", "a")]),
        ("edge_id,source,target\n0,a,b\n1,b,a\n", [("a", "b"), ("b", "a")]),
        ("target,source\na,b\nc,b\n", [("b", "a"), ("b", "c")]),
        ("kind,dst,src\nx,a,b\n", [("b", "a")]),
        ("i,j,Source,Target\n1,2,a,b\n", [("a", "b")]),
        ("person,friend,since\na,b,3\n", [("a", "b")]),
        ("from,to,start,end\na,b,3,4\n", [("a", "b")]),
    ],
)
def test_a_header_says_where_the_ends_stand(
    tmp_path: Path, text: str, edges: list[tuple[str, str]]
) -> None:
    path = written(tmp_path, "g.csv", text)
    assert pairs(read_graph_file(path, header=True)) == edges
    told = read_graph_file(path, header=True, edge_features=not text.startswith("kind"))
    assert pairs(told) == edges
    assert len(told.edge_features) == (0 if text[0] == "k" else text.split()[0].count(",") - 1)


@pytest.mark.parametrize(
    "header",
    [
        "source,source,target",
        "id,source,label",
        "id,u,v,src,dst",
        "source,source",
        "x,target,target",
    ],
)
def test_a_header_that_leaves_the_ends_open_is_refused(tmp_path: Path, header: str) -> None:
    row = ",".join("abcde"[: header.count(",") + 1])
    path = written(tmp_path, "g.csv", f"{header}\n{row}\n")
    for told in (True, None):
        with pytest.raises(DataError) as refused:
            read_graph_file(path, header=told)
        assert refused.value.codes == ["data.header"]


@pytest.mark.parametrize(
    "text",
    ["4 4\n1 2\n2 3\n3 4\n4 1\n", "4 4 3\n1 2 9\n2 3 9\n3 4 9\n", "3 4\n0 1\n1 0\n1 2\n2 1\n"],
)
def test_numbers_of_nodes_and_edges_are_no_edge(tmp_path: Path, text: str) -> None:
    path = written(tmp_path, "g.txt", text)
    with pytest.raises(DataError, match=r"line 1.*--header or --no-header") as refused:
        read_graph_file(path)
    assert refused.value.codes == ["data.header"]
    below = len(text.splitlines()) - 1
    assert read_graph_file(path, header=True).num_edges == below
    assert read_graph_file(path, header=False).num_edges == below + 1


@pytest.mark.parametrize("told", [True, None])
def test_a_header_that_comes_again_is_no_edge(tmp_path: Path, told: bool | None) -> None:
    path = written(tmp_path, "g.csv", "source,target\na,b\nsource,target\nb,a\n")
    with pytest.raises(DataError, match=r"header") as refused:
        read_graph_file(path, header=told)
    assert refused.value.codes == ["data.header"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("g.txt", "a -> b\nb -> a\n", "arrow"),
        ("g.csv", "a,--,b\n", "arrow"),
        ("g.txt", "e 1 2\ne 2 3\n", "DIMACS"),
        ("g.txt", "0 1 1\n1 0 0\n1 0 0\n", "adjacency matrix"),
        ("g.csv", "0,1,0,0,1\n" * 5, "adjacency matrix"),
        ("g.txt", "1 2 4\n2 1 3\n3 2 4\n4 3 1\n", "all of its neighbors"),
    ],
)
def test_other_formats_are_no_edges(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message) as refused:
        read_graph_file(written(tmp_path, name, text))
    assert refused.value.codes == ["data.graph_file"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("g.csv", "e,1,2\ne,2,3\n"),
        ("g.txt", "e 1 x\ne 2 y\n"),
        ("g.txt", "0 1 1\n1 0 1\n"),
        ("g.txt", "0 1\n1 0\n"),
        ("g.txt", "1 2 3\n2 3 1\n3 1 2\n"),
        ("g.txt", "1 2 3\n2 1 3\n1 3 2\n3 1 2\n"),
        ("g.txt", "a -> 1\na b 1\n"),
        ("g.txt", "3 2\n2 1\n1 0\n"),
        ("g.txt", "5 4\n5 3\n5 2\n5 1\n5 0\n"),
        ("g.txt", "2 2\n0 1\n1 3\n"),
        ("g.txt", "source source\nsource b\n"),
    ],
)
def test_edges_that_look_like_another_format_stay_edges(
    tmp_path: Path, name: str, text: str
) -> None:
    assert read_graph_file(written(tmp_path, name, text)).num_edges == text.count("\n")


def test_attributes_of_networkx_are_no_nodes(tmp_path: Path) -> None:
    graph = nx.Graph([("a", "b", {"weight": 1, "kind": "x, y"}), ("b", "c")])
    for name in ("g.edgelist", "g.txt"):
        nx.write_edgelist(graph, tmp_path / name)
        graphs = read_graph_file(tmp_path / name)
        assert pairs(graphs) == [("a", "b"), ("b", "c")]
        assert graphs.left_out == ("the columns after the second",)


DOUBTFUL = {
    "a comma with two meanings": ("g.txt", "0 1 0,5\n1 0 0,5\n", "either may separate"),
    "commas between blanks": ("g.edgelist", "a, b\nb, a\n", "line 1: 'a, b' is not an edge"),
    "blanks in .csv": ("g.csv", "a b\nb a\n", "line 1: 'a b' is not an edge"),
    "tabs in .csv": ("g.csv", "a,x\ty,b\nb,a,b\n", "control character"),
    "a name like a comment": ("g.txt", "a b\n#b a\n", "line 2: '#b a' may be a comment"),
    "names like a comment": ("g.txt", "#b #a\n#a c\nc d\n", "line 1: '#b #a' may be a comment"),
    "another comment": ("g.edgelist", "// a\na b\n", "'//' cannot be the name"),
    "Matrix Market": ("g.txt", "%%MatrixMarket matrix\n3 3 1\n1 2\n", "scipy.io.mmread"),
    "an index of pandas": ("g.csv", ",source,target\n0,1,2\n", "is not an edge"),
    "escape codes": ("g.tsv", "a\x1b[31m\tb\nb\ta\n", "control character"),
}


@pytest.mark.parametrize("kind", DOUBTFUL)
def test_doubtful_lists_are_refused(tmp_path: Path, kind: str) -> None:
    name, text, message = DOUBTFUL[kind]
    with pytest.raises(DataError) as refused:
        read_graph_file(written(tmp_path, name, text))
    assert message in str(refused.value)
    assert "\x1b" not in str(refused.value)


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


def graphml(*graphs: str) -> str:
    return f"<graphml><key id='d' attr.name='weight'/>{''.join(graphs)}</graphml>"


def test_graphml_with_several_graphs(tmp_path: Path) -> None:
    one = "<graph edgedefault='undirected'><node id='a'/><node id='b'/>{}</graph>"
    edge = "<edge source='a' target='b'><data key='d'>2</data></edge>"
    graphs = read_graph_file(written(tmp_path, "g.graphml", graphml(one.format(edge), one)))
    assert graphs.node_slices.tolist() == [0, 2, 4]
    assert pairs(graphs) == [("a", "b")]
    assert graphs.left_out == ("weight",)


@pytest.mark.parametrize(
    ("edge", "message"),
    [
        ("<edge source='a'/>", "between 'a' and None"),
        ("<edge source='a' target='z'/>", "between 'a' and 'z'"),
        ("<edge source='a' target='a' directed='true'/>", "some edges are directed"),
        ("<node id='a'/>", "that of another: 'a'"),
        ("<node/>", "no id"),
        ("<hyperedge/>", "hyperedges"),
        ("<node id='c'><graph edgedefault='directed'/></node>", "within nodes"),
    ],
)
def test_what_graphml_lacks_is_not_made_up(tmp_path: Path, edge: str, message: str) -> None:
    text = graphml(f"<graph edgedefault='undirected'><node id='a'/>{edge}</graph>")
    with pytest.raises(DataError) as refused:
        read_graph_file(written(tmp_path, "g.graphml", text))
    assert message in str(refused.value)


@pytest.mark.parametrize("line", [b":~~" + b"~" * 6, b"~~" + b"~" * 6, b":~~???~???_", b":~@~~@"])
def test_nodes_that_a_few_bytes_announce_are_not_allocated(tmp_path: Path, line: bytes) -> None:
    """Of 5 to 10 bytes, each of several lines."""
    with pytest.raises(DataError, match=r"line \d+ is not"):
        read_graph_file(written(tmp_path, "g.s6", b"\n".join([line] * 50)))


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
    sparse.save_npz(tmp_path / "g.npz", sparse.coo_matrix([[0, np.nan], [1, 0]]))
    with pytest.raises(DataError, match="1 values of the matrix are NaN"):
        read_graph_file(tmp_path / "g.npz")
    with (tmp_path / "b.npz").open("wb") as file:
        np.save(file, EDGES)
    with pytest.raises(DataError, match="single array"):
        read_graph_file(tmp_path / "b.npz")


@pytest.mark.parametrize(
    "fields",
    [
        {"indptr": [0, 10**9, 0, 0, 4]},
        {"indptr": [0, 3, 1, 4, 4]},
        {"indptr": [0, 1, 3, 3, 3]},
        {"indptr": [-5, 1, 3, 4, 4]},
        {"indptr": [0, 4]},
        {"indices": [1, 0, 2, 10**8]},
        {"indices": [1, 0, 2, -1]},
        {"indices": [1]},
        {"indices": [1.0, 0.0, 2.0, 1.0]},
        {"indptr": [[0, 1, 3, 4, 4]]},
        {"shape": [2, 2]},
        {"shape": ["a", "b"]},
        {"format": "coo"},
        {"format": 3},
    ],
    ids=str,
)
@pytest.mark.parametrize("form", ["csr", "csc", "bsr"])
def test_index_arrays_of_a_matrix_are_checked_before_they_are_followed(
    tmp_path: Path, form: str, fields: dict[str, object]
) -> None:
    matrix = sparse.coo_matrix((np.ones(4), tuple(EDGES)), shape=(4, 4)).asformat(form)
    sparse.save_npz(tmp_path / "g.npz", matrix)
    with np.load(tmp_path / "g.npz") as archive:
        arrays = dict(archive)
    np.savez(tmp_path / "g.npz", **{**arrays, **{k: np.array(v) for k, v in fields.items()}})
    with pytest.raises(DataError):
        read_graph_file(tmp_path / "g.npz")


def zipped(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return path


def test_arrays_are_compared_with_memory_before_they_are_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = np.lib.format.magic(1, 0)
    buffer = io.BytesIO()
    shape = {"shape": (2, 10**12), "fortran_order": False, "descr": "<i8"}
    np.lib.format.write_array_header_1_0(buffer, shape)
    assert buffer.getvalue().startswith(header)
    with pytest.raises(DataError, match="larger than its content"):
        read_graph_file(zipped(tmp_path / "g.npz", edge_index=buffer.getvalue()))
    for name, arrays in {
        "a.npz": {"edge_index": np.zeros((2, 10**5), int)},
        "b.npz": {"edge_index": EDGES, "num_nodes": 10**6},
    }.items():
        np.savez_compressed(tmp_path / name, **arrays)
        monkeypatch.setattr(parsed, "free_bytes", lambda: 10**6)
        with pytest.raises(DataError, match="free") as refused:
            read_graph_file(tmp_path / name)
        assert refused.value.codes == ["data.memory"]


def test_ids_far_beyond_the_number_of_nodes(tmp_path: Path) -> None:
    np.savez(tmp_path / "g.npz", edge_index=EDGES + 10**8)
    with pytest.raises(DataError, match="renumber"):
        read_graph_file(tmp_path / "g.npz")
    np.savez(tmp_path / "h.npz", edge_index=EDGES, num_nodes=10**5, weights=EDGES)
    graphs = read_graph_file(tmp_path / "h.npz")
    assert (graphs.num_nodes, graphs.left_out) == (10**5, ("weights",))


# -- PyG -----------------------------------------------------------------------------------

TENSOR = torch.from_numpy(EDGES)
BATCH = Batch.from_data_list([Data(edge_index=TENSOR, num_nodes=3)] * 2)


@pytest.mark.parametrize(
    ("content", "nodes"),
    [
        (TENSOR, [3]),
        ({"edge_index": TENSOR, "num_nodes": 4}, [4]),
        (Data(edge_index=TENSOR, num_nodes=6), [6]),
        (Data(edge_index=TENSOR, x=torch.ones(5, 2)), [5]),
        ({"edge_index": TENSOR, "x": torch.ones(5, 2)}, [5]),
        ([Data(edge_index=TENSOR), TENSOR], [3, 3]),
        (Batch.from_data_list([Data(edge_index=TENSOR, num_nodes=3)]).to_dict(), [3]),
    ],
    ids=["tensor", "mapping", "Data", "Data with x", "mapping with x", "list", "batch of one"],
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


def test_what_a_pt_file_holds_beside_edges_is_named(tmp_path: Path) -> None:
    torch.save(Data(edge_index=TENSOR, x=torch.ones(5, 2), y=torch.ones(1)), tmp_path / "g.pt")
    assert read_graph_file(tmp_path / "g.pt").left_out == ("x", "y")


@pytest.mark.parametrize(
    "slices",
    [[0, 4, 6], [0, 4], [1, 4, 8], [0, 9], [0, 6, 4, 8], [], "ab", [0, 2, 4, 8]],
    ids=str,
)
def test_slices_that_cover_a_part_of_the_edges_are_refused(tmp_path: Path, slices: object) -> None:
    data = Data(edge_index=torch.cat([TENSOR, TENSOR], dim=1), x=torch.ones(7, 1))
    content = data.to_dict(), {"edge_index": slices, "x": torch.tensor([0, 3, 7])}
    torch.save(content, tmp_path / "g.pt")
    with pytest.raises(DataError, match="slices of"):
        read_graph_file(tmp_path / "g.pt")


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
        ([[[[TENSOR]]]], "holds list"),
        ({"edge_index": TENSOR, "num_nodes": 4, "x": torch.ones(5, 2)}, "4 by num_nodes"),
        ({"edge_index": TENSOR, "num_nodes": "many"}, "num_nodes must be"),
        ({"edge_index": TENSOR, "num_nodes": 2**70}, "num_nodes must lie"),
        (TENSOR.to_sparse(), "not a plain tensor"),
        (torch.empty(2, 3, dtype=torch.int64, device="meta"), "not a plain tensor"),
        (torch.zeros(2, 1).expand(2, 10**12), "free"),
        (BATCH.to_dict(), "batch of several graphs"),
        ({"edge_index": TENSOR, "batch": torch.tensor([0, 0, 1])}, "batch of several graphs"),
        ([{"edge_index": TENSOR, "ptr": torch.tensor([0, 1, 3])}], "batch of several graphs"),
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


@pytest.mark.parametrize("name", ["g.txt", "g.graphml", "g.g6", "g.npz", "g.pt"])
def test_a_pipe_is_refused_at_once(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(DataError, match="is a pipe or a device"):
        read_graph_file(tmp_path / name)


@pytest.mark.parametrize("form", FORMATS)
def test_damage_anywhere_is_one_line(tmp_path: Path, form: str) -> None:
    """Bytes of a sound file are cut, changed and repeated: a graph, or a refusal in one line."""
    path = tmp_path / f"g{FORMATS[form].extensions[0]}"
    graph = nx.gnm_random_graph(20, 30, seed=0)
    nx.set_edge_attributes(graph, 1, "bond")
    edges = np.array(graph.edges).T
    features = np.arange(60).reshape(30, 2)
    tensors = {"edge_index": torch.from_numpy(edges), "edge_attr": torch.from_numpy(features)}
    {
        "edgelist": lambda: nx.write_edgelist(graph, path, data=["bond"]),
        "graphml": lambda: nx.write_graphml(graph, path),
        "graph6": lambda: nx.write_graph6(graph, path),
        "npz": lambda: np.savez(path, edge_index=edges, edge_labels=features),
        "pt": lambda: torch.save(tensors | {"num_nodes": 20}, path),
    }[form]()
    lines: list[str] = []
    sound, random = path.read_bytes(), np.random.default_rng(0)
    for _ in range(60):
        content = bytearray(sound)
        at, end = sorted(random.integers(0, len(sound), 2).tolist())
        match random.integers(3):
            case 0:
                del content[at:]
            case 1:
                content[at] = random.integers(256)
            case _:
                content[at:at] = content[at:end]
        path.write_bytes(content)
        for edge_features in (False, True):
            try:
                read_graph_file(path, edge_features=edge_features)
            except DataError as error:
                lines.append(str(error))
    assert "\n" not in "".join(lines)


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
