"""CSL, ogbn-arxiv, the Long Range Graph Benchmark and QM9: small files in the published formats."""

from __future__ import annotations

import pickle
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data_files import ogb_node_tables, write_csl, write_ogb
from fabricated import write_lrgb, write_qm9
from unionsnn.base.errors import DataError
from unionsnn.config.compose import compose_config
from unionsnn.data.arrays import GraphArrays
from unionsnn.data.catalog import CATALOG, CatalogEntry
from unionsnn.data.sources import csl
from unionsnn.data.sources.csl import read_csl
from unionsnn.data.sources.ogb import read_ogb_nodes
from unionsnn.data.sources.pyg import PyG
from unionsnn.data.sources.source import RawFiles
from unionsnn.training.build import build_data
from unionsnn.training.protocols import draw_splits


def csl_files(root: Path) -> tuple[Path, dict[str, Path]]:
    folder = root / "splits" / "benchmarking-gnns" / "CSL"
    index = {part: folder / f"CSL_{part}.index" for part in ("train", "val", "test")}
    return root / "expressivity" / "CSL" / "CSL.zip", index


def test_csl_is_read_with_its_classes_and_folds(tmp_path: Path) -> None:
    write_csl(tmp_path, 20)
    graphs = read_csl(*csl_files(tmp_path))
    graphs.validate()
    assert graphs.y.tolist() == [0, 1] * 10
    # No loops; every node has its four neighbours.
    assert graphs.num_edges == 20 * 11 * 4
    assert graphs.part is not None
    assert graphs.part.shape == (20, 5)
    for fold in graphs.part.T:
        assert Counter(fold.tolist()) == {0: 12, 1: 4, 2: 4}
    assert (graphs.part == 2).sum(axis=1).tolist() == [1] * 20


def test_csl_files_that_are_wrong_are_refused(tmp_path: Path) -> None:
    write_csl(tmp_path, 20)
    archive, index = csl_files(tmp_path)
    lines = index["val"].read_text().splitlines()
    index["val"].write_text("\n".join(lines[:4]))
    with pytest.raises(DataError, match=r"CSL_val.index has 4 lines, not 5"):
        read_csl(archive, index)
    index["val"].write_text("\n".join([*lines[:4], "0,1,2,3"]))
    with pytest.raises(DataError, match=r"fold 4: .*overlap"):
        read_csl(archive, index)
    index["val"].write_text("\n".join(lines))
    with zipfile.ZipFile(archive) as old:
        classes = old.read("y_Kary_Deterministic_Graphs.pt")
    for content, words in (
        (pickle.dumps([Path("x")]), "is not a pickle that can be read safely"),
        (pickle.dumps([1, 2]), "is no list of sparse matrices"),
    ):
        with zipfile.ZipFile(archive, "w") as new:
            new.writestr("graphs_Kary_Deterministic_Graphs.pkl", content)
            new.writestr("y_Kary_Deterministic_Graphs.pt", classes)
        with pytest.raises(DataError, match=words):
            read_csl(archive, index)


def test_the_folds_of_csl_are_those_of_the_protocol(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CatalogEntry, "check", lambda *args: None)
    write_csl(tmp_path / "mirror", 20)
    own = ["data=csl", f"data.mirror={tmp_path / 'mirror'}", f"paths.data={tmp_path}"]
    config = compose_config([*own, "protocol=cross_validation", "protocol.folds=5"])
    data = build_data(config)
    splits = draw_splits(config.protocol, data, seed=0)
    assert np.sort(np.concatenate([s.test for s in splits])).tolist() == list(range(20))
    assert splits[0].test.tolist() == [0, 1, 10, 11]
    other = compose_config([*own, "protocol=cross_validation", "protocol.folds=10"])
    with pytest.raises(DataError, match="prescribes 5 folds") as refused:
        draw_splits(other.protocol, data, seed=0)
    assert refused.value.codes == ["protocol.folds"]


def test_the_published_csl_is_that_of_the_known_set(mirror: Path) -> None:
    graphs = read_csl(*csl_files(mirror))
    CATALOG["csl"].check(graphs)
    assert Counter(graphs.y.tolist()) == dict.fromkeys(range(10), 15)
    with np.load(mirror / "expressivity" / "CSL" / "csl.npz") as plain:
        np.testing.assert_array_equal(graphs.edge_index, plain["edge_index"])
        np.testing.assert_array_equal(graphs.y, plain["y"])


