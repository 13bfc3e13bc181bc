"""The user's graphs without targets, with the node features that a trained network needs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unionsnn.base.errors import DataError, WidthError
from unionsnn.data.arrays import GraphArrays
from unionsnn.data.datasets import check_widths
from unionsnn.data.edges import graphs_of_edges
from unionsnn.data.sources.folder import GraphFiles, read_files, read_label_table
from unionsnn.data.sources.graph_files.formats import FORMATS, format_of

TABLE = "labels.csv"
"""Optional table of labels in a folder of graphs."""

_NAMED = 5

_READ_FROM = {
    "labels": ("node_labels",),
    "categorical": ("node_labels",),
    "attributes": ("node_attributes",),
    "both": ("node_labels", "node_attributes"),
}


@dataclass(frozen=True)
class EdgeColumns:
    """The features of edges that a network was trained with.

    Attributes:
        labels: Cardinality of each column of labels; None if it read none.
        attributes: Number of attributes; None if it read none.
    """

    labels: tuple[int, ...] | None
    attributes: int | None

    @property
    def widths(self) -> dict[str, int]:
        """The number of columns of each kind that was read, by its name in `GraphArrays`."""
        labels = None if self.labels is None else len(self.labels)
        counts = {"edge_labels": labels, "edge_attributes": self.attributes}
        return {key: count for key, count in counts.items() if count is not None}


@dataclass(frozen=True, eq=False)
class NewGraphs:
    """Graphs of a file or folder to which a trained network is applied.

    Attributes:
        arrays: The graphs. The target of each item is its index, so that predictions of batches
            can be reordered.
        names: Name of each graph.
        node_names: Name of each node in the file.
        labels: Label of each graph, if a table has them.
        notes: What was left out.
    """

    arrays: GraphArrays
    names: tuple[str, ...]
    node_names: NDArray[Any]
    labels: list[str] | None
    notes: list[str]


def read_new_graphs(
    path: Path,
    *,
    features: str,
    widths: Sequence[int] | None,
    edges: EdgeColumns | None = None,
    level: str,
    form: str | None = None,
    header: bool | None = None,
    symmetrize: bool = False,
) -> NewGraphs:
    """Read all graphs with the features that a network reads.

    Args:
        path: A file, or a folder: the files listed in its table, or all graph files in it.
        features: As the network was trained with, one of `NODE_FEATURES`.
        widths: Cardinality of each categorical node feature in training.
        edges: Features of edges in training; None if none were read.
        level: Whether each ``graph`` or each ``node`` has a prediction.
        form: Format of the file, a key of `FORMATS`; by default chosen by its extension.
        header: Whether the first line of an edge list names its columns; None if its words tell.
        symmetrize: Whether to add the reverse of one-way edges.

    Raises:
        DataError: A file is wrong, or its nodes or edges lack features used in training.
    """
    files, labels, notes = _files(path, form)
    graphs = read_files(
        files,
        form,
        one_each=labels is not None,
        edge_features=edges is not None,
        header=header,
    )
    for key in _READ_FROM.get(features, ()):
        if key not in graphs.features:
            kind, allowed = "real", ""
            if key == "node_labels":
                kind = "whole"
                if widths:
                    allowed = f", each column 0..{'|'.join(str(width - 1) for width in widths)}"
            raise DataError(
                f"{files[0]} has no {key}, but the network was trained with "
                f"data.features={features}: give .npz files with edge_index and {key}, {kind} "
                f"numbers [num_nodes, k]{allowed}; x of a .pt file is not read.",
                code="data.no_features",
            )
    of_edges = {} if edges is None else _edge_features(files[0], graphs, edges)
    if graphs.left_out:
        notes = [*notes, graphs.left_out]
    beside = sorted(graphs.edge_features.keys() - of_edges.keys())
    if beside:
        notes = [*notes, f"left out, as in training: {', '.join(beside)}"]
    names = [
        path.name if file.num_graphs == 1 else f"{path.name}:{number}"
        for path, file in zip(files, graphs.files, strict=True)
        for number in range(file.num_graphs)
    ]
    node_slices = graphs.node_slices
    arrays = graphs_of_edges(
        graphs.edges,
        node_slices,
        names,
        symmetrize=symmetrize,
        remedy="--symmetrize",
        edge_features=of_edges,
        y=np.arange(len(names) if level == "graph" else node_slices[-1]),
        level=level,
        **graphs.features,
    )
    node_names = np.concatenate([file.node_names().astype(object) for file in graphs.files])
    return NewGraphs(arrays, tuple(names), node_names, labels, notes)


def _edge_features(path: Path, graphs: GraphFiles, wanted: EdgeColumns) -> dict[str, NDArray[Any]]:
    """Return the features of edges that a network reads; refuse what it was not trained with."""
    found = dict(graphs.edge_features)
    if not any(file.num_edges for file in graphs.files):
        # Graphs without edges need not have features of edges.
        found = {"edge_labels": np.empty((0, len(wanted.labels or ())), dtype=np.int64)}
        found["edge_attributes"] = np.empty((0, wanted.attributes or 0), dtype=np.float32)
    for key, count in wanted.widths.items():
        columns = found[key].shape[1] if key in found else 0
        if columns != count:
            kind = "whole numbers" if key == "edge_labels" else "real numbers, written as 1.0"
            raise DataError(
                f"{path} has {columns} columns of {key}, but the network was trained with {count}: "
                f"give {kind}, [num_edges, {count}], as edge_attr of a .pt file, {key} of an .npz "
                "file, data of edges in GraphML or columns of an edge list.",
                code="data.widths" if columns else "data.no_features",
            )
    found = {key: found[key] for key in wanted.widths}
    try:
        if wanted.labels is not None:
            check_widths(found["edge_labels"], wanted.labels)
    except WidthError as error:
        raise DataError(
            f"{path}: edge_labels: {error}, as in the training data.", code=error.codes[0]
        ) from error
    return found


def _files(path: Path, form: str | None) -> tuple[list[Path], list[str] | None, list[str]]:
    """Return the graph files, their labels if a table has them, and what was left out."""
    if not path.is_dir():
        return [path], None, []
    if (path / TABLE).is_file():
        table = read_label_table(path, TABLE)
        files, labels = table.files, [", ".join(row) for row in table.labels]
        return files, labels, _left_out(path, {*files, path / TABLE})
    formats = FORMATS.values() if form is None else [FORMATS[form]]
    extensions = tuple(extension for each in formats for extension in each.extensions)
    if (path / TABLE).exists():
        raise DataError(f"{path / TABLE} is no regular file.", code="data.table")
    files = sorted(
        p
        for p in path.iterdir()
        if p.suffix.lower() in extensions and not p.name.startswith(".") and p.is_file()
    )
    if not files:
        raise DataError(
            f"{path} holds no graph file; allowed are {', '.join(extensions)}, and a table "
            f"{TABLE} that lists them.",
            code="data.no_graphs",
        )
    return files, None, _left_out(path, set(files))


def _left_out(folder: Path, read: Collection[Path]) -> list[str]:
    """Name what a folder holds beside the files that are read."""
    known = {path.resolve() for path in read}
    others = sorted(path.name for path in folder.iterdir() if path.resolve() not in known)
    if not others:
        return []
    more = f" and {len(others) - _NAMED:,} more" if len(others) > _NAMED else ""
    return [f"left out of {folder}: {', '.join(others[:_NAMED])}{more}"]


def check_format(path: Path, form: str | None) -> None:
    """Check before any work that a file has a supported format.

    Raises:
        DataError: It does not.
    """
    if form is not None and form not in FORMATS:
        raise DataError(
            f"--format {form} is unknown; allowed are {', '.join(FORMATS)}.", code="data.format"
        )
    if form is None and not path.is_dir():
        format_of(path)
