"""What torch.save wrote: tensors, mappings, PyG's Data and saved data sets."""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from unionsnn.base.errors import DataError, GraphFileError
from unionsnn.data.sources.graph_files.npz import checked_rows, from_arrays
from unionsnn.data.sources.graph_files.parsed import ParsedGraph, require_memory


def read_pt(path: Path, edge_features: bool = False) -> tuple[bool, list[ParsedGraph]]:
    """Read a file saved by torch: the edges of its graphs."""
    return True, _graphs_of(path, load_content(path), edge_features)


def load_content(path: Path) -> Any:
    """Load a file saved by torch with weights-only loading, which runs no code of the file.

    Raises:
        GraphFileError: It holds other objects than tensors and PyG's data, or is damaged.
    """
    import pickle

    import torch
    from torch_geometric.data import Data
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import GlobalStorage

    # Plain containers of PyG, without code that loading would run.
    # Leaving the context removes its classes from torch's list, so PyG's own entries are excluded.
    allowed = torch.serialization.get_safe_globals()
    containers = [
        c for c in (Data, DataEdgeAttr, DataTensorAttr, GlobalStorage) if c not in allowed
    ]
    unreadable = GraphFileError(f"{path} is not a file that torch.save wrote, or it is damaged.")
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                sizes = [each.file_size for each in archive.infolist()]
            require_memory(path, sum(sizes), "its content")
        with torch.serialization.safe_globals(containers), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        if "Unsupported operand" in str(error):
            raise unreadable from error
        raise GraphFileError(
            f"{path} holds Python objects other than tensors and PyG's data, which could run "
            "code when loaded, so it is refused. Save the edges alone: "
            "torch.save({'edge_index': data.edge_index, 'num_nodes': data.num_nodes}, file)."
        ) from error
    except (DataError, MemoryError):
        raise
    except Exception as error:  # Damage can surface anywhere in torch's unpickler.
        raise unreadable from error


_NODE_ROWS = (
    *("x", "pos", "feat", "batch", "node_type", "node_labels", "node_attributes"),
    *("train_mask", "val_mask", "test_mask"),
)
"""What has a row for each node, in PyG's data and in our npz files."""


def _graphs_of(path: Path, content: Any, edge_features: bool, depth: int = 0) -> list[ParsedGraph]:
    """Extract the graphs of a tensor, a mapping, PyG's Data, a list of these, or a saved set."""
    from torch import Tensor
    from torch_geometric.data import Data

    if isinstance(content, tuple) and len(content) in (2, 3) and isinstance(content[1], Mapping):
        return _graphs_of_set(path, content[0], content[1], edge_features)
    if isinstance(content, list | tuple) and depth < 3:
        return [
            graph for each in content for graph in _graphs_of(path, each, edge_features, depth + 1)
        ]
    values: Mapping[Any, Any] = {"edge_index": content}
    if isinstance(content, Data):
        values = content.to_dict()
    elif isinstance(content, Mapping):
        values = content
    edges = values.get("edge_index")
    if not isinstance(edges, Tensor):
        raise GraphFileError(
            f"{path} holds {type(content).__name__} without a tensor edge_index; needed is PyG's "
            "Data, a mapping with edge_index, a tensor [2, E], or a list of these."
        )
    there = {k: v for k, v in values.items() if isinstance(v, Tensor) and v.dim()}
    batch = there.get("batch")
    several = batch is not None and batch.numel() > 0 and bool((batch != batch[0]).any())
    if several or ("ptr" in there and len(there["ptr"]) != 2):
        raise GraphFileError(
            f"{path} holds a batch of several graphs in one. Save its graphs: "
            "torch.save(batch.to_data_list(), file)."
        )
    sizes: dict[str, Any] = {key: len(there[key]) for key in _NODE_ROWS if key in there}
    if values.get("num_nodes") is not None:
        sizes["num_nodes"] = values["num_nodes"]
    left_out = [str(k) for k, v in values.items() if v is not None]
    attributes = values.get("edge_attr") if edge_features else None
    return [_from_tensor(path, edges, sizes, left_out, attributes)]


