"""A user's graphs without targets, with the node features that a trained network was made for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unionsnn.base.errors import DataError
from unionsnn.data.arrays import GraphArrays
from unionsnn.data.edges import both_ways, graphs_of_edges, slices
from unionsnn.data.sources.folder import NODE_ARRAYS, joined, labelled_files, npz_features
from unionsnn.data.sources.graph_files import FORMATS, format_of, read_graph_file

TABLE = "labels.csv"
"""A table of labels that may lie in a folder of graphs."""

_READ_FROM = {
    "labels": ("node_labels",),
    "categorical": ("node_labels",),
    "attributes": ("node_attributes",),
    "both": ("node_labels", "node_attributes"),
}


@dataclass(frozen=True, eq=False)
class NewGraphs:
    """Graphs of a file, or of the files of a folder, that a trained network is applied to.

    Attributes:
        arrays: The graphs. The target of each item is its number, so that predictions of batches
            can be put in order.
        names: Name of each graph.
        node_names: The file's own name of each node.
        labels: Label of each graph, where a table gives them.
    """

    arrays: GraphArrays
    names: tuple[str, ...]
    node_names: NDArray[Any]
    labels: list[str] | None


def read_new_graphs(
    path: Path,
    *,
    features: str,
    widths: Sequence[int] | None,
    level: str,
    form: str | None = None,
    symmetrize: bool = False,
) -> NewGraphs:
    """Read all graphs and what their nodes carry.

    Args:
        path: The file, or a folder: the files that its table names, or all graph files in it.
        features: As the network was trained with, a key of `NODE_FEATURES`.
        widths: How many values each categorical node feature could take in training.
        level: Whether each ``graph`` or each ``node`` has a prediction.
        form: Format of the file, a key of `FORMATS`; by default its file extension decides.
        symmetrize: Whether edges that are given in one direction only count both ways.

    Raises:
        DataError: A file is wrong, or its nodes lack the features of the training data.
    """
    files, labels = _files(path, form)
    edges, counts, names, node_names, carried = [], [], [], [], []
    for file in files:
        graphs = read_graph_file(file, form)
        if labels is not None and graphs.num_graphs != 1:
            raise DataError(
                f"{file} holds {graphs.num_graphs} graphs; one per label is needed.",
                code="data.several_graphs",
            )
        undirected = symmetrize or not graphs.directed
        cuts = zip(pairwise(graphs.edge_slices), graphs.node_slices, strict=False)
        for number, ((begin, end), first) in enumerate(cuts):
            local = graphs.edge_index[:, begin:end] - first
            edges.append(both_ways(local) if undirected else local)
            names.append(file.name if graphs.num_graphs == 1 else f"{file.name}:{number}")
        counts += np.diff(graphs.node_slices).tolist()
        node_names.append(graphs.node_names())
        carried.append(npz_features(file, graphs.num_nodes))
    for key in _READ_FROM.get(features, ()):
        if not any(key in arrays for arrays in carried):
            raise DataError(_lacking(files[0], key, features, widths), code="data.no_features")
    node_slices = slices(counts)
    arrays = graphs_of_edges(
        edges,
        node_slices,
        names,
        remedy="--symmetrize",
        y=np.arange(len(counts) if level == "graph" else node_slices[-1]),
        level=level,
        **{key: joined(key, files, carried) for key in NODE_ARRAYS},
    )
    all_names = np.concatenate([part.astype(object) for part in node_names])
    return NewGraphs(arrays, tuple(names), all_names, labels)


def _files(path: Path, form: str | None) -> tuple[list[Path], list[str] | None]:
    """Graph files, and their labels where a table gives them."""
    if not path.is_dir():
        return [path], None
    if (path / TABLE).is_file():
        files, labels = labelled_files(path, TABLE)
        return files, [", ".join(row) for row in labels]
    formats = FORMATS.values() if form is None else [FORMATS[form]]
    extensions = tuple(extension for each in formats for extension in each.extensions)
    files = sorted(p for p in path.iterdir() if p.suffix.lower() in extensions)
    if not files:
        raise DataError(
            f"{path} holds no graph file; read are {', '.join(extensions)}, and a table "
            f"{TABLE} that names them.",
            code="data.no_graphs",
        )
    return files, None


def _lacking(first: Path, key: str, features: str, widths: Sequence[int] | None) -> str:
    kind, allowed = "real", ""
    if key == "node_labels":
        kind = "whole"
        if widths:
            allowed = f", each column 0..{'|'.join(str(width - 1) for width in widths)}"
    return (
        f"{first} has no {key}, but the network was trained with data.features={features}: give "
        f".npz files with edge_index and {key}, {kind} numbers [num_nodes, k]{allowed}."
    )


def check_format(path: Path, form: str | None) -> None:
    """Check before any work that a file is of a format that is read.

    Raises:
        DataError: It is not.
    """
    if form is not None and form not in FORMATS:
        raise DataError(
            f"--format {form} is unknown; allowed are {', '.join(FORMATS)}.", code="data.format"
        )
    if form is None and not path.is_dir():
        format_of(path)
