"""A user's own data: a folder of files, or a PyG data set by its path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import own_datasets
from fabricated import write_folder
from unionsnn.base.errors import DataError, RequestError
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.data.new_graphs import read_new_graphs
from unionsnn.data.nodes import NodeDataModule
from unionsnn.data.sources.folder import Folder, read_files
from unionsnn.data.sources.pyg import PyG, PyGNodes, make_dataset
from unionsnn.data.sources.pyg_graphs import read_pyg_dataset


def folder(path: Path, features: str = "degree", **arguments: Any) -> GraphDataModule:
    source = Folder(path=str(path), **arguments)
    return GraphDataModule(source, name="mine", root=path.parent / "root", features=features)


def test_a_folder_with_a_table_is_a_data_set(tmp_path: Path) -> None:
    data = folder(write_folder(tmp_path / "own", 12))
    assert data.num_graphs == 12
    assert data.arrays.class_names == ("circle", "path")
    assert data.targets.tolist() == [1, 0] * 6
    for g, graph in enumerate(data.graphs):
        n = 4 + g // 2 % 5
        assert graph.num_nodes == n
        assert graph.num_edges == 2 * (n - 1 + g % 2)


def test_a_change_in_any_file_or_in_the_table_is_seen(tmp_path: Path) -> None:
    path = write_folder(tmp_path / "own", 12)
    first = folder(path).dataset_id
    assert folder(path).dataset_id == first
    (path / "0.csv").write_text("0,1\n1,0\n")
    second = folder(path).dataset_id
    table = (path / "labels.csv").read_text()
    (path / "labels.csv").write_text(table.replace("1.csv,circle", "1.csv,path"))
    assert len({first, second, folder(path).dataset_id}) == 3


def test_classes_that_are_numbers_keep_their_order(tmp_path: Path) -> None:
    path = write_folder(tmp_path / "own", 3)
    (path / "labels.csv").write_text("file,label\n0.csv,10\n1.csv,9\n2.csv,10\n\n")
    data = folder(path)
    assert data.arrays.class_names == ("9", "10")
    assert data.targets.tolist() == [1, 0, 1]


def test_several_columns_of_numbers_are_targets(tmp_path: Path) -> None:
    path = write_folder(tmp_path / "own", 2)
    (path / "labels.csv").write_text("file,a,b\n0.csv,0.5,1\n1.csv,-2,3\n")
    data = folder(path, task="graph_regression")
    assert data.targets.tolist() == [[0.5, 1.0], [-2.0, 3.0]]
    assert data.num_outputs == 2
    with pytest.raises(DataError, match="has 2 label columns, not 1"):
        _ = folder(path).arrays


def test_files_of_all_kinds_stand_side_by_side(tmp_path: Path) -> None:
    path = tmp_path / "own"
    path.mkdir()
    (path / "a.g6").write_text("Bw\n")
    (path / "b.csv").write_text("x,y\ny,x\n")
    np.savez(path / "c.npz", edge_index=np.array([[0, 1], [1, 0]]), num_nodes=3)
    (path / "labels.csv").write_text("file,label\na.g6,0\nb.csv,1\nc.npz,1\n")
    arrays = folder(path).arrays
    assert np.diff(arrays.node_slices).tolist() == [3, 2, 3]
    assert np.diff(arrays.edge_slices).tolist() == [6, 2, 2]


@pytest.mark.parametrize(("header", "nodes"), [(True, 2), (False, 4)])
def test_a_first_line_that_may_be_a_header_is_one_if_said_so(
    tmp_path: Path, header: bool, nodes: int
) -> None:
    path = tmp_path / "own"
    path.mkdir()
    (path / "a.g6").write_text("Bw\n")
    (path / "b.csv").write_text("p,q\nx,y\ny,x\n")
    (path / "labels.csv").write_text("file,label\na.g6,0\nb.csv,1\n")
    with pytest.raises(DataError, match=r"data\.header=true or false") as refused:
        _ = folder(path).arrays
    assert refused.value.codes == ["data.header"]
    found = folder(path, header=header, symmetrize=True)
    assert np.diff(found.arrays.node_slices).tolist() == [3, nodes]
    new = read_new_graphs(
        path, features="degree", widths=None, level="graph", header=header, symmetrize=True
    )
    assert np.diff(new.arrays.node_slices).tolist() == [3, nodes]
    assert found.dataset_id != folder(path, header=not header, symmetrize=True).dataset_id
    with pytest.raises(RequestError, match="about edge lists"):
        read_files([path / "a.g6"], header=header)


def npz(path: Path, **arrays: Any) -> None:
    np.savez(path, edge_index=np.array([[0, 1], [1, 0]]), **arrays)


def test_node_features_come_from_npz_files(tmp_path: Path) -> None:
    path = tmp_path / "own"
    path.mkdir()
    for i in range(2):
        npz(path / f"{i}.npz", node_labels=np.array([i, 2]), node_attributes=np.ones((2, 4)))
    (path / "labels.csv").write_text("file,label\n0.npz,0\n1.npz,1\n")
    assert folder(path, features="both").num_features == 7
    assert folder(path, features="categorical").num_features == (3,)
    npz(path / "1.npz")
    with pytest.raises(DataError, match=r"1.npz has no node_labels, but other files have"):
        _ = folder(path).arrays
    npz(path / "1.npz", node_labels=np.array([1]), node_attributes=np.ones((2, 4)))
    with pytest.raises(DataError, match=r"1.npz: node_labels has shape \(1, 1\), not \[2, k\]"):
        _ = folder(path).arrays
    npz(path / "1.npz", node_labels=np.array([1, 1]), node_attributes=np.ones((2, 3)))
    with pytest.raises(DataError, match=r"node_attributes have 3 and 4 columns"):
        _ = folder(path).arrays


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ({"node_attributes": np.array([1j, 2])}, "complex128, not real numbers"),
        ({"node_attributes": np.array(["a", "b"])}, "not real numbers"),
        ({"node_attributes": np.array([1, None])}, "never unpickled"),
        ({"node_attributes": np.array([1, np.nan])}, "nan in row 1"),
        ({"node_attributes": np.array([1, 1e300])}, r"1e\+300 in row 1"),
        ({"node_labels": np.array([0, 2**63], dtype=np.uint64)}, "9223372036854775808 in row 1"),
        ({"node_labels": np.array([True, False])}, "bool, not integers"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_features_that_would_be_changed_by_reading_are_refused(
    tmp_path: Path, features: dict[str, Any], message: str
) -> None:
    npz(tmp_path / "0.npz", **features)
    with pytest.raises(DataError, match=message):
        read_files([tmp_path / "0.npz"])


def test_what_is_not_read_of_a_graph_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "g.csv").write_text("source,target,weight\na,b,1\nb,a,1\n")
    said = read_files([tmp_path / "g.csv"]).left_out
    assert said.startswith("g.csv: left out are the columns after the second")


def test_a_pt_file_is_said_to_have_node_features_that_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "g.pt"
    torch.save({"edge_index": torch.tensor([[0, 1], [1, 0]]), "x": torch.rand(2, 3)}, path)
    with pytest.raises(DataError, match=r"x of a \.pt file is not read") as refused:
        read_new_graphs(path, features="attributes", widths=None, level="graph")
    assert refused.value.codes == ["data.no_features"]
    (note,) = read_new_graphs(path, features="degree", widths=None, level="graph").notes
    assert note.startswith("g.pt: left out are x.")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (None, r"labels.csv does not exist: data.path names a folder"),
        ("name,label\n0.csv,1\n", r"labels.csv, line 1: the header is .* must be file,label"),
        ("file,label\n0.csv\n", r"labels.csv, line 2: 1 columns, not 2"),
        ("file,label\n0.csv,1\n99.csv,1\n", r"labels.csv, line 3: .*99.csv does not exist"),
        ("file,label\n0.csv,1\n./0.csv,2\n", r"labels.csv, line 3: .*0.csv is already in line 2"),
        ("\nfile,label\n\n0.csv\n", r"labels.csv, line 4: 1 columns, not 2"),
        ("file,label\n", r"labels.csv lists no file"),
        ("file,label\n0.csv,1\n1.csv,1.0\n", r"line 3: the label 1.0 is the same number as 1 in"),
        ("file,label\n0.csv,1\n../own/1.csv,2\n", r"line 3: ../own/1.csv is outside of the folder"),
        ("file,label\n0.csv,1\n/etc/hosts,2\n", r"line 3: /etc/hosts is outside of the folder"),
        ('file,label\n0.csv,"1\n1.csv,2\n', r"is not a CSV file \(unexpected end"),
        ("", r"line 1: the header is \[\]"),
    ],
)
def test_tables_that_are_wrong_are_refused_by_line(
    tmp_path: Path, table: str | None, message: str
) -> None:
    path = write_folder(tmp_path / "own", 2)
    if table is None:
        (path / "labels.csv").unlink()
    else:
        (path / "labels.csv").write_text(table)
    with pytest.raises(DataError, match=message):
        _ = folder(path).arrays


@pytest.mark.parametrize(
    "label",
    [
        *("", " ", "NA", "nan", "NaN", "n/a", "null", "None", "?", "-", ".", "*", "N.A.", "NaT"),
        *("<NA>", "#N/A N/A", "Missing", "unknown", "inf", "-1", "-999"),
    ],
)
def test_a_missing_label_is_no_class(tmp_path: Path, label: str) -> None:
    path = write_folder(tmp_path / "own", 4)
    (path / "labels.csv").write_text(f"file,label\n0.csv,a\n1.csv,{label}\n2.csv,b\n3.csv,a\n")
    with pytest.raises(DataError, match=r"labels.csv, line 3: the label is .*unlabelled=drop") as e:
        _ = folder(path).arrays
    assert e.value.codes == ["data.unlabelled"]
    with pytest.warns(UserWarning, match=r"1 graphs without a label are left out \(lines 3\)"):
        arrays = folder(path, unlabelled="drop").arrays
    assert (arrays.num_graphs, arrays.class_names, arrays.y.tolist()) == (3, ("a", "b"), [0, 1, 0])
    if label.strip():
        assert folder(path, unlabelled="class").arrays.num_classes == 3
    else:
        with pytest.raises(DataError, match="line 3: the label is empty"):
            _ = folder(path, unlabelled="class").arrays


@pytest.mark.parametrize("other", ["0", "2", "-2"])
def test_minus_one_is_a_class_beside_one_alone(tmp_path: Path, other: str) -> None:
    path = write_folder(tmp_path / "own", 4)
    (path / "labels.csv").write_text("file,label\n0.csv,1\n1.csv,-1\n2.csv,1\n3.csv,-1\n")
    assert folder(path).arrays.class_names == ("-1", "1")
    (path / "labels.csv").write_text(f"file,label\n0.csv,1\n1.csv,-1\n2.csv,{other}\n3.csv,1\n")
    with pytest.raises(DataError, match=r"line 3: the label is '-1', which means") as refused:
        _ = folder(path).arrays
    assert refused.value.codes == ["data.unlabelled"]
    assert folder(path, unlabelled="class").arrays.num_classes == 3


@pytest.mark.parametrize(
    "target", ["inf", "1e400", "1e39", "\u0661", "1_0", "1e-400", "1e-60", "x"]
)
def test_a_target_that_is_no_real_number_is_refused(tmp_path: Path, target: str) -> None:
    path = write_folder(tmp_path / "own", 2)
    (path / "labels.csv").write_text(f"file,y\n0.csv,0.0e-9\n1.csv,{target}\n")
    with pytest.raises(DataError, match=r"line 3: .* is not a number that a reg") as refused:
        _ = folder(path, task="graph_regression").arrays
    assert refused.value.codes == ["data.table"]


def test_a_missing_target_is_named_by_its_line(tmp_path: Path) -> None:
    path = write_folder(tmp_path / "own", 3)
    (path / "labels.csv").write_text("file,a,b\n0.csv,0.5,1\n1.csv,2,nan\n2.csv,inf,1\n")
    with pytest.raises(DataError, match="line 3: the label is '2, nan', which means"):
        _ = folder(path, task="graph_regression").arrays
    with (
        pytest.warns(UserWarning, match="left out"),
        pytest.raises(DataError, match="line 4: 'inf' is not a number that a regression"),
    ):
        _ = folder(path, task="graph_regression", unlabelled="drop").arrays


def test_one_way_edges_are_refused_by_file_unless_symmetrized(tmp_path: Path) -> None:
    path = write_folder(tmp_path / "own", 3)
    (path / "1.csv").write_text("0,1\n1,0\n1,2\n")
    with pytest.raises(DataError, match=r"1.csv: edge \[1, 2\] has no edge back .*symmetrize=true"):
        _ = folder(path).arrays
    assert folder(path, symmetrize=True).arrays.edge_slices[2] - 6 == 4


def test_a_file_of_several_graphs_is_refused(tmp_path: Path) -> None:
    path = write_folder(tmp_path / "own", 1)
    (path / "two.g6").write_text("Bw\nBw\n")
    (path / "labels.csv").write_text("file,label\ntwo.g6,1\n0.csv,0\n")
    with pytest.raises(DataError, match=r"two.g6 holds 2 graphs; one per file is needed"):
        _ = folder(path).arrays


# -- PyG -----------------------------------------------------------------------------------


def pyg(tmp_path: Path, dataset: str, features: str = "attributes", **arguments: Any):
    source = PyG(dataset=dataset, **arguments)
    return GraphDataModule(source, name="pyg", root=tmp_path, features=features)


def pyg_nodes(tmp_path: Path, dataset: str, **arguments: Any) -> NodeDataModule:
    source = PyGNodes(dataset=dataset, **arguments)
    return NodeDataModule(source, name="pyg", root=tmp_path, features="attributes")


def test_graphs_of_a_pyg_data_set_are_taken_as_they_are(tmp_path: Path) -> None:
    data = pyg(tmp_path, "own_datasets.Graphs", arguments={"count": 12})
    made = own_datasets.Graphs(count=12)
    assert (data.num_graphs, data.num_features, data.num_outputs) == (12, 3, 2)
    for ours, theirs in zip(data.graphs, made, strict=True):
        assert torch.equal(ours.x, theirs.x)
        assert torch.equal(ours.y, theirs.y)
        order = np.lexsort(theirs.edge_index.numpy()[::-1])
        assert torch.equal(ours.edge_index, theirs.edge_index[:, order])
    assert list((tmp_path).iterdir()) == []


def test_whole_numbers_are_labels_and_several_targets_a_regression(tmp_path: Path) -> None:
    data = pyg(tmp_path, "own_datasets.Regression", "categorical", task="graph_regression")
    assert data.num_features == (3,)
    assert data.num_outputs == 2
    assert data.targets[:, 0].tolist() == [float(n) for n in range(3, 13)]


def test_nodes_have_the_split_of_their_masks_or_a_drawn_one(tmp_path: Path) -> None:
    data = pyg_nodes(tmp_path, "own_datasets.Nodes")
    split = data.default_split(np.random.default_rng(0))
    assert [len(part) for part in split.parts().values()] == [12, 12, 12]
    assert split.validation[:2].tolist() == [1, 6]
    assert not data.split_covers
    free = pyg_nodes(tmp_path, "own_datasets.Nodes", arguments={"masks": False})
    split = free.default_split(np.random.default_rng(0))
    assert [len(part) for part in split.parts().values()] == [48, 6, 6]
    assert free.split_covers
    data.split = data.default_split(np.random.default_rng(0))
    (batch,) = data.train_dataloader()
    assert batch.train_mask.sum() == 12


def test_root_is_a_folder_of_the_data_root_unless_given(tmp_path: Path) -> None:
    assert make_dataset("own_datasets.Nodes", {}, tmp_path).given_root == str(tmp_path / "Nodes")
    assert make_dataset("own_datasets.Nodes", {"root": "x"}, tmp_path).given_root == "x"


@pytest.mark.parametrize(
    ("dataset", "arguments", "message"),
    [
        ("own_datasets.Nothing", {}, r"data.dataset is 'own_datasets.Nothing', which cannot be"),
        (
            "no_such_module.Set",
            {},
            r"which cannot be imported .*looked for in .* installed packages",
        ),
        ("Graphs", {}, r"must be a dotted path, .*type data.dataset=MODULE.Graphs"),
        ("own_datasets.Graphs", {"size": 3}, r"data.arguments are .*it takes count"),
        ("own_datasets.Unlabelled", {}, r"own_datasets.Unlabelled: graph 0 has no y"),
        ("own_datasets.NoEdges", {}, r"own_datasets.NoEdges: graph 0 has no edge_index"),
        ("own_datasets.Nodes", {}, r"one graph has a y for each node; type data=pyg_nodes"),
        ("own_datasets.OneWay", {}, r"graph 0: edge \[0, 1\] has no edge back .*symmetrize=true"),
        ("own_datasets.Graphs", {"count": 0}, r"own_datasets.Graphs with .* failed \(Index"),
    ],
)
def test_what_is_wrong_with_a_pyg_data_set_is_said(
    tmp_path: Path, dataset: str, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        _ = pyg(tmp_path, dataset, arguments=arguments).arrays


def test_nodes_of_several_graphs_and_tasks_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has 10 graphs; nodes are classified in one"):
        _ = pyg_nodes(tmp_path, "own_datasets.Graphs").arrays
    with pytest.raises(DataError, match=r"data.task is graph_classification, but its targets are"):
        _ = pyg(tmp_path, "own_datasets.Regression").arrays


def test_loops_and_repeats_are_dropped() -> None:
    edges = torch.tensor([[0, 1, 0, 1, 2], [1, 0, 1, 0, 2]])
    data = Data(edge_index=edges, num_nodes=4, y=torch.tensor([1]))
    arrays = read_pyg_dataset([data, data], level="graph", symmetrize=False)
    assert arrays.edge_index.tolist() == [[0, 1, 0, 1], [1, 0, 1, 0]]
    assert arrays.node_slices.tolist() == [0, 4, 8]
