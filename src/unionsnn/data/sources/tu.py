"""Sets of the TU collection: strict about what a file may hold, equal to PyG on good files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unionsnn.base.errors import DataError, MalformedDataError
from unionsnn.data.arrays import GraphArrays, IntArray
from unionsnn.data.sources.download import files_hash, open_zip, read_members
from unionsnn.data.sources.source import RawFiles, Source
from unionsnn.data.sources.text_tables import Values, parse_table

URL = "https://www.chrsmrrs.com/graphkerneldatasets"
"""Upstream address of the collection, the one that PyG uses."""

_FILES = (
    "A",
    "graph_indicator",
    "graph_labels",
    "graph_attributes",
    "node_labels",
    "node_attributes",
    "edge_labels",
    "edge_attributes",
)


class TU(Source):
    """A set of the TU collection, by its name there.

    "TUDataset: A collection of benchmark datasets for learning with graphs" (Morris et al., 2020).

    Args:
        tu_name: Name in the collection, such as MUTAG.
    """

    tu_name: str

    @property
    def split_name(self) -> str:
        """The collection's own name."""
        return self.tu_name

    def _archive(self, raw: RawFiles) -> Path:
        name = self.tu_name
        return raw.fetch(f"TUDataset/{name}.zip", f"{URL}/{name}.zip", name)

    def processed_key(self, raw: RawFiles) -> str:
        """Hash of the raw archive."""
        return files_hash([self._archive(raw)])

    def read(self, raw: RawFiles) -> GraphArrays:
        """Read the raw archive."""
        return read_tu(self._archive(raw), self.tu_name)


def read_tu(
    zip_path: str | Path,
    name: str,
    *,
    symmetrize: bool = False,
) -> GraphArrays:
    """Read a data set of the TU collection from its zip file.

    Self loops are removed and repeated edges counted once; edges are sorted by (row, column);
    labels are shifted so that each column begins with 0, classes numbered in the order of the
    labels: as PyG's reader does, but labels stay integers. Unlike there, repeated edges must
    agree in their labels and attributes.

    Source: Morris et al. (2020), "TUDataset"; format of its README.

    Args:
        zip_path: Holds NAME_A.txt and its companions, at the top or in one folder.
        name: The set's name, the beginning of all file names.
        symmetrize: Whether to add the missing direction of edges that are given one way only.

    Returns:
        Graphs with int64 class numbers, or float32 targets [G, T] where the set has graph
        attributes and no graph labels.

    Raises:
        DataError: Names the file and the line of the first fault.
    """
    files = _read_files(Path(zip_path), name)
    edges = files.integers("A", columns=2) - 1
    indicator = files.integers("graph_indicator", columns=1)[:, 0]
    y, class_names = _targets(files)
    _check_indicator(files, indicator, len(y))
    n = len(indicator)
    _check_edges(files, edges, indicator)
    node_labels = files.labels("node_labels", n)
    node_attributes = files.attributes("node_attributes", n)
    edge_labels = files.labels("edge_labels", len(edges))
    edge_attributes = files.attributes("edge_attributes", len(edges))
    edges, rows = _simple_edges(files, edges, n, (edge_labels, edge_attributes), symmetrize)
    node_slices = np.concatenate([[0], np.cumsum(np.bincount(indicator - 1))]).astype(np.int64)
    graph_of_edge = indicator[edges[:, 0]] - 1
    edge_counts = np.bincount(graph_of_edge, minlength=len(y))
    graphs = GraphArrays(
        edge_index=np.ascontiguousarray((edges - node_slices[graph_of_edge][:, None]).T),
        node_slices=node_slices,
        edge_slices=np.concatenate([[0], np.cumsum(edge_counts)]).astype(np.int64),
        y=y,
        node_labels=node_labels,
        node_attributes=node_attributes,
        edge_labels=None if edge_labels is None else edge_labels[rows],
        edge_attributes=None if edge_attributes is None else edge_attributes[rows],
        class_names=class_names,
    )
    graphs.validate()
    return graphs


@dataclass(frozen=True)
class _Files:
    """The text files of one set, and the errors that name them."""

    zip_path: Path
    name: str
    contents: dict[str, bytes]

    def error(self, key: str, message: str, row: int | None = None) -> DataError:
        line = "" if row is None else f", line {row + 1}"
        return MalformedDataError(f"{self.name}_{key}.txt{line} (in {self.zip_path}): {message}")

    def integers(self, key: str, columns: int | None = None) -> IntArray:
        return self._table(key, np.dtype(np.int64), columns)

    def labels(self, key: str, rows: int) -> IntArray | None:
        if key not in self.contents:
            return None
        table = self.integers(key)
        self._check_count(key, table, rows)
        return table - table.min(axis=0) if len(table) else table

    def attributes(self, key: str, rows: int | None) -> NDArray[np.float32] | None:
        if key not in self.contents:
            return None
        table = self._table(key, np.dtype(np.float64), None)
        if rows is not None:
            self._check_count(key, table, rows)
        with np.errstate(over="ignore"):
            single = table.astype(np.float32)
        finite = np.isfinite(single).all(axis=1)
        if not finite.all():
            row = int(np.argmin(finite))
            raise self.error(key, f"{table[row].tolist()} is not finite", row)
        return single

    def _table(self, key: str, dtype: np.dtype[Any], columns: int | None) -> Values:
        return parse_table(
            self.contents[key], dtype, columns, lambda message, row: self.error(key, message, row)
        )

    def _check_count(self, key: str, table: Values, rows: int) -> None:
        if len(table) != rows:
            of = "nodes in graph_indicator" if key.startswith("node") else "edges in A"
            raise self.error(
                key,
                f"has {len(table)} lines, but {rows} are expected, one for each "
                f"of the {of}: the set is damaged, download it again",
            )


