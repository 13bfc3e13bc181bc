"""Controls: what each one keeps of the real coefficients, and what it loses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from data_files import write_planetoid
from tu_files import write_tu
from unionsnn.base.errors import DataError
from unionsnn.coefficients import CoefficientSpec
from unionsnn.data.arrays import GraphArrays
from unionsnn.data.catalog import CatalogEntry
from unionsnn.data.controls import CONTROLS, TRAINING, controlled_rows, permutation_within
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.data.nodes import NodeDataModule
from unionsnn.data.sources.planetoid import Planetoid
from unionsnn.data.sources.tu import TU
from unionsnn.data.splits import Split

SPEC = CoefficientSpec(quantities=("a", "a_tree", "nodes", "edges"))
CHANGING = [name for name in CONTROLS if name != "none"]
PARTS = {"train": range(24), "validation": range(24, 30), "test": range(30, 38)}


@pytest.fixture
def data(tmp_path: Path) -> GraphDataModule:
    """Forty graphs, of which two are in no part."""
    write_tu(tmp_path, "TOY")
    data = GraphDataModule(
        TU(tu_name="TOY"),
        name="toy",
        root=tmp_path / "root",
        mirror=tmp_path,
        offline=True,
        spec=SPEC,
    )
    data.split = Split(**{name: np.array(items) for name, items in PARTS.items()})
    return data


def rows_of(data: GraphDataModule) -> NDArray[np.float32]:
    return data.graphs._data.edge_coefficient.numpy().copy()


def applied(data: GraphDataModule, control: str, seed: int = 0) -> NDArray[np.float32]:
    data.apply_control(control, np.random.default_rng(seed))
    return rows_of(data)


def edge_mask(data: GraphDataModule, graphs: range) -> NDArray[np.bool_]:
    graph = np.repeat(np.arange(data.num_graphs), np.diff(data.arrays.edge_slices))
    return np.isin(graph, graphs)


def multiset(rows: NDArray[np.float32]) -> list[tuple[float, ...]]:
    return sorted(tuple(row) for row in rows.tolist())


def reverse_of_each(edges: NDArray[np.int64]) -> NDArray[np.int64]:
    """Position of the reverse of each edge, found one by one."""
    place = {(int(v), int(u)): i for i, (v, u) in enumerate(edges.T)}
    return np.array([place[int(u), int(v)] for v, u in edges.T])


def test_none_keeps_the_real_rows(data: GraphDataModule) -> None:
    real = rows_of(data)
    assert np.array_equal(applied(data, "none"), real)
    applied(data, "shuffled")
    assert np.array_equal(applied(data, "none"), real)


@pytest.mark.parametrize("control", CHANGING)
def test_a_control_changes_the_rows_and_both_directions_keep_the_same_one(
    data: GraphDataModule, control: str
) -> None:
    real = rows_of(data)
    rows = applied(data, control)
    assert rows.shape == real.shape
    assert rows.dtype == real.dtype
    for part in PARTS.values():
        assert not np.array_equal(rows[edge_mask(data, part)], real[edge_mask(data, part)])
    reverse = reverse_of_each(data.arrays.edges())
    assert np.array_equal(real, real[reverse])
    assert np.array_equal(rows, rows[reverse])


@pytest.mark.parametrize("control", CHANGING)
def test_a_control_depends_on_its_generator_alone(data: GraphDataModule, control: str) -> None:
    first = applied(data, control, seed=1)
    torch.manual_seed(5)
    other = applied(data, control, seed=2)
    np.random.default_rng(0).random(3)
    assert np.array_equal(applied(data, control, seed=1), first)
    assert np.array_equal(other, first) == (control == "constant")


def test_constant_is_the_mean_of_the_training_graphs(data: GraphDataModule) -> None:
    real = rows_of(data).astype(np.float64)
    rows = applied(data, "constant")
    mean = real[edge_mask(data, PARTS["train"])].mean(axis=0)
    assert not np.allclose(real.mean(axis=0), mean, rtol=1e-6)
    np.testing.assert_allclose(rows, np.broadcast_to(mean, rows.shape), rtol=1e-6)


def test_random_rows_are_whole_rows_of_training_graphs(data: GraphDataModule) -> None:
    real = rows_of(data)
    training = set(multiset(real[edge_mask(data, PARTS["train"])]))
    rows = applied(data, "random")
    assert set(multiset(rows)) <= training
    # Drawn, not permuted.
    mask = edge_mask(data, PARTS["train"])
    assert multiset(rows[mask]) != multiset(real[mask])


def test_random_rows_follow_the_training_marginal(data: GraphDataModule) -> None:
    real = rows_of(data)
    training = real[edge_mask(data, PARTS["train"])][:, 0]
    draws = np.concatenate([applied(data, "random", seed)[:, 0] for seed in range(100)])
    # Over 20,000 draws: the standard deviation of a share is below 0.004.
    for value in np.unique(training):
        assert (draws == value).mean() == pytest.approx((training == value).mean(), abs=0.02)


def test_shuffled_keeps_the_multiset_of_each_part_but_not_of_each_graph(
    data: GraphDataModule,
) -> None:
    real = rows_of(data)
    rows = applied(data, "shuffled")
    for part in PARTS.values():
        mask = edge_mask(data, part)
        assert multiset(rows[mask]) == multiset(real[mask])
    kept = [
        multiset(rows[edge_mask(data, range(g, g + 1))])
        == multiset(real[edge_mask(data, range(g, g + 1))])
        for g in range(data.num_graphs)
    ]
    assert not all(kept)


def test_shuffled_within_keeps_the_multiset_of_each_graph(data: GraphDataModule) -> None:
    real = rows_of(data)
    rows = applied(data, "shuffled_within")
    for g in range(data.num_graphs):
        mask = edge_mask(data, range(g, g + 1))
        assert multiset(rows[mask]) == multiset(real[mask])


@pytest.mark.parametrize("control", CHANGING)
def test_training_rows_do_not_depend_on_the_other_graphs(
    data: GraphDataModule, control: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is fitted to the training part must not have seen validation or test."""
    train = edge_mask(data, PARTS["train"])
    before = multiset(applied(data, control)[train])
    real = data._real_graphs
    assert real is not None
    with monkeypatch.context() as patch:
        changed = real._data.edge_coefficient.clone()
        changed[~torch.from_numpy(train)] += 1000
        patch.setattr(real._data, "edge_coefficient", changed)
        after = multiset(applied(data, control)[train])
    assert after == before


