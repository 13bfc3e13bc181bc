"""OGB and ZINC: equal to the reference readers, strict about their files."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from data_files import (
    ATOM_LIMITS,
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
from unionsnn.data.sources.ogb import ATOM_CATEGORIES, OGB, read_ogb_molecules
from unionsnn.data.sources.pickles import ZINC_NAMES, read_pickle

SIZES = (12, 5, 4)
FULL = (30, 6, 4)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let hand-made files pass for the sets: their counts are not the real ones."""
    monkeypatch.setattr(CatalogEntry, "check", lambda *args: None)
    monkeypatch.setattr(zinc, "FULL", FULL)
    monkeypatch.setattr(zinc, "SUBSET", SIZES)


def edges_of(graphs: GraphArrays, g: int) -> list[tuple[int, ...]]:
    begin, end = graphs.edge_slices[g], graphs.edge_slices[g + 1]
    return [tuple(edge) for edge in graphs.edge_index[:, begin:end].T.tolist()]


# -- OGB -----------------------------------------------------------------------------------


def test_ogb_files_are_read_as_they_are_written(tmp_path: Path) -> None:
    tables = ogb_tables()
    graphs = read_ogb_molecules(write_ogb(tmp_path, "toy", tables), "toy")
    graphs.validate()
    pairs = iter(zip(tables["raw/edge"], tables["raw/edge-feat"], strict=True))
    for g, [count] in enumerate(tables["raw/num-edge-list"]):
        expected = {}
        for (u, v), feature in (next(pairs) for _ in range(count)):
            expected[u, v] = expected[v, u] = feature
        assert edges_of(graphs, g) == sorted(expected)
        assert graphs.edge_labels is not None
        rows = graphs.edge_labels[graphs.edge_slices[g] : graphs.edge_slices[g + 1]]
        assert rows.tolist() == [expected[edge] for edge in sorted(expected)]
    assert graphs.node_labels is not None
    assert graphs.node_labels.tolist() == tables["raw/node-feat"]
    assert [[y] for y in graphs.y.tolist()] == tables["raw/graph-label"]
    assert graphs.part is not None
    for place, name in enumerate(("train", "valid", "test")):
        rows = np.flatnonzero(graphs.part == place)
        assert [[int(i)] for i in rows] == tables[f"split/scaffold/{name}"]


@pytest.mark.parametrize("slow", [False, True])
def test_missing_labels_and_targets_of_ogb_are_nan(tmp_path: Path, slow: bool) -> None:
    tables = ogb_tables(columns=3)
    labels = tables["raw/graph-label"]
    if slow:
        # Not a usual number: the table is read line by line.
        labels[0] = ["nan", "0", "1"]
    expected = [[np.nan if v in ("", "nan") else float(v) for v in row] for row in labels]
    for task in ("graph_multilabel_classification", "graph_regression"):
        graphs = read_ogb_molecules(write_ogb(tmp_path, "toy", tables), "toy", task)
        graphs.validate()
        np.testing.assert_array_equal(graphs.y, np.array(expected, dtype=np.float32))
        assert np.isnan(graphs.y).sum() > 10
    # One class for each molecule cannot be missing.
    with pytest.raises(DataError, match=r"graph-label.csv.gz, line .*is not a whole number"):
        read_ogb_molecules(write_ogb(tmp_path, "toy", tables), "toy")
    labels[3] = [1, 0.5, ""]
    with pytest.raises(DataError, match=r"graph-label.csv.gz, line 4 .*0.5 is not 0, 1 or empty"):
        read_ogb_molecules(
            write_ogb(tmp_path, "toy", tables), "toy", "graph_multilabel_classification"
        )


