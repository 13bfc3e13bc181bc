"""Graphs in memory: from arrays and coefficients to a PyG data set."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data, InMemoryDataset

from unionsnn.base.errors import DataError, DataRequestError, WidthError
from unionsnn.base.memory import free_bytes
from unionsnn.base.npz import MAPPED_BYTES, scratch
from unionsnn.base.words import format_bytes
from unionsnn.data.arrays import GraphArrays, IntArray
from unionsnn.data.encodings.definitions import pair_slices
from unionsnn.data.encodings.subgraphs import COUNTS, PackedArray

NODE_FEATURES = ("labels", "categorical", "attributes", "both", "degree", "constant")
"""Node features by name in the configuration."""

# Rows that are converted together.
_ROWS = 2**20

EDGE_FEATURES = ("none", "labels", "attributes", "both")
"""Edge features by name in the configuration."""


class GraphDataset(InMemoryDataset):
    """A PyG data set of concatenated tensors in memory.

    Args:
        data: All graphs in one `Data`, with node numbers local to each graph.
        slices: For each key, where each graph's part begins and ends.
    """

    def __init__(self, data: Data, slices: dict[str, Tensor]) -> None:
        super().__init__(root=None)
        self.data, self.slices = data, slices


class SubgraphData(Data):
    """A graph with the subgraphs rooted at its nodes.

    A copy is an occurrence of a node in one of the subgraphs.

    Attributes:
        subgraph_index: Root and node of each copy.
        subgraph_distance: Hops between the two.
        subgraph_edge_index: Senders and receivers of the subgraphs' edges, as copies.
        subgraph_edge: The original edge of each of those.

    Shapes:
        - subgraph_index: [2, num_copies]
        - subgraph_distance: [num_copies]
        - subgraph_edge_index: [2, num_subgraph_edges]
        - subgraph_edge: [num_subgraph_edges]
    """

    def __inc__(self, key: str, value: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the offset of the indices of the next graph in a batch."""
        counted = COUNTS.get(key)
        if counted is None or counted == "x":
            return super().__inc__(key, value, *args, **kwargs)
        return self[counted].size(1)


@dataclass(frozen=True)
class Subgraphs:
    """The subgraphs of a set, with indices local to each graph.

    Args:
        values: The attributes of `SubgraphData`, concatenated over graphs.
        slices: Slices of the graphs for each of them.
    """

    values: dict[str, Tensor]
    slices: dict[str, Tensor]

    @classmethod
    def of(cls, packed: PackedArray, node_slices: IntArray, edge_slices: IntArray) -> Subgraphs:
        """Unpack the result of `rooted_subgraphs`.

        Args:
            packed: The packed array.
            node_slices: Where each graph's nodes begin and end.
            edge_slices: Where each graph's edges begin and end.
        """
        num_copies = int(packed[0, 0])
        copies, edges = packed[1 : num_copies + 1], packed[num_copies + 1 :]
        copy_slices = np.searchsorted(copies[:, 0], node_slices)
        slices = np.searchsorted(edges[:, 0], copy_slices)
        index = _local(copies[:, :2], copy_slices, node_slices)
        edge_index = _local(edges[:, :2], slices, copy_slices)
        edge = _local(edges[:, 2:], slices, edge_slices)
        return cls(
            {
                "subgraph_index": torch.from_numpy(index),
                "subgraph_distance": torch.from_numpy(copies[:, 2].copy()),
                "subgraph_edge_index": torch.from_numpy(edge_index),
                "subgraph_edge": torch.from_numpy(edge[0]),
            },
            {
                "subgraph_index": torch.from_numpy(copy_slices),
                "subgraph_distance": torch.from_numpy(copy_slices),
                "subgraph_edge_index": torch.from_numpy(slices),
                "subgraph_edge": torch.from_numpy(slices),
            },
        )


def _local(numbers: PackedArray, slices: IntArray, first: IntArray) -> PackedArray:
    """Make indices local to each graph, with a row for each column."""
    offset = np.repeat(first[:-1], np.diff(slices)).astype(np.int32)
    return np.ascontiguousarray((numbers - offset[:, None]).T)


