"""Features of edges from every reader: they follow their edge, or one clear error says why not."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from scipy import sparse
from torch_geometric.data import Data

from data_files import (
    molecules,
    ogb_tables,
    write_ogb,
    write_zinc_index,
    write_zinc_npz,
    write_zinc_pickles,
)
from unionsnn.base.errors import DataError
from unionsnn.data.arrays import GraphArrays
from unionsnn.data.catalog import CatalogEntry
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.data.sources import zinc
from unionsnn.data.sources.folder import Folder, read_files
from unionsnn.data.sources.graph_files.formats import read_graph_file
from unionsnn.data.sources.ogb import BOND_CATEGORIES, OGB, read_ogb_molecules
from unionsnn.data.sources.pyg_graphs import read_pyg_dataset
from unionsnn.data.sources.source import RawFiles
from unionsnn.data.sources.tu import read_tu

SIZES = (6, 3, 2)
PARTS = ("train", "val", "test")


def by_edge(graphs: GraphArrays, key: str = "edge_labels") -> list[dict[tuple[int, int], Any]]:
    """Features of each graph's edges, looked up by the edge."""
    rows = getattr(graphs, key)
    graphs.validate()
    found = []
    for g in range(graphs.num_graphs):
        part = slice(graphs.edge_slices[g], graphs.edge_slices[g + 1])
        edges = [(v, u) for v, u in graphs.edge_index[:, part].T.tolist()]
        found.append(dict(zip(edges, rows[part].tolist(), strict=True)))
    return found


