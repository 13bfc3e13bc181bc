from __future__ import annotations

import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.io import read_tu_data

from unionsnn.base.errors import DataError
from unionsnn.data.arrays import GraphArrays
from unionsnn.data.sources.download import fetch
from unionsnn.data.sources.source import RawFiles
from unionsnn.data.sources.tu import TU, read_tu

CHECKOUT = Path(__file__).parents[2]
MIRROR = Path(os.environ.get("UNIONSNN_TEST_MIRROR") or CHECKOUT.parent / "shared" / "data")

# Two graphs: a path with an isolated node, and a triangle. A loop and a repeat are in A.
GOOD = {
    "A": "1, 2\n2, 1\n2, 3\n3, 2\n5, 6\n6, 5\n5, 7\n7, 5\n7, 6\n6, 7\n1, 1\n2, 1\n",
    "graph_indicator": "1\n1\n1\n1\n2\n2\n2\n",
    "graph_labels": "-1\n4\n",
    "node_labels": "3\n5\n3\n3\n4\n5\n3\n",
    "node_attributes": "0.5, 1\n1e-3, 2\n0, 0\n-1, 1\n1, 1\n1, 2.25\n3.1, 1\n",
    "edge_labels": "2\n2\n1\n1\n2\n2\n4\n4\n1\n1\n1\n2\n",
}


def write(folder: Path, files: dict[str, str], top: str = "SET/", name: str = "SET.zip") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / name, "w", zipfile.ZIP_DEFLATED) as archive:
        for key, text in files.items():
            archive.writestr(f"{top}SET_{key}.txt", text)
    return folder / name


def mirror_zip(name: str) -> Path:
    path = MIRROR / "TUDataset" / f"{name}.zip"
    if not path.exists():
        pytest.skip(f"{path} is missing; name a mirror with UNIONSNN_TEST_MIRROR")
    return path


def by_pyg(path: Path, name: str, folder: Path) -> tuple[Data, dict[str, Tensor], dict[str, int]]:
    with zipfile.ZipFile(path) as archive:
        archive.extractall(folder)
    return read_tu_data(str(folder / name), name)


def joined(attributes: np.ndarray | None, labels: np.ndarray | None) -> Tensor | None:
    """Lay features out as PyG does: attributes, then one-hot labels."""
    parts = [] if attributes is None else [torch.from_numpy(attributes)]
    for column in [] if labels is None else torch.from_numpy(labels).unbind(dim=1):
        parts.append(torch.nn.functional.one_hot(column).float())
    return torch.cat(parts, dim=1) if parts else None


def assert_same(ours: GraphArrays, theirs: tuple[Data, dict[str, Tensor], dict[str, int]]) -> None:
    data, slices, sizes = theirs
    np.testing.assert_array_equal(ours.edge_index, data.edge_index)
    np.testing.assert_array_equal(ours.edge_slices, slices["edge_index"])
    np.testing.assert_array_equal(ours.y, data.y)
    assert ours.y.dtype == data.y.numpy().dtype
    for mine, key in (
        (joined(ours.node_attributes, ours.node_labels), "x"),
        (joined(ours.edge_attributes, ours.edge_labels), "edge_attr"),
    ):
        other = getattr(data, key)
        assert (mine is None) == (other is None)
        if mine is not None:
            assert torch.equal(mine, other)
    if data.x is not None:
        np.testing.assert_array_equal(ours.node_slices, slices["x"])
    width = 0 if ours.node_attributes is None else ours.node_attributes.shape[1]
    assert width == sizes["num_node_attributes"]


@pytest.mark.parametrize("name", ["MUTAG", "PROTEINS", "ENZYMES"])
def test_real_sets_equal_pyg(name: str, tmp_path: Path) -> None:
    path = mirror_zip(name)
    assert_same(read_tu(path, name), by_pyg(path, name, tmp_path))


VARIATIONS = {
    "all files": GOOD,
    "no repeats": GOOD | {"A": GOOD["A"][:-5], "edge_labels": GOOD["edge_labels"][:-2]},
    "no features": {key: GOOD[key] for key in ("A", "graph_indicator", "graph_labels")},
    "node attributes only": {k: v for k, v in GOOD.items() if not k.endswith("e_labels")},
    "two label columns": {k: v for k, v in GOOD.items() if k != "edge_labels"}
    | {"node_labels": "3, 0\n5, 1\n3, 2\n3, 0\n4, 2\n5, 1\n3, 7\n"},
    "regression": {k: v for k, v in GOOD.items() if k not in ("graph_labels", "edge_labels")}
    | {"graph_attributes": "0.5, 1.25\n-3, 2\n"},
    "edge attributes": {k: v for k, v in GOOD.items() if k != "edge_labels"}
    | {"A": GOOD["A"][:-5], "edge_attributes": "".join(f"{i}.5, 0\n" for i in range(11))},
    "no edge in one graph": GOOD | {"A": "5, 6\n6, 5\n", "edge_labels": "1\n3\n"},
}