def build_dataset(
    arrays: GraphArrays,
    features: str,
    coefficients: Mapping[str, NDArray[np.float64]] | None = None,
    encodings: Mapping[str, NDArray[Any]] | None = None,
    *,
    normalize_features: bool = False,
    widths: Sequence[int] | None = None,
    edge_features: str = "none",
    edge_widths: Sequence[int] | None = None,
    folder: Path | None = None,
) -> GraphDataset:
    """Make the data set that models read.

    Args:
        arrays: The graphs.
        features: Node features, one of `NODE_FEATURES`.
        coefficients: Attributes with one row per edge, [num_edges, C], by name.
        encodings: Attributes with one row per node, [num_nodes, K], or ``distance`` with one per
            pair of nodes of a graph, [num_pairs, 1], by name; stored as they are made, distances
            without their second dimension. ``subgraph``, as `rooted_subgraphs` makes it, becomes
            the attributes of `SubgraphData`.
        normalize_features: Whether each node's features are divided by their sum, if it is not 0.
        widths: How many values each categorical node feature can take; by default, as many as
            occur.
        edge_features: Edge features, one of `EDGE_FEATURES`; ``labels`` stay numbers.
        edge_widths: As `widths`, of the edges.
        folder: Where coefficients that are large for the free memory are kept in a file; None for
            nowhere.

    Raises:
        DataError: if the graphs lack what `features` or `edge_features` names, or hold a value
            beyond its width.
    """
    if features not in NODE_FEATURES:
        raise DataError(
            f"data.features is {features!r}; allowed are {', '.join(NODE_FEATURES)}.",
            code="data.features",
        )
    if edge_features not in EDGE_FEATURES:
        raise DataError(
            f"data.edge_features is {edge_features!r}; allowed are {', '.join(EDGE_FEATURES)}.",
            code="data.edge_features",
        )
    node_slices = torch.from_numpy(arrays.node_slices)
    edge_slices = torch.from_numpy(arrays.edge_slices)
    one_each = torch.arange(arrays.num_graphs + 1)
    x = _node_features(arrays, features, widths)
    if normalize_features:
        total = x.sum(dim=1, keepdim=True)
        x = x / torch.where(total == 0, torch.ones_like(total), total)
    make = SubgraphData if "subgraph" in (encodings or {}) else Data
    data = make(
        x=x,
        edge_index=torch.from_numpy(arrays.edge_index),
        y=torch.from_numpy(arrays.y),
    )
    targets = node_slices if arrays.level == "node" else one_each
    slices = {"x": node_slices, "edge_index": edge_slices, "y": targets}
    if arrays.link_index is not None and arrays.link_slices is not None:
        data.edge_label_index = torch.from_numpy(arrays.link_index)
        slices["edge_label_index"] = slices["y"] = torch.from_numpy(arrays.link_slices)
    if edge_features != "none":
        data.edge_attr = _edge_features(arrays, edge_features, edge_widths)
        slices["edge_attr"] = edge_slices
    for name, rows in (coefficients or {}).items():
        data[name] = _converted(rows, folder)
        slices[name] = edge_slices
    for name, rows in (encodings or {}).items():
        if name == "distance":
            data[name] = torch.from_numpy(rows).flatten()
            slices[name] = torch.from_numpy(pair_slices(arrays.node_slices))
        elif name == "subgraph":
            packed = np.asarray(rows, dtype=np.int32)
            made = Subgraphs.of(packed, arrays.node_slices, arrays.edge_slices)
            data.update(made.values)
            slices.update(made.slices)
        else:
            data[name] = torch.from_numpy(rows).to(torch.get_default_dtype())
            slices[name] = node_slices
    return GraphDataset(data, slices)


def with_coefficient(dataset: GraphDataset, rows: Tensor) -> GraphDataset:
    """Return the data set with other coefficient rows, sharing all other tensors.

    Shapes:
        rows [num_edges, C].
    """
    data = copy.copy(dataset._data)
    data.edge_coefficient = rows
    return GraphDataset(data, dataset.slices)


def feature_widths(arrays: GraphArrays, features: str) -> list[int] | None:
    """Return the cardinality of each categorical node feature of a set; None without any."""
    if features not in ("degree", "labels", "both"):
        return None
    columns = _capped_degree(arrays) if features == "degree" else _given(arrays, "labels")
    return [int(column.max(initial=-1)) + 1 for column in columns.T]


def edge_feature_widths(arrays: GraphArrays, features: str) -> list[int] | None:
    """Return the cardinality of each categorical edge feature of a set; None without any."""
    if features not in ("labels", "both") or arrays.edge_labels is None:
        return None
    return [int(column.max(initial=-1)) + 1 for column in arrays.edge_labels.T]


