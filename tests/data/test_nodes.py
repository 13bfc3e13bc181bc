"""Citation and co-purchase graphs: equal to PyG, split as published, trained as a full batch."""

from __future__ import annotations

import collections
import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.datasets import Amazon, Planetoid
from torch_geometric.transforms import LargestConnectedComponents

from data_files import planetoid_objects, write_amazon, write_planetoid
from unionsnn.base.errors import DataError
from unionsnn.coefficients import CoefficientSpec
from unionsnn.data.arrays import GraphArrays
from unionsnn.data.catalog import CatalogEntry
from unionsnn.data.nodes import NodeDataModule
from unionsnn.data.sources.amazon import Amazon as AmazonSource
from unionsnn.data.sources.amazon import largest_component, read_amazon
from unionsnn.data.sources.pickles import dense_rows
from unionsnn.data.sources.planetoid import FILES, read_planetoid
from unionsnn.data.sources.planetoid import Planetoid as PlanetoidSource
from unionsnn.data.splits import check_split

SPEC = CoefficientSpec(quantities=("a", "nodes"))


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CatalogEntry, "check", lambda *args: None)


def planetoid(
    tmp_path: Path, spec: CoefficientSpec | None = None, **arguments: Any
) -> NodeDataModule:
    source = PlanetoidSource(planetoid_name="cora", **arguments)
    place = {"root": tmp_path / "root", "mirror": str(tmp_path), "offline": True}
    return NodeDataModule(source, name="cora", features="attributes", spec=spec, **place)


def read(folder: Path, name: str) -> GraphArrays:
    return read_planetoid({key: folder / f"ind.{name}.{key}" for key in FILES})


def assert_equal_pyg(ours: GraphArrays, theirs: Any) -> None:
    ours.validate()
    assert ours.node_attributes is not None
    assert np.array_equal(ours.node_attributes, theirs.x.numpy())
    assert np.array_equal(ours.y, theirs.y.numpy())
    assert np.array_equal(ours.edge_index, theirs.edge_index.numpy())


def pyg_planetoid(folder: Path, tmp_path: Path, name: str) -> Any:
    raw = tmp_path / "pyg" / name / "raw"
    raw.mkdir(parents=True)
    for key in FILES:
        shutil.copy(folder / f"ind.{name.lower()}.{key}", raw)
    return Planetoid(str(tmp_path / "pyg"), name)[0]


@pytest.mark.parametrize(
    "name", ["Cora", "CiteSeer", pytest.param("PubMed", marks=pytest.mark.slow)]
)
def test_real_citation_graphs_equal_pyg(mirror: Path, tmp_path: Path, name: str) -> None:
    theirs = pyg_planetoid(mirror / "planetoid", tmp_path, name)
    ours = read(mirror / "planetoid", name.lower())
    assert_equal_pyg(ours, theirs)
    assert ours.part is not None
    for place, part in enumerate(("train", "val", "test")):
        assert np.array_equal(ours.part == place, theirs[f"{part}_mask"].numpy())
    if name == "CiteSeer":
        isolated = np.setdiff1d(np.arange(3327), ours.edge_index)
        assert len(isolated) == 48


@pytest.mark.parametrize("gap", [None, 533])
def test_small_citation_graphs_equal_pyg(tmp_path: Path, gap: int | None) -> None:
    objects = planetoid_objects(gap=gap)
    folder = write_planetoid(tmp_path, "citeseer", objects)
    assert_equal_pyg(read(folder, "citeseer"), pyg_planetoid(folder, tmp_path, "CiteSeer"))


def changed(key: str, value: Any) -> dict[str, Any]:
    return planetoid_objects() | {key: value}


BAD = [
    (changed("graph", {0: [1], 1: []}), r"ind.cora.graph: edge \[0, 1\] has no edge back"),
    (changed("graph", {0: [999], 999: [0]}), r"ind.cora.graph names a node outside of 0..549"),
    (changed("graph", [[1], [0]]), r"ind.cora.graph is not a dictionary of neighbours"),
    (changed("ty", np.ones((30, 3))), r"ind.cora.ty has a row that is not one-hot"),
    (changed("ty", np.eye(3)[[0] * 29]), r"the files do not belong together"),
    (changed("tx", np.zeros(30)), r"ind.cora.tx is not a matrix of features"),
    (changed("tx", np.zeros((30, 16))), r"the files do not belong together"),
    (changed("test.index", [520] * 30), r"ind.cora.test.index must name different nodes"),
    (changed("test.index", range(521, 551)), r"the files do not belong together .*from 521 on"),
    (changed("allx", os.path.join), r"ind.cora.allx is not a pickle .*names posixpath.join"),
]