@pytest.mark.parametrize("files", VARIATIONS.values(), ids=VARIATIONS)
def test_small_sets_equal_pyg(files: dict[str, str], tmp_path: Path) -> None:
    path = write(tmp_path, files)
    data, slices, sizes = by_pyg(path, "SET", tmp_path)
    ours = read_tu(path, "SET")
    if files is GOOD:
        # PyG adds up the one-hot rows of repeated edges; here an edge has its label once.
        assert data.edge_attr is not None
        data.edge_attr = data.edge_attr.clamp(max=1)
    assert_same(ours, (data, slices, sizes))


def test_what_is_read_is_what_is_written(tmp_path: Path) -> None:
    graphs = read_tu(write(tmp_path, GOOD), "SET")
    assert graphs.edge_index.tolist() == [
        [0, 1, 1, 2, 0, 0, 1, 1, 2, 2],
        [1, 0, 2, 1, 1, 2, 0, 2, 0, 1],
    ]
    assert graphs.node_slices.tolist() == [0, 4, 7]
    assert graphs.edge_slices.tolist() == [0, 4, 10]
    assert graphs.y.tolist() == [0, 1]
    assert graphs.class_names == ("-1", "4")
    assert graphs.node_labels is not None
    assert graphs.node_labels[:, 0].tolist() == [0, 2, 0, 0, 1, 2, 0]
    assert graphs.edge_labels is not None
    assert graphs.edge_labels[:, 0].tolist() == [1, 1, 0, 0, 1, 3, 1, 0, 3, 0]


def mangle_crlf(text: str) -> str:
    return text.replace("\n", "\r\n")


def mangle_blank_end(text: str) -> str:
    return text + "\n  \n\n"


def mangle_no_newline_at_end(text: str) -> str:
    return text.rstrip("\n")


def mangle_trailing_spaces(text: str) -> str:
    return text.replace("\n", "  \t\n").replace(",", " ,")


def mangle_tight(text: str) -> str:
    return text.replace(" ", "")


def mangle_byte_order_mark(text: str) -> str:
    return "\ufeff" + text


@pytest.mark.parametrize(
    "mangle",
    [
        mangle_crlf,
        mangle_blank_end,
        mangle_no_newline_at_end,
        mangle_trailing_spaces,
        mangle_tight,
        mangle_byte_order_mark,
    ],
)
def test_harmless_ways_of_writing_make_no_difference(mangle: object, tmp_path: Path) -> None:
    files = {key: mangle(text) for key, text in GOOD.items()}  # type: ignore[operator]
    plain = read_tu(write(tmp_path / "plain", GOOD), "SET")
    assert read_tu(write(tmp_path / "mangled", files), "SET").content_hash() == plain.content_hash()


def test_files_may_be_at_the_top_and_others_are_ignored(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD | {"comments": "hello"}, top="")
    assert read_tu(path, "SET").num_graphs == 2


def test_a_set_without_any_edge_is_legal(tmp_path: Path) -> None:
    files = {key: GOOD[key] for key in ("graph_indicator", "graph_labels")} | {"A": ""}
    graphs = read_tu(write(tmp_path, files), "SET")
    assert graphs.edge_index.shape == (2, 0)
    assert graphs.edge_slices.tolist() == [0, 0, 0]


def test_labels_0_and_2_become_classes_0_and_1(tmp_path: Path) -> None:
    graphs = read_tu(write(tmp_path, GOOD | {"graph_labels": "2\n0\n"}), "SET")
    assert graphs.y.tolist() == [1, 0]
    assert graphs.class_names == ("0", "2")
    assert graphs.num_classes == 2


