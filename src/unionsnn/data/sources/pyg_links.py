"""Labelled pairs of nodes of the graphs of any in-memory data set class of PyG."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from unionsnn.base.errors import DataError, RequestError
from unionsnn.data.arrays import GraphArrays, IntArray
from unionsnn.data.edges import graphs_of_union, slices
from unionsnn.data.sources.pyg import PyG
from unionsnn.data.sources.pyg_items import as_array, check_slices, graphs_of, pyg_fault
from unionsnn.data.sources.source import RawFiles, Task

logger = logging.getLogger(__name__)

_KEYS = ("x", "edge_index", "edge_label_index", "edge_label")


class PyGLinks(PyG):
    """Graphs with labelled pairs of nodes: ``edge_label_index`` and ``edge_label`` (0 or 1).

    Messages are sent along ``edge_index`` alone, so a pair is no edge unless it is one there, too.
    """

    task: Task = "link_prediction"

    has_links: ClassVar[bool] = True

    @model_validator(mode="after")
    def _of_links(self) -> Self:
        """Refuse what is about a y of graphs."""
        if self.task != "link_prediction":
            raise RequestError(
                f"data.task is {self.task}, but the targets are labels of pairs of nodes; type "
                "data.task=link_prediction, or data=pyg.",
                code="data.task",
            )
        for key in ("targets", "unlabelled"):
            if getattr(self, key) is not None:
                raise RequestError(
                    f"data.{key} has no effect on pairs of nodes, which have one label: leave it "
                    "out.",
                    code="config.no_effect",
                )
        return self

    def read(self, raw: RawFiles) -> GraphArrays:
        """Make the data set and return its arrays."""
        try:
            return read_pyg_links(
                self._sets(raw),
                symmetrize=self.symmetrize,
                edge_features=self.reads_edges,
                in_parts=self.split_argument is not None,
            )
        except DataError as error:
            raise DataError(f"{self.dataset}: {error}.", code=error.codes[0]) from error


def read_pyg_links(
    sets: Iterable[Any], *, symmetrize: bool, edge_features: bool, in_parts: bool = False
) -> GraphArrays:
    """Read data sets of PyG whose graphs have labelled pairs of nodes.

    The tensors of an `InMemoryDataset` are taken as they are, without an object for each graph.
    Whole numbers in x and edge_attr are labels, others attributes.

    Args:
        sets: Sequences of PyG's `Data`; those of an iterator are dropped as they are read.
        symmetrize: Whether to add the reverse of one-way edges, which are an error otherwise.
        edge_features: Whether to read edge_attr.
        in_parts: Whether the sets are the training, validation and test part.

    Raises:
        DataError: A graph lacks something; says what.
    """
    tables = [_Tables(each, edge_features) for each in sets]
    counts = {key: np.concatenate([each.counts[key] for each in tables]) for key in _KEYS[:3]}
    # One after another, so that what is joined is not held twice.
    joined = {
        key: _joined(key, [each.rows.pop(key) for each in tables]) for key in [*tables[0].rows]
    }
    node_slices = slices(counts["x"])
    first = node_slices[:-1]
    edges = joined.pop("edge_index") + np.repeat(first, counts["edge_index"])
    links, labels = joined.pop("edge_label_index"), joined.pop("edge_label").reshape(-1, 1)
    arrays = graphs_of_union(
        edges,
        node_slices,
        [f"graph {i}" for i in range(len(first))],
        symmetrize=symmetrize,
        edge_features=_features("edge", joined.pop("edge_attr")) if "edge_attr" in joined else None,
        **_features("node", joined.pop("x")),
        y=labels.astype(np.float32),
        link_index=links,
        link_slices=slices(counts["edge_label_index"]),
        part=np.repeat(np.arange(3), [len(each.counts["x"]) for each in tables])
        if in_parts
        else None,
        level="link",
        unread=next((each.unread for each in tables if each.unread), ""),
    )
    _check_links(arrays, links + np.repeat(first, counts["edge_label_index"]), labels[:, 0])
    return arrays


class _Tables:
    """The graphs of a data set as concatenated arrays, with numbers of rows of each graph.

    Nodes are numbered from 0 within each graph.
    """

    def __init__(self, dataset: Any, edge_features: bool) -> None:
        self.rows, self.counts = _concatenated(dataset)
        rows, counts = self.rows, self.counts
        for key in ("edge_index", "edge_label_index"):
            pairs = rows[key]
            if pairs.ndim != 2 or len(pairs) != 2 or (pairs.size and pairs.dtype.kind not in "iu"):
                raise pyg_fault(
                    f"{key} is {pairs.dtype} of shape {list(pairs.shape)}; it must hold whole "
                    "numbers, [2, number of pairs]"
                )
            limit = np.repeat(counts["x"], counts[key])
            wrong = np.flatnonzero(((pairs < 0) | (pairs >= limit)).any(axis=0))
            if len(wrong):
                graph = int(np.searchsorted(counts[key].cumsum(), wrong[0], side="right"))
                raise pyg_fault(
                    f"graph {graph}: {key} names the nodes {pairs[:, wrong[0]].tolist()}, but "
                    f"there are nodes 0..{counts['x'][graph] - 1}"
                )
            rows[key] = pairs.astype(np.int64, copy=False)
        for key, of in (("edge_label", "edge_label_index"), ("edge_attr", "edge_index")):
            if key in counts and not np.array_equal(counts[key], counts[of]):
                graph = int(np.argmax(counts[key] != counts[of]))
                raise pyg_fault(
                    f"graph {graph} has {counts[key][graph]} rows of {key}, but "
                    f"{counts[of][graph]} columns of {of}"
                )
        labels = rows["edge_label"]
        if labels.size != len(labels):
            raise pyg_fault(f"edge_label has shape {list(labels.shape)}; it must be [num_pairs]")
        wrong = np.flatnonzero(~np.isin(labels, (0, 1)))
        if len(wrong):
            graph = int(np.searchsorted(counts["edge_label"].cumsum(), wrong[0], side="right"))
            raise pyg_fault(
                f"graph {graph}: an edge_label is {labels.reshape(-1)[wrong[0]]}; a pair of nodes "
                "is labelled 0 or 1"
            )
        self.unread = ""
        if not edge_features and (given := rows.pop("edge_attr", None)) is not None:
            self.unread = f"edge_attr ({'attributes' if given.dtype.kind == 'f' else 'labels'})"


def _concatenated(dataset: Any) -> tuple[dict[str, NDArray[Any]], dict[str, IntArray]]:
    """Return the arrays of all graphs, and how many rows or columns each graph has of them."""
    from torch_geometric.data import InMemoryDataset

    keys = (*_KEYS, "edge_attr")
    if isinstance(dataset, InMemoryDataset) and dataset.slices and dataset._indices is None:
        data, ends = dataset._data, dataset.slices
        if dataset.transform is None and all(data.get(key) is not None for key in _KEYS):
            check_slices(dataset)
            there = [key for key in keys if key in ends]
            rows = {key: as_array(data[key], key) for key in there}
            counts = {key: np.diff(np.asarray(ends[key])).astype(np.int64) for key in there}
            _warn_of_y(data)
            return rows, counts
    graphs = graphs_of(dataset, targets=False)
    _warn_of_y(graphs[0])
    rows, counts = {}, {}
    for key in keys:
        lacking = [i for i, graph in enumerate(graphs) if graph.get(key) is None]
        if key == "edge_attr" and len(lacking) == len(graphs):
            continue
        if lacking:
            others = ", but other graphs have" if len(lacking) < len(graphs) else ""
            raise pyg_fault(
                f"graph {lacking[0]} has no {key}{others}; needed are x, edge_index, "
                "edge_label_index [2, num_pairs] and edge_label [num_pairs], 0 or 1"
            )
        arrays = [as_array(graph[key], f"graph {i}: {key}") for i, graph in enumerate(graphs)]
        along = 1 if key.endswith("_index") else 0
        for i, array in enumerate(arrays):
            needed = "" if array.ndim else "rows"
            if along and (array.ndim != 2 or len(array) != 2):
                needed = "[2, number of pairs]"
            elif key == "edge_label" and (array.ndim == 0 or array.size != len(array)):
                needed = "[number of pairs]"
            if needed:
                raise pyg_fault(
                    f"graph {i}: {key} has shape {list(array.shape)}; it must be {needed}"
                )
        try:
            rows[key] = np.concatenate(arrays, axis=along)
        except ValueError as error:
            raise pyg_fault(f"{key} of its graphs differ in shape ({error})") from error
        counts[key] = np.array([array.shape[along] for array in arrays], dtype=np.int64)
    return rows, counts


def _warn_of_y(data: Any) -> None:
    if data.get("y") is not None:
        logger.warning("the graphs have y, which is not read: edge_label is what is predicted")


def _joined(key: str, parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Join the arrays of several sets; refuse other numbers of columns."""
    if len(parts) == 1:
        return parts[0]
    widths = {part.shape[1:] for part in parts}
    if len(widths) > 1 and not key.endswith("_index"):
        raise pyg_fault(f"{key} of its parts differ in columns ({widths})")
    return np.concatenate(parts, axis=1 if key.endswith("_index") else 0)


