"""Any in-memory data set class, by dotted path: its graphs, or the nodes of its one graph."""

from __future__ import annotations

import inspect
import json
import logging
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from unionsnn.base.errors import DataError, DataRequestError, RequestError
from unionsnn.base.imports import import_named
from unionsnn.base.memory import free_bytes
from unionsnn.base.secrets import MASK, masked_content, secret_values
from unionsnn.base.words import format_bytes
from unionsnn.data.arrays import PARTS, GraphArrays, IntArray
from unionsnn.data.edges import graphs_of_edges, slices
from unionsnn.data.sources.download import files_hash
from unionsnn.data.sources.graph_files.pt import load_content
from unionsnn.data.sources.source import NodeSource, RawFiles, Source, Unlabelled

# Packages whose functions do other things than to make a data set.
_NOT_THE_USERS = {"torch", "torch_geometric", "numpy", "unionsnn", "pytorch_lightning", "networkx"}

logger = logging.getLogger(__name__)


class PyG(Source):
    """The graphs of any in-memory data set class, named by its dotted path, or of a file.

    PyG keeps the files. What was read of a file ``.pt``, or of the folder of a class of PyG's own,
    is kept as well, so that a finished run is answered without torch.

    Args:
        dataset: Dotted path of a class, such as torch_geometric.datasets.TUDataset, or of a
            function of the user's own; or the path of a file ``.pt`` with a list of PyG's `Data`,
            or what `InMemoryDataset.save` wrote.
        arguments: Its arguments; ``root`` defaults to a folder in the data root.
        symmetrize: Whether to add the reverse of one-way edges.
        split_argument: The argument that chooses a part of the set's own split, called with train,
            val and test; None if the class has all items at once.
        targets: Columns of y to learn; None for all.
        unlabelled: Whether to ``drop`` items without a target (NaN, or a class below 0 where -1 and
            1 are not the only classes), to count these as a ``class``, or to ``mask`` those of
            several targets; an error otherwise.
    """

    dataset: str
    arguments: dict[str, Any] | None = None
    symmetrize: bool = False
    split_argument: str | None = None
    targets: list[Annotated[int, Field(ge=0)]] | None = None
    unlabelled: Unlabelled | None = None

    belongs_to_user: ClassVar[bool] = True

    def processed_key(self, raw: RawFiles) -> str | None:
        """Return the state of the set's files, and what is read of them.

        None where the graphs may depend on more: on code of the user's own, or on nothing that is
        kept in a folder, as in a class that draws its graphs.
        """
        if self.dataset.endswith(".pt"):
            path = Path(self.dataset).expanduser()
            files = files_hash([path]) if path.is_file() else None
        elif self.dataset.startswith("torch_geometric.datasets."):
            name = self.dataset.rpartition(".")[2]
            root = (self.arguments or {}).get("root") or raw.root / "raw" / "pyg" / name
            files = _state_of(Path(root))
        else:
            files = None
        if files is None:
            return None
        content = json.dumps(self.model_dump(), sort_keys=True, default=str)
        return f"pyg {version('torch-geometric')} {files} {content}"

    def read(self, raw: RawFiles) -> GraphArrays:
        """Make the data set and return its arrays."""
        sets, part = list(self._sets(raw)), None
        made = sets[0]
        if self.split_argument is not None:
            made = [data for each in sets for data in graphs_of(each)]
            part = np.repeat(np.arange(3), [len(each) for each in sets])
        level = self.task.partition("_")[0]
        try:
            return read_pyg_dataset(
                made,
                level=level,
                symmetrize=self.symmetrize,
                unlabelled=self.unlabelled,
                edge_features=self.reads_edges,
                columns=self.targets,
                part=part,
            )
        except DataError as error:
            raise DataError(f"{self.dataset}: {error}.", code=error.codes[0]) from error

    def _sets(self, raw: RawFiles) -> Iterator[Any]:
        """Make the data set, or with a split argument one for each part."""
        folder, arguments = raw.root / "raw" / "pyg", self.arguments or {}
        if self.dataset.endswith(".pt"):
            yield self._saved()
        elif self.split_argument is None:
            yield make_dataset(self.dataset, arguments, folder)
        else:
            for name in ("train", "val", "test"):
                yield make_dataset(self.dataset, {**arguments, self.split_argument: name}, folder)

    def _saved(self) -> Any:
        """Return the graphs of a file of the user's.

        Raises:
            DataRequestError: There is no such file.
            DataError: It holds something else.
        """
        from torch_geometric.data import Data, InMemoryDataset

        if self.arguments or self.split_argument:
            raise DataRequestError(
                f"{self.dataset} is a file, which takes no data.arguments or data.split_argument: "
                "leave them out",
                code="data.dataset",
            )
        path = Path(self.dataset).expanduser()
        if not path.is_file():
            raise DataRequestError(
                f"data.dataset is {self.dataset!r}, but there is no file {path.absolute()}",
                code="data.dataset",
            )
        content = load_content(path)
        if isinstance(content, Data):
            return [content]
        if isinstance(content, tuple) and len(content) in (2, 3):
            data, slices = content[:2]
            if isinstance(data, Mapping | Data) and isinstance(slices, Mapping):
                made = InMemoryDataset()
                made.data = Data.from_dict(dict(data)) if isinstance(data, Mapping) else data
                made.slices = dict(slices)
                return made
        if isinstance(content, list | tuple):
            return list(content)
        raise DataError(
            f"{path} holds a {type(content).__name__}; save a list of PyG's Data "
            "(torch.save(list(dataset), file)), or by InMemoryDataset.save",
            code="data.dataset",
        )


