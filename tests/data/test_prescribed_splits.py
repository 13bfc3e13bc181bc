"""Splits that a set brings along, and items without a label: used as they are, or refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from graphs import cycle
from unionsnn.base.errors import DataError
from unionsnn.data.arrays import GraphArrays
from unionsnn.data.sources.pyg import PyGNodes
from unionsnn.data.sources.pyg_graphs import read_pyg_dataset
from unionsnn.data.splits import Split, check_split, stratified_holdout, stratified_k_fold

N = 60
PLACE = torch.arange(N) % 5


def nodes(y: Any = None, **masks: Any) -> GraphArrays:
    edges = torch.tensor([pair for v, u in cycle(N) for pair in ((v, u), (u, v))]).t()
    y = torch.arange(N) % 3 if y is None else y
    data = Data(x=torch.ones(N, 2), edge_index=edges, y=y, **masks)
    arrays = read_pyg_dataset([data], level="node", symmetrize=False)
    arrays.validate()
    return arrays


def splits(arrays: GraphArrays, count: int = 1) -> list[Split]:
    source = PyGNodes(dataset="any")
    drawn = source.default_splits(arrays, count, np.random.default_rng(0))
    for split in drawn:
        check_split(split, N, cover=False)
    return drawn


FORMS = {
    "bool": lambda mask: mask,
    "uint8": lambda mask: mask.to(torch.uint8),
    "float": lambda mask: mask.float(),
    "numpy": lambda mask: mask.numpy(),
    "list": lambda mask: mask.tolist(),
    "one column": lambda mask: mask[:, None],
    "nodes": lambda mask: mask.nonzero()[:, 0],
    "list of nodes": lambda mask: mask.nonzero()[:, 0].tolist(),
    "shuffled nodes": lambda mask: mask.nonzero()[:, 0].flip(0),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("names", [("train_mask", "val_mask"), ("train_idx", "valid_idx")])
def test_masks_of_any_form_are_the_split(form: str, names: tuple[str, str]) -> None:
    wanted = dict(zip((*names, names[0].replace("train", "test")), range(3), strict=True))
    arrays = nodes(**{name: FORMS[form](i == PLACE) for name, i in wanted.items()})
    (split,) = splits(arrays)
    for i, part in enumerate(split.parts().values()):
        assert part.tolist() == np.flatnonzero(PLACE.numpy() == i).tolist()


def test_ten_splits_are_those_of_ten_repetitions() -> None:
    place = torch.stack([PLACE.roll(i) for i in range(10)], dim=1)
    masks = {"train_mask": place == 0, "val_mask": place == 1, "test_mask": place == 2}
    arrays = nodes(**masks)
    assert arrays.part is not None
    assert arrays.part.shape == (N, 10)
    for count in (2, 10):
        drawn = splits(arrays, count)
        assert len(drawn) == count
        for i, split in enumerate(drawn):
            assert split.test.tolist() == np.flatnonzero(place[:, i].numpy() == 2).tolist()
    for count in (1, 11):
        with pytest.raises(DataError, match=r"repeated_seeds protocol\.seeds=10") as caught:
            splits(arrays, count)
        assert caught.value.codes == ["data.several_splits"]


def test_one_test_part_is_that_of_all_splits() -> None:
    test = PLACE == 4
    place = torch.stack([(torch.arange(N) + i) % 2 for i in range(3)], dim=1)
    arrays = nodes(
        train_mask=(place == 0) & ~test[:, None],
        val_mask=(place == 1) & ~test[:, None],
        test_mask=test,
    )
    for split in splits(arrays, 3):
        assert split.test.tolist() == np.flatnonzero(test.numpy()).tolist()


@pytest.mark.parametrize("validation", [{}, {"val_mask": torch.zeros(N, dtype=torch.bool)}])
def test_validation_is_drawn_from_the_training_part_alone(validation: dict[str, Any]) -> None:
    train, test = PLACE < 3, PLACE == 4
    (split,) = splits(nodes(train_mask=train, test_mask=test, **validation))
    assert split.test.tolist() == np.flatnonzero(test.numpy()).tolist()
    both = np.sort(np.concatenate([split.train, split.validation]))
    assert both.tolist() == np.flatnonzero(train.numpy()).tolist()
    assert len(split.validation) == 4
    assert set(split.validation % 3) == {0, 1, 2}


def test_a_mask_of_training_nodes_alone_is_no_split(caplog: pytest.LogCaptureFixture) -> None:
    held = nodes(train_mask=PLACE == 0)
    assert held.part is None
    assert "which is not used" in caplog.text


HALF = torch.arange(N) < N // 2


@pytest.mark.parametrize(
    ("masks", "message"),
    [
        ({"train_mask": HALF, "test_mask": PLACE == 0}, "6 nodes are both in the train and in the"),
        ({"train_mask": HALF, "val_mask": HALF, "test_mask": ~HALF}, "30 nodes are both"),
        ({"train_mask": HALF, "val_mask": ~HALF}, "no test node"),
        ({"test_mask": HALF}, "no train node"),
        ({"train_mask": HALF, "test_mask": ~HALF & HALF}, "no test node"),
        ({"train_mask": HALF[:-1], "test_mask": ~HALF}, r"must be a mask, \[60\]"),
        ({"train_mask": HALF.repeat(3, 1), "test_mask": ~HALF}, r"must be a mask, \[60\]"),
        ({"train_mask": [0, 1, 60], "test_mask": [2]}, "names node 60"),
        ({"train_mask": [0, 1, 1], "test_mask": [2]}, "names a node more than once"),
        ({"train_mask": HALF.float() / 2, "test_mask": ~HALF}, "must be a mask"),
        ({"train_mask": HALF, "train_idx": [1], "test_mask": ~HALF}, "which both name the train"),
        (
            {"train_mask": HALF[:, None].repeat(1, 2), "test_mask": ~HALF[:, None].repeat(1, 3)},
            "its masks have 2 and 3 columns",
        ),
        (
            {
                "train_mask": HALF[:, None].repeat(1, 2),
                "test_mask": torch.stack([~HALF, HALF & ~HALF], 1),
            },
            "the test part of one of its 2 splits is empty",
        ),
        ({"train_mask": "all", "test_mask": ~HALF}, "train_mask holds"),
    ],
)
def test_masks_that_are_no_split_are_refused(masks: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        nodes(**masks)
    assert caught.value.codes == ["data.pyg"]


def test_a_node_without_a_label_is_in_no_part() -> None:
    y = torch.arange(N) % 3
    y[::6] = -1
    with pytest.raises(DataError, match=r"y is -1 in 10 of 60 nodes \(0, 6, .*unlabelled=drop"):
        nodes(y)
    edges = torch.tensor([[0, 1], [1, 0]])
    masks = {"train_mask": PLACE == 0, "val_mask": PLACE == 1, "test_mask": PLACE == 2}
    for given in ({}, masks):
        data = Data(x=torch.ones(N, 2), edge_index=edges, y=y, **given)
        with pytest.warns(UserWarning, match="10 of 60 nodes .* have no label and are left out"):
            arrays = read_pyg_dataset([data], level="node", symmetrize=False, unlabelled="drop")
        arrays.validate()
        assert (arrays.num_classes, arrays.num_nodes, arrays.num_edges) == (3, N, 2)
        (split,) = splits(arrays)
        items = np.concatenate([*split.parts().values()])
        assert not set(items) & set(range(0, N, 6))
        assert len(items) == (50 if given == {} else 30)
    arrays = read_pyg_dataset([data], level="node", symmetrize=False, unlabelled="class")
    assert arrays.class_names == ("-1", "0", "1", "2")


def test_draws_leave_out_what_has_no_class() -> None:
    y = np.repeat([-1, 0, 1], [10, 20, 30])
    for split in (
        stratified_holdout(y, generator=np.random.default_rng(0)),
        *stratified_k_fold(y, 5, generator=np.random.default_rng(0)),
    ):
        items = np.sort(np.concatenate([*split.parts().values()]))
        assert items.tolist() == list(range(10, 60))


# -- graphs --------------------------------------------------------------------------------

PAIR = torch.tensor([[0, 1], [1, 0]])


def graphs(*ys: Any, unlabelled: Any = None, **more: Any) -> GraphArrays:
    made = [Data(x=torch.full((2, 1), i), edge_index=PAIR, y=y, **more) for i, y in enumerate(ys)]
    arrays = read_pyg_dataset(made, level="graph", symmetrize=False, unlabelled=unlabelled)
    arrays.validate()
    return arrays


@pytest.mark.parametrize("form", [torch.tensor, lambda y: torch.tensor([y]), int, np.int64, float])
def test_a_target_may_be_any_number(form: Any) -> None:
    arrays = graphs(form(1), form(0), form(1))
    expected = [[1.0], [0.0], [1.0]] if form is float else [1, 0, 1]
    assert arrays.y.tolist() == expected


def test_minus_one_is_a_class_beside_one_alone() -> None:
    assert graphs(-1, 1, -1).class_names == ("-1", "1")
    with pytest.raises(DataError, match=r"y is -1 in 1 of 3 graphs \(0\)") as caught:
        graphs(-1, 0, 1)
    assert caught.value.codes == ["data.unlabelled"]
    with pytest.warns(UserWarning, match="left out"):
        arrays = graphs(-1, 0, 1, unlabelled="drop")
    assert (arrays.num_graphs, arrays.class_names) == (2, ("0", "1"))
    assert arrays.node_labels is not None
    assert arrays.node_labels[:, 0].tolist() == [1, 1, 2, 2]
    assert graphs(-1, 0, 1, unlabelled="class").class_names == ("-1", "0", "1")


def test_edge_weight_is_named_and_a_batch_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    graphs(0, 1, edge_weight=torch.ones(2))
    assert "edge_weight, which is not read" in caplog.text
    with pytest.raises(DataError, match="item 0 is a batch of 2 graphs"):
        graphs(0, 1, ptr=torch.tensor([0, 1, 2]))


def test_nan_is_no_target() -> None:
    ys = (torch.tensor([[1.0, 2.0]]), torch.tensor([[float("nan"), 2.0]]))
    for unlabelled in (None, "class"):
        with pytest.raises(DataError, match=r"y is nan in 1 of 2 graphs \(1\).*drop to"):
            graphs(*ys, unlabelled=unlabelled)
    with pytest.warns(UserWarning, match="left out"):
        assert graphs(*ys, unlabelled="drop").y.tolist() == [[1.0, 2.0]]
    with pytest.raises(DataError, match="no graph has a label"):
        graphs(ys[1], ys[1], unlabelled="drop")


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([(Data(edge_index=PAIR), 1)], "item 0 is a tuple, not torch_geometric.data.Data"),
        ([{"edge_index": PAIR}], "item 0 is a dict"),
        (
            [Data(edge_index=PAIR, y=1, num_nodes=2), Data(x=PAIR, edge_index=PAIR, y=1)],
            "no x, but",
        ),
        (
            [Data(x=PAIR, edge_index=PAIR, y=1), Data(edge_index=PAIR, y=1, num_nodes=2)],
            "no x, but",
        ),
        (
            [Data(x=torch.ones(2, 1, dtype=torch.complex64), edge_index=PAIR, y=1)],
            "complex numbers",
        ),
        ([Data(x=torch.ones(2, 1), edge_index=PAIR, y=1j)], "complex numbers"),
        ([Data(x=torch.ones(2, 2, 2), edge_index=PAIR, y=1)], r"x has shape \[2, 2, 2\]"),
        ([Data(x=torch.ones(4, 1), edge_index=PAIR, y=1, num_nodes=2)], r"must be \[2, k\]"),
        (
            [Data(x=torch.ones(2, n), edge_index=PAIR, y=1) for n in (1, 2)],
            "x of graph 1 has 2 columns, but that of graph 0 1",
        ),
        (
            [Data(x=torch.ones(2, 1, dtype=d), edge_index=PAIR, y=1) for d in (torch.int, None)],
            "x of graph 1 has real numbers, but that of graph 0 whole",
        ),
        ([Data(x=[["a"], ["b"]], edge_index=PAIR, y=1, num_nodes=2)], "x holds <U1"),
        ([Data(x=[[1], [1, 2]], edge_index=PAIR, y=1, num_nodes=2)], "x holds a list"),
        ([Data(x=torch.ones(2, 1), edge_index=PAIR, y="toxic")], "y holds <U5"),
        (
            [Data(x=torch.ones(2, 1), edge_index=PAIR, y=torch.tensor([0, 1]))] * 2,
            "its 2 graphs have a y for each node",
        ),
        (
            [Data(x=torch.ones(2, 1), edge_index=PAIR, y=torch.ones(1, n)) for n in (1, 2)],
            "graph 1 has 2 targets in y, but graph 0 1",
        ),
        ([Data(x=torch.ones(2, 1), edge_index=PAIR, y=[])], "graph 0 has 0 targets"),
        ([Data(x=torch.ones(2, 1), edge_index=PAIR.float(), y=1)], "edge_index is float32"),
        ([Data(x=torch.ones(2, 1), edge_index=PAIR[0], y=1)], r"of shape \[2\]"),
        ([Data(x=torch.ones(2, 1), edge_index=PAIR + 1, y=1)] * 2, "names node 2, but"),
        ([Data(x=torch.ones(2, 1), edge_index=PAIR - 1, y=1)] * 2, "names node -1, but"),
        ([Data(edge_index=PAIR, num_nodes=10**15, y=1)], "do not fit into memory"),
        ([Data(edge_index=PAIR, num_nodes=float("nan"), y=1)], "num_nodes is nan"),
        ([Data(edge_index=PAIR, num_nodes=torch.tensor([2, 2]), y=1)], "one whole number"),
        ([Data(edge_index=PAIR, num_nodes=-1, y=1)], "at least 0"),
    ],
)
def test_what_a_graph_cannot_be_read_from_is_refused(items: list[Any], message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read_pyg_dataset(items, level="graph", symmetrize=False)
    assert caught.value.codes == ["data.pyg"]


@pytest.mark.parametrize(
    "x",
    [
        np.ones((2, 3)),
        [[1.0] * 3] * 2,
        torch.ones(2, 3, dtype=torch.bfloat16),
        torch.ones(2, 3, dtype=torch.float16),
        torch.ones(2, 3, requires_grad=True),
        torch.ones(2, 3).to_sparse(),
    ],
)
def test_features_of_any_form_are_read(x: Any) -> None:
    data = Data(x=x, edge_index=PAIR.numpy(), y=1, num_nodes=2)
    arrays = read_pyg_dataset([data, data], level="graph", symmetrize=False)
    arrays.validate()
    assert arrays.node_attributes is not None
    assert arrays.node_attributes.tolist() == [[1.0] * 3] * 4


@pytest.mark.parametrize("key", ["edge_index", "x", "y"])
def test_slices_that_leave_entries_out_are_refused(key: str) -> None:
    from own_datasets import Graphs

    made = Graphs(6)
    made.slices[key] = made.slices[key].clone()
    made.slices[key][-1] -= 1
    with pytest.raises(DataError, match=rf"its slices of {key} run from 0 to .* left out"):
        read_pyg_dataset(made, level="graph", symmetrize=False)


# -- splits that the data set brings along -------------------------------------------------

LISTS = {"train": [0, 1, 2, 3, 4], "valid": torch.tensor([5, 6]), "test": np.arange(7, 11)}


class Own(list[Data]):
    """A set of graphs, or of the nodes of one."""

    def __init__(self, level: str, **attributes: Any) -> None:
        edges = torch.tensor([pair for v, u in cycle(N) for pair in ((v, u), (u, v))]).t()
        if level == "node":
            super().__init__([Data(num_nodes=N, edge_index=edges, y=torch.arange(N) % 3)])
        else:
            super().__init__(Data(num_nodes=2, edge_index=PAIR, y=i % 2) for i in range(12))
        self.__dict__.update(attributes)

    def read(self) -> GraphArrays:
        level = "node" if len(self) == 1 else "graph"
        return read_pyg_dataset(self, level=level, symmetrize=False)


class OwnSplit(Own):
    def __init__(self, level: str, given: Any = LISTS, **attributes: Any) -> None:
        super().__init__(level, **attributes)
        self.given = given

    def get_idx_split(self) -> Any:
        if self.given is None:
            raise FileNotFoundError("split.pt")
        return self.given


SETS = {
    "a method": OwnSplit,
    "a mapping": lambda level: Own(level, split_idx=LISTS),
    "lists": lambda level: Own(level, **{f"{name}_idx": v for name, v in LISTS.items()}),
    "both": lambda level: OwnSplit(level, split_idx=LISTS),
}


@pytest.mark.parametrize("level", ["graph", "node"])
@pytest.mark.parametrize("form", SETS)
def test_the_split_of_a_data_set_is_used(level: str, form: str) -> None:
    arrays = SETS[form](level).read()
    assert arrays.part is not None
    for place, wanted in enumerate(LISTS.values()):
        assert np.flatnonzero(arrays.part == place).tolist() == np.asarray(wanted).tolist()
    arrays.validate()


def test_lists_of_a_graph_of_nodes_are_its_split() -> None:
    arrays = nodes(split_idx={"train": [0], "valid": [1], "test": [2]})
    assert arrays.part is not None
    assert arrays.part[:4].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: OwnSplit("graph", {"train": [0], "test-dev": [1]}), "names test-dev"),
        (lambda: OwnSplit("graph", {"train": [0, 12], "test": [1]}), "names graph 12"),
        (lambda: OwnSplit("node", {"train": [0, -1], "test": [1]}), "names node -1"),
        (lambda: OwnSplit("graph", {"train": [0], "valid": [1]}), "no test graph"),
        (lambda: OwnSplit("graph", {"train": [0, 1], "test": [1]}), "1 graphs are both"),
        (lambda: OwnSplit("graph", [[0], [1]]), "no mapping"),
        (lambda: OwnSplit("graph", None), "failed .FileNotFoundError"),
        (lambda: OwnSplit("graph", split_idx={"train": [0], "test": [1]}), "different splits"),
        (lambda: OwnSplit("graph", _indices=range(12)), "part of a set"),
    ],
)
def test_splits_of_a_data_set_that_are_none_are_refused(made: Any, message: str) -> None:
    with pytest.raises(DataError, match=message) as refused:
        made().read()
    assert refused.value.codes == ["data.pyg"]


@pytest.mark.parametrize("more", [{"split": "train"}, {"train_mask": torch.tensor(True)}])
def test_a_split_in_each_graph_is_refused_by_name(more: dict[str, Any]) -> None:
    with pytest.raises(DataError, match=rf"{next(iter(more))} of each graph may be a split"):
        graphs(0, 1, 0, **more)
    assert graphs(0, 1, 0, train_mask=torch.ones(2)).part is None
    with pytest.raises(DataError, match="split of its graph may be a split"):
        nodes(split=PLACE)
