"""The graphs of a data set of PyG, or the nodes of its one graph, as arrays."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unionsnn.base.errors import DataError
from unionsnn.base.memory import free_bytes
from unionsnn.base.words import format_bytes
from unionsnn.data.arrays import PARTS, GraphArrays, IntArray
from unionsnn.data.edges import graphs_of_edges, slices
from unionsnn.data.sources.pyg_items import as_array, edges_of, graphs_of, num_nodes, pyg_fault
from unionsnn.data.sources.pyg_splits import prescribed_parts
from unionsnn.data.sources.source import Unlabelled

logger = logging.getLogger(__name__)


def read_pyg_dataset(
    dataset: Any,
    *,
    level: str,
    symmetrize: bool,
    unlabelled: Unlabelled | None = None,
    edge_features: bool = False,
    columns: Sequence[int] | None = None,
    part: IntArray | None = None,
) -> GraphArrays:
    """Read a PyG data set: integers in x and edge_attr are labels, floats attributes.

    Self loops are dropped and repeated edges count once, if their features agree. For nodes the set
    must be one graph. A split that the set or the graph of its nodes brings along is used.

    Args:
        dataset: A sequence of PyG's `Data`.
        level: Whether targets belong to each ``graph`` or each ``node``.
        symmetrize: As in `PyG`.
        unlabelled: As in `PyG`.
        edge_features: Whether to read edge_attr.
        columns: Columns of y to keep; None for all.
        part: The part of each graph in the set's own split; None for none.

    Raises:
        DataError: The data set lacks something; says what.
    """
    graphs = graphs_of(dataset)
    if level == "node" and len(graphs) != 1:
        raise pyg_fault(f"the data set has {len(graphs)} graphs; nodes are classified in one")
    names = [f"graph {i}" for i in range(len(graphs))]
    sizes = [num_nodes(data, name) for data, name in zip(graphs, names, strict=True)]
    y = _targets(graphs, sizes, names, level)
    if columns is not None:
        if max(columns, default=-1) >= y.shape[1] or not columns:
            raise pyg_fault(
                f"data.targets is {list(columns)}, but y has the columns 0..{y.shape[1] - 1}"
            )
        y = y[:, list(columns)]
    missing = _missing(y, level, unlabelled)
    labelled = ~missing
    fields: dict[str, Any] = {"y": y.astype(np.float32)}
    if y.dtype.kind in "iub" and y.shape[1] == 1:
        classes, number = np.unique(y[labelled, 0], return_inverse=True)
        numbers = np.full(len(y), -1, dtype=np.int64)
        numbers[labelled] = number
        fields = {"y": numbers, "class_names": tuple(str(value) for value in classes)}
    if part is None:
        part = prescribed_parts(dataset, graphs, len(y), level)
    if level == "node":
        if part is not None:
            part[missing] = len(PARTS)
            fields["part"] = part
    else:
        fields["y"] = fields["y"][labelled]
        if part is not None:
            fields["part"] = part[labelled]
        kept = np.flatnonzero(labelled)
        graphs = [graphs[i] for i in kept]
        sizes, names = [sizes[i] for i in kept], [names[i] for i in kept]
    if not edge_features:
        fields["unread"] = _edge_features_of(graphs)
    arrays = _arrays(
        graphs, sizes, names, edge_features, symmetrize=symmetrize, level=level, **fields
    )
    if any(data.get("edge_weight") is not None for data in graphs):
        logger.warning(
            "the set has edge_weight, which is not read; call it edge_attr and type "
            "data.edge_features=attributes"
        )
    return arrays


def read_pyg_graphs(graphs: Any, *, level: str, edge_features: bool) -> GraphArrays:
    """Read graphs without targets, for a prediction; the targets are the numbers of the items.

    Args:
        graphs: A `Data`, a batch, or a sequence of `Data`; x and edge_attr as in
            `read_pyg_dataset`.
        level: Whether each ``graph``, ``node`` or ``link`` has a prediction: a pair of nodes in
            edge_label_index, or without it each pair of different nodes once.
        edge_features: Whether to read edge_attr.

    Raises:
        DataError: A graph lacks something; says what.
    """
    from torch_geometric.data import Batch, Data

    if isinstance(graphs, Batch):
        graphs = graphs.to_data_list()
    elif isinstance(graphs, Data):
        graphs = [graphs]
    graphs = graphs_of(graphs, targets=False)
    names = [f"graph {i}" for i in range(len(graphs))]
    sizes = [num_nodes(data, name) for data, name in zip(graphs, names, strict=True)]
    arrays = _arrays(
        graphs,
        sizes,
        names,
        edge_features,
        remedy="torch_geometric.transforms.ToUndirected()",
        y=np.arange(sum(sizes) if level == "node" else len(graphs)),
        level="node" if level == "node" else "graph",
    )
    if level != "link":
        return arrays
    given = [data.get("edge_label_index") is not None for data in graphs]
    if not any(given):
        require_pairs(sizes)
        return arrays.with_pairs()
    if not all(given):
        raise pyg_fault(
            f"{names[given.index(False)]} has no edge_label_index, but other graphs have"
        )
    pairs = [
        edges_of(data, size, name, "edge_label_index")
        for data, size, name in zip(graphs, sizes, names, strict=True)
    ]
    return arrays.with_pairs(pairs)


def require_pairs(sizes: ArrayLike) -> None:
    """Refuse graphs of which all pairs of nodes do not fit into memory.

    Shapes:
        sizes [G].
    """
    nodes = np.asarray(sizes, dtype=float)
    # A pair's nodes, its score of each kind, and what batches hold of it.
    needed = 64 * int((nodes * (nodes - 1) / 2).sum())
    if needed > free_bytes():
        raise DataError(
            f"all pairs of nodes take {format_bytes(needed)}, which do not fit into memory; give "
            "the pairs to score as edge_label_index, [2, num_pairs], to unionsnn.load(run)"
            ".predict(graphs)",
            code="data.memory",
        )


def _arrays(
    graphs: Sequence[Any],
    sizes: Sequence[int],
    names: Sequence[str],
    edge_features: bool,
    **fields: Any,
) -> GraphArrays:
    """Return the arrays of graphs with their edges and features, and other fields."""
    edges = [edges_of(*given) for given in zip(graphs, sizes, names, strict=True)]
    counts = [each.shape[1] for each in edges]
    of_edges = _features(graphs, counts, names, "edge_attr", "edge") if edge_features else {}
    of_nodes = _features(graphs, sizes, names, "x", "node")
    return graphs_of_edges(
        edges, slices(sizes), names, edge_features=of_edges, **of_nodes, **fields
    )


def _features(
    graphs: Sequence[Any], counts: Sequence[int], names: Sequence[str], key: str, item: str
) -> dict[str, Any]:
    """Return x or edge_attr of all graphs: whole numbers as labels, others as attributes.

    Args:
        graphs: The graphs.
        counts: Number of nodes or edges of each.
        names: Name of each, for messages.
        key: ``x`` or ``edge_attr``.
        item: ``node`` or ``edge``.
    """
    # PyG's graphs without edges need not have their features.
    needed = range(len(graphs)) if item == "node" else np.flatnonzero(counts).tolist()
    lacking = [names[i] for i in needed if graphs[i].get(key) is None]
    if len(lacking) == len(needed):
        return {}
    if lacking:
        raise pyg_fault(f"{lacking[0]} has no {key}, but other graphs have")
    tables, owners = [], []
    for i in needed:
        rows, name, count = as_array(graphs[i][key], f"{names[i]}: {key}"), names[i], counts[i]
        rows = rows[:, None] if rows.ndim == 1 else rows
        if rows.ndim != 2 or len(rows) != count:
            raise pyg_fault(
                f"{name}: {key} has shape {list(rows.shape)}; it must be [{count}, k], a row for "
                f"each {item}"
            )
        tables.append(rows)
        owners.append(name)
    for kinds, words in (
        ([rows.shape[1] for rows in tables], "columns"),
        (["whole" if rows.dtype.kind in "iub" else "real" for rows in tables], "numbers"),
    ):
        odd = next((i for i, kind in enumerate(kinds) if kind != kinds[0]), None)
        if odd is not None:
            raise pyg_fault(
                f"{key} of {owners[odd]} has {kinds[odd]} {words}, but that of {owners[0]} "
                f"{kinds[0]}"
            )
    rows = np.concatenate(tables)
    if rows.dtype.kind in "iub":
        return {f"{item}_labels": rows.astype(np.int64)}
    with np.errstate(over="ignore"):
        return {f"{item}_attributes": rows.astype(np.float32)}


def _edge_features_of(graphs: Sequence[Any]) -> str:
    """Name edge_attr, with its kind, if there is one that is not read."""
    given = next((data["edge_attr"] for data in graphs if data.get("edge_attr") is not None), None)
    if given is None:
        return ""
    real = getattr(given, "is_floating_point", bool)()
    return f"edge_attr ({'attributes' if real else 'labels'})"


def _targets(
    graphs: Sequence[Any], sizes: Sequence[int], names: Sequence[str], level: str
) -> NDArray[Any]:
    """Return a row of targets for each graph or node."""
    rows = [as_array(data.y, f"{name}: y") for data, name in zip(graphs, names, strict=True)]
    if level == "node":
        (y,) = rows
        if y.ndim == 0 or len(y) != sizes[0]:
            raise pyg_fault(f"y has shape {list(y.shape)}; it must have one row for each node")
        return y.reshape(sizes[0], -1)
    if all(y.ndim and len(y) == n > 1 for y, n in zip(rows, sizes, strict=True)):
        if len(graphs) == 1:
            raise pyg_fault("its one graph has a y for each node; type data=pyg_nodes")
        raise pyg_fault(
            f"its {len(graphs)} graphs have a y for each node; graphs are classified by one y "
            "each, and nodes (data=pyg_nodes) in one graph. Several targets of a graph have the "
            "shape [1, targets]"
        )
    odd = next((i for i, y in enumerate(rows) if y.size != rows[0].size), None)
    if odd is not None or rows[0].size == 0:
        i = odd or 0
        raise pyg_fault(
            f"{names[i]} has {rows[i].size} targets in y, but {names[0]} {rows[0].size}"
        )
    return np.stack([y.reshape(-1) for y in rows])


def _missing(y: NDArray[Any], level: str, unlabelled: Unlabelled | None) -> NDArray[np.bool_]:
    """Return which items have no target: NaN, or a negative class besides classes -1 and 1."""
    if y.dtype.kind == "f":
        unknown = np.isnan(y)
        missing = unknown.all(axis=1) if unlabelled == "mask" else unknown.any(axis=1)
        shown = "nan"
    else:
        missing = (y < 0).any(axis=1) & (y.shape[1] == 1) & (set(np.unique(y)) != {-1, 1})
        shown = ", ".join(str(value) for value in np.unique(y[missing])[:3])
    if not missing.any():
        return missing
    items = [str(i) for i in np.flatnonzero(missing)[:5]]
    which = f"{int(missing.sum())} of {len(y)} {level}s ({', '.join(items)}"
    which += ", ...)" if missing.sum() > 5 else ")"
    if unlabelled == "class" and y.dtype.kind != "f":
        return np.zeros_like(missing)
    leaves_out = unlabelled == "drop" or (unlabelled == "mask" and y.dtype.kind == "f")
    if not leaves_out:
        keep = ", or data.unlabelled=class if it is a class"
        if y.dtype.kind == "f":
            keep = ", or data.unlabelled=mask for those of several targets" * (y.shape[1] > 1)
        raise DataError(
            f"y is {shown} in {which}, which means no label; type data.unlabelled=drop to leave "
            f"these out{keep}",
            code="data.unlabelled",
        )
    if missing.all():
        raise DataError(f"no {level} has a label", code="data.unlabelled")
    warnings.warn(f"{which} have no label and are left out", stacklevel=2)
    return missing