def put(name: str, row: int, value: list[int] | None) -> dict[str, list[list[int]]]:
    tables = ogb_tables()
    if value is None:
        del tables[name][row]
    else:
        tables[name][row] = value
    return tables


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (
            put("raw/node-feat", 3, [119, *[0] * 8]),
            r"toy/raw/node-feat.csv.gz, line 4 .*outside of 0..118 in value 1",
        ),
        (put("raw/node-feat", 3, [0] * 8), r"node-feat.csv.gz, line 4 .*8 value\(s\), but 9"),
        (put("raw/node-feat", 3, None), r"node-feat.csv.gz .*lines, but \d+ are expected"),
        (put("raw/edge", 0, [0, 99]), r"raw/edge.csv.gz, line 1 .*\[0, 99\] is outside"),
        (put("raw/edge", 1, None), r"raw/edge.csv.gz .*lines, but"),
        (put("raw/edge-feat", 1, None), r"raw/edge-feat.csv.gz .*lines, but"),
        (
            put("raw/graph-label", 2, [2]),
            r"graph-label.csv.gz, line 3 .*\[2\] is outside of 0..1 in value 1",
        ),
        (put("raw/graph-label", 2, None), r"graph-label.csv.gz .*has 39 lines, but 40 are"),
        (put("raw/num-node-list", 2, [-1]), r"num-node-list.csv.gz, line 3 .*is negative"),
        (put("raw/num-edge-list", 2, None), r"num-edge-list.csv.gz .*has 39 lines, but"),
        (put("split/scaffold/test", 0, [0]), r"split/scaffold .*"),
        (put("split/scaffold/train", 0, None), r"split/scaffold .*1 of 40 items are in no part"),
    ],
)
def test_ogb_files_that_are_wrong_are_refused_by_name(
    tmp_path: Path, tables: dict[str, list[list[int]]], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        read_ogb_molecules(write_ogb(tmp_path, "toy", tables), "toy")


def test_an_ogb_edge_that_is_given_twice_is_refused_by_line(tmp_path: Path) -> None:
    tables = ogb_tables()
    at = next(g for g, [count] in enumerate(tables["raw/num-edge-list"]) if count >= 2)
    row = sum(count for [count] in tables["raw/num-edge-list"][:at])
    tables["raw/edge"][row + 1] = tables["raw/edge"][row][::-1]
    with pytest.raises(DataError, match=rf"raw/edge.csv.gz, line ({row + 1}|{row + 2}) .*repeated"):
        read_ogb_molecules(write_ogb(tmp_path, "toy", tables), "toy")


def test_an_ogb_file_that_lacks_a_part_says_which(tmp_path: Path) -> None:
    tables = ogb_tables()
    del tables["split/scaffold/valid"]
    with pytest.raises(DataError, match=r"has no toy/split/scaffold/valid.csv.gz"):
        read_ogb_molecules(write_ogb(tmp_path, "toy", tables), "toy")


def test_ogb_data_have_their_split_and_categories(tmp_path: Path) -> None:
    write_ogb(tmp_path, "toy")
    data = GraphDataModule(
        OGB(folder="toy"),
        name="toy",
        root=tmp_path / "root",
        mirror=str(tmp_path),
        features="categorical",
    )
    data.split = data.default_split(np.random.default_rng(0))
    assert (data.num_features, data.num_outputs) == (ATOM_LIMITS, 1)
    assert [len(part) for part in data.split.parts().values()] == [24, 8, 8]
    batch = next(iter(data.val_dataloader()))
    assert batch.x.dtype == torch.int64
    assert batch.x.shape[1] == 9


def test_atom_categories_are_those_of_ogb() -> None:
    from ogb.utils.features import get_atom_feature_dims

    assert list(ATOM_CATEGORIES) == get_atom_feature_dims()


def test_molbbbp_equals_ogbs_own_reader(mirror: Path, tmp_path: Path) -> None:
    from ogb.io.read_graph_pyg import read_graph_pyg

    path = mirror / "ogb" / "bbbp.zip"
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path)
    theirs = read_graph_pyg(str(tmp_path / "bbbp" / "raw"), add_inverse_edge=True)
    ours = read_ogb_molecules(path, "bbbp")
    assert ours.num_graphs == len(theirs)
    assert ours.node_labels is not None
    assert ours.edge_labels is not None
    for g, graph in enumerate(theirs):
        rows = slice(ours.node_slices[g], ours.node_slices[g + 1])
        assert np.array_equal(ours.node_labels[rows], graph.x.numpy())
        order = np.lexsort(graph.edge_index.numpy()[::-1])
        rows = slice(ours.edge_slices[g], ours.edge_slices[g + 1])
        assert np.array_equal(ours.edge_index[:, rows], graph.edge_index.numpy()[:, order])
        assert np.array_equal(ours.edge_labels[rows], graph.edge_attr.numpy()[order])


# -- ZINC ----------------------------------------------------------------------------------


def parts(sizes: tuple[int, int, int] = SIZES) -> dict[str, list[dict[str, Any]]]:
    return {
        part: molecules(size, seed=i)
        for i, (part, size) in enumerate(zip(("train", "val", "test"), sizes, strict=True))
    }