def _read_files(zip_path: Path, name: str) -> _Files:
    with open_zip(zip_path) as archive:
        members = archive.namelist()
    located = {}
    for key in _FILES:
        plain = f"{name}_{key}.txt"
        matches = [member for member in members if member.rsplit("/", 1)[-1] == plain]
        if len(matches) > 1:
            raise MalformedDataError(
                f"{zip_path} holds {plain} more than once: {', '.join(matches)}"
            )
        if matches:
            located[key] = matches[0]
    for key in ("A", "graph_indicator", "graph_labels"):
        if key not in located and not (key == "graph_labels" and "graph_attributes" in located):
            raise MalformedDataError(
                f"{zip_path} has no {name}_{key}.txt; it holds "
                f"{', '.join(members[:12]) or 'nothing'}: a TU set needs NAME_A.txt, "
                "NAME_graph_indicator.txt and NAME_graph_labels.txt"
            )
    contents = read_members(zip_path, located.values())
    return _Files(zip_path, name, {key: contents[member] for key, member in located.items()})


def _targets(files: _Files) -> tuple[Values, tuple[str, ...]]:
    """Return class numbers with class names, or regression targets."""
    if "graph_labels" not in files.contents:
        targets = files.attributes("graph_attributes", None)
        assert targets is not None
        return targets, ()
    labels = files.integers("graph_labels", columns=1)[:, 0]
    classes, y = np.unique(labels, return_inverse=True)
    return y.astype(np.int64), tuple(str(value) for value in classes)


def _check_indicator(files: _Files, indicator: IntArray, num_graphs: int) -> None:
    key = "graph_indicator"
    if not len(indicator):
        raise files.error(key, "is empty")
    if indicator[0] != 1:
        raise files.error(
            key, f"begins with graph {indicator[0]}, but graphs are counted from 1", 0
        )
    steps = np.diff(indicator)
    wrong = np.flatnonzero((steps < 0) | (steps > 1))
    if len(wrong):
        row = int(wrong[0]) + 1
        fault = "out of order" if steps[row - 1] < 0 else "so the graphs between have no node"
        raise files.error(
            key, f"graph {indicator[row]} after graph {indicator[row - 1]}: {fault}", row
        )
    if indicator[-1] != num_graphs:
        which = "graph_labels" if "graph_labels" in files.contents else "graph_attributes"
        raise files.error(
            which,
            f"has {num_graphs} lines, but {indicator[-1]} are expected, one "
            "for each of the graphs in graph_indicator: the set is damaged, download "
            "it again",
        )


def _check_edges(files: _Files, edges: IntArray, indicator: IntArray) -> None:
    n = len(indicator)
    outside = ((edges < 0) | (edges >= n)).any(axis=1)
    if outside.any():
        row = int(np.argmax(outside))
        raise files.error("A", f"edge {_shown(edges[row])} names a node outside of 1..{n}", row)
    crossing = indicator[edges[:, 0]] != indicator[edges[:, 1]]
    if crossing.any():
        row = int(np.argmax(crossing))
        first, second = indicator[edges[row]]
        raise files.error(
            "A", f"edge {_shown(edges[row])} joins graph {first} and graph {second}", row
        )


def _shown(edge: IntArray) -> str:
    return f"{edge[0] + 1}, {edge[1] + 1}"


def _simple_edges(
    files: _Files,
    edges: IntArray,
    num_nodes: int,
    features: tuple[Values | None, ...],
    symmetrize: bool,
) -> tuple[IntArray, IntArray]:
    """Drop loops and repeats, sort; also return the line that each edge came from."""
    keep = np.flatnonzero(edges[:, 0] != edges[:, 1])
    codes = edges[keep, 0] * num_nodes + edges[keep, 1]
    unique, first, place = np.unique(codes, return_index=True, return_inverse=True)
    original = keep[first]
    for key, table in zip(("edge_labels", "edge_attributes"), features, strict=True):
        if table is None or len(unique) == len(codes):
            continue
        differ = (table[keep] != table[original[place]]).any(axis=1)
        if differ.any():
            row = int(keep[np.argmax(differ)])
            raise files.error(
                key,
                f"edge {_shown(edges[row])} is given before, in line "
                f"{original[place[np.argmax(differ)]] + 1}, with another value",
                row,
            )
    back = (unique % max(num_nodes, 1)) * num_nodes + unique // max(num_nodes, 1)
    lonely = np.flatnonzero(~np.isin(back, unique, assume_unique=True))
    if len(lonely):
        if not symmetrize:
            row = int(original[lonely[0]])
            raise files.error(
                "A",
                f"edge {_shown(edges[row])} has no edge back ({len(lonely)} "
                "such edges): the set is directed; read it with symmetrize=True to add "
                "the missing direction",
                row,
            )
        unique = np.concatenate([unique, back[lonely]])
        original = np.concatenate([original, original[lonely]])
        order = np.argsort(unique)
        unique, original = unique[order], original[order]
    return np.stack([unique // max(num_nodes, 1), unique % max(num_nodes, 1)], axis=1), original
