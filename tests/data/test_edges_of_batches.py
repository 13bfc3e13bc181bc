"""Edge features of data sets: from arrays to batches."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Batch

from unionsnn.base.errors import DataError, WidthError
from unionsnn.config.compose import compose_config
from unionsnn.config.identity import config_hash
from unionsnn.data.arrays import GraphArrays
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.data.datasets import build_dataset
from unionsnn.data.sources.source import InMemory


@pytest.fixture
def arrays() -> GraphArrays:
    """A path of three nodes and an edge, with two columns of labels and one of attributes."""
    edge_index = np.array([[0, 1, 1, 2, 0, 1], [1, 0, 2, 1, 1, 0]])
    return GraphArrays(
        edge_index=edge_index,
        node_slices=np.array([0, 3, 5]),
        edge_slices=np.array([0, 4, 6]),
        y=np.array([0, 1]),
        node_labels=np.zeros((5, 1), dtype=np.int64),
        edge_labels=np.array([[0, 1], [0, 0], [2, 1], [2, 0], [1, 1], [1, 1]]),
        edge_attributes=np.arange(6, dtype=np.float32)[:, None],
    )


def data_module(arrays: GraphArrays, tmp_path: Path, edge_features: str) -> GraphDataModule:
    return GraphDataModule(
        InMemory(graphs=arrays), name="two", root=tmp_path, edge_features=edge_features
    )


@pytest.mark.parametrize(
    ("choice", "size", "expected"),
    [
        ("labels", (3, 2), [[0, 1], [0, 0], [2, 1], [2, 0], [1, 1], [1, 1]]),
        ("attributes", 1, [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]]),
        (
            "both",
            6,
            [
                [1, 0, 0, 0, 1, 0.0],
                [1, 0, 0, 1, 0, 1.0],
                [0, 0, 1, 0, 1, 2.0],
                [0, 0, 1, 1, 0, 3.0],
                [0, 1, 0, 0, 1, 4.0],
                [0, 1, 0, 0, 1, 5.0],
            ],
        ),
    ],
)
def test_what_is_read_follows_its_edges(
    arrays: GraphArrays, tmp_path: Path, choice: str, size: object, expected: list[list[float]]
) -> None:
    data = data_module(arrays, tmp_path, choice)
    assert data.num_edge_features == size
    swapped = data.store.batch(torch.tensor([1, 0]))
    torch.testing.assert_close(swapped.edge_attr, torch.tensor(expected[4:] + expected[:4]))
    plain = Batch.from_data_list([data.graphs[1], data.graphs[0]])
    assert torch.equal(plain.edge_attr, swapped.edge_attr)


def test_without_the_key_batches_have_none(arrays: GraphArrays, tmp_path: Path) -> None:
    data = data_module(arrays, tmp_path, "none")
    assert data.num_edge_features is None
    assert "edge_attr" not in data.graphs[0]


@pytest.mark.parametrize("choice", ["labels", "attributes", "both"])
def test_what_a_set_does_not_have_is_refused(
    arrays: GraphArrays, tmp_path: Path, choice: str
) -> None:
    bare = dataclasses.replace(arrays, edge_labels=None, edge_attributes=None)
    with pytest.raises(DataError, match=r"has no edge .*data\.edge_features=none") as caught:
        data_module(bare, tmp_path, choice).graphs  # noqa: B018
    assert caught.value.codes == ["data.edge_features"]
    only = dataclasses.replace(arrays, edge_labels=None)
    if choice != "attributes":
        with pytest.raises(DataError, match=r"type data\.edge_features=attributes"):
            data_module(only, tmp_path, choice).graphs  # noqa: B018


@pytest.mark.parametrize("choice", ["labels", "both"])
def test_categories_beyond_their_number_are_refused(arrays: GraphArrays, choice: str) -> None:
    with pytest.raises(WidthError, match="column 0 has the value 2"):
        build_dataset(arrays, "constant", edge_features=choice, edge_widths=(2, 2))


@pytest.mark.parametrize(
    ("field", "rows", "message"),
    [
        ("edge_labels", np.zeros((5, 1), dtype=np.int64), "edge_labels has shape"),
        ("edge_labels", np.full((6, 1), -1), "edge_labels has a negative value"),
        ("edge_attributes", np.full((6, 1), np.nan, dtype=np.float32), "not finite in row 0"),
    ],
)
def test_rows_that_cannot_be_features_are_refused(
    arrays: GraphArrays, field: str, rows: np.ndarray, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        dataclasses.replace(arrays, **{field: rows}).validate()


def test_the_choice_is_part_of_the_hash_only_where_it_has_an_effect() -> None:
    def hash_of(*overrides: str) -> str:
        return config_hash(compose_config(list(overrides)))

    plain, gated = hash_of("model=gin"), hash_of("model=union_gin")
    assert hash_of("model=gin", "data.edge_features=none") == plain
    assert hash_of("model=gin", "data.edge_features=labels") != plain
    assert hash_of("model=union_gin", "gate.inject=gate") == gated
    assert hash_of("model=union_gin", "gate.inject=edge") != gated


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["model=gin", "+gate.inject=edge"], "gate.inject is 'edge', but the plain model gin"),
        (["model=union_gin", "gate.inject=edge", "gate.layers=2"], "gate.layers has no effect"),
    ],
)
def test_an_injection_without_effect_is_refused(overrides: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        compose_config(overrides)
