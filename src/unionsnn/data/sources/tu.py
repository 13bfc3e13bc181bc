"""Sets of the TU collection, read strictly, with the same result as PyG on valid files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unionsnn.base.errors import MalformedDataError
from unionsnn.data.arrays import GraphArrays, IntArray
from unionsnn.data.edges import (
    cut_by_graph,
    one_way_edges,
    simple_edges,
    slices,
    unequal_repeat,
    warn_of_loops,
    with_reverses,
)
from unionsnn.data.sources.download import files_hash, open_zip, read_members
from unionsnn.data.sources.source import RawFiles, Source, has_numbers
from unionsnn.data.sources.text_tables import ArchiveTables, Values

URL = "https://www.chrsmrrs.com/graphkerneldatasets"
"""Upstream address of the collection, as in PyG."""

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
        symmetrize: Whether to add the reverse of one-way edges, which are an error otherwise.
    """

    tu_name: str
    symmetrize: bool = False

    @property
    def split_name(self) -> str:
        """Return the name in the collection."""
        return self.tu_name

    def _archive(self, raw: RawFiles) -> Path:
        name = self.tu_name
        return raw.fetch(f"TUDataset/{name}.zip", f"{URL}/{name}.zip", name)

    def processed_key(self, raw: RawFiles) -> str:
        """Return the hash of the raw archive, and what else is chosen from it."""
        chosen = {" symmetrized": self.symmetrize, " numbers": self._numbers}
        words = "".join(word for word, wanted in chosen.items() if wanted)
        return files_hash([self._archive(raw)]) + words

    @property
    def _numbers(self) -> bool:
        return has_numbers(self.task)

    def read(self, raw: RawFiles) -> GraphArrays:
        """Read the raw archive."""
        return read_tu(
            self._archive(raw), self.tu_name, symmetrize=self.symmetrize, numbers=self._numbers
        )


def read_tu(
    zip_path: str | Path, name: str, *, symmetrize: bool = False, numbers: bool = False
) -> GraphArrays:
    """Read a data set of the TU collection from its zip file.

    Self loops are removed and repeated edges counted once; edges are sorted by (row, column);
    labels are shifted so that each column starts at 0, classes numbered in the order of the labels:
    as in PyG's reader, except that labels stay integers and repeated edges must agree in their
    labels and attributes.

    Source: Morris et al. (2020), "TUDataset"; format of its README.

    Args:
        zip_path: Archive with NAME_A.txt and its companions, at the top level or in one folder.
        name: The set's name, a prefix of all file names.
        symmetrize: Whether to add the reverse of one-way edges, with their labels and attributes.
        numbers: Whether graph attributes are the targets of a set that has graph labels too.

    Returns:
        Graphs with int64 class numbers, or float32 targets [G, T] if the set has graph attributes
        and they are wanted, or it has no graph labels.

    Raises:
        DataError: A file is wrong; names the line of the first fault.
    """
    files = _read_files(Path(zip_path), name)
    indicator = files.table("graph_indicator", 1)[:, 0]
    _check_indicator(files, indicator)
    node_slices = slices(np.bincount(indicator)[1:])
    y, class_names = _targets(files, len(node_slices) - 1, numbers=numbers)
    edges = files.table("A", 2).T - 1
    _check_edges(files, edges, indicator)
    for_nodes = (len(indicator), "nodes in graph_indicator")
    for_edges = (edges.shape[1], "edges in A")
    edge_labels = _labels(files, "edge_labels", for_edges)
    edge_attributes = _attributes(files, "edge_attributes", for_edges)
    union, row = simple_edges(edges, len(indicator))
    features = {"edge_labels": edge_labels, "edge_attributes": edge_attributes}
    for key, table in features.items():
        if table is None:
            continue
        repeat = unequal_repeat(edges, len(indicator), union, row, table)
        if repeat is not None:
            raise files.error(
                key,
                f"edge {_shown(edges[:, repeat[0]])} was given before, in line {repeat[1] + 1}, "
                "with another value",
                repeat[0],
            )
        warn_of_loops(edges, f"{name}_{key}.txt")
    lonely = one_way_edges(union, len(indicator))
    if len(lonely) and not symmetrize:
        first = int(row[lonely[0]])
        raise files.error(
            "A",
            f"edge {_shown(edges[:, first])} has no edge back ({len(lonely)} such edges): type "
            "data.symmetrize=true if edges are undirected",
            first,
        )
    union, row = with_reverses(union, row, lonely)
    edge_index, edge_slices = cut_by_graph(union, node_slices)
    return GraphArrays(
        edge_index=edge_index,
        node_slices=node_slices,
        edge_slices=edge_slices,
        y=y,
        node_labels=_labels(files, "node_labels", for_nodes),
        node_attributes=_attributes(files, "node_attributes", for_nodes),
        edge_labels=None if edge_labels is None else edge_labels[row],
        edge_attributes=None if edge_attributes is None else edge_attributes[row],
        class_names=class_names,
    )


