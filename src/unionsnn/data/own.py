"""Data modules of a user's own data: a folder of graph files, or a PyG data set by its path."""

from __future__ import annotations

import csv
import inspect
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unionsnn.base.errors import DataError
from unionsnn.data.arrays import GraphArrays, IntArray
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.data.edges import both_ways, cut_by_graph, one_way_edges, simple_edges, slices, united
from unionsnn.data.nodes import NodeDataModule
from unionsnn.data.sources.download import files_hash
from unionsnn.data.sources.graph_files import FORMATS, read_graph_file

NODE_ARRAYS = {"node_labels": np.int64, "node_attributes": np.float32}


class FolderDataModule(GraphDataModule):
    """Graphs in files of a folder, one in each, and a table of their labels.

    Args:
        path: The folder.
        table: A CSV file in it, with a header: ``file`` and ``label``, or ``file`` and several
            columns of numbers for a regression.
        symmetrize: Whether edges that are given in one direction only count both ways; they are
            an error otherwise.
        common: Arguments of `GraphDataModule`.
    """

    belongs_to_user = True

    def __init__(
        self, *, path: str, table: str = "labels.csv", symmetrize: bool = False, **common: Any
    ) -> None:
        super().__init__(**common)
        self.path = Path(path).expanduser()
        self.table = table
        self.symmetrize = symmetrize

    def processed_key(self) -> str:
        """Hash of the table and of all files that it names, and what the targets are."""
        files, _ = self._rows()
        kind = "numbers" if self.task == "graph_regression" else "classes"
        return f"folder {files_hash([self.path / self.table, *files])} {kind} {self.symmetrize}"

    def _rows(self) -> tuple[list[Path], list[list[str]]]:
        return labelled_files(self.path, self.table)

    def read(self) -> GraphArrays:
        """Read all files that the table names."""
        files, labels = self._rows()
        edges, counts, features = [], [], []
        for path in files:
            graph = read_graph_file(path)
            if graph.num_graphs != 1:
                raise DataError(f"{path} holds {graph.num_graphs} graphs; one a file is needed")
            if not graph.directed or self.symmetrize:
                found = both_ways(graph.edge_index)
            else:
                found = graph.edge_index
            edges.append(found)
            counts.append(graph.num_nodes)
            features.append(npz_features(path, graph.num_nodes))
        node_slices = slices(counts)
        y, class_names = self._targets(labels)
        carried: dict[str, Any] = {key: joined(key, files, features) for key in NODE_ARRAYS}
        return assembled(
            edges,
            node_slices,
            [str(path) for path in files],
            y=y,
            class_names=class_names,
            **carried,
        )

    def _targets(self, labels: Sequence[Sequence[str]]) -> tuple[NDArray[Any], tuple[str, ...]]:
        if self.task == "graph_regression":
            try:
                return np.array(labels, dtype=np.float32), ()
            except ValueError as error:
                raise DataError(f"{self.path / self.table}: {error}; a label is a number") from None
        if len(labels[0]) != 1:
            raise DataError(f"{self.path / self.table} has {len(labels[0])} label columns, not 1")
        flat = [row[0] for row in labels]
        names = sorted(set(flat), key=_natural)
        number = {name: i for i, name in enumerate(names)}
        return np.array([number[label] for label in flat], dtype=np.int64), tuple(names)


def labelled_files(folder: Path, table: str) -> tuple[list[Path], list[list[str]]]:
    """Files and labels by row of a folder's table.

    Raises:
        DataError: The table is not there or not whole, or names a file that is not there.
    """
    path = folder / table
    if not path.is_file():
        raise DataError(
            f"{path} is not there: data.path names a folder, and data.table a CSV file in it "
            "with the columns file and label"
        )
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            numbered = [(reader.line_num, row) for row in reader if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} is not a CSV file ({error})") from error
    (line, header), *rows = numbered or [(1, [])]
    names = [name.strip() for name in header]
    if len(names) < 2 or names[0] != "file":
        raise DataError(f"{path}, line {line}: the header is {header}; it must be file,label")
    files: list[Path] = []
    first: dict[Path, int] = {}
    for number, row in rows:
        if len(row) != len(names):
            raise DataError(f"{path}, line {number}: {len(row)} columns, not {len(names)}")
        files.append(folder / row[0].strip())
        if not files[-1].is_file():
            raise DataError(f"{path}, line {number}: {files[-1]} is not there")
        # Twice the same graph could be trained on and tested.
        before = first.setdefault(files[-1].resolve(), number)
        if before != number:
            raise DataError(
                f"{path}, line {number}: {files[-1]} is in line {before} already; name each "
                "file once"
            )
    if not files:
        raise DataError(f"{path} names no file")
    return files, [[value.strip() for value in row[1:]] for _, row in rows]