def test_edges_of_one_direction_are_refused(tmp_path: Path) -> None:
    one_way = GOOD | {"A": "1, 2\n3, 2\n7, 5\n5, 6\n6, 7\n", "edge_labels": "1\n2\n3\n4\n5\n"}
    with pytest.raises(DataError, match=r"SET_A.txt, line 1 .* edge 1, 2 has no edge back \(5"):
        read_tu(write(tmp_path, one_way), "SET")
    arrays = read_tu(write(tmp_path, one_way), "SET", symmetrize=True)
    pairs = [(0, 1), (1, 0), (1, 2), (2, 1), (0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]
    assert arrays.edge_index.T.tolist() == [list(pair) for pair in pairs]
    assert arrays.edge_labels is not None
    assert arrays.edge_labels[:, 0].tolist() == [0, 0, 1, 1, 3, 2, 3, 4, 2, 4]
    both = read_tu(write(tmp_path, GOOD), "SET", symmetrize=True)
    assert both.content_hash() == read_tu(write(tmp_path, GOOD), "SET").content_hash()


def test_numbers_beside_classes_are_the_targets_of_a_regression(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD | {"graph_attributes": "0.5\n-2\n"})
    assert read_tu(path, "SET").y.tolist() == [0, 1]
    assert read_tu(path, "SET", numbers=True).y.tolist() == [[0.5], [-2.0]]
    (tmp_path / "raw" / "TUDataset").mkdir(parents=True)
    raw = RawFiles(tmp_path, offline=True)
    path.rename(tmp_path / "raw" / "TUDataset" / "SET.zip")
    classes = TU(tu_name="SET")
    numbers = TU(tu_name="SET", task="graph_regression")
    assert classes.read(raw).class_names == ("-1", "4")
    assert numbers.read(raw).y.tolist() == [[0.5], [-2.0]]
    directed = TU(tu_name="SET", symmetrize=True)
    assert len({each.processed_key(raw) for each in (classes, numbers, directed)}) == 3


def without(*keys: str) -> dict[str, str]:
    return {key: text for key, text in GOOD.items() if key not in keys}


def changed(key: str, old: str, new: str) -> dict[str, str]:
    assert old in GOOD[key]
    return GOOD | {key: GOOD[key].replace(old, new, 1)}


BAD = [
    (without("graph_labels"), r"has no SET_graph_labels.txt; it holds SET/SET_A.txt, "),
    (without("A"), r"has no SET_A.txt; it holds"),
    (without("graph_indicator"), r"has no SET_graph_indicator.txt; it holds"),
    (GOOD | {"graph_labels": "-1\n"}, r"SET_graph_labels.txt \(in .*has 1 lines, but 2 are exp"),
    (GOOD | {"graph_labels": "-1\n4\n4\n"}, r"SET_graph_labels.txt .*has 3 lines, but 2 are"),
    (changed("node_labels", "3\n", ""), r"SET_node_labels.txt .*has 6 lines, but 7 are expected"),
    (changed("edge_labels", "2\n", ""), r"SET_edge_labels.txt .*has 11 lines, but 12 are"),
    (changed("node_attributes", "0, 0\n", ""), r"SET_node_attributes.txt .*has 6 lines, but 7"),
    (changed("A", "2, 1", "0, 1"), r"SET_A.txt, line 2 .*edge 0, 1 names a node outside of 1\.\.7"),
    (changed("A", "5, 6", "5, 8"), r"SET_A.txt, line 5 .*edge 5, 8 names a node outside of 1\.\.7"),
    (changed("A", "5, 6", "-5, 6"), r"SET_A.txt, line 5 .*edge -5, 6 names a node outside"),
    (changed("A", "5, 6", "3, 6"), r"SET_A.txt, line 5 .*edge 3, 6 joins graph 1 and graph 2"),
    (changed("A", "5, 6", "5, x"), r"SET_A.txt, line 5 .*'5,x' is not a whole number"),
    (changed("A", "5, 6", "5, 6.0"), r"SET_A.txt, line 5 .*'5,6.0' is not a whole number"),
    (changed("A", "5, 6", "5 6"), r"SET_A.txt, line 5 .*'5 6' is not a whole number \(or several"),
    (changed("A", "5, 6", "5,, 6 6"), r"SET_A.txt, line 5 .*is not a whole number"),
    (changed("A", "5, 6", "5, 6, 7"), r"SET_A.txt, line 5 .*3 value\(s\), but 2 on the lines abo"),
    (changed("A", "5, 6\n", "5\n6, 5, 6\n"), r"SET_A.txt, line 5 .*1 value\(s\), but 2 on the"),
    (changed("A", "5, 6\n", "\n5, 6\n"), r"SET_A.txt, line 5 .*'' is not a whole number"),
    (changed("A", "5, 6", "5, " + "9" * 30), r"SET_A.txt, line 5 .*is not a whole number"),
    (GOOD | {"A": "1\n2\n"}, r"SET_A.txt, line 1 .*1 value\(s\) instead of 2"),
    (GOOD | {"graph_labels": "1, 1\n2, 1\n"}, r"SET_graph_labels.txt, line 1 .*2 value\(s\) ins"),
    (GOOD | {"graph_labels": "-1\n0.5\n"}, r"SET_graph_labels.txt, line 2 .*'0.5' is not a whole"),
    (GOOD | {"graph_indicator": "0\n0\n0\n0\n1\n1\n1\n"}, r"starts with graph 0, .*from 1"),
    (
        GOOD | {"graph_indicator": "1\n1\n2\n1\n2\n2\n2\n"},
        r"SET_graph_indicator.txt, line 4 .*graph 1 after graph 2: out of order",
    ),
    (
        GOOD | {"graph_indicator": "1\n1\n1\n1\n3\n3\n3\n"},
        r"SET_graph_indicator.txt, line 5 .*graph 3 after graph 1: .* have no node",
    ),
    (GOOD | {"graph_indicator": ""}, r"SET_graph_indicator.txt .*is empty"),
    (changed("node_attributes", "2.25", "nan"), r"SET_node_attributes.txt, line 6 .*not finite"),
    (changed("node_attributes", "2.25", "inf"), r"SET_node_attributes.txt, line 6 .*not finite"),
    (changed("node_attributes", "2.25", "1e60"), r"SET_node_attributes.txt, line 6 .*not finite"),
    (changed("node_attributes", "2.25", "?"), r"SET_node_attributes.txt, line 6 .*not a number"),
    (
        GOOD | {"edge_labels": GOOD["edge_labels"][:-2] + "3\n"},
        r"SET_edge_labels.txt, line 12 .*edge 2, 1 was given before, in line 2, with another value",
    ),
    (
        GOOD | {"A": GOOD["A"].replace("7, 6\n", "7, 5\n"), "edge_labels": "1\n" * 12},
        "line 10 .*no edge back",
    ),
]


@pytest.mark.parametrize(("files", "message"), BAD)
def test_bad_files_are_refused_by_file_and_line_and_harm_nothing(
    files: dict[str, str], message: str, tmp_path: Path
) -> None:
    path = write(tmp_path, files)
    with pytest.raises(DataError, match=message):
        read_tu(path, "SET")
    assert [file.name for file in tmp_path.iterdir()] == ["SET.zip"]
    assert read_tu(write(tmp_path, GOOD), "SET").num_graphs == 2


def test_a_file_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("OTHER/SET_A.txt", GOOD["A"])
    with pytest.raises(
        DataError, match=r"SET_A.txt more than once: SET/SET_A.txt, OTHER/SET_A.txt"
    ):
        read_tu(path, "SET")


def test_a_set_of_another_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"has no OTHER_A.txt; it holds SET/SET_A.txt"):
        read_tu(write(tmp_path, GOOD), "OTHER")


