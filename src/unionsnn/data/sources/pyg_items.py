"""Items of a data set of PyG, one by one, and what they hold as arrays of numpy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unionsnn.base.errors import DataError
from unionsnn.base.memory import free_bytes
from unionsnn.base.words import format_bytes


def pyg_fault(sentence: str) -> DataError:
    """Return the error of a data set that lacks something."""
    return DataError(sentence, code="data.pyg")


def graphs_of(dataset: Any, *, targets: bool = True) -> list[Any]:
    """Return the items of a data set; refuse what is not a homogeneous graph, with a target."""
    from torch_geometric.data import Data

    check_slices(dataset)
    try:
        graphs = [dataset[i] for i in range(len(dataset))]
    except Exception as error:  # Third-party code may raise anything.
        raise pyg_fault(
            f"its items cannot be read one by one ({type(error).__name__}: {error})"
        ) from error
    if not graphs:
        raise pyg_fault("the data set is empty")
    for i, data in enumerate(graphs):
        if not isinstance(data, Data):
            raise pyg_fault(
                f"item {i} is a {type(data).__name__}, not torch_geometric.data.Data; give a data "
                "set whose items are Data, with the target in y"
            )
        if data.get("ptr") is not None and len(data["ptr"]) != 2:
            raise pyg_fault(
                f"item {i} is a batch of {len(data['ptr']) - 1} graphs; give a data set of graphs, "
                "such as the list batch.to_data_list()"
            )
        if targets and data.get("y") is None:
            if data.get("edge_label_index") is not None:
                raise pyg_fault(
                    f"graph {i} has no y, but labelled pairs of nodes; type data=pyg_links, in "
                    'Python task="link_prediction"'
                )
            raise pyg_fault(f"graph {i} has no y: there is nothing to predict")
        if data.get("edge_index") is None:
            raise pyg_fault(f"graph {i} has no edge_index")
    return graphs


_SLICED = ("edge_index", "x", "y", "edge_label_index", "edge_label")


def check_slices(dataset: Any) -> None:
    """Refuse slices that leave out a part of what a collated data set holds, which PyG ignores."""
    bounds = getattr(dataset, "slices", None)
    collated = getattr(dataset, "_data", None)
    if not isinstance(bounds, Mapping) or collated is None:
        return
    graphs = {key: len(each) - 1 for key, each in bounds.items() if key in _SLICED}
    if len(set(graphs.values())) > 1:
        given = ", ".join(f"{count} for {key}" for key, count in graphs.items())
        raise pyg_fault(f"its slices do not have the same number of graphs ({given})")
    for key in graphs:
        value, ends = collated.get(key), np.asarray(bounds[key])
        if not hasattr(value, "shape"):
            continue
        size = value.shape[collated.__cat_dim__(key, value)] if len(value.shape) else 1
        if ends[0] != 0 or ends[-1] != size or (np.diff(ends) < 0).any():
            raise pyg_fault(
                f"its slices of {key} run from {ends[0]} to {ends[-1]}, but it holds {size} "
                "entries: some would be left out; collate the graphs again"
            )


def as_array(value: Any, what: str) -> NDArray[Any]:
    """Return real numbers as an array, whatever holds them."""
    import torch

    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided:
            needed = value.numel() * value.element_size()
            if needed > free_bytes() // 2:
                raise pyg_fault(
                    f"{what} is sparse, and takes {format_bytes(needed)} when it is dense, "
                    "more than half of the free memory"
                )
            value = value.to_dense()
        if value.is_floating_point() and value.dtype not in (torch.float32, torch.float64):
            value = value.float()
        value = value.detach().cpu().resolve_conj().resolve_neg().numpy()
    try:
        array = np.asarray(value)
    except ValueError:
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in "biuf":
        kind = "complex numbers" if array.dtype.kind == "c" else f"a {type(value).__name__}"
        kind = kind if array.dtype.kind in "cO" else f"{array.dtype}"
        raise pyg_fault(f"{what} holds {kind}; it must hold whole or real numbers")
    return array


def num_nodes(data: Any, name: str) -> int:
    """Return the number of nodes of a graph; refuse one that is none, or does not fit."""
    count = data.num_nodes
    if count is None:
        raise pyg_fault(f"{name} has neither x nor num_nodes")
    number = as_array(count, f"{name}: num_nodes")
    if number.size != 1 or number.item() < 0 or number.item() % 1 != 0:
        raise pyg_fault(f"{name}: num_nodes is {count!r}; it must be one whole number, at least 0")
    count = int(number.item())
    # Rows of the sparsest features and of the graph's own arrays.
    needed = count * 64
    if needed > free_bytes():
        raise pyg_fault(
            f"{name} has {count:,} nodes, which take more than {format_bytes(needed)} and "
            "do not fit into memory; number the nodes from 0 without gaps"
        )
    return count


def edges_of(data: Any, size: int, name: str, key: str = "edge_index") -> NDArray[Any]:
    """Return the edges of a graph, [2, num_edges], whose nodes exist."""
    edges = as_array(data[key], f"{name}: {key}")
    if edges.size == 0:
        return np.empty((2, 0), dtype=np.int64)
    if edges.ndim != 2 or len(edges) != 2 or edges.dtype.kind not in "iu":
        raise pyg_fault(
            f"{name}: {key} is {edges.dtype} of shape {list(edges.shape)}; it must hold whole "
            "numbers, [2, num_edges]"
        )
    wrong = edges[(edges < 0) | (edges >= size)]
    if len(wrong):
        raise pyg_fault(f"{name}: {key} names node {wrong[0]}, but there are nodes 0..{size - 1}")
    return edges