def _natural(label: str) -> tuple[int, float, str]:
    """Numbers in their order, then words."""
    try:
        return 0, float(label), label
    except ValueError:
        return 1, 0.0, label


def npz_features(path: Path, num_nodes: int) -> dict[str, NDArray[Any]]:
    """Node features that stand in an npz file beside its edges."""
    if path.suffix.lower() not in FORMATS["npz"].endings:
        return {}
    found = {}
    with np.load(path, allow_pickle=False) as archive:
        for key, dtype in NODE_ARRAYS.items():
            if key not in archive.files:
                continue
            array = archive[key]
            if array.ndim == 1:
                array = array[:, None]
            if array.ndim != 2 or len(array) != num_nodes:
                raise DataError(f"{path}: {key} has shape {array.shape}, not [{num_nodes}, k]")
            if dtype == np.int64 and array.dtype.kind not in "iu":
                raise DataError(f"{path}: {key} are {array.dtype}, not whole numbers")
            found[key] = array.astype(dtype)
    return found


def joined(
    key: str, files: Sequence[Path], features: Sequence[Mapping[str, NDArray[Any]]]
) -> NDArray[Any] | None:
    """Join one kind of features; all files have it, or none."""
    lacking = [path for path, found in zip(files, features, strict=True) if key not in found]
    if len(lacking) == len(files):
        return None
    if lacking:
        raise DataError(f"{lacking[0]} has no {key}, but other files have")
    arrays = [found[key] for found in features]
    widths = {array.shape[1] for array in arrays}
    if len(widths) > 1:
        raise DataError(f"{key} have {' and '.join(map(str, sorted(widths)))} columns")
    return np.concatenate(arrays)


def assembled(
    edges: Sequence[IntArray],
    node_slices: IntArray,
    names: Sequence[str],
    *,
    remedy: str = "data.symmetrize=true",
    **arrays: Any,
) -> GraphArrays:
    """Make the set of directed edges, loops and repeats dropped; refuse one-way edges by name.

    Args:
        edges: Edges of each graph, its nodes counted from 0.
        node_slices: Where each graph's nodes begin and end.
        names: Name of each graph, for messages.
        remedy: What to type if an edge is meant to go both ways.
        arrays: Further fields of `GraphArrays`.
    """
    union = united(edges, node_slices)
    simple, _ = simple_edges(union, int(node_slices[-1]))
    lonely = one_way_edges(simple, int(node_slices[-1]))
    if len(lonely):
        edge = simple[:, lonely[0]]
        graph = int(np.searchsorted(node_slices, edge[0], side="right")) - 1
        local = (edge - node_slices[graph]).tolist()
        raise DataError(
            f"{names[graph]}: edge {local} has no edge back ({len(lonely)} such edges); type "
            f"{remedy} if an edge is meant to go both ways"
        )
    edge_index, edge_slices = cut_by_graph(simple, node_slices)
    return GraphArrays(
        edge_index=edge_index, node_slices=node_slices, edge_slices=edge_slices, **arrays
    )


def read_pyg_dataset(dataset: Any, *, level: str, symmetrize: bool) -> GraphArrays:
    """Read a PyG data set: whole numbers in x are labels, other numbers attributes.

    Self loops are dropped and repeated edges counted once. For nodes the set must be one graph;
    where it has masks for training, validation and test, they are its split.

    Args:
        dataset: A sequence of PyG's `Data`.
        level: Whether targets belong to each ``graph`` or each ``node``.
        symmetrize: As in `FolderDataModule`.

    Raises:
        DataError: Says what the data set lacks.
    """
    graphs = [dataset[i] for i in range(len(dataset))]
    if not graphs:
        raise DataError("the data set is empty")
    for i, data in enumerate(graphs):
        if data.get("y") is None:
            raise DataError(f"graph {i} has no y: there is nothing to predict")
        if data.get("edge_index") is None:
            raise DataError(f"graph {i} has no edge_index")
    if level == "node" and len(graphs) != 1:
        raise DataError(f"the data set has {len(graphs)} graphs; nodes are classified in one")
    if level == "graph" and len(graphs) == 1 and len(graphs[0].y) == graphs[0].num_nodes > 1:
        raise DataError("its one graph has a y for each node; type data=pyg_nodes")
    node_slices = slices([int(data.num_nodes) for data in graphs])
    edges = [data.edge_index.cpu().numpy() for data in graphs]
    return assembled(
        [both_ways(e) for e in edges] if symmetrize else edges,
        node_slices,
        [f"graph {i}" for i in range(len(graphs))],
        **_pyg_targets(graphs, level, int(node_slices[-1])),
        **_pyg_features(graphs),
        level=level,
    )