def straight(sizes: tuple[int, int, int] = SIZES) -> dict[str, list[int]]:
    return {p: list(range(n)) for p, n in zip(("train", "val", "test"), sizes, strict=True)}


def assert_molecules(graphs: GraphArrays, expected: list[dict[str, Any]]) -> None:
    graphs.validate()
    assert graphs.num_graphs == len(expected)
    assert graphs.node_labels is not None
    for g, molecule in enumerate(expected):
        rows = slice(graphs.node_slices[g], graphs.node_slices[g + 1])
        assert graphs.node_labels[rows, 0].tolist() == molecule["atom_type"].tolist()
        bonds = [tuple(edge) for edge in molecule["bond_type"].nonzero().tolist()]
        assert edges_of(graphs, g) == bonds
        assert graphs.y[g, 0] == molecule["logP_SA_cycle_normalized"].item()


def zinc_module(tmp_path: Path, size: str = "subset", **options: Any) -> GraphDataModule:
    arguments = {"name": "toy", "root": tmp_path / "root", "mirror": str(tmp_path)}
    arguments |= {"features": "categorical", "offline": True}
    return GraphDataModule(zinc.Zinc(size=size), **{**arguments, **options})


def test_both_index_styles_give_the_same_subset(tmp_path: Path) -> None:
    small, rest = parts(), parts((18, 1, 3))
    write_zinc_pickles(tmp_path / "a" / "zinc", small)
    write_zinc_index(tmp_path / "a" / "zinc", straight())
    # Upstream: the zip file holds all molecules, and the index files name the subset's rows.
    order = {"train": [*range(18, 30)], "val": [0, 1, 2, 3, 4], "test": [0, 1, 2, 3]}
    full = {
        "train": [*rest["train"], *small["train"]],
        "val": [*small["val"], *rest["val"]],
        "test": small["test"],
    }
    write_zinc_pickles(tmp_path / "b" / "zinc", full)
    write_zinc_index(tmp_path / "b" / "zinc", order)
    one = zinc_module(tmp_path, mirror=str(tmp_path / "a"), root=tmp_path / "1")
    other = zinc_module(tmp_path, mirror=str(tmp_path / "b"), root=tmp_path / "2")
    assert one.arrays.content_hash() == other.arrays.content_hash()
    assert_molecules(one.arrays, [m for part in small.values() for m in part])
    split = one.default_split(np.random.default_rng(0))
    assert [part.tolist() for part in split.parts().values()] == [
        [*range(12)], [*range(12, 17)], [*range(17, 21)]
    ]  # fmt: skip
    assert (one.num_features, one.num_outputs) == ((28,), 1)


def test_the_full_set_is_the_same_from_both_forms(tmp_path: Path) -> None:
    content = parts(FULL)
    write_zinc_pickles(tmp_path / "a" / "zinc-full", content)
    write_zinc_npz(tmp_path / "b" / "zinc-full", content)
    slow = zinc_module(tmp_path, "full", mirror=str(tmp_path / "a"), root=tmp_path / "1")
    fast = zinc_module(tmp_path, "full", mirror=str(tmp_path / "b"), root=tmp_path / "2")
    assert_molecules(fast.arrays, [m for part in content.values() for m in part])
    assert slow.arrays.content_hash() == fast.arrays.content_hash()


@pytest.mark.parametrize("size", [11, 13, 0])
def test_a_training_part_of_another_size_is_refused(tmp_path: Path, size: int) -> None:
    content = parts()
    content["train"] = molecules(size)
    write_zinc_pickles(tmp_path / "zinc", content)
    write_zinc_index(tmp_path / "zinc", straight())
    with pytest.raises(DataError, match=rf"train.pickle .*holds {size} graphs, but 12 or 30"):
        _ = zinc_module(tmp_path).arrays


