"""Data modules: caches, features, batches, and files that are wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from batches import assert_equal
from torch_geometric.data import Batch, Data

from tu_files import write_tu
from unionsnn.base import npz
from unionsnn.base.errors import DataError
from unionsnn.coefficients import CoefficientSpec
from unionsnn.data import datamodules, datasets
from unionsnn.data.arrays import GraphArrays
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.data.datasets import build_dataset
from unionsnn.data.encodings.definitions import Encodings
from unionsnn.data.sources import cycles
from unionsnn.data.sources.cycles import Cycles
from unionsnn.data.sources.tu import TU
from unionsnn.data.splits import Split
from unionsnn.data.store import GraphStore
from unionsnn.data.transforms import DistanceEncoding, LaplacianEncoding, RandomWalkEncoding

SPEC = CoefficientSpec(quantities=("a", "a_tree", "nodes", "edges"))


def tu(tmp_path: Path, **options: Any) -> GraphDataModule:
    arguments = {"name": "toy", "root": tmp_path / "root", "mirror": tmp_path, "offline": True}
    return GraphDataModule(TU(tu_name="TOY"), **{**arguments, **options})


def everything(data: GraphDataModule) -> Split:
    indices = np.arange(data.num_graphs)
    return Split(train=indices[:30], validation=indices[30:35], test=indices[35:])


def test_batches_carry_the_rows_of_their_own_edges(tmp_path: Path) -> None:
    write_tu(tmp_path, "TOY")
    data = tu(tmp_path, spec=SPEC, batch_size=7)
    data.split = everything(data)
    batch = next(iter(data.val_dataloader()))
    rows = SPEC.compute(batch.edge_index.numpy(), batch.num_nodes)
    np.testing.assert_allclose(batch.edge_coefficient.numpy(), rows, rtol=1e-6)
    assert batch.y.tolist() == [i % 2 for i in range(30, 35)]
    assert data.part_coefficient("train").shape[1] == 4


@pytest.mark.parametrize("large", [False, True])
def test_rows_of_a_part_are_those_of_its_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large: bool
) -> None:
    write_tu(tmp_path, "TOY")
    if large:
        monkeypatch.setattr(npz, "_SCRATCH_SHARE", 0)
        monkeypatch.setattr(datamodules, "_GRAPHS", 4)
        for module in (npz, datasets):
            monkeypatch.setattr(module, "MAPPED_BYTES", 0)
    data = tu(tmp_path, spec=SPEC)
    whole = everything(data)
    data.split = Split(whole.train[::-1].copy(), whole.validation, whole.test)
    rows = data.part_coefficient("train")
    batch = GraphStore(data.graphs).batch(torch.from_numpy(data.split.train))
    assert torch.equal(rows, batch.edge_coefficient)
    expected = torch.from_numpy(data.coefficients(SPEC)).float()
    assert torch.equal(data.graphs._data.edge_coefficient, expected)


def test_degrees_are_those_of_the_part_whatever_its_order(tmp_path: Path) -> None:
    write_tu(tmp_path, "TOY")
    data = tu(tmp_path)
    data.split = everything(data)
    chosen = [data.graphs[i] for i in data.split.train]
    degrees = np.concatenate([np.bincount(g.edge_index[1], minlength=g.num_nodes) for g in chosen])
    assert data.part_degrees("train").tolist() == np.bincount(degrees).tolist()
    data.split = Split(data.split.train[::-1].copy(), data.split.validation, data.split.test)
    assert data.part_degrees("train").tolist() == np.bincount(degrees).tolist()


@pytest.mark.parametrize("order", [[0], [3, 1, 2], [*range(40)]])
def test_batches_carry_the_encodings_of_their_own_graphs_as_pyg_collates_them(
    tmp_path: Path, order: list[int]
) -> None:
    write_tu(tmp_path, "TOY")
    chosen = Encodings(random_walk=4, laplacian=5, distance=True)
    data = tu(tmp_path, encodings=chosen, spec=SPEC)
    batch = data.store.batch(torch.tensor(order))
    graphs = [data.graphs[i] for i in order]
    assert_equal(batch, Batch.from_data_list(graphs))
    transforms = [RandomWalkEncoding(4), LaplacianEncoding(5), DistanceEncoding()]
    for graph in graphs:
        alone = Data(edge_index=graph.edge_index, num_nodes=graph.num_nodes)
        for transform in transforms:
            alone = transform(alone)
        for name in chosen.wanted():
            assert torch.equal(graph[name], alone[name]), name
    assert batch.distance.dtype == torch.uint8
    assert len(batch.distance) == sum(g.num_nodes**2 for g in graphs)


def test_encodings_follow_the_default_type_and_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tu(tmp_path, "TOY")
    chosen = Encodings(random_walk=4, distance=True)
    first = tu(tmp_path, encodings=chosen).graphs[0]
    assert first.random_walk.dtype == torch.float32
    assert "laplacian" not in first
    monkeypatch.setattr("unionsnn.data.encodings.cache.ENCODINGS", {})
    assert torch.equal(tu(tmp_path, encodings=chosen).graphs[0].distance, first.distance)
    torch.set_default_dtype(torch.float64)
    try:
        again = tu(tmp_path, encodings=chosen).graphs[0]
    finally:
        torch.set_default_dtype(torch.float32)
    assert again.random_walk.dtype == torch.float64
    assert again.distance.dtype == torch.uint8


def test_controls_keep_the_encodings(tmp_path: Path) -> None:
    write_tu(tmp_path, "TOY")
    data = tu(tmp_path, encodings=Encodings(random_walk=4), spec=SPEC)
    data.split = everything(data)
    before = data.graphs._data.random_walk
    data.apply_control("shuffled", np.random.default_rng(0))
    assert torch.equal(data.store.batch(torch.arange(40)).random_walk, before)


def test_loaders_keep_the_bound_of_pairs(tmp_path: Path) -> None:
    write_tu(tmp_path, "TOY")
    data = tu(tmp_path, batch_size=7, max_pairs=200)
    data.split = everything(data)
    for loader in (data.train_dataloader(), data.val_dataloader(), data.test_dataloader()):
        for batch in loader:
            assert batch.num_graphs * int(batch.ptr.diff().max()) ** 2 <= 200
            assert batch.num_graphs <= 7
    largest = int(np.diff(data.arrays.node_slices).max())
    with pytest.raises(DataError, match=rf"data\.max_pairs={largest**2} or larger"):
        _ = tu_with_split(tmp_path, max_pairs=8).train_dataloader()


def tu_with_split(tmp_path: Path, **options: Any) -> GraphDataModule:
    data = tu(tmp_path, **options)
    data.split = everything(data)
    return data


def test_training_batches_are_shuffled_by_the_given_generator_alone(tmp_path: Path) -> None:
    write_tu(tmp_path, "TOY")
    data = tu(tmp_path, batch_size=7)
    data.split = everything(data)
    orders = []
    for seed, noise in ((1, 5), (1, 6), (2, 5)):
        torch.manual_seed(noise)
        data.generator = torch.Generator().manual_seed(seed)
        orders.append([batch.x.sum().item() for batch in data.train_dataloader()])
    assert orders[0] == orders[1]
    assert orders[0] != orders[2]


@pytest.mark.parametrize(
    ("features", "width"), [("labels", 3), ("attributes", 2), ("both", 5), ("constant", 1)]
)
def test_node_features_are_those_that_the_config_names(
    tmp_path: Path, features: str, width: int
) -> None:
    write_tu(tmp_path, "TOY", attributes=2)
    data = tu(tmp_path, features=features)
    assert data.num_features == width
    assert data.num_outputs == 2


def test_degree_features_are_one_hot_degrees(tmp_path: Path) -> None:
    write_tu(tmp_path, "TOY")
    data = tu(tmp_path, features="degree")
    for graph in list(data.graphs)[:5]:
        degree = torch.bincount(graph.edge_index[1], minlength=graph.num_nodes)
        assert torch.equal(graph.x.argmax(dim=1), degree)
        assert torch.equal(graph.x.sum(dim=1), torch.ones(graph.num_nodes))


def test_labels_that_need_more_columns_than_memory_are_refused() -> None:
    arrays = GraphArrays(
        edge_index=np.empty((2, 0), dtype=np.int64),
        node_slices=np.array([0, 1000]),
        edge_slices=np.array([0, 0]),
        y=np.array([0]),
        node_labels=np.full((1000, 1), 10**9),
    )
    with pytest.raises(DataError, match=r"labels run up to 1000000000; .*categorical"):
        build_dataset(arrays, "labels")
    assert build_dataset(arrays, "categorical").num_features == 1


def test_features_that_the_set_lacks_name_the_others(tmp_path: Path) -> None:
    write_tu(tmp_path, "TOY", labels=False)
    with pytest.raises(DataError, match=r"no node labels; choose data\.features=attributes"):
        _ = tu(tmp_path).graphs
    with pytest.raises(DataError, match=r"no node attributes; choose data\.features=labels"):
        _ = tu(tmp_path, features="attributes").graphs


def test_processed_graphs_are_read_again_and_follow_the_raw_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tu(tmp_path, "TOY")
    first = tu(tmp_path).dataset_id

    def fail(*args: object) -> None:
        raise AssertionError("the raw archive was read again")

    with monkeypatch.context() as patch:
        patch.setattr(TU, "read", fail)
        assert tu(tmp_path).dataset_id == first
    write_tu(tmp_path, "TOY", seed=1)
    fresh = tu(tmp_path, root=tmp_path / "other").dataset_id
    assert fresh != first


def test_a_damaged_cache_is_made_anew_with_one_warning(tmp_path: Path) -> None:
    write_tu(tmp_path, "TOY")
    expected = tu(tmp_path, spec=SPEC).graphs[3].edge_coefficient
    for folder in ("processed", "coefficients"):
        for path in (tmp_path / "root" / folder).rglob("*"):
            if path.is_file() and path.suffix != ".lock":
                content = bytearray(path.read_bytes())
                content[len(content) // 2] ^= 0xFF
                path.write_bytes(bytes(content))
        with pytest.warns(UserWarning, match="rebuilding it|rebuilt|recomputed") as caught:
            again = tu(tmp_path, spec=SPEC).graphs[3].edge_coefficient
        assert len(caught) == 1
        assert torch.equal(again, expected)
    assert torch.equal(tu(tmp_path, spec=SPEC).graphs[3].edge_coefficient, expected)


def test_a_truncated_archive_is_refused_and_the_next_call_works(tmp_path: Path) -> None:
    path = write_tu(tmp_path, "TOY")
    good = path.read_bytes()
    path.write_bytes(good[: len(good) // 2])
    with pytest.warns(UserWarning, match="not a valid zip"), pytest.raises(DataError, match="TOY"):
        _ = tu(tmp_path).arrays
    path.write_bytes(good)
    assert tu(tmp_path).num_graphs == 40


def test_generated_graphs_are_kept_and_split_by_pairs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {"num_train": 21, "num_validation": 4, "num_test": 6}
    source = Cycles(length=4, variant="matched", **sizes)
    options: dict[str, Any] = {"name": "4cycles", "root": tmp_path, "features": "constant"}
    data = GraphDataModule(source, **options)
    split = data.default_split(np.random.default_rng(0))
    assert [len(part) for part in split.parts().values()] == [20, 4, 6]
    assert data.num_graphs == 30
    monkeypatch.setattr(cycles, "generate_cycles", None)
    assert GraphDataModule(source, **options).dataset_id == data.dataset_id


def test_loaders_without_a_split_say_so(tmp_path: Path) -> None:
    write_tu(tmp_path, "TOY")
    with pytest.raises(RuntimeError, match=r"assign data\.split"):
        tu(tmp_path).train_dataloader()