def _pyg_targets(graphs: Sequence[Any], level: str, num_nodes: int) -> dict[str, Any]:
    y = np.concatenate([data.y.reshape(-1 if level == "node" else 1, _width(data, level)).numpy()
                        for data in graphs])  # fmt: skip
    if y.dtype.kind in "iub" and y.shape[1] == 1:
        classes, number = np.unique(y[:, 0], return_inverse=True)
        names = tuple(str(value) for value in classes)
        found: dict[str, Any] = {"y": number.astype(np.int64), "class_names": names}
    else:
        found = {"y": y.astype(np.float32)}
    masks = [graphs[0].get(f"{name}_mask") for name in ("train", "val", "test")]
    if level == "node" and all(mask is not None and mask.dim() == 1 for mask in masks):
        part = np.full(num_nodes, 3, dtype=np.int64)
        for place, mask in enumerate(masks):
            part[mask.numpy().astype(bool)] = place
        found["part"] = part
    return found


def _width(data: Any, level: str) -> int:
    count = int(data.num_nodes) if level == "node" else 1
    return int(data.y.numel()) // max(count, 1)


def _pyg_features(graphs: Sequence[Any]) -> dict[str, Any]:
    if graphs[0].get("x") is None:
        return {}
    x = np.concatenate([data.x.reshape(int(data.num_nodes), -1).numpy() for data in graphs])
    if x.dtype.kind in "iub":
        return {"node_labels": x.astype(np.int64)}
    return {"node_attributes": x.astype(np.float32)}


class PyGDataModule(GraphDataModule):
    """The graphs of any in-memory data set class, named by its dotted path.

    PyG keeps the files; nothing but coefficients is kept here.

    Args:
        dataset: Dotted path of a class, such as torch_geometric.datasets.TUDataset.
        arguments: Its arguments; ``root`` is a folder in the data root where it is left out.
        symmetrize: Whether edges that are given in one direction only count both ways.
        common: Arguments of `GraphDataModule`.
    """

    belongs_to_user = True

    def __init__(
        self,
        *,
        dataset: str,
        arguments: Mapping[str, Any] | None = None,
        symmetrize: bool = False,
        **common: Any,
    ) -> None:
        super().__init__(**common)
        self.dataset = dataset
        self.arguments = dict(arguments or {})
        self.symmetrize = symmetrize

    def processed_key(self) -> None:
        """Nothing is kept: PyG has its own files, and what they depend on is not known here."""

    def read(self) -> GraphArrays:
        """Make the data set and take its arrays."""
        made = _make(self.dataset, self.arguments, self.root / "raw" / "pyg")
        level = self.task.partition("_")[0]
        try:
            return read_pyg_dataset(made, level=level, symmetrize=self.symmetrize)
        except DataError as error:
            raise DataError(f"{self.dataset}: {error}.") from error


class PyGNodeDataModule(NodeDataModule, PyGDataModule):
    """The nodes of the one graph of any in-memory data set class, with the split of its masks.

    Args:
        normalize_features: Whether each node's features are divided by their sum.
        common: Arguments of `PyGDataModule`.
    """


def _make(path: str, arguments: Mapping[str, Any], folder: Path) -> Any:
    """Import a data set class and call it."""
    module, _, name = path.rpartition(".")
    try:
        kind = getattr(import_module(module), name)
        signature = inspect.signature(kind)
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise DataError(
            f"data.dataset is {path!r}, which cannot be imported ({error}); type the dotted path "
            "of a class, such as torch_geometric.datasets.TUDataset"
        ) from error
    given = dict(arguments)
    if "root" in signature.parameters:
        given.setdefault("root", str(folder / name))
    try:
        signature.bind(**given)
    except TypeError as error:
        raise DataError(
            f"data.arguments are {dict(arguments)}, but {path} does not take them ({error}); it "
            f"takes {', '.join(signature.parameters)}"
        ) from error
    try:
        return kind(**given)
    except Exception as error:  # It is someone else's code: anything may come out of it.
        raise DataError(
            f"{path} with {given} failed ({type(error).__name__}: {error}); it must work by itself "
            "before it can be used here"
        ) from error
