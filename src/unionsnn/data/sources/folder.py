"""A folder of the user's graph files, one graph each, with a table of labels."""

from __future__ import annotations

import csv
import math
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from unionsnn.base.errors import DataError
from unionsnn.base.words import is_number
from unionsnn.data.arrays import GraphArrays, IntArray
from unionsnn.data.edges import graphs_of_edges, slices
from unionsnn.data.sources.download import files_hash
from unionsnn.data.sources.graph_files.formats import FORMATS, GraphFile, format_of, read_graph_file
from unionsnn.data.sources.graph_files.npz import checked_rows, npz_arrays
from unionsnn.data.sources.graph_files.parsed import joined_features
from unionsnn.data.sources.source import RawFiles, Source, Unlabelled, has_numbers

NODE_ARRAYS: Mapping[str, type[np.generic]] = {
    "node_labels": np.int64,
    "node_attributes": np.float32,
}


class Folder(Source):
    """Graphs in files of a folder, one per file, with a table of labels.

    Args:
        path: The folder.
        table: A CSV file in it, with a header: ``file`` and ``label``, or ``file`` and several
            columns of numbers, targets of a regression or labels 0 and 1.
        symmetrize: Whether to add the reverse of one-way edges, which are an error otherwise.
        unlabelled: Whether to ``drop`` rows whose label is missing, to count NA and its like as a
            ``class``, or to ``mask`` those of several columns; an error otherwise.
        header: Whether the first line of an edge list names its columns; None if its words tell.
    """

    path: str
    table: str = "labels.csv"
    symmetrize: bool = False
    unlabelled: Unlabelled | None = None
    header: bool | None = None

    belongs_to_user: ClassVar[bool] = True

    def _table(self) -> LabelTable:
        return read_label_table(Path(self.path).expanduser(), self.table)

    def processed_key(self, raw: RawFiles) -> str:
        """Return the hash of the table and all files listed in it, and what is read of them."""
        table = self._table()
        kind = "numbers" if has_numbers(self.task) else "classes"
        read = f"{kind} {self.symmetrize} edges {self.reads_edges}"
        key = f"folder {files_hash([table.path, *table.files])} {read}"
        key = key if self.unlabelled is None else f"{key} {self.unlabelled}"
        return key if self.header is None else f"{key} header={self.header}"

    def read(self, raw: RawFiles) -> GraphArrays:
        """Read all files listed in the table."""
        table = self._table()
        numbers = has_numbers(self.task)
        if self.unlabelled == "mask" and not numbers:
            raise DataError(
                "data.unlabelled=mask is for several labels or targets of a graph; type "
                "data.unlabelled=drop to leave graphs without a class out",
                code="data.unlabelled",
            )
        if self.unlabelled == "mask":
            table = table.with_some_label()
        elif self.unlabelled != "class" or numbers:
            table = table.labelled(drop=self.unlabelled == "drop", numbers=numbers)
        y: NDArray[Any]
        class_names: tuple[str, ...]
        if numbers:
            y, class_names = table.numbers(), ()
        else:
            y, class_names = table.classes()
        graphs = read_files(
            table.files, one_each=True, edge_features=self.reads_edges, header=self.header
        )
        if graphs.left_out:
            warnings.warn(graphs.left_out, stacklevel=2)
        return graphs_of_edges(
            graphs.edges,
            graphs.node_slices,
            [str(path) for path in table.files],
            symmetrize=self.symmetrize,
            edge_features=graphs.edge_features,
            y=y,
            class_names=class_names,
            unread="" if self.reads_edges else self._unread(table.files, graphs.files),
            **graphs.features,
        )

    def _unread(self, paths: Sequence[Path], files: Sequence[GraphFile]) -> str:
        """Name the features of edges of the first file with edges; all have the same, or none."""
        path = next((p for p, file in zip(paths, files, strict=True) if file.num_edges), None)
        if path is None:
            return ""
        header = self.header if format_of(path) == "edgelist" else None
        try:
            tables = read_graph_file(path, header=header, edge_features=True).edge_features
        except DataError:
            # What cannot be read is named among what is left out.
            return ""
        kind = {"i": "labels", "f": "attributes"}
        return ", ".join(f"{key} ({kind[rows.dtype.kind]})" for key, rows in tables.items())


_MISSING = {
    *(
        "",
        "?",
        "-",
        ".",
        "*",
        "na",
        "n/a",
        "n.a.",
        "#n/a",
        "#n/a n/a",
        "#na",
        "<na>",
        "nan",
        "-nan",
    ),
    *("nat", "null", "none", "missing", "unknown", "1.#ind", "-1.#ind", "1.#qnan", "-1.#qnan"),
}
"""How spreadsheets, data frames and people write a missing value, in lower case."""


