"""Labelled pairs of nodes: read from PyG's data sets, kept apart from edges, and batched."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from batches import assert_equal
from torch_geometric.data import Batch, Data

from fabricated import write_lrgb
from own_datasets import Links, Made
from unionsnn.base.errors import DataError, MalformedDataError, RequestError
from unionsnn.config.compose import compose_config
from unionsnn.data.arrays import GraphArrays
from unionsnn.data.catalog import CATALOG
from unionsnn.data.datasets import build_dataset
from unionsnn.data.named import PyGDataModule
from unionsnn.data.sources.pyg_graphs import read_pyg_dataset
from unionsnn.data.sources.pyg_links import PyGLinks, read_pyg_links
from unionsnn.data.sources.source import RawFiles
from unionsnn.data.store import GraphStore
from unionsnn.training.build import build_data


def read(graphs: Any, *, symmetrize: bool = False, edge_features: bool = False) -> GraphArrays:
    arrays = read_pyg_links([graphs], symmetrize=symmetrize, edge_features=edge_features)
    arrays.validate()
    return arrays


@pytest.mark.filterwarnings("ignore:.*torch.load:FutureWarning")
def test_pcqm_contact_is_read_in_its_published_format(tmp_path: Path) -> None:
    raw = tmp_path / "raw" / "pyg" / "LRGBDataset" / "pcqm-contact" / "raw"
    write_lrgb(raw, 1, contacts=True)
    section = compose_config(["data=pcqm_contact", "data.edge_features=labels"]).data
    source = PyGLinks(task=section.task, edge_features="labels", **(section.model_extra or {}))
    assert source.known is CATALOG["pcqm_contact"]
    arrays = source.read(RawFiles(tmp_path))
    arrays.validate()
    assert arrays.level == "link"
    assert arrays.num_items == arrays.num_graphs == 36
    assert arrays.part is not None
    assert arrays.part.tolist() == [0] * 12 + [1] * 12 + [2] * 12
    assert arrays.node_labels is not None
    assert arrays.node_labels.shape[1] == 9
    # The molecule's bonds, and the contacts, are what the files say.
    graphs = [g for part in ("train", "val", "test") for g in torch.load(raw / f"{part}.pt")]
    assert arrays.link_slices is not None
    for i, (x, bonds, edges, links, labels) in enumerate(graphs):
        nodes, pairs = arrays.node_slices[i : i + 2], arrays.link_slices[i : i + 2]
        ends = arrays.edge_slices[i : i + 2]
        np.testing.assert_array_equal(arrays.node_labels[slice(*nodes)], x)
        np.testing.assert_array_equal(arrays.link_index[:, slice(*pairs)], links)  # type: ignore[index]
        np.testing.assert_array_equal(arrays.y[slice(*pairs), 0], labels)
        order = np.lexsort(edges.numpy()[::-1])
        np.testing.assert_array_equal(arrays.edge_index[:, slice(*ends)], edges[:, order])
        np.testing.assert_array_equal(arrays.edge_labels[slice(*ends)], bonds[order])  # type: ignore[index]
    again = GraphArrays.load(saved(arrays, tmp_path))
    assert again.content_hash() == arrays.content_hash()
    np.testing.assert_array_equal(again.link_index, arrays.link_index)


def saved(arrays: GraphArrays, folder: Path) -> Path:
    arrays.save(folder / "arrays.npz")
    return folder / "arrays.npz"


def test_a_collated_set_is_read_without_an_object_for_each_graph(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graphs = Links(12)
    expected = read([graphs[i] for i in range(12)])

    def refused(*args: Any) -> Any:
        raise AssertionError("a graph was made")

    monkeypatch.setattr(Links, "get", refused)
    monkeypatch.setattr(Links, "__getitem__", refused)
    assert read(graphs).content_hash() == expected.content_hash()


def test_links_are_batched_as_pyg_does_and_are_no_edges(tmp_path: Path) -> None:
    graphs = [Links(9)[i] for i in range(9)]
    dataset = build_dataset(read(graphs), "attributes")
    store = GraphStore(dataset)
    chosen = [4, 0, 7]
    batch = store.batch(torch.tensor(chosen))
    assert_equal(batch, Batch.from_data_list([dataset[i] for i in chosen]))
    whole = Batch.from_data_list([graphs[i] for i in chosen])
    assert torch.equal(batch.edge_label_index, whole.edge_label_index)
    assert torch.equal(batch.y[:, 0], whole.edge_label.float())
    edges = {tuple(pair) for pair in batch.edge_index.t().tolist()}
    assert edges == {tuple(pair) for pair in whole.edge_index.t().tolist()}
    linked = whole.edge_label_index[:, whole.edge_label == 1].t().tolist()
    assert not edges & {tuple(pair) for pair in linked}
    assert store.extent(torch.arange(9), 2).rows["edge_label_index"] == 8


def test_linked_pairs_that_are_edges_are_said(caplog: pytest.LogCaptureFixture) -> None:
    graphs = [Links(3)[i] for i in range(3)]
    with caplog.at_level(logging.WARNING):
        read(graphs)
        assert not caplog.records
        graphs[1].edge_label_index[:, 0] = torch.tensor([0, 1])
        graphs[1].edge_label[2] = 1
        read(graphs)
    assert "1 of 6 linked pairs of nodes are edges of their graph" in caplog.text


def without(key: str) -> Callable[[Data], None]:
    return lambda data: data.pop(key)


def with_value(key: str, value: Any) -> Callable[[Data], None]:
    return lambda data: data.__setitem__(key, value)


@pytest.mark.parametrize("collated", [False, True], ids=["list", "collated"])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (without("edge_label"), "has no edge_label.*needed are x, edge_index"),
        (without("edge_label_index"), "no edge_label_index"),
        (without("x"), "no x"),
        (with_value("edge_label", torch.tensor([1, 0, 2, 0])), "graph [02]: an edge_label is 2"),
        (
            with_value("edge_label", torch.tensor([1.0, torch.nan, 0, 0])),
            "an edge_label is nan",
        ),
        (with_value("edge_label", torch.tensor([1, 0, 1])), "3 rows of edge_label, but 4 columns"),
        (
            with_value("edge_label_index", torch.tensor([[0, 1, 2, 99], [1, 2, 3, 4]])),
            r"graph 2: edge_label_index names the nodes \[99, 4\], but there are nodes 0..6",
        ),
        (
            with_value("edge_label_index", torch.rand(2, 4)),
            "edge_label_index is float32 .*must hold whole numbers",
        ),
        (
            with_value("edge_label_index", torch.tensor([[0, 0, 1, 2], [3, 3, 3, 5]])),
            r"the pair of nodes \[0, 3\] is labelled both 0 and 1",
        ),
        (
            with_value("edge_label_index", torch.tensor([[0, 3, 1, 2], [3, 0, 3, 5]])),
            r"graph 2: the pair of nodes \[0, 3\] is labelled both 0 and 1; a pair has",
        ),
        (
            with_value("edge_label_index", torch.tensor([[2, 0, 1, 2], [2, 3, 3, 5]])),
            r"graph 2: the pair of nodes \[2, 2\] is labelled 1, but a node",
        ),
        (
            with_value("edge_index", torch.tensor([[0], [1]])),
            "no edge back .*data.symmetrize=true",
        ),
    ],
)
def test_wrong_links_are_refused_with_the_graph(
    change: Callable[[Data], None], words: str, collated: bool
) -> None:
    graphs = [Links(4)[i] for i in range(4)]
    if "both" in words:
        graphs[2].edge_label = torch.tensor([1, 0, 1, 0])
    every = "float" in words or "is nan" in words
    for data in graphs if every or ("no " in words and collated) else graphs[2:3]:
        change(data)
    with pytest.raises(DataError, match=words) as refused:
        read(Made(graphs) if collated else graphs)
    assert refused.value.codes[0] in ("data.pyg", "data.one_way")


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("edge_label_index", r"graph 2: .* shape \[4, 2\]; it must be \[2, number of pairs\]"),
        ("edge_label", r"graph 2: edge_label has shape \[1, 4\]; it must be \[number of pairs\]"),
    ],
)
def test_transposed_links_are_refused_with_the_shape_that_is_needed(key: str, words: str) -> None:
    graphs = [Links(4)[i] for i in range(4)]
    graphs[2][key] = torch.atleast_2d(graphs[2][key])
    if key == "edge_label_index":
        graphs[2][key] = graphs[2][key].t()
    with pytest.raises(DataError, match=words):
        read(graphs)


def test_a_task_of_no_such_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(RequestError, match=r"'link_predict'; .* Did you mean 'link_pred") as wrong:
        PyGDataModule(Links(3), task="link_predict")  # type: ignore[arg-type]
    assert wrong.value.codes == ["data.task"]


def test_labels_of_pairs_have_no_other_choices() -> None:
    for key, value in (("targets", [0]), ("unlabelled", "drop")):
        with pytest.raises(RequestError, match=f"data.{key} has no effect") as refused:
            compose_config(["data=pcqm_contact", f"+data.{key}={value}"])
        assert refused.value.codes == ["config.no_effect"]


def test_a_set_with_links_is_pointed_to_its_source() -> None:
    with pytest.raises(DataError, match="labelled pairs of nodes; type data=pyg_links"):
        read_pyg_dataset(Links(3), level="graph", symmetrize=False)


def test_a_set_of_ones_own_has_a_drawn_split_and_no_folds() -> None:
    config = compose_config(["data=pyg_links", "data.dataset=own_datasets.Links"])
    data = build_data(config)
    split = data.default_split(np.random.default_rng(0))
    parts = [len(part) for part in split.parts().values()]
    assert parts == [24, 3, 3]
    with pytest.raises(DataError, match="type protocol=holdout"):
        data.source.folds(data.arrays, 5, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"link_index": None}, "which needs both"),
        ({"level": "graph"}, "link_index and link_slices are for level link"),
        ({"link_slices": np.array([0, 1])}, r"link_slices has shape \(2,\)"),
        ({"link_index": np.zeros((2, 3), dtype=np.int64)}, r"it must be \(2, 16\)"),
        ({"link_index": np.full((2, 16), 9)}, "link_index names node .* in link 0"),
        ({"y": np.zeros((3, 1), dtype=np.float32)}, "y has shape"),
    ],
)
def test_wrong_arrays_of_links_are_refused(change: dict[str, Any], words: str) -> None:
    from dataclasses import replace

    arrays = replace(read(Links(4)), **change)
    with pytest.raises(MalformedDataError, match=words):
        arrays.validate()
