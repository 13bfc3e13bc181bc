"""A user's graphs without targets, with the node features that a trained network was made for."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unionsnn.base.errors import DataError, WidthError
from unionsnn.data.arrays import GraphArrays
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.data.datasets import GraphDataset
from unionsnn.data.edges import both_ways, slices
from unionsnn.data.own import NODE_ARRAYS, assembled, joined, labelled_files, npz_features
from unionsnn.data.sources.graph_files import FORMATS, format_of, read_graph_file

TABLE = "labels.csv"
"""A table of labels that may lie in a folder of graphs."""

_READ_FROM = {
    "labels": ("node_labels",),
    "categorical": ("node_labels",),
    "attributes": ("node_attributes",),
    "both": ("node_labels", "node_attributes"),
}


class NewGraphs(GraphDataModule):
    """Graphs of a file, or of the files of a folder, that a trained network is applied to.

    The target of each item is its number, so that predictions of batches can be put in order.

    Args:
        path: The file, or a folder: the files that its table names, or all graph files in it.
        features: As the network was trained with, a key of `NODE_FEATURES`.
        widths: How many values each categorical node feature could take in training.
        in_channels: Width of all node features in training; None where they are categories.
        level: Whether each ``graph`` or each ``node`` has a prediction.
        form: Format of the file, a key of `FORMATS`; by default its ending decides.
        symmetrize: Whether edges that are given in one direction only count both ways.
        normalize_features: Whether each node's features are divided by their sum.
        common: Arguments of `GraphDataModule`.
    """

    belongs_to_user = True

    def __init__(
        self,
        *,
        path: Path,
        features: str,
        widths: Sequence[int] | None,
        in_channels: int | None,
        level: str,
        form: str | None = None,
        symmetrize: bool = False,
        normalize_features: bool = False,
        **common: Any,
    ) -> None:
        super().__init__(name=path.name, features=features, **common)
        self.path = path
        self.widths = None if widths is None else tuple(widths)
        self.in_channels = in_channels
        self.level = level
        self.form = form
        self.symmetrize = symmetrize
        self.normalize_features = normalize_features
        self.names: tuple[str, ...] = ()
        self.node_names: NDArray[Any] = np.empty(0, dtype=np.int64)
        self.labels: list[str] | None = None

    def processed_key(self) -> None:
        """Nothing is kept but coefficients and encodings."""

    def read(self) -> GraphArrays:
        """Read all graphs and what their nodes carry."""
        files, self.labels = self._files()
        edges, counts, names, node_names, carried = [], [], [], [], []
        for path in files:
            graphs = read_graph_file(path, self.form)
            if self.labels is not None and graphs.num_graphs != 1:
                raise DataError(f"{path} holds {graphs.num_graphs} graphs; one a label is needed.")
            both = self.symmetrize or not graphs.directed
            cuts = zip(pairwise(graphs.edge_slices), graphs.node_slices, strict=False)
            for number, ((begin, end), first) in enumerate(cuts):
                own = graphs.edge_index[:, begin:end] - first
                edges.append(both_ways(own) if both else own)
                names.append(path.name if graphs.num_graphs == 1 else f"{path.name}:{number}")
            counts += np.diff(graphs.node_slices).tolist()
            node_names.append(graphs.node_names())
            carried.append(npz_features(path, graphs.num_nodes))
        self.names = tuple(names)
        self.node_names = np.concatenate([part.astype(object) for part in node_names])
        node_slices = slices(counts)
        self._refuse_without_features(files[0], carried)
        return assembled(
            edges,
            node_slices,
            self.names,
            remedy="--symmetrize",
            y=np.arange(len(counts) if self.level == "graph" else node_slices[-1]),
            level=self.level,
            **{key: joined(key, files, carried) for key in NODE_ARRAYS},
        )

    @property
    def graphs(self) -> GraphDataset:
        """The graphs as a PyG data set; DataError if their nodes are not as in training."""
        if self._graphs is None:
            try:
                found = super().graphs
            except WidthError as error:
                raise DataError(
                    f"{self.path}: {_WHAT[self.features]}: {error}, as in the training data "
                    f"(data.features={self.features})."
                ) from error
            given = int(found.num_features)
            if self.in_channels is not None and given != self.in_channels:
                raise DataError(
                    f"{self.path}: {given} columns of node features; the network was trained on "
                    f"{self.in_channels} (data.features={self.features})."
                )
        return super().graphs

    def _files(self) -> tuple[list[Path], list[str] | None]:
        if not self.path.is_dir():
            return [self.path], None
        if (self.path / TABLE).is_file():
            files, labels = labelled_files(self.path, TABLE)
            return files, [", ".join(row) for row in labels]
        if self.form is not None:
            endings = FORMATS[self.form].endings
        else:
            endings = tuple(ending for form in FORMATS.values() for ending in form.endings)
        found = sorted(p for p in self.path.iterdir() if p.suffix.lower() in endings)
        if not found:
            raise DataError(
                f"{self.path} holds no graph file; read are {', '.join(endings)}, and a table "
                f"{TABLE} that names them."
            )
        return found, None

    def _refuse_without_features(
        self, first: Path, carried: Sequence[dict[str, NDArray[Any]]]
    ) -> None:
        for key in _READ_FROM.get(self.features, ()):
            if not any(key in found for found in carried):
                kind = "whole" if key == "node_labels" else "real"
                allowed = (
                    f", each column 0..{'|'.join(str(w - 1) for w in self.widths)}"
                    if (self.widths and key == "node_labels")
                    else ""
                )
                raise DataError(
                    f"{first} has no {key}, but the network was trained with "
                    f"data.features={self.features}: give .npz files with edge_index and {key}, "
                    f"{kind} numbers [num_nodes, k]{allowed}."
                )

    def _check_task(self, arrays: GraphArrays) -> None:
        """There are no targets that a task could not fit."""


_WHAT = {"degree": "degrees of nodes", "labels": "node_labels", "both": "node_labels",
         "categorical": "node_labels"}  # fmt: skip


def check_format(path: Path, form: str | None) -> None:
    """Check before any work that a file is of a format that is read.

    Raises:
        DataError: It is not.
    """
    if form is not None and form not in FORMATS:
        raise DataError(f"--format {form} is unknown; allowed are {', '.join(FORMATS)}.")
    if form is None and not path.is_dir():
        format_of(path)