@dataclass(frozen=True)
class LabelTable:
    """A table of labels, read but not interpreted.

    Attributes:
        path: The table.
        files: The file of each row.
        labels: The label of each row, one value for each column.
        lines: The line of each row.
    """

    path: Path
    files: list[Path]
    labels: list[list[str]]
    lines: list[int]

    def labelled(self, *, drop: bool, numbers: bool) -> LabelTable:
        """Return the rows without a missing label.

        Raises:
            DataError: There is one, and it is not to be dropped; or none is left.
        """
        missing = [any(v.lower() in _MISSING for v in row) for row in self.labels]
        if not numbers and all(len(row) == 1 for row in self.labels):
            # As of PyG's sets: below 0 where -1 and 1 are not the only classes.
            values = [float(row[0]) if is_number(row[0]) else None for row in self.labels]
            known = {value for value, gone in zip(values, missing, strict=True) if not gone}
            for i, value in enumerate(values):
                if value is not None and (math.isinf(value) or (value < 0 and known != {-1, 1})):
                    missing[i] = True
        if any(missing) and not drop:
            lines, shown = self._lines(missing)
            row = self.labels[missing.index(True)]
            other = "data.unlabelled=class if it is a class"
            if numbers:
                other = "data.unlabelled=mask to learn from the other columns of their rows"
            raise DataError(
                f"{self.path}, line {lines[0]}: the label is {', '.join(row)!r}, which means that "
                f"it is missing ({len(lines)} such lines: {shown}); type data.unlabelled=drop to "
                f"leave these graphs out, or {other}",
                code="data.unlabelled",
            )
        return self._without(missing)

    def with_some_label(self) -> LabelTable:
        """Return the rows in which not every label is missing; DataError if there is none."""
        return self._without([all(v.lower() in _MISSING for v in row) for row in self.labels])

    def _lines(self, missing: Sequence[bool]) -> tuple[list[int], str]:
        lines = [line for line, gone in zip(self.lines, missing, strict=True) if gone]
        return lines, ", ".join(map(str, lines[:5])) + (", ..." if len(lines) > 5 else "")

    def _without(self, missing: Sequence[bool]) -> LabelTable:
        if not any(missing):
            return self
        lines, shown = self._lines(missing)
        kept = [i for i, gone in enumerate(missing) if not gone]
        if not kept:
            raise DataError(f"{self.path}: no row has a label", code="data.unlabelled")
        warnings.warn(
            f"{self.path}: {len(lines)} graphs without a label are left out (lines {shown})",
            stacklevel=2,
        )
        return LabelTable(
            self.path,
            [self.files[i] for i in kept],
            [self.labels[i] for i in kept],
            [self.lines[i] for i in kept],
        )

    def numbers(self) -> NDArray[np.float32]:
        """Return the labels as numbers, NaN where missing.

        Shapes:
            -> [rows, columns].

        Raises:
            DataError: A label is not a finite number; names its line.
        """
        for line, row in zip(self.lines, self.labels, strict=True):
            for value in row:
                if value.lower() in _MISSING:
                    continue
                with np.errstate(all="ignore"):
                    number = np.float32(value) if is_number(value) else np.float32(np.inf)
                # What float32 rounds to 0 is not the number that is written.
                lost = number == 0 and re.search("[1-9]", value.lower().partition("e")[0])
                if not value.isascii() or not np.isfinite(number) or lost:
                    raise DataError(
                        f"{self.path}, line {line}: {value!r} is not a number that a regression "
                        "can have as its target, and not a label 0 or 1",
                        code="data.table",
                    )
        known = [["nan" if v.lower() in _MISSING else v for v in row] for row in self.labels]
        return np.array(known, dtype=np.float32)

    def classes(self) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        """Return the class of each row, and the names of the classes.

        Raises:
            DataError: There are several columns, or one number is written in two ways.
        """
        if len(self.labels[0]) != 1:
            raise DataError(
                f"{self.path} has {len(self.labels[0])} label columns, not 1", code="data.table"
            )
        flat = [row[0] for row in self.labels]
        first: dict[float, tuple[str, int]] = {}
        for label, line in zip(flat, self.lines, strict=True):
            if not label:
                raise DataError(
                    f"{self.path}, line {line}: the label is empty, which names no class",
                    code="data.unlabelled",
                )
            if not is_number(label):
                continue
            before, where = first.setdefault(float(label), (label, line))
            if before != label:
                raise DataError(
                    f"{self.path}, line {line}: the label {label} is the same number as {before} "
                    f"in line {where}; write it in one way",
                    code="data.table",
                )
        names = sorted(set(flat), key=_natural)
        number = {name: i for i, name in enumerate(names)}
        return np.array([number[label] for label in flat], dtype=np.int64), tuple(names)