def test_batches_and_statistics_see_the_control_and_the_cache_does_not(
    data: GraphDataModule,
) -> None:
    real = data.part_coefficient("validation").clone()
    real_cached = data.coefficients(SPEC)
    entries = {p: p.read_bytes() for p in data.root.rglob("*") if p.is_file()}
    first = next(iter(data.val_dataloader())).edge_coefficient
    assert torch.equal(first, real)
    rows = applied(data, "shuffled")
    shown = next(iter(data.val_dataloader())).edge_coefficient
    assert not torch.equal(shown, real)
    expected = rows[edge_mask(data, PARTS["validation"])]
    assert np.array_equal(shown.numpy(), expected)
    assert torch.equal(data.part_coefficient("validation"), shown)
    assert np.array_equal(data.coefficients(SPEC), real_cached)
    assert {p: p.read_bytes() for p in data.root.rglob("*") if p.is_file()} == entries


def test_each_control_starts_from_the_real_rows(data: GraphDataModule) -> None:
    expected = applied(data, "shuffled", seed=3)
    applied(data, "constant")
    assert np.array_equal(applied(data, "shuffled", seed=3), expected)


@pytest.mark.parametrize("control", CHANGING)
def test_the_split_part_of_a_node_set_is_its_whole_graph(
    tmp_path: Path, control: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CatalogEntry, "check", lambda *args: None)
    write_planetoid(tmp_path, "cora")
    data = NodeDataModule(
        Planetoid(planetoid_name="cora"),
        name="cora",
        features="attributes",
        root=tmp_path / "root",
        mirror=tmp_path,
        offline=True,
        spec=SPEC,
    )
    data.split = data.default_split(np.random.default_rng(0))
    real = next(iter(data.train_dataloader())).edge_coefficient.numpy()
    rows = applied(data, control)
    batch = next(iter(data.train_dataloader()))
    assert np.array_equal(batch.edge_coefficient.numpy(), rows)
    assert np.array_equal(data.part_coefficient("train").numpy(), rows)
    assert not np.array_equal(rows, real)
    if control.startswith("shuffled"):
        assert multiset(rows) == multiset(real)
    if control == "constant":
        np.testing.assert_allclose(rows[0], real.mean(axis=0, dtype=np.float64), rtol=1e-6)