@pytest.mark.parametrize(("objects", "message"), BAD)
def test_files_that_are_wrong_are_refused_by_name(
    tmp_path: Path, objects: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        read(write_planetoid(tmp_path, "cora", objects), "cora")


def test_a_damaged_sparse_matrix_is_refused(tmp_path: Path) -> None:
    objects = planetoid_objects()
    objects["allx"].indices[0] = 99
    with pytest.raises(DataError, match=r"ind.cora.allx is not a matrix .*do not fit together"):
        read(write_planetoid(tmp_path, "cora", objects), "cora")


@pytest.mark.parametrize(
    ("indices", "indptr", "rows", "columns"),
    [
        ([0, 1], [0, 2, 1, 2], 3, 2),
        ([0, 1], [0, 10**12, 2, 2], 3, 2),
        ([0, 1], [0, 1, 2], 3, 2),
        ([0, 1], [1, 1, 1, 2], 3, 2),
        ([0, 2], [0, 1, 1, 2], 3, 2),
        ([-1, 0], [0, 1, 1, 2], 3, 2),
        ([0.0, 1.0], [0, 1, 1, 2], 3, 2),
        ([[0, 1]], [0, 1, 1, 1], 3, 2),
        ([0, 1], [0, 1, 1, 2], 3, 10**14),
        ([0, 1], np.array([0, 2, 1, 2], dtype=np.uint64), 3, 2),
    ],
)
def test_sparse_rows_are_checked_before_they_are_unpacked(
    indices: Any, indptr: Any, rows: int, columns: int
) -> None:
    with pytest.raises(ValueError, match=r"do not fit together|numbers take"):
        dense_rows(np.ones(2), indices, indptr, rows, columns)


def test_a_test_node_beyond_the_memory_is_refused(tmp_path: Path) -> None:
    objects = planetoid_objects()
    objects["test.index"] = [*objects["test.index"][:-1], 10**13]
    with pytest.raises(DataError, match=r"test.index names node 10000000000000; .* takes"):
        read(write_planetoid(tmp_path, "cora", objects), "cora")


def test_a_cut_pickle_is_set_aside_and_the_next_call_works(tmp_path: Path) -> None:
    folder = write_planetoid(tmp_path, "cora")
    good = (folder / "ind.cora.tx").read_bytes()
    (folder / "ind.cora.tx").write_bytes(good[:-9])
    with pytest.raises(DataError, match=r"ind.cora.tx is not a pickle .*set aside"):
        _ = planetoid(tmp_path).arrays
    (folder / "ind.cora.tx").write_bytes(good)
    assert planetoid(tmp_path).num_items == 550


def test_old_pickles_of_python_2_are_read() -> None:
    from unionsnn.data.sources.pickles import PLANETOID_NAMES, read_pickle

    old = (
        b"ccollections\ndefaultdict\np0\n(c__builtin__\nlist\np1\ntp2\nRp3\n"
        b"I0\n(lp4\nI1\nasI1\n(lp5\nI0\nas."
    )
    found = read_pickle(old, PLANETOID_NAMES, "file")
    assert found == collections.defaultdict(list, {0: [1], 1: [0]})
    assert pickle.loads(old) == found


def test_the_full_batch_has_all_nodes_and_the_masks_of_the_split(tmp_path: Path) -> None:
    write_planetoid(tmp_path, "cora")
    data = planetoid(tmp_path, spec=SPEC)
    assert (data.num_items, data.num_outputs, data.num_features) == (550, 3, 17)
    assert data.split_covers is False
    data.split = data.default_split(np.random.default_rng(0))
    assert [len(part) for part in data.split.parts().values()] == [12, 500, 30]
    check_split(data.split, data.num_items, cover=False)
    for loader in (data.train_dataloader(), data.val_dataloader(), data.test_dataloader()):
        (batch,) = loader
        assert batch.num_nodes == 550
        for name, part in (("train", "train"), ("val", "validation"), ("test", "test")):
            nodes = batch[f"{name}_mask"].nonzero().flatten().tolist()
            assert nodes == getattr(data.split, part).tolist()
        rows = SPEC.compute(batch.edge_index.numpy(), 550)
        np.testing.assert_allclose(batch.edge_coefficient.numpy(), rows, rtol=1e-6)
    assert len(data.part_coefficient("train")) == batch.num_edges
    degrees = batch.edge_index[1].bincount(minlength=550)
    assert torch.equal(data.part_degrees("train"), degrees.bincount())


def test_rows_of_features_add_up_to_one_where_asked(tmp_path: Path) -> None:
    write_planetoid(tmp_path, "cora")
    plain = planetoid(tmp_path).graphs[0].x
    total = plain.sum(dim=1, keepdim=True)
    assert (total == 0).any()
    x = planetoid(tmp_path, normalize_features=True).graphs[0].x
    assert torch.allclose(x, plain / total.clamp(min=1))


def test_the_wrong_task_is_refused_by_name(tmp_path: Path) -> None:
    write_planetoid(tmp_path, "cora")
    data = planetoid(tmp_path)
    data.task = "graph_classification"
    with pytest.raises(DataError, match=r"data.task is graph_classification, but .* each node"):
        _ = data.arrays


@pytest.mark.parametrize(
    "name", ["photo", pytest.param("computers", marks=pytest.mark.slow), "toy"]
)
def test_co_purchase_graphs_equal_pyg(mirror: Path, tmp_path: Path, name: str) -> None:
    folder = mirror / "amazon"
    if name == "toy":
        folder = write_amazon(tmp_path, "toy").parent
    file = folder / f"amazon_electronics_{name}.npz"
    kind = "photo" if name == "toy" else name
    raw = tmp_path / "pyg" / kind.capitalize() / "raw"
    raw.mkdir(parents=True)
    shutil.copy(file, raw / f"amazon_electronics_{kind}.npz")
    theirs = LargestConnectedComponents()(Amazon(str(tmp_path / "pyg"), kind)[0])
    assert_equal_pyg(read_amazon(file), theirs)


def test_the_largest_component_is_kept() -> None:
    edges = np.array([[0, 1, 2, 3, 3, 4], [1, 0, 3, 2, 4, 3]])
    assert largest_component(edges, 6).tolist() == [False, False, True, True, True, False]


def amazon(tmp_path: Path, **arguments: Any) -> NodeDataModule:
    place = {"root": tmp_path / "root", "mirror": str(tmp_path)}
    source = AmazonSource(amazon_name="photo", **arguments)
    return NodeDataModule(source, name="photo", features="attributes", **place)


def test_the_drawn_split_is_stratified_seeded_and_covers(tmp_path: Path) -> None:
    write_amazon(tmp_path, "photo")
    data = amazon(tmp_path, train_share=0.2, validation_share=0.15)
    assert data.num_items == 200
    splits = [data.default_split(np.random.default_rng(seed)) for seed in (1, 1, 2)]
    assert np.array_equal(splits[0].train, splits[1].train)
    assert not np.array_equal(splits[0].train, splits[2].train)
    check_split(splits[0], 200)
    assert [len(part) for part in splits[0].parts().values()] == [40, 30, 130]
    shares = np.bincount(data.targets[splits[0].train]) - 0.2 * np.bincount(data.targets)
    assert (np.abs(shares) <= 1).all()


def test_shares_that_leave_nothing_to_test_are_refused(tmp_path: Path) -> None:
    write_amazon(tmp_path, "photo")
    data = amazon(tmp_path, train_share=0.5, validation_share=0.5)
    with pytest.raises(DataError, match="leave a part of the 200 items empty"):
        data.default_split(np.random.default_rng(0))


def test_a_damaged_npz_is_refused_by_name(tmp_path: Path) -> None:
    path = write_amazon(tmp_path, "photo")
    with np.load(path) as archive:
        arrays = dict(archive)
    np.savez(path, **(arrays | {"labels": arrays["labels"][:-1]}))
    with pytest.raises(DataError, match=r"photo.npz is not a graph as of gnn-benchmark"):
        read_amazon(path)
    np.savez(path, **(arrays | {"adj_indices": arrays["adj_indices"] + 300}))
    with pytest.raises(DataError, match="do not fit together"):
        read_amazon(path)