def read_label_table(folder: Path, table: str) -> LabelTable:
    """Read the table of labels of a folder.

    Raises:
        DataError: The table is missing or incomplete, or lists a missing file or one elsewhere.
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
            reader = csv.reader(file, strict=True)
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
        name = row[0].strip()
        if PurePath(name).is_absolute() or ".." in PurePath(name).parts:
            raise DataError(
                f"{path}, line {number}: {name} is outside of the folder; copy the file or a link "
                "to it into the folder",
                code="data.table",
            )
        files.append(folder / name)
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
    labels = [[value.strip() for value in row[1:]] for _, row in rows]
    return LabelTable(path, files, labels, [number for number, _ in rows])


def _natural(label: str) -> tuple[int, float, str]:
    """Return a sort key: numbers in order, then words."""
    return (0, float(label), label) if is_number(label) else (1, 0.0, label)


@dataclass(frozen=True, eq=False)
class GraphFiles:
    """The graphs of several files.

    Attributes:
        files: What each file holds.
        features: Node features by their name in `GraphArrays`, of those that the files have.
        edge_features: Features of `edges` in the same way, if they are read.
        left_out: What was not read of the files, as a sentence; empty if nothing was left out.
    """

    files: list[GraphFile]
    features: dict[str, Any]
    edge_features: dict[str, NDArray[Any]]
    left_out: str = ""

    @property
    def node_slices(self) -> IntArray:
        """Where each graph's nodes begin and end, counted through all files."""
        return slices(np.concatenate([np.diff(file.node_slices) for file in self.files]))

    @property
    def edges(self) -> list[IntArray]:
        """Edges of each graph as listed, nodes counted from 0; undirected ones both ways."""
        return [edges for file in self.files for edges, _ in file.each()]


def read_files(
    files: Sequence[Path],
    form: str | None = None,
    *,
    one_each: bool = False,
    edge_features: bool = False,
    header: bool | None = None,
) -> GraphFiles:
    """Read graph files, and the features of those that have some.

    Args:
        files: The files.
        form: Format of the files, a key of `FORMATS`; by default their file extensions decide.
        one_each: Whether each must hold one graph.
        edge_features: Whether to read features of edges: whole numbers as labels, others as
            attributes.
        header: Whether the first line of an edge list names its columns; None if its words tell.

    Raises:
        DataError: A file is wrong, or features are not those of the other files.
        RequestError: ``header`` is given, and no file is an edge list.
    """
    read, carried = [], []
    lists = [path for path in files if (form or format_of(path)) == "edgelist"]
    for path in files:
        asked = None if lists and path not in lists else header
        graphs = read_graph_file(path, form, header=asked, edge_features=edge_features)
        if one_each and graphs.num_graphs != 1:
            raise DataError(
                f"{path} holds {graphs.num_graphs} graphs; one per file is needed",
                code="data.several_graphs",
            )
        read.append(graphs)
        carried.append(npz_features(path, graphs.num_nodes))
    parts = dict.fromkeys(part for graphs in read for part in graphs.left_out)
    left_out = ""
    if parts:
        some = next(path for path, graphs in zip(files, read, strict=True) if graphs.left_out)
        left_out = (
            f"{some.name if len(files) == 1 else f'{some.name} and others'}: left out are "
            f"{', '.join(parts)}. Of a graph file the edges are read, their features if "
            "data.edge_features asks for them, and of .npz also the node features node_labels and "
            "node_attributes."
        )
    features = {key: joined(key, files, carried) for key in NODE_ARRAYS}
    tables = joined_features(
        (
            str(path),
            graphs.num_edges,
            {k: v[graphs.listed] for k, v in graphs.edge_features.items()},
        )
        for path, graphs in zip(files, read, strict=True)
    )
    whole = [rows for rows in tables.values() if rows.dtype.kind == "i"]
    real = [rows for rows in tables.values() if rows.dtype.kind == "f"]
    of_edges = {"edge_labels": np.concatenate(whole, axis=1)} if whole else {}
    if real:
        with np.errstate(over="ignore"):
            of_edges["edge_attributes"] = np.concatenate(real, axis=1).astype(np.float32)
    there = {key: rows for key, rows in features.items() if rows is not None}
    return GraphFiles(read, there, of_edges, left_out)


def npz_features(path: Path, num_nodes: int) -> dict[str, NDArray[Any]]:
    """Read the node features of an npz file."""
    if path.suffix.lower() not in FORMATS["npz"].extensions:
        return {}
    arrays, _ = npz_arrays(path, tuple(NODE_ARRAYS))
    return {
        key: checked_rows(path, key, array, NODE_ARRAYS[key], num_nodes, "nodes")
        for key, array in arrays.items()
    }


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