def arrays(edges: list[tuple[int, int]], nodes: list[int], counts: list[int]) -> GraphArrays:
    """Graphs with local node numbers."""
    return GraphArrays(
        edge_index=np.array(edges, dtype=np.int64).reshape(-1, 2).T,
        node_slices=np.concatenate([[0], np.cumsum(nodes)]),
        edge_slices=np.concatenate([[0], np.cumsum(counts)]),
        y=np.zeros(len(nodes), dtype=np.int64),
    )


LOOPED = arrays([(0, 1), (1, 1), (1, 0), (1, 2), (2, 1), (0, 2), (2, 0)], [3], [7])


@pytest.mark.parametrize("control", list(CONTROLS))
def test_rows_of_self_loops_stay(control: str) -> None:
    rows = SPEC.compute(LOOPED.edge_index, 3) + 0.5
    rows[1] = 7.0
    result = controlled_rows(
        rows,
        LOOPED,
        np.array([TRAINING]),
        control=control,
        generator=np.random.default_rng(0),
    )
    assert (result[1] == 7.0).all()
    # Neither averaged nor drawn nor moved elsewhere.
    assert not (np.delete(result, 1, axis=0) == 7.0).any()
    if control == "constant":
        proper = np.delete(rows, 1, axis=0).mean(axis=0)
        np.testing.assert_allclose(np.delete(result, 1, axis=0), np.tile(proper, (6, 1)))


@pytest.mark.parametrize("control", list(CONTROLS))
def test_graphs_without_edges_are_legal(control: str) -> None:
    empty = arrays([], [2, 1], [0, 0])
    rows = controlled_rows(
        np.empty((0, 2)),
        empty,
        np.array([0, 1]),
        control=control,
        generator=np.random.default_rng(0),
    )
    assert rows.shape == (0, 2)


@pytest.mark.parametrize("control", ["constant", "random"])
def test_no_training_edge_is_refused_where_one_is_needed(control: str) -> None:
    graphs = arrays([(0, 1), (1, 0)], [2, 2], [0, 2])
    with pytest.raises(DataError, match=rf"coefficient\.control={control} .* there are none"):
        controlled_rows(
            np.ones((2, 1)),
            graphs,
            np.array([0, 1]),
            control=control,
            generator=np.random.default_rng(0),
        )


def test_rows_that_differ_by_direction_and_unknown_controls_are_refused() -> None:
    graphs = arrays([(0, 1), (1, 0)], [2], [2])
    arguments = {"generator": np.random.default_rng(0)}
    with pytest.raises(ValueError, match="two directions"):
        controlled_rows(
            np.array([[1.0], [2.0]]), graphs, np.array([0]), control="shuffled", **arguments
        )
    with pytest.raises(ValueError, match="control is 'mixed'; allowed are none, constant"):
        controlled_rows(np.ones((2, 1)), graphs, np.array([0]), control="mixed", **arguments)


def test_a_permutation_within_groups_is_uniform_among_those() -> None:
    groups = np.array([1, 0, 1, 1, 0])
    counts: dict[tuple[int, ...], int] = {}
    for seed in range(1200):
        source = permutation_within(groups, np.random.default_rng(seed))
        assert np.array_equal(groups[source], groups)
        assert sorted(source) == [0, 1, 2, 3, 4]
        counts[tuple(source)] = counts.get(tuple(source), 0) + 1
    assert len(counts) == 12
    # Expected 100 each, standard deviation below 10.
    assert min(counts.values()) > 60
    assert max(counts.values()) < 140