def _features(item: str, rows: NDArray[Any]) -> dict[str, Any]:
    """Return x or edge_attr as labels where it holds whole numbers, as attributes otherwise."""
    rows = rows[:, None] if rows.ndim == 1 else rows
    if rows.dtype.kind in "iub":
        return {f"{item}_labels": rows.astype(np.int64, copy=False)}
    with np.errstate(over="ignore"):
        return {f"{item}_attributes": rows.astype(np.float32, copy=False)}


def _check_links(arrays: GraphArrays, links: IntArray, labels: NDArray[Any]) -> None:
    """Refuse a pair that is labelled 0 and 1, in either order, and a node linked to itself.

    Says if linked pairs are edges of their graphs.

    Args:
        arrays: The graphs.
        links: The labelled pairs, with global node numbers.
        labels: Their labels.

    Shapes:
        links [2, L], labels [L].
    """
    size = arrays.num_nodes

    def named(pair: Sequence[int]) -> tuple[int, list[int]]:
        graph = int(np.searchsorted(arrays.node_slices, pair[0], side="right")) - 1
        return graph, [int(end) - int(arrays.node_slices[graph]) for end in pair]

    loops = links[:, (links[0] == links[1]) & (labels == 1)]
    if loops.size:
        graph, pair = named(loops[:, 0].tolist())
        raise pyg_fault(
            f"graph {graph}: the pair of nodes {pair} is labelled 1, but a node has no link to "
            "itself to rank; leave it out"
        )
    # A pair has no order: both have the same score.
    codes = links.min(axis=0) * size + links.max(axis=0)
    linked = np.unique(codes[labels == 1])
    both = linked[np.isin(linked, codes[labels == 0])]
    if len(both):
        graph, pair = named(divmod(int(both[0]), size))
        raise pyg_fault(
            f"graph {graph}: the pair of nodes {pair} is labelled both 0 and 1; a pair has no "
            "order, so its two orders have one label"
        )
    edges = arrays.edges()
    # Edges are sorted.
    known = edges[0] * size + edges[1]
    places = np.searchsorted(known, linked)
    leaked = int((known[np.minimum(places, len(known) - 1)] == linked).sum()) if len(known) else 0
    if leaked:
        logger.warning(
            "%d of %d linked pairs of nodes are edges of their graph, which tells a network that "
            "they are linked: leave them out of edge_index",
            leaked,
            len(linked),
        )