def _from_tensor(
    path: Path, edges: Any, sizes: Mapping[str, Any], keys: Collection[str], attributes: Any
) -> ParsedGraph:
    """Read a tensor of edges; everything that tells the number of nodes must agree.

    Whole numbers in edge_attr are labels, others attributes.
    """
    numbers = {str(getattr(size, "tolist", lambda size=size: size)()) for size in sizes.values()}
    if len(numbers) > 1:
        told = ", ".join(f"{size} by {key}" for key, size in sizes.items())
        raise GraphFileError(f"{path}: the number of nodes is {told}; these must agree.")
    try:
        require_memory(path, 8 * edges.numel(), "edge_index")
        array = edges.detach().numpy()
    except (TypeError, RuntimeError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise GraphFileError(f"{path}: edge_index is not a plain tensor ({error}).") from error
    read = ("edge_index", "num_nodes", *(() if attributes is None else ("edge_attr",)))
    others = [key for key in keys if key not in read]
    graph = from_arrays(path, array, next(iter(sizes.values()), None), others)
    if attributes is None:
        return graph
    from torch import float64, int64

    try:
        require_memory(path, 8 * attributes.numel(), "edge_attr")
        whole = not attributes.is_floating_point() and not attributes.is_complex()
        given = attributes.detach().to(int64 if whole else float64).numpy()
    except (AttributeError, TypeError, RuntimeError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise GraphFileError(f"{path}: edge_attr is not a plain tensor ({error}).") from error
    dtype = np.int64 if whole else np.float32
    table = checked_rows(path, "edge_attr", given, dtype, graph.edges.shape[1], "edges")
    return replace(graph, edge_features={"edge_attr": table})


def _graphs_of_set(
    path: Path, data: Any, slices: Mapping[str, Any], edge_features: bool
) -> list[ParsedGraph]:
    """Extract the graphs saved by PyG's InMemoryDataset: all in one, with slices."""
    from torch import Tensor

    values = data if isinstance(data, Mapping) else getattr(data, "to_dict", dict)()
    edges = values.get("edge_index")
    if not isinstance(edges, Tensor) or edges.dim() != 2 or "edge_index" not in slices:
        raise GraphFileError(f"{path} is a saved data set without edge_index.")
    bounds = _bounds(path, "edge_index", slices["edge_index"], edges.shape[1])
    count = len(bounds) - 1
    sizes: list[dict[str, Any]] = [{} for _ in range(count)]
    rows = {
        key: _bounds(path, key, slices[key], len(values[key]))
        for key in _NODE_ROWS
        if key in slices and isinstance(values.get(key), Tensor) and values[key].dim()
    }
    told = {key: [end - begin for begin, end in pairwise(ends)] for key, ends in rows.items()}
    for key in ("num_nodes", "_num_nodes"):
        if isinstance(values.get(key), list | Tensor):
            told["num_nodes"] = [int(number) for number in values[key]]
    for key, numbers in told.items():
        if len(numbers) != count:
            raise GraphFileError(
                f"{path}: the slices of edge_index are of {count} graphs, but {key} of "
                f"{len(numbers)}."
            )
        for size, number in zip(sizes, numbers, strict=True):
            size[key] = number
    keys = [str(key) for key, value in values.items() if value is not None and key != "_num_nodes"]
    attributes = values.get("edge_attr") if edge_features else None
    if attributes is not None:
        end = len(attributes) if isinstance(attributes, Tensor) and attributes.dim() else -1
        if _bounds(path, "edge_attr", slices.get("edge_attr"), end) != bounds:
            raise GraphFileError(
                f"{path}: the slices of edge_attr must be those of edge_index, a row for each edge."
            )
    return [
        _from_tensor(
            path,
            edges[:, begin:end],
            size,
            keys,
            None if attributes is None else attributes[begin:end],
        )
        for (begin, end), size in zip(pairwise(bounds), sizes, strict=True)
    ]


def _bounds(path: Path, key: str, slices: Any, end: int) -> list[int]:
    """Return where the part of each graph begins and ends; refuse slices that leave rows out."""
    try:
        bounds = [int(i) for i in slices]
    except (TypeError, ValueError, RuntimeError):
        bounds = []
    if len(bounds) < 2 or bounds[0] != 0 or bounds[-1] != end or bounds != sorted(bounds):
        raise GraphFileError(
            f"{path}: the slices of {key} must rise from 0 to its {end} columns or rows, so that "
            "each belongs to one graph."
        )
    return bounds
