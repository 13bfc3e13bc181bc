"""A folder of the user's graph files, one graph each, with a table of labels."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from unionsnn.base.errors import DataError
from unionsnn.data.arrays import GraphArrays, IntArray
from unionsnn.data.edges import both_ways, graphs_of_edges, slices
from unionsnn.data.sources.download import files_hash
from unionsnn.data.sources.graph_files import FORMATS, GraphFile, read_graph_file
from unionsnn.data.sources.source import RawFiles, Source

NODE_ARRAYS = {"node_labels": np.int64, "node_attributes": np.float32}


class Folder(Source):
    """Graphs in files of a folder, one per file, with a table of labels.

    Args:
        path: The folder.
        table: A CSV file in it, with a header: ``file`` and ``label``, or ``file`` and several
            columns of numbers for a regression.
        symmetrize: Whether to add the reverse of one-way edges, which are an error otherwise.
    """

    path: str
    table: str = "labels.csv"
    symmetrize: bool = False

    belongs_to_user: ClassVar[bool] = True

    def _rows(self) -> tuple[Path, list[Path], list[list[str]]]:
        """Return the table, the files listed in it, and their labels."""
        folder = Path(self.path).expanduser()
        return folder / self.table, *labelled_files(folder, self.table)

    def processed_key(self, raw: RawFiles) -> str:
        """Return the hash of the table and all files listed in it, and the kind of targets."""
        table, files, _ = self._rows()
        kind = "numbers" if self.task == "graph_regression" else "classes"
        return f"folder {files_hash([table, *files])} {kind} {self.symmetrize}"

    def read(self, raw: RawFiles) -> GraphArrays:
        """Read all files listed in the table."""
        table, files, labels = self._rows()
        graphs = read_files(files, one_each=True)
        y, class_names = self._targets(table, labels)
        return graphs_of_edges(
            graphs.edges(self.symmetrize),
            graphs.node_slices,
            [str(path) for path in files],
            y=y,
            class_names=class_names,
            **graphs.features,
        )

    def _targets(
        self, table: Path, labels: Sequence[Sequence[str]]
    ) -> tuple[NDArray[Any], tuple[str, ...]]:
        if self.task == "graph_regression":
            try:
                return np.array(labels, dtype=np.float32), ()
            except ValueError as error:
                raise DataError(
                    f"{table}: {error}; a label must be a number", code="data.table"
                ) from None
        if len(labels[0]) != 1:
            raise DataError(f"{table} has {len(labels[0])} label columns, not 1", code="data.table")
        flat = [row[0] for row in labels]
        names = sorted(set(flat), key=_natural)
        number = {name: i for i, name in enumerate(names)}
        return np.array([number[label] for label in flat], dtype=np.int64), tuple(names)


def labelled_files(folder: Path, table: str) -> tuple[list[Path], list[list[str]]]:
    """Return files and labels by row of a folder's table.

    Raises:
        DataError: The table is missing or incomplete, or lists a missing file.
    """
    path = folder / table
    if not path.is_file():
        raise DataError(
            f"{path} does not exist: data.path names a folder, and data.table a CSV file in it "
            "with the columns file and label",
            code="data.table",
        )
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            numbered = [(reader.line_num, row) for row in reader if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} is not a CSV file ({error})", code="data.table") from error
    (line, header), *rows = numbered or [(1, [])]
    names = [name.strip() for name in header]
    if len(names) < 2 or names[0] != "file":
        raise DataError(
            f"{path}, line {line}: the header is {header}; it must be file,label", code="data.table"
        )
    files: list[Path] = []
    first: dict[Path, int] = {}
    for number, row in rows:
        if len(row) != len(names):
            raise DataError(
                f"{path}, line {number}: {len(row)} columns, not {len(names)}", code="data.table"
            )
        files.append(folder / row[0].strip())
        if not files[-1].is_file():
            raise DataError(f"{path}, line {number}: {files[-1]} does not exist", code="data.table")
        # A repeated graph could be both trained on and tested.
        before = first.setdefault(files[-1].resolve(), number)
        if before != number:
            raise DataError(
                f"{path}, line {number}: {files[-1]} is already in line {before}; list each "
                "file once",
                code="data.table",
            )
    if not files:
        raise DataError(f"{path} lists no file", code="data.table")
    return files, [[value.strip() for value in row[1:]] for _, row in rows]


def _natural(label: str) -> tuple[int, float, str]:
    """Return a sort key: numbers in order, then words."""
    try:
        return 0, float(label), label
    except ValueError:
        return 1, 0.0, label


@dataclass(frozen=True, eq=False)
class GraphFiles:
    """The graphs of several files.

    Attributes:
        files: What each file holds.
        features: Node features by their name in `GraphArrays`, of those that the files have.
    """

    files: list[GraphFile]
    features: dict[str, Any]

    @property
    def node_slices(self) -> IntArray:
        """Where each graph's nodes begin and end, counted through all files."""
        return slices(np.concatenate([np.diff(file.node_slices) for file in self.files]))

    def edges(self, symmetrize: bool) -> list[IntArray]:
        """Edges of each graph, nodes counted from 0; directed ones both ways where asked for."""
        return [
            both_ways(edges) if symmetrize and file.directed else edges
            for file in self.files
            for edges, _ in file.each()
        ]