def test_a_fetched_zip_that_breaks_is_removed_and_mended(tmp_path: Path) -> None:
    write(tmp_path / "mirror" / "TUDataset", GOOD)
    place = {"upstream": None, "root": tmp_path / "root", "mirror": tmp_path / "mirror"}
    path = fetch("TUDataset/SET.zip", **place)  # type: ignore[arg-type]
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(DataError, match="has been removed"):
        read_tu(path, "SET")
    assert read_tu(fetch("TUDataset/SET.zip", **place), "SET").num_graphs == 2  # type: ignore[arg-type]


# Graphs, nodes, undirected edges, smallest and largest graph, width of one-hot node labels, of
# one-hot edge labels, of node attributes, sizes of the classes, isolated nodes.
LOADED = {
    "MUTAG": (188, 3371, 3721, 10, 28, 7, 4, 0, [63, 125], 0),
    "PROTEINS": (1113, 43471, 81044, 4, 620, 3, 0, 1, [663, 450], 5),
    "ENZYMES": (600, 19580, 37282, 2, 126, 3, 0, 18, [100] * 6, 106),
    "DD": (1178, 334925, 843046, 30, 5748, 89, 0, 0, [691, 487], 0),
    "NCI1": (4110, 122747, 132753, 3, 111, 37, 0, 0, [2053, 2057], 428),
    "Tox21_AhR_training": (8169, 147779, 151100, 2, 132, 50, 4, 0, [7219, 950], 1498),
}


@pytest.mark.parametrize("name", LOADED)
def test_real_sets_have_the_known_statistics(name: str) -> None:
    graphs = read_tu(mirror_zip(name), name)
    graphs.validate()
    entry = TU(tu_name=name).known
    assert entry is not None
    entry.check(graphs)
    sizes = np.diff(graphs.node_slices)
    union = graphs.edge_index + np.repeat(graphs.node_slices[:-1], np.diff(graphs.edge_slices))
    seen = (
        graphs.num_graphs,
        graphs.num_nodes,
        graphs.num_edges // 2,
        sizes.min(),
        sizes.max(),
        0 if graphs.node_labels is None else graphs.node_labels.max() + 1,
        0 if graphs.edge_labels is None else graphs.edge_labels.max() + 1,
        0 if graphs.node_attributes is None else graphs.node_attributes.shape[1],
        np.bincount(graphs.y).tolist(),
        graphs.num_nodes - len(np.unique(union)),
    )
    assert seen == LOADED[name]