def test_the_subset_is_never_taken_for_the_full_set(tmp_path: Path) -> None:
    write_zinc_pickles(tmp_path / "zinc-full", parts())
    with pytest.raises(DataError, match=r"train.pickle .*holds 12 graphs, but 30 belong there"):
        _ = zinc_module(tmp_path, "full").arrays


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([*range(11)], r"train.index names 11 different graphs, but 12"),
        ([*range(11), 0], r"train.index names 11 different graphs, but 12"),
        ([*range(1, 13)], r"train.index names graph 12, but the pickle next to it has 12"),
        ([*range(11), -1], r"train.index names graph -1"),
    ],
)
def test_index_files_that_do_not_fit_are_refused(
    tmp_path: Path, rows: list[int], message: str
) -> None:
    write_zinc_pickles(tmp_path / "zinc", parts())
    write_zinc_index(tmp_path / "zinc", straight() | {"train": rows})
    with pytest.raises(DataError, match=message):
        _ = zinc_module(tmp_path).arrays


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"atom_type": torch.tensor([28, 0], dtype=torch.uint8)}, "atom type 28 is unknown"),
        ({"bond_type": torch.tensor([[0, 1], [0, 0]], dtype=torch.uint8)}, "one direction only"),
        ({"bond_type": torch.zeros(3, 3, dtype=torch.uint8)}, r"molecule 0 is invalid .*shape"),
        ({"atom_type": None}, "molecule 0 is invalid"),
    ],
)
def test_molecules_that_are_wrong_are_refused(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    content = parts()
    content["train"][0] = {
        "atom_type": torch.tensor([1, 0], dtype=torch.uint8),
        "bond_type": torch.tensor([[0, 1], [1, 0]], dtype=torch.uint8),
        "logP_SA_cycle_normalized": torch.zeros(1),
    } | change
    write_zinc_pickles(tmp_path / "zinc", content)
    write_zinc_index(tmp_path / "zinc", straight())
    with pytest.raises(DataError, match=message):
        _ = zinc_module(tmp_path).arrays


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return exec, ("import pathlib; pathlib.Path('escaped').touch()",)


def test_a_pickle_that_runs_code_is_refused_before_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    content = parts()
    content["train"][0]["num_atom"] = Evil()
    write_zinc_pickles(tmp_path / "zinc", content)
    write_zinc_index(tmp_path / "zinc", straight())
    with pytest.raises(DataError, match=r"train.pickle .*names builtins.exec, which such a file"):
        _ = zinc_module(tmp_path).arrays
    assert not (tmp_path / "escaped").exists()


def test_code_inside_the_bytes_of_a_tensor_is_refused_as_well() -> None:
    from torch.storage import _load_from_bytes

    class Nested:
        def __reduce__(self) -> tuple[Any, ...]:
            return _load_from_bytes, (pickle.dumps(Evil()),)

    with pytest.raises(DataError, match=r"names builtins.exec"):
        read_pickle(pickle.dumps(Nested()), ZINC_NAMES, "file")


@pytest.mark.parametrize("dtype", ["uint8", "int64", "float32", "float64"])
@pytest.mark.parametrize("shape", [(3,), (2, 3), (1, 4), (4, 1), (0,), (2, 0), ()])
def test_pickled_tensors_are_read_without_torch(dtype: str, shape: tuple[int, ...]) -> None:
    tensor = (torch.rand(shape, generator=torch.Generator().manual_seed(0)) * 9).to(
        getattr(torch, dtype)
    )
    (read,) = read_pickle(pickle.dumps([tensor]), ZINC_NAMES, "file")
    assert read.dtype == np.dtype(dtype)
    assert np.array_equal(read, tensor.numpy())


def test_a_tensor_that_is_a_view_is_read_or_refused() -> None:
    base = torch.arange(12).reshape(3, 4)
    (rows,) = read_pickle(pickle.dumps([base[1:]]), ZINC_NAMES, "file")
    assert np.array_equal(rows, base[1:].numpy())
    with pytest.raises(DataError, match="not contiguous"):
        read_pickle(pickle.dumps([base.T]), ZINC_NAMES, "file")


@pytest.mark.slow
def test_the_full_set_of_the_mirror_is_the_same_from_both_forms(mirror: Path) -> None:
    from unionsnn.data.sources.zinc import read_zinc_npz, read_zinc_pickles

    monkey = (220_011, 24_445, 5_000)
    zinc.FULL = monkey  # type: ignore[misc]
    folder = mirror / "zinc-full"
    slow = read_zinc_pickles(folder / "molecules.zip", None, monkey, bonds=True)
    compact = {part: folder / f"{part}.npz" for part in ("train", "val", "test")}
    fast = read_zinc_npz(compact, bonds=True)
    assert slow.content_hash() == fast.content_hash()
    paths = {part: folder / f"{part}.index" for part in ("train", "val", "test")}
    subset = read_zinc_pickles(folder / "molecules.zip", paths, (10_000, 1_000, 1_000))
    paths = {part: mirror / "zinc" / path.name for part, path in paths.items()}
    small = read_zinc_pickles(mirror / "zinc" / "molecules.zip", paths, (10_000, 1_000, 1_000))
    assert subset.content_hash() == small.content_hash()
