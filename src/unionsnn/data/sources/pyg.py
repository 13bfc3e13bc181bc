"""Any in-memory data set class, by dotted path: its graphs, or the nodes of its one graph."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from unionsnn.base.errors import DataError
from unionsnn.data.arrays import GraphArrays
from unionsnn.data.edges import both_ways, graphs_of_edges, slices
from unionsnn.data.sources.source import NodeSource, RawFiles, Source


class PyG(Source):
    """The graphs of any in-memory data set class, named by its dotted path.

    PyG keeps the files; only coefficients are cached here.

    Args:
        dataset: Dotted path of a class, such as torch_geometric.datasets.TUDataset.
        arguments: Its arguments; ``root`` defaults to a folder in the data root.
        symmetrize: Whether to add the reverse of one-way edges.
    """

    dataset: str
    arguments: dict[str, Any] | None = None
    symmetrize: bool = False

    belongs_to_user: ClassVar[bool] = True

    def processed_key(self, raw: RawFiles) -> None:
        """Return None: PyG keeps its own files, whose dependencies are unknown here."""

    def read(self, raw: RawFiles) -> GraphArrays:
        """Make the data set and return its arrays."""
        made = make_dataset(self.dataset, self.arguments or {}, raw.root / "raw" / "pyg")
        level = self.task.partition("_")[0]
        try:
            return read_pyg_dataset(made, level=level, symmetrize=self.symmetrize)
        except DataError as error:
            raise DataError(f"{self.dataset}: {error}.", code=error.codes[0]) from error


class PyGNodes(NodeSource, PyG):
    """The nodes of the single graph of any in-memory data set class, split by its masks."""


def read_pyg_dataset(dataset: Any, *, level: str, symmetrize: bool) -> GraphArrays:
    """Read a PyG data set: integers in x are labels, floats attributes.

    Self loops are dropped and repeated edges count once. For nodes the set must be one graph, which
    is split by its masks for training, validation and test, if any.

    Args:
        dataset: A sequence of PyG's `Data`.
        level: Whether targets belong to each ``graph`` or each ``node``.
        symmetrize: As in `PyG`.

    Raises:
        DataError: The data set lacks something; says what.
    """
    graphs = [dataset[i] for i in range(len(dataset))]
    if not graphs:
        raise DataError("the data set is empty", code="data.pyg")
    for i, data in enumerate(graphs):
        if data.get("y") is None:
            raise DataError(f"graph {i} has no y: there is nothing to predict", code="data.pyg")
        if data.get("edge_index") is None:
            raise DataError(f"graph {i} has no edge_index", code="data.pyg")
    if level == "node" and len(graphs) != 1:
        raise DataError(
            f"the data set has {len(graphs)} graphs; nodes are classified in one", code="data.pyg"
        )
    if level == "graph" and len(graphs) == 1 and len(graphs[0].y) == graphs[0].num_nodes > 1:
        raise DataError("its one graph has a y for each node; type data=pyg_nodes", code="data.pyg")
    features: dict[str, Any] = {}
    if graphs[0].get("x") is not None:
        x = np.concatenate([data.x.reshape(int(data.num_nodes), -1).numpy() for data in graphs])
        whole = x.dtype.kind in "iub"
        name, dtype = ("node_labels", np.int64) if whole else ("node_attributes", np.float32)
        features[name] = x.astype(dtype)
    node_slices = slices([int(data.num_nodes) for data in graphs])
    edges = [data.edge_index.cpu().numpy() for data in graphs]
    return graphs_of_edges(
        [both_ways(e) for e in edges] if symmetrize else edges,
        node_slices,
        [f"graph {i}" for i in range(len(graphs))],
        **_pyg_targets(graphs, level, int(node_slices[-1])),
        **features,
        level=level,
    )


def _pyg_targets(graphs: Sequence[Any], level: str, num_nodes: int) -> dict[str, Any]:
    items = [int(data.num_nodes) if level == "node" else 1 for data in graphs]
    y = np.concatenate(
        [
            data.y.reshape(
                -1 if level == "node" else 1, int(data.y.numel()) // max(count, 1)
            ).numpy()
            for data, count in zip(graphs, items, strict=True)
        ]
    )
    if y.dtype.kind in "iub" and y.shape[1] == 1:
        classes, number = np.unique(y[:, 0], return_inverse=True)
        names = tuple(str(value) for value in classes)
        fields: dict[str, Any] = {"y": number.astype(np.int64), "class_names": names}
    else:
        fields = {"y": y.astype(np.float32)}
    masks = [graphs[0].get(f"{name}_mask") for name in ("train", "val", "test")]
    if level == "node" and all(mask is not None and mask.dim() == 1 for mask in masks):
        part = np.full(num_nodes, 3, dtype=np.int64)
        for place, mask in enumerate(masks):
            part[mask.numpy().astype(bool)] = place
        fields["part"] = part
    return fields


def make_dataset(path: str, arguments: Mapping[str, Any], folder: Path) -> Any:
    """Import a data set class and call it."""
    module, _, name = path.rpartition(".")
    try:
        kind = getattr(import_module(module), name)
        signature = inspect.signature(kind)
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise DataError(
            f"data.dataset is {path!r}, which cannot be imported ({error}); type the dotted path "
            "of a class, such as torch_geometric.datasets.TUDataset",
            code="data.pyg",
        ) from error
    given = dict(arguments)
    if "root" in signature.parameters:
        given.setdefault("root", str(folder / name))
    try:
        signature.bind(**given)
    except TypeError as error:
        raise DataError(
            f"data.arguments are {dict(arguments)}, but {path} does not take them ({error}); it "
            f"takes {', '.join(signature.parameters)}",
            code="data.pyg",
        ) from error
    try:
        return kind(**given)
    except Exception as error:  # Third-party code may raise anything.
        raise DataError(
            f"{path} with {given} failed ({type(error).__name__}: {error}); it must work by itself "
            "before it can be used here",
            code="data.pyg",
        ) from error