def _state_of(folder: Path) -> str | None:
    """Return the path, sizes and times of all files in a folder, as text; None if there are none.

    Hashing them would take longer than PyG does to read them.
    """
    files = []
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            state = path.stat()
            files.append((str(path), state.st_size, state.st_mtime_ns, state.st_ctime_ns))
    return f"{folder.absolute()} {files}" if files else None


class PyGNodes(NodeSource, PyG):
    """The nodes of the single graph of any in-memory data set class, split by its masks."""


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
    sizes = [_num_nodes(data, name) for data, name in zip(graphs, names, strict=True)]
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
        part = _prescribed(dataset, graphs, len(y), level)
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
    edges = [_edges(*given) for given in zip(graphs, sizes, names, strict=True)]
    of_edges: dict[str, Any] = {}
    if edge_features:
        counts = [each.shape[1] for each in edges]
        of_edges = _features(graphs, counts, names, "edge_attr", "edge")
    else:
        fields["unread"] = _edge_features_of(graphs)
    if any(data.get("edge_weight") is not None for data in graphs):
        logger.warning(
            "the set has edge_weight, which is not read; call it edge_attr and type "
            "data.edge_features=attributes"
        )
    return graphs_of_edges(
        edges,
        slices(sizes),
        names,
        symmetrize=symmetrize,
        edge_features=of_edges,
        **fields,
        **_features(graphs, sizes, names, "x", "node"),
        level=level,
    )


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
    sizes = [_num_nodes(data, name) for data, name in zip(graphs, names, strict=True)]
    edges = [_edges(*given) for given in zip(graphs, sizes, names, strict=True)]
    of_edges: dict[str, Any] = {}
    if edge_features:
        counts = [each.shape[1] for each in edges]
        of_edges = _features(graphs, counts, names, "edge_attr", "edge")
    arrays = graphs_of_edges(
        edges,
        slices(sizes),
        names,
        remedy="torch_geometric.transforms.ToUndirected()",
        edge_features=of_edges,
        **_features(graphs, sizes, names, "x", "node"),
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
        _edges(data, size, name, "edge_label_index")
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


def _num_nodes(data: Any, name: str) -> int:
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


def _edges(data: Any, num_nodes: int, name: str, key: str = "edge_index") -> NDArray[Any]:
    edges = as_array(data[key], f"{name}: {key}")
    if edges.size == 0:
        return np.empty((2, 0), dtype=np.int64)
    if edges.ndim != 2 or len(edges) != 2 or edges.dtype.kind not in "iu":
        raise pyg_fault(
            f"{name}: {key} is {edges.dtype} of shape {list(edges.shape)}; it must hold whole "
            "numbers, [2, num_edges]"
        )
    wrong = edges[(edges < 0) | (edges >= num_nodes)]
    if len(wrong):
        raise pyg_fault(
            f"{name}: {key} names node {wrong[0]}, but there are nodes 0..{num_nodes - 1}"
        )
    return edges


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


_MASKS = {"train": ("train",), "validation": ("val", "valid", "validation"), "test": ("test",)}
"""How data sets call the parts of their split."""


_KEYS = {
    part: tuple(f"{word}_{kind}" for word in words for kind in ("mask", "idx", "index"))
    for part, words in _MASKS.items()
}


def _prescribed(dataset: Any, graphs: Sequence[Any], count: int, level: str) -> IntArray | None:
    """Return the parts of the items by what a set says of its split; None if it says nothing.

    It may have a method get_idx_split, a mapping split_idx, or attributes such as train_idx; the
    graph of a set of nodes may have these attributes, too, such as train_mask.

    Shapes:
        -> [count], or [count, S] for S splits.
    """
    found: dict[str, IntArray] = {}
    owners = [dataset, graphs[0]] if level == "node" else [dataset]
    for owner in owners:

        def has(key: str, owner: Any = owner) -> bool:
            # In-memory sets pass on the attributes of their graphs.
            if owner is dataset:
                return inspect.getattr_static(dataset, key, None) is not None
            return owner.get(key) is not None

        given: dict[str, Mapping[str, Any]] = {}
        if has("get_idx_split"):
            given["get_idx_split()"] = _index_lists(owner)
        if has("split_idx"):
            given["split_idx"] = owner.split_idx
        keys = [key for keys in _KEYS.values() for key in keys if has(key)]
        if keys:
            given[", ".join(keys)] = {key: getattr(owner, key) for key in keys}
        for name, values in given.items():
            if not isinstance(values, Mapping):
                raise pyg_fault(f"its {name} is no mapping of train, valid and test to indices")
            part = _parts(values, name, count, level)
            if part is not None:
                found[name] = part
    if not found:
        for key in ("split", "split_idx", *(key for keys in _KEYS.values() for key in keys)):
            value = graphs[0].get(key)
            # Masks with a value for each node are no split of graphs.
            if value is not None and (
                key == "split"
                or (level == "graph" and (key == "split_idx" or np.asarray(value).size == 1))
            ):
                raise pyg_fault(
                    f"{key} of {'its' if level == 'node' else 'each'} graph may be a split, but "
                    "is not read as one; give the data set a method get_idx_split() that returns "
                    "the indices of train, valid and test, or leave it out for a drawn split"
                )
        return None
    (first, chosen), *others = found.items()
    for name, part in others:
        if not np.array_equal(part, chosen):
            raise pyg_fault(f"its {first} and its {name} are different splits")
    if level == "graph" and getattr(dataset, "_indices", None) is not None:
        raise pyg_fault(
            f"it is a part of a set, and its {first} may number the graphs of the whole"
        )
    return chosen


def _index_lists(dataset: Any) -> Any:
    try:
        return dataset.get_idx_split()
    except Exception as error:  # Third-party code may raise anything.
        raise pyg_fault(f"its get_idx_split() failed ({type(error).__name__}: {error})") from error


def _parts(given: Mapping[str, Any], name: str, count: int, level: str) -> IntArray | None:
    """Return the parts of the items by masks or lists of indices; None for a training part alone.

    A set without validation has none here; it is drawn from the training part when it is needed.

    Shapes:
        -> [count], or [count, S] for masks of S splits.
    """
    masks: dict[str, NDArray[np.bool_]] = {}
    known = [(part, key) for part in _MASKS for key in (*_MASKS[part], *_KEYS[part])]
    if odd := [str(key) for key in given if key not in [key for _, key in known]]:
        raise pyg_fault(f"its {name} names {', '.join(odd[:5])}, which is not train, valid or test")
    for part in _MASKS:
        keys = [key for owner, key in known if owner == part and given.get(key) is not None]
        if len(keys) > 1:
            raise pyg_fault(f"it has {' and '.join(keys)}, which both name the {part} part")
        if keys:
            masks[part] = _mask(given[keys[0]], keys[0], count, level)
    if not masks:
        return None
    if masks.keys() == {"train"}:
        # The karate club of PyG names the nodes that a paper labelled, which is not a split.
        logger.warning("the set has a train_mask alone, which is not used: a split is drawn")
        return None
    lacking = [part for part in ("train", "test") if part not in masks or not masks[part].any()]
    if lacking:
        raise pyg_fault(
            f"its masks name the {' and '.join(masks)} part, but no {' and no '.join(lacking)} "
            f"{level}; give masks for train and test (and for validation), or none for a drawn "
            "split"
        )
    columns = sorted({mask.shape[1] for mask in masks.values()} - {1})
    if len(columns) > 1:
        raise pyg_fault(
            f"its masks have {' and '.join(map(str, columns))} columns, one for a split"
        )
    part_of = np.full((count, *columns[:1]) if columns else (count, 1), len(PARTS))
    for place, part in enumerate(PARTS):
        if part not in masks:
            continue
        mask = np.broadcast_to(masks[part], part_of.shape)
        both = np.argwhere(mask & (part_of != len(PARTS)))
        if len(both):
            other = PARTS[part_of[tuple(both[0])]]
            items = np.unique(both[:, 0])
            raise pyg_fault(
                f"{len(items)} {level}s are both in the {other} and in the {part} part, such as "
                f"{', '.join(map(str, items[:5]))}"
            )
        part_of[mask] = place
    empty = [p for i, p in enumerate(PARTS) if p in masks and not (part_of == i).any(axis=0).all()]
    if set(empty) - {"validation"}:
        raise pyg_fault(f"the {empty[0]} part of one of its {part_of.shape[1]} splits is empty")
    return part_of if columns else part_of[:, 0]


def _mask(value: Any, key: str, count: int, level: str) -> NDArray[np.bool_]:
    """Return a mask, [count, S], from a mask or a list of indices."""
    given = as_array(value, key)
    binary = given.dtype.kind == "b" or bool(np.isin(given, (0, 1)).all())
    if len(given.shape) in (1, 2) and len(given) == count and binary and count > 2:
        return given.reshape(count, -1).astype(bool)
    items = given.astype(np.int64) if given.dtype.kind in "iu" or given.size == 0 else None
    if items is None or items.ndim != 1:
        raise pyg_fault(
            f"{key} is {given.dtype} of shape {list(given.shape)}; it must be a mask, "
            f"[{count}] or [{count}, splits], or a list of {level}s"
        )
    wrong = items[(items < 0) | (items >= count)]
    if len(wrong):
        raise pyg_fault(f"{key} names {level} {wrong[0]}, but there are {level}s 0..{count - 1}")
    if len(np.unique(items)) != len(items):
        raise pyg_fault(f"{key} names a {level} more than once")
    mask = np.zeros((count, 1), dtype=bool)
    mask[items] = True
    return mask


def make_dataset(path: str, arguments: Mapping[str, Any], folder: Path) -> Any:
    """Import a data set class, or the user's function that makes one, and call it.

    Raises:
        DataError: It is not such a class or function, which is found out before it is called; or it
            refuses its arguments, or fails.
    """
    module, _, name = path.rpartition(".")
    package = module.partition(".")[0]
    refused = DataRequestError(
        f"data.dataset is {path!r}, which is no data set, so it was not called; type the dotted "
        "path of a class with the methods __getitem__ and __len__, such as "
        "torch_geometric.datasets.TUDataset, or of a function in a module of yours",
        code="data.dataset",
    )
    if package in sys.stdlib_module_names:
        raise refused
    try:
        kind = import_named(path, "data.dataset")
        # What a module only imported from elsewhere is not its own.
        own = str(getattr(kind, "__module__", "")).partition(".")[0] == package
        if inspect.isclass(kind):
            fits = own and hasattr(kind, "__getitem__") and hasattr(kind, "__len__")
        else:
            fits = own and inspect.isfunction(kind) and package not in _NOT_THE_USERS
        if not fits:
            raise refused
        signature = inspect.signature(kind)
    except RequestError as error:
        raise DataRequestError(*error.faults) from error
    except (TypeError, ValueError) as error:
        raise refused from error
    given = dict(arguments)
    if "root" in signature.parameters:
        given.setdefault("root", str(folder / name))
    try:
        signature.bind(**given)
    except TypeError as error:
        raise DataRequestError(
            f"data.arguments are {masked_content(arguments)}, but {path} does not take them "
            f"({error}); it "
            f"takes {', '.join(signature.parameters)}",
            code="data.pyg",
        ) from error
    try:
        return kind(**given)
    except Exception as error:  # Third-party code may raise anything.
        reason = f"{type(error).__name__}: {error}"
        # It may repeat its arguments.
        for secret in secret_values(given):
            reason = reason.replace(secret, MASK)
        raise DataError(
            f"{path} with {masked_content(given)} failed ({reason}); it must work by itself "
            "before it can be used here",
            code="data.pyg",
        ) from error