def read_files(
    files: Sequence[Path], form: str | None = None, *, one_each: bool = False
) -> GraphFiles:
    """Read graph files, and the node features of those that have some.

    Args:
        files: The files.
        form: Format of the files, a key of `FORMATS`; by default their file extensions decide.
        one_each: Whether each must hold one graph.

    Raises:
        DataError: A file is wrong, or features are not those of the other files.
    """
    read, carried = [], []
    for path in files:
        graphs = read_graph_file(path, form)
        if one_each and graphs.num_graphs != 1:
            raise DataError(
                f"{path} holds {graphs.num_graphs} graphs; one per file is needed",
                code="data.several_graphs",
            )
        read.append(graphs)
        carried.append(npz_features(path, graphs.num_nodes))
    features = {key: joined(key, files, carried) for key in NODE_ARRAYS}
    return GraphFiles(read, {key: rows for key, rows in features.items() if rows is not None})


def npz_features(path: Path, num_nodes: int) -> dict[str, NDArray[Any]]:
    """Read the node features of an npz file."""
    if path.suffix.lower() not in FORMATS["npz"].extensions:
        return {}
    carried = {}
    with np.load(path, allow_pickle=False) as archive:
        for key, dtype in NODE_ARRAYS.items():
            if key not in archive.files:
                continue
            array = archive[key]
            if array.ndim == 1:
                array = array[:, None]
            if array.ndim != 2 or len(array) != num_nodes:
                raise DataError(
                    f"{path}: {key} has shape {array.shape}, not [{num_nodes}, k]",
                    code="data.table",
                )
            if dtype == np.int64 and array.dtype.kind not in "iu":
                raise DataError(f"{path}: {key} are {array.dtype}, not integers", code="data.table")
            carried[key] = array.astype(dtype)
    return carried


def joined(
    key: str, files: Sequence[Path], features: Sequence[Mapping[str, NDArray[Any]]]
) -> NDArray[Any] | None:
    """Join one kind of features, which all files or none must have."""
    lacking = [path for path, carried in zip(files, features, strict=True) if key not in carried]
    if len(lacking) == len(files):
        return None
    if lacking:
        raise DataError(f"{lacking[0]} has no {key}, but other files have", code="data.table")
    arrays = [carried[key] for carried in features]
    widths = {array.shape[1] for array in arrays}
    if len(widths) > 1:
        raise DataError(
            f"{key} have {' and '.join(map(str, sorted(widths)))} columns", code="data.table"
        )
    return np.concatenate(arrays)