def _one_hot(columns: NDArray[Any], widths: Sequence[int] | None) -> Tensor:
    if widths is not None:
        check_widths(columns, widths)
    counts = [int(c.max(initial=0)) + 1 for c in columns.T] if widths is None else [*widths]
    dtype = torch.get_default_dtype()
    needed = 2 * dtype.itemsize * len(columns) * sum(counts)
    if needed > free_bytes():
        raise DataError(
            f"The labels run up to {int(columns.max(initial=0))}; a column for each value "
            f"takes {format_bytes(needed)}. Number the labels without gaps, or choose "
            "data.features=categorical or data.edge_features=labels.",
            code="data.features",
        )
    made = torch.zeros(len(columns), sum(counts), dtype=dtype)
    first = 0
    for column, count in zip(torch.from_numpy(columns).unbind(dim=1), counts, strict=True):
        made[:, first : first + count].scatter_(1, column[:, None], 1)
        first += count
    return made


def _converted(rows: NDArray[np.float64], folder: Path | None) -> Tensor:
    """Return coefficients in torch's default type, without a copy of all if they are large."""
    dtype = torch.get_default_dtype()
    if folder is None or dtype != torch.float32 or rows.nbytes <= MAPPED_BYTES:
        return torch.from_numpy(rows).to(dtype)
    made = scratch(rows.shape, np.float32, folder)
    for begin in range(0, len(rows), _ROWS):
        made[begin : begin + _ROWS] = rows[begin : begin + _ROWS]
    return torch.from_numpy(made)


def check_widths(columns: NDArray[Any], widths: Sequence[int]) -> None:
    """Refuse categorical features that do not match those that a network was made for.

    Shapes:
        columns [N, k]; widths k numbers.

    Raises:
        WidthError: The number of columns differs, or a value is too large.
    """
    if columns.shape[1] != len(widths):
        raise WidthError(f"there are {columns.shape[1]} columns; needed are {len(widths)}")
    for i, width in enumerate(widths):
        largest = int(columns[:, i].max(initial=0))
        if largest >= width:
            raise WidthError(f"column {i} has the value {largest}; allowed are 0..{width - 1}")


def _given(arrays: GraphArrays, kind: str) -> NDArray[Any]:
    values: NDArray[Any] | None = getattr(arrays, f"node_{kind}")
    if values is None:
        other = "attributes" if kind == "labels" else "labels"
        raise DataError(
            f"The set has no node {kind}; choose data.features={other}, degree or constant.",
            code="data.features",
        )
    return values


def _edge_features(arrays: GraphArrays, features: str, widths: Sequence[int] | None) -> Tensor:
    kinds = {"labels": arrays.edge_labels, "attributes": arrays.edge_attributes}
    parts = []
    for kind in kinds if features == "both" else (features,):
        rows = kinds[kind]
        if rows is None:
            instead = next((name for name, other in kinds.items() if other is not None), "none")
            raise DataRequestError(
                f"The set has no edge {kind}; type data.edge_features={instead}.",
                code="data.edge_features",
            )
        if features == "labels":
            if widths is not None:
                check_widths(rows, widths)
            return torch.from_numpy(rows)
        if kind == "labels":
            parts.append(_one_hot(rows, widths))
        else:
            parts.append(torch.from_numpy(rows).to(torch.get_default_dtype()))
    return torch.cat(parts, dim=1)


def _capped_degree(arrays: GraphArrays) -> IntArray:
    degree = np.bincount(arrays.edges()[1], minlength=arrays.num_nodes)
    # Degrees from 64 share a column, so that a hub does not widen every row.
    return np.minimum(degree, 64)[:, None]


def _node_features(arrays: GraphArrays, features: str, widths: Sequence[int] | None) -> Tensor:
    if features == "constant":
        return torch.ones(arrays.num_nodes, 1)
    if features == "degree":
        return _one_hot(_capped_degree(arrays), widths)
    parts = []
    if features != "attributes":
        labels = _given(arrays, "labels")
        if features == "categorical":
            if widths is not None:
                check_widths(labels, widths)
            return torch.from_numpy(labels)
        parts.append(_one_hot(labels, widths))
    if features != "labels":
        attributes = torch.from_numpy(_given(arrays, "attributes"))
        parts.append(attributes.to(torch.get_default_dtype()))
    return torch.cat(parts, dim=1) if len(parts) > 1 else parts[0]