# -- ZINC, OGB, TU -------------------------------------------------------------------------


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let hand-made files pass for the sets: their counts are not the real ones."""
    monkeypatch.setattr(CatalogEntry, "check", lambda *args: None)
    monkeypatch.setattr(zinc, "FULL", SIZES)
    monkeypatch.setattr(zinc, "SUBSET", SIZES)


def parts() -> dict[str, list[dict[str, Any]]]:
    return {p: molecules(n, seed=i) for i, (p, n) in enumerate(zip(PARTS, SIZES, strict=True))}


def write_zinc(folder: Path, form: str, content: dict[str, list[dict[str, Any]]]) -> None:
    if form == "npz":
        write_zinc_npz(folder / "zinc-full", content)
        return
    write_zinc_pickles(folder / ("zinc" if form == "subset" else "zinc-full"), content)
    if form == "subset":
        rows = {p: list(range(n)) for p, n in zip(PARTS, SIZES, strict=True)}
        write_zinc_index(folder / "zinc", rows)


def zinc_module(folder: Path, form: str, edge_features: str = "labels") -> GraphDataModule:
    size = "subset" if form == "subset" else "full"
    options = {"root": folder / "root", "mirror": str(folder), "offline": True}
    return GraphDataModule(
        zinc.Zinc(size=size),  # type: ignore[arg-type]
        name="toy",
        features="categorical",
        edge_features=edge_features,
        **options,
    )


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("form", ["subset", "pickles", "npz"])
def test_bond_types_of_zinc_are_those_of_the_matrix(tmp_path: Path, form: str) -> None:
    content = parts()
    write_zinc(tmp_path, form, content)
    data = zinc_module(tmp_path, form)
    assert data.num_edge_features == (4,)
    assert data.graphs.edge_attr.shape == (data.arrays.num_edges, 1)
    given = [m["bond_type"] for part in content.values() for m in part]
    for matrix, found in zip(given, by_edge(data.arrays), strict=True):
        assert found == {
            (v, u): [int(matrix[v, u])] for v, u in map(tuple, matrix.nonzero().tolist())
        }


@pytest.mark.usefixtures("small")
def test_zinc_without_bond_types_stays_the_set_that_it_was(tmp_path: Path) -> None:
    write_zinc(tmp_path, "subset", parts())
    without, again = (zinc_module(tmp_path, "subset", "none") for _ in range(2))
    bonds = zinc_module(tmp_path, "subset")
    assert without.arrays.edge_labels is None
    assert bonds.arrays.edge_labels is not None
    # Each has its own processed file, so neither is read as the other.
    assert len(list((tmp_path / "root" / "processed").glob("*.npz"))) == 2
    assert again.dataset_id == without.dataset_id != bonds.dataset_id
    # As it was named before bond types were read.
    raw = without.raw
    assert without.source.processed_key(raw) + " bonds" == bonds.source.processed_key(raw)


def bond(v: int, u: int, value: int) -> Callable[[torch.Tensor], None]:
    def change(matrix: torch.Tensor) -> None:
        matrix[v, u] = value

    return change


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("form", ["pickles", "npz"])
@pytest.mark.parametrize(
    ("change", "message"),
    [(bond(0, 1, 4), "bond type 4 is unknown"), (bond(0, 1, 3), "a bond has two types")],
)
def test_bond_types_that_are_wrong_are_refused(
    tmp_path: Path, form: str, change: Callable[[torch.Tensor], None], message: str
) -> None:
    content = parts()
    content["train"][0] |= {
        "num_atom": 2,
        "atom_type": torch.tensor([1, 2], dtype=torch.uint8),
        "bond_type": torch.tensor([[0, 1], [1, 0]], dtype=torch.uint8),
    }
    change(content["train"][0]["bond_type"])
    write_zinc(tmp_path, form, content)
    with pytest.raises(DataError, match=message):
        _ = zinc_module(tmp_path, form).arrays
    # Who does not read them is not stopped by them.
    assert zinc_module(tmp_path, form, "none").num_graphs == sum(SIZES)


def test_ogb_has_the_bond_categories_of_ogb() -> None:
    from ogb.utils.features import get_bond_feature_dims

    assert list(BOND_CATEGORIES) == get_bond_feature_dims()
    assert OGB(folder="toy").edge_categories == BOND_CATEGORIES


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([5, 0, 0], r"edge-feat.csv.gz, line 1 .*outside of 0..4 in value 1"),
        ([0, 0, -1], r"edge-feat.csv.gz, line 1 .*outside of 0..1 in value 3"),
        ([0, 0], r"edge-feat.csv.gz, line 2 .*3 value\(s\), but 2"),
    ],
)
def test_bonds_of_ogb_out_of_range_are_refused_by_line(
    tmp_path: Path, row: list[int], message: str
) -> None:
    tables = ogb_tables()
    tables["raw/edge-feat"][0] = row
    with pytest.raises(DataError, match=message):
        read_ogb_molecules(write_ogb(tmp_path, "toy", tables), "toy")


TU_FILES = {
    "A": "2, 1\n1, 2\n3, 2\n2, 3\n4, 5\n5, 4\n",
    "graph_indicator": "1\n1\n1\n2\n2\n",
    "graph_labels": "1\n-1\n",
    # From 1, with a gap, and different in the two directions of edge (0, 1).
    "edge_labels": "1, 7\n4, 7\n2, 9\n2, 9\n1, 7\n1, 7\n",
    "edge_attributes": "0.5\n-1\n2\n2\n3\n3\n",
}


def tu(tmp_path: Path, **changes: str) -> GraphArrays:
    with zipfile.ZipFile(tmp_path / "SET.zip", "w") as archive:
        for key, text in (TU_FILES | changes).items():
            archive.writestr(f"SET_{key}.txt", text)
    return read_tu(tmp_path / "SET.zip", "SET")


def test_tu_labels_count_from_0_keep_gaps_and_may_differ_by_direction(tmp_path: Path) -> None:
    graphs = tu(tmp_path)
    assert by_edge(graphs) == [
        {(0, 1): [3, 0], (1, 0): [0, 0], (1, 2): [1, 2], (2, 1): [1, 2]},
        {(0, 1): [0, 0], (1, 0): [0, 0]},
    ]
    assert by_edge(graphs, "edge_attributes")[0][0, 1] == [-1.0]


def test_loops_of_a_tu_set_with_features_are_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    loop = {
        "A": TU_FILES["A"] + "3, 3\n",
        "edge_labels": TU_FILES["edge_labels"] + "1, 7\n",
        "edge_attributes": TU_FILES["edge_attributes"] + "0\n",
    }
    with caplog.at_level("WARNING", "unionsnn"):
        assert by_edge(tu(tmp_path, **loop)) == by_edge(tu(tmp_path))
    assert "SET_edge_labels.txt: edges from a node to itself are dropped, with" in caplog.text


# -- data=pyg ------------------------------------------------------------------------------

EDGES = torch.tensor([[0, 1, 2, 1], [1, 0, 1, 2]])


def pyg(*graphs: dict[str, Any], symmetrize: bool = False, wanted: bool = True) -> GraphArrays:
    made = [
        Data(**({"edge_index": EDGES, "num_nodes": 3, "y": torch.tensor([i % 2])} | fields))
        for i, fields in enumerate(graphs)
    ]
    return read_pyg_dataset(made, level="graph", symmetrize=symmetrize, edge_features=wanted)


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.float32, torch.float64])
@pytest.mark.parametrize("flat", [True, False])
def test_edge_attr_of_pyg_whole_numbers_are_labels_others_attributes(
    dtype: torch.dtype, flat: bool
) -> None:
    values = torch.tensor([[3], [0], [5], [1]], dtype=dtype)
    fields = {"edge_attr": values.flatten() if flat else values}
    key = "edge_attributes" if dtype.is_floating_point else "edge_labels"
    found = pyg(fields, fields)
    assert by_edge(found, key) == [{(0, 1): [3], (1, 0): [0], (2, 1): [5], (1, 2): [1]}] * 2
    assert getattr(found, "edge_labels" if key == "edge_attributes" else "edge_attributes") is None


def test_one_hot_edge_attr_stay_attributes() -> None:
    found = pyg({"edge_attr": torch.eye(4)})
    assert found.edge_attributes is not None
    assert found.edge_attributes.shape == (4, 4)


def test_graphs_without_edges_need_no_edge_attr() -> None:
    none = {"edge_index": torch.empty(2, 0, dtype=torch.int64)}
    found = pyg({"edge_attr": torch.arange(4)}, none, none | {"edge_attr": torch.empty(0)})
    assert by_edge(found)[1:] == [{}, {}]


def test_symmetrized_edges_get_the_features_of_their_edge_where_they_have_none() -> None:
    edges = torch.tensor([[0, 1, 2], [1, 0, 1]])
    found = pyg({"edge_index": edges, "edge_attr": torch.tensor([4, 2, 7])}, symmetrize=True)
    assert by_edge(found) == [{(0, 1): [4], (1, 0): [2], (2, 1): [7], (1, 2): [7]}]


NAN = torch.tensor([1.0, float("nan"), 0, 0])


@pytest.mark.parametrize(
    ("graphs", "message", "code"),
    [
        ([{"edge_attr": torch.ones(3, 2)}], r"graph 0: edge_attr has shape \[3, 2\]", "data.pyg"),
        ([{"edge_attr": NAN}], r"graph 0: edge_attributes of edge \[1, 0\] are \[nan\]", None),
        (
            [{"edge_attr": torch.ones(4) * 1e300}],
            r"edge_attributes of edge \[0, 1\] are \[inf\]",
            None,
        ),
        (
            [{"edge_attr": torch.tensor([0, 1, -2, 0])}],
            r"graph 0: edge_labels of edge \[2, 1\] are \[-2\]; they must be numbers from 0",
            None,
        ),
        ([{"edge_attr": torch.ones(4)}, {}], "graph 1 has no edge_attr, but other", "data.pyg"),
        (
            [{"edge_attr": torch.ones(4)}, {"edge_attr": torch.ones(4).long()}],
            "edge_attr of graph 1 has whole numbers, but that of graph 0 real",
            "data.pyg",
        ),
        (
            [{"edge_index": EDGES[:, [0, 1, 0]], "edge_attr": torch.tensor([1, 1, 2])}],
            r"graph 0: edge \[0, 1\] is given more than once, with edge_labels \[1\] and \[2\]",
            None,
        ),
        ([{"edge_attr": ["a"] * 4}], "edge_attr holds", "data.pyg"),
    ],
)
def test_edge_attr_that_is_wrong_is_refused_by_edge_and_only_if_it_is_read(
    graphs: list[dict[str, Any]], message: str, code: str | None
) -> None:
    with pytest.raises(DataError, match=message) as refused:
        pyg(*graphs)
    assert refused.value.codes == [code or "data.edge_features"]
    assert pyg(*graphs, wanted=False).num_graphs == len(graphs)


def test_what_is_not_read_of_edges_is_told_and_no_part_of_the_hash() -> None:
    with_attr = pyg({"edge_attr": torch.ones(4)}, wanted=False)
    assert with_attr.unread == "edge_attr (attributes)"
    assert pyg({"edge_attr": torch.arange(4)}, wanted=False).unread == "edge_attr (labels)"
    assert pyg({}, wanted=False).unread == ""
    assert with_attr.content_hash() == pyg({}, wanted=False).content_hash()


def test_repeats_that_agree_and_loops_are_dropped_with_their_rows(
    caplog: pytest.LogCaptureFixture,
) -> None:
    edges = torch.tensor([[2, 0, 1, 0], [2, 1, 0, 1]])
    with caplog.at_level("WARNING", "unionsnn"):
        found = pyg({"edge_index": edges, "edge_attr": torch.tensor([9, 4, 5, 4])})
    assert by_edge(found) == [{(0, 1): [4], (1, 0): [5]}]
    assert "graph 0: edges from a node to itself are dropped, with their features (1)" in (
        caplog.text
    )


@pytest.mark.parametrize("seed", range(5))
def test_features_follow_their_edge_whatever_the_order_of_the_edges(seed: int) -> None:
    generator = np.random.default_rng(seed)
    graph = nx.gnp_random_graph(9, 0.4, seed=seed, directed=False).to_directed()
    edges = generator.permutation(np.array(graph.edges))
    rows = generator.integers(0, 5, (len(edges), 2))
    found = pyg(
        {
            "edge_index": torch.from_numpy(edges.T.copy()),
            "edge_attr": torch.from_numpy(rows),
            "num_nodes": 9,
        }
    )
    assert by_edge(found) == [dict(zip(map(tuple, edges.tolist()), rows.tolist(), strict=True))]


# -- graph files and data=folder -----------------------------------------------------------


def written(path: Path, content: Any) -> Path:
    """Write one graph: text, arrays of an npz file, or what torch saves."""
    if isinstance(content, str):
        path.write_text(content)
    elif path.suffix == ".npz":
        np.savez(path, **content)
    else:
        torch.save(content, path)
    return path


GRAPHML = """<graphml>
<key id='w' for='edge' attr.name='weight' attr.type='double'><default>3</default></key>
<key id='b' for='edge' attr.name='bond' attr.type='int'/>
<graph edgedefault='undirected'><node id='x'/><node id='y'/><node id='z'/>
<edge source='x' target='y'><data key='w'>0.5</data><data key='b'>2</data></edge>
<edge source='z' target='y'><data key='b'>1</data></edge></graph></graphml>"""
ARRAYS = {
    "edge_index": EDGES.numpy(),
    "edge_labels": np.array([2, 2, 1, 1], dtype=np.uint8),
    "edge_attributes": np.array([[0.5], [0.5], [3], [3]]),
}
BOTH = {"edge_labels": [2, 2, 1, 1], "edge_attributes": [0.5, 0.5, 3.0, 3.0]}
SAME: dict[str, tuple[Any, dict[str, list[float]]]] = {
    "header.csv": ("source,target,weight,bond\n0,1,.5,2\n1,0,.5,2\n2,1,3,1\n1,2,3,1\n", BOTH),
    "plain.txt": ("0 1 2 0.5\n1 0 2 .5\n2 1 1 3\n1 2 1 3.0\n", BOTH),
    "g.graphml": (GRAPHML, BOTH),
    "g.npz": (ARRAYS, BOTH),
    "labels.pt": (
        Data(edge_index=EDGES, edge_attr=torch.tensor([2, 2, 1, 1])),
        {"edge_labels": [2, 2, 1, 1]},
    ),
    "attributes.pt": (
        {"edge_index": EDGES, "edge_attr": torch.tensor([[0.5], [0.5], [3], [3]])},
        {"edge_attributes": [0.5, 0.5, 3.0, 3.0]},
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_every_format_brings_the_features_of_its_edges(tmp_path: Path, name: str) -> None:
    content, expected = SAME[name]
    graphs = read_files([written(tmp_path / name, content)], edge_features=True)
    assert set(graphs.edge_features) == set(expected)
    edges = np.concatenate(graphs.edges, axis=1).T.tolist()
    for key, rows in graphs.edge_features.items():
        known = dict(zip(map(tuple, EDGES.T.tolist()), expected[key], strict=True))
        assert {tuple(e): r for e, [r] in zip(edges, rows.tolist(), strict=True)} == known
    unread = read_files([tmp_path / name])
    assert unread.edge_features == {}
    assert "left out are" in unread.left_out


def test_a_saved_set_of_pyg_brings_the_rows_of_each_graph(tmp_path: Path) -> None:
    from torch_geometric.data import InMemoryDataset

    ones = [Data(edge_index=EDGES, edge_attr=torch.arange(4) + i, num_nodes=3) for i in (0, 5)]
    InMemoryDataset.save(ones, tmp_path / "data.pt")
    graphs = read_graph_file(tmp_path / "data.pt", edge_features=True)
    assert graphs.edge_features["edge_attr"].ravel().tolist() == [0, 1, 2, 3, 5, 6, 7, 8]
    values, slices = torch.load(tmp_path / "data.pt", weights_only=False)[:2]
    torch.save((values, slices | {"edge_attr": torch.tensor([0, 3, 8])}), tmp_path / "data.pt")
    with pytest.raises(DataError, match="slices of edge_attr must be those of edge_index"):
        read_graph_file(tmp_path / "data.pt", edge_features=True)


def test_the_values_of_a_matrix_are_features(tmp_path: Path) -> None:
    matrix = sparse.coo_matrix(([2, 2, 1, 1], tuple(EDGES.numpy())), shape=(3, 3))
    sparse.save_npz(tmp_path / "g.npz", matrix.tocsr())
    graphs = read_graph_file(tmp_path / "g.npz", edge_features=True)
    (rows,) = graphs.edge_features.values()
    found = dict(zip(map(tuple, graphs.edge_index.T.tolist()), rows.ravel().tolist(), strict=True))
    assert found == {(0, 1): 2, (1, 0): 2, (2, 1): 1, (1, 2): 1}
    assert rows.dtype == np.int64


def graphml(edges: str, keys: str = "") -> str:
    nodes = "<node id='a'/><node id='b'/><node id='c'/>"
    return f"<graphml>{keys}<graph edgedefault='undirected'>{nodes}{edges}</graph></graphml>"


KEY = "<key id='k' for='edge' attr.name='bond' attr.type='{}'/>"
EDGE = "<edge source='a' target='b'><data key='k'>{}</data></edge>"


@pytest.mark.parametrize(
    ("kind", "value", "dtype"), [("int", "1", "i"), ("double", "1", "f"), ("boolean", "true", "i")]
)
def test_graphml_has_the_types_that_it_declares(
    tmp_path: Path, kind: str, value: str, dtype: str
) -> None:
    path = written(tmp_path / "g.graphml", graphml(EDGE.format(value), KEY.format(kind)))
    (rows,) = read_graph_file(path, edge_features=True).edge_features.values()
    assert rows.dtype.kind == dtype
    assert rows.tolist() == [[1]]


WRONG: dict[str, tuple[str, Any, str]] = {
    "a word": ("g.csv", "0,1,single\n1,0,single\n", "line 1: column 3 is 'single', but features"),
    "a word below a header": ("g.csv", "source,target,bond\n0,1,1\n1,0,x\n", "line 3: bond is 'x'"),
    "no value": ("g.csv", "0,1,\n1,0,1\n", "line 1: column 3 is ''"),
    "an underscore": ("g.csv", "0,1,1_0\n1,0,1_0\n", "column 3 is '1_0'"),
    "a huge number": ("g.csv", f"0,1,{10**30}\n1,0,1\n", "the numbers of column 3 are too large"),
    "braces": ("g.edgelist", "0 1 {'weight': 1}\n", "line 1: attributes in braces are not read"),
    "a word in GraphML": (
        "g.graphml",
        graphml(EDGE.format("single"), KEY.format("string")),
        "graph 0, edge 0: bond is 'single'",
    ),
    "an edge without": (
        "g.graphml",
        graphml(EDGE.format("1") + "<edge source='b' target='c'/>", KEY.format("int")),
        "edge 1 has no bond, but others have",
    ),
    "an unknown key": ("g.graphml", graphml(EDGE.format("1")), "key 'k', which is not declared"),
    "rows of npz": (
        "g.npz",
        ARRAYS | {"edge_labels": np.array([1, 2])},
        r"edge_labels has shape \(2, 1\), not \[4, k\]",
    ),
    "NaN in npz": (
        "g.npz",
        ARRAYS | {"edge_attributes": np.array([1, np.nan, 0, 0])},
        "edge_attributes has nan in row 1, which is not finite",
    ),
    "real labels": (
        "g.npz",
        ARRAYS | {"edge_labels": np.array([1.0, 2, 0, 0])},
        "edge_labels are float64, not integers",
    ),
    "rows of pt": (
        "g.pt",
        {"edge_index": EDGES, "edge_attr": torch.ones(3, 2)},
        r"edge_attr has shape \(3, 2\), not \[4, k\]",
    ),
    "no tensor": ("g.pt", {"edge_index": EDGES, "edge_attr": [1, 2]}, "edge_attr is not a plain"),
}


@pytest.mark.parametrize("fault", WRONG)
def test_features_of_a_file_that_are_wrong_are_refused_and_only_if_they_are_read(
    tmp_path: Path, fault: str
) -> None:
    name, content, message = WRONG[fault]
    path = written(tmp_path / name, content)
    with pytest.raises(DataError, match=message):
        read_graph_file(path, edge_features=True)
    assert read_graph_file(path).edge_features == {}


def folder(
    tmp_path: Path, files: dict[str, Any], wanted: str = "labels", header: bool | None = None
) -> GraphArrays:
    for name, content in files.items():
        written(tmp_path / name, content)
    rows = [f"{name},{i}" for i, name in enumerate(files)]
    (tmp_path / "labels.csv").write_text("\n".join(["file,label", *rows]) + "\n")
    source = Folder(path=str(tmp_path), edge_features=wanted, header=header)  # type: ignore[arg-type]
    return source.read(RawFiles(tmp_path / "root"))


def test_a_column_of_a_folder_is_real_if_it_is_in_one_of_its_files(tmp_path: Path) -> None:
    files = {"a.csv": "0,1,1\n1,0,2\n", "b.csv": "0,1,1\n1,0,2.5\n"}
    graphs = folder(tmp_path, files)
    assert graphs.edge_labels is None
    assert by_edge(graphs, "edge_attributes")[0] == {(0, 1): [1.0], (1, 0): [2.0]}


def test_columns_with_names_are_in_the_order_of_the_names(tmp_path: Path) -> None:
    files = {
        "a.csv": "source,target,ring,bond\n0,1,0,1\n1,0,0,1\n",
        "b.csv": "source,target,bond,ring\n0,1,1,0\n1,0,1,0\n",
    }
    assert by_edge(folder(tmp_path, files)) == [{(0, 1): [1, 0], (1, 0): [1, 0]}] * 2


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"a.csv": "0,1,1\n1,0,1\n", "b.csv": "0,1\n1,0\n"},
            r"a.csv have column 3, but those of .*b.csv none",
        ),
        (
            {"a.csv": "0,1,1\n1,0,1\n", "b.g6": "A_\n"},
            r"a.csv have column 3, but those of .*b.g6 none",
        ),
        (
            {"a.csv": "0,1,1\n1,0,-1\n", "b.csv": "0,1,1\n1,0,1\n"},
            r"a.csv: edge_labels of edge \[1, 0\] are \[-1\]",
        ),
        (
            {"a.csv": "0,1,0.5\n1,0,nan\n", "b.csv": "0,1,1\n1,0,1\n"},
            r"a.csv: edge_attributes of edge \[1, 0\] are \[nan\]",
        ),
        (
            {"a.csv": "0,1,1\n1,0,1\n0,1,2\n", "b.csv": "0,1,1\n1,0,1\n"},
            r"a.csv: edge \[0, 1\] is given more than once, with edge_labels \[1\] and \[2\]",
        ),
    ],
)
def test_a_folder_whose_edges_do_not_agree_is_refused(
    tmp_path: Path, files: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message) as refused:
        folder(tmp_path, files)
    assert refused.value.codes == ["data.edge_features"]


def test_a_folder_that_is_not_asked_for_them_tells_what_its_edges_have(tmp_path: Path) -> None:
    files = {"a.csv": "source,target,bond,weight\n0,1,1,.5\n1,0,1,.5\n", "b.g6": "A_\n"}
    with pytest.warns(UserWarning, match="left out are the columns after the second"):
        graphs = folder(tmp_path, files, "none")
    assert graphs.unread == "bond (labels), weight (attributes)"
    graphs.save(tmp_path / "graphs.npz")
    assert GraphArrays.load(tmp_path / "graphs.npz").unread == graphs.unread
    assert graphs.edge_labels is None


@pytest.mark.parametrize("header", [True, False])
def test_the_header_that_is_told_names_the_columns_or_is_an_edge(
    tmp_path: Path, header: bool
) -> None:
    first = "person,friend,kind\n" if header else "7,8,2\n8,7,2\n"
    files = {"a.csv": f"{first}0,1,1\n1,0,1\n", "b.csv": "0,1,0\n1,0,0\n"}
    if header:
        del files["b.csv"]
    with pytest.warns(UserWarning, match="left out"):
        unread = folder(tmp_path, files, "none", header).unread
    assert unread == ("kind (labels)" if header else "column 3 (labels)")
    found = folder(tmp_path, files, "labels", header)
    assert list(by_edge(found)[0].values())[-1] == [1]