def test_addresses_of_csl_are_those_of_the_reference_loader() -> None:
    from torch_geometric.datasets import GNNBenchmarkDataset

    assert GNNBenchmarkDataset.urls["CSL"] == csl.URL


def test_ogb_nodes_are_read_as_they_are_written(tmp_path: Path) -> None:
    tables = ogb_node_tables()
    # A citation in both directions, and one of a paper itself, as the published files have.
    tables["raw/edge"] += [tables["raw/edge"][0][::-1], [5, 5]]
    tables["raw/num-edge-list"] = [[len(tables["raw/edge"])]]
    graphs = read_ogb_nodes(write_ogb(tmp_path, "arxiv", tables), "arxiv", "time")
    graphs.validate()
    cited = {tuple(edge) for edge in tables["raw/edge"] if edge[0] != edge[1]}
    assert {tuple(e) for e in graphs.edge_index.T.tolist()} == cited | {(b, a) for a, b in cited}
    assert graphs.y.tolist() == [row[0] for row in tables["raw/node-label"]]
    np.testing.assert_allclose(graphs.node_attributes, tables["raw/node-feat"], rtol=1e-6)
    assert graphs.part is not None
    for place, name in enumerate(("train", "valid", "test")):
        assert np.flatnonzero(graphs.part == place).tolist() == [
            row[0] for row in tables[f"split/time/{name}"]
        ]


@pytest.mark.parametrize(
    ("name", "row", "value", "words"),
    [
        ("raw/edge", 2, [60, 0], r"edge.csv.gz, line 3 .*outside of 0..59"),
        ("raw/node-label", 2, [-1], r"node-label.csv.gz, line 3 .*is negative"),
        ("raw/node-feat", 2, ["x"] * 4, r"node-feat.csv.gz, line 3 .*is not a number"),
        ("split/time/test", 0, [0], r"split/time"),
    ],
)
def test_ogb_node_files_that_are_wrong_are_refused(
    tmp_path: Path, name: str, row: int, value: list[Any], words: str
) -> None:
    tables = ogb_node_tables()
    tables[name][row] = value
    if name.startswith("split"):
        tables[name].pop()
    with pytest.raises(DataError, match=words):
        read_ogb_nodes(write_ogb(tmp_path, "arxiv", tables), "arxiv", "time")


def read_by_pyg(data: str, root: Path, *overrides: str) -> GraphArrays:
    section = compose_config([f"data={data}", *overrides]).data
    source = PyG(task=section.task, **(section.model_extra or {}))
    return source.read(RawFiles(root))


@pytest.mark.filterwarnings("ignore:.*torch.load:FutureWarning")
@pytest.mark.parametrize(("data", "targets"), [("peptides_func", 10), ("peptides_struct", 11)])
def test_the_parts_of_a_pyg_set_are_its_split(tmp_path: Path, data: str, targets: int) -> None:
    name = data.replace("_", "-")
    write_lrgb(tmp_path / "raw" / "pyg" / "LRGBDataset" / name / "raw", targets)
    graphs = read_by_pyg(data, tmp_path)
    graphs.validate()
    assert graphs.part is not None
    assert graphs.part.tolist() == [0] * 12 + [1] * 12 + [2] * 12
    assert graphs.y.dtype == np.float32
    assert graphs.y.shape == (36, targets)
    assert graphs.y[:, 0].tolist() == [0, 1] * 18
    assert graphs.node_labels is not None
    assert graphs.node_labels.shape[1] == 9


def test_targets_of_qm9_are_chosen(tmp_path: Path) -> None:
    write_qm9(tmp_path / "raw" / "pyg" / "QM9" / "raw")
    every = read_by_pyg("qm9", tmp_path, "data.targets=null")
    assert every.y.shape == (30, 19)
    chosen = read_by_pyg("qm9", tmp_path, "data.targets=[7, 0]")
    np.testing.assert_array_equal(chosen.y, every.y[:, [7, 0]])
    with pytest.raises(DataError, match=r"data.targets is \[19\], but y has the columns 0..18"):
        read_by_pyg("qm9", tmp_path, "data.targets=[19]")