def _read_files(zip_path: Path, name: str) -> ArchiveTables:
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
    by_key = {key: contents[member] for key, member in located.items()}
    return ArchiveTables(zip_path, f"{name}_", ".txt", by_key)


def _labels(files: ArchiveTables, key: str, one_for: tuple[int, str]) -> IntArray | None:
    if key not in files.contents:
        return None
    table = files.table(key, one_for=one_for)
    return table - table.min(axis=0) if len(table) else table


def _attributes(
    files: ArchiveTables, key: str, one_for: tuple[int, str]
) -> NDArray[np.float32] | None:
    if key not in files.contents:
        return None
    table = files.table(key, one_for=one_for, dtype=np.float64)
    with np.errstate(over="ignore"):
        single = table.astype(np.float32)
    finite = np.isfinite(single).all(axis=1)
    if not finite.all():
        row = int(np.argmin(finite))
        raise files.error(key, f"{table[row].tolist()} is not finite", row)
    return single


def _targets(
    files: ArchiveTables, num_graphs: int, *, numbers: bool
) -> tuple[Values, tuple[str, ...]]:
    """Return class numbers with class names, or regression targets."""
    one_for = (num_graphs, "graphs in graph_indicator")
    targets = None
    if numbers or "graph_labels" not in files.contents:
        targets = _attributes(files, "graph_attributes", one_for)
    if targets is not None:
        return targets, ()
    labels = files.table("graph_labels", 1, one_for=one_for)[:, 0]
    classes, y = np.unique(labels, return_inverse=True)
    return y.astype(np.int64), tuple(str(value) for value in classes)


def _check_indicator(files: ArchiveTables, indicator: IntArray) -> None:
    key = "graph_indicator"
    if not len(indicator):
        raise files.error(key, "is empty")
    if indicator[0] != 1:
        raise files.error(
            key, f"starts with graph {indicator[0]}, but graphs are numbered from 1", 0
        )
    steps = np.diff(indicator)
    wrong = np.flatnonzero((steps < 0) | (steps > 1))
    if len(wrong):
        row = int(wrong[0]) + 1
        fault = "out of order" if steps[row - 1] < 0 else "so the graphs between have no node"
        raise files.error(
            key, f"graph {indicator[row]} after graph {indicator[row - 1]}: {fault}", row
        )


def _check_edges(files: ArchiveTables, edges: IntArray, indicator: IntArray) -> None:
    n = len(indicator)
    outside = ((edges < 0) | (edges >= n)).any(axis=0)
    if outside.any():
        row = int(np.argmax(outside))
        raise files.error("A", f"edge {_shown(edges[:, row])} names a node outside of 1..{n}", row)
    first, second = indicator[edges]
    if (first != second).any():
        row = int(np.argmax(first != second))
        graphs = f"graph {first[row]} and graph {second[row]}"
        raise files.error("A", f"edge {_shown(edges[:, row])} joins {graphs}", row)


def _shown(edge: IntArray) -> str:
    return f"{edge[0] + 1}, {edge[1] + 1}"
