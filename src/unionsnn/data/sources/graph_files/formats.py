"""The formats of graph files, and the graphs of a file as one disjoint union."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unionsnn.base.errors import DataError, GraphFileError, RequestError
from unionsnn.data.arrays import IntArray
from unionsnn.data.edges import both_ways
from unionsnn.data.sources.graph_files.edge_lists import read_edge_list
from unionsnn.data.sources.graph_files.graph6 import read_graph6
from unionsnn.data.sources.graph_files.graphml import read_graphml
from unionsnn.data.sources.graph_files.npz import read_npz
from unionsnn.data.sources.graph_files.parsed import (
    ParsedGraph,
    joined_features,
    require_memory,
)
from unionsnn.data.sources.graph_files.pt import read_pt


@dataclass(frozen=True, eq=False)
class GraphFile:
    """The graphs of a file as one disjoint union, with edges as listed in the file.

    Attributes:
        edge_index: Edges in the file's order, with global node numbers.
        node_slices: Where each graph's nodes begin and end.
        edge_slices: Where each graph's edges begin and end.
        names: Name of each node in the file; None if nodes are numbered from 0 within each graph.
        directed: Whether each edge is one direction; otherwise each edge is listed once for both.
        left_out: What else the file holds, which is not read.
        edge_features: Tables of whole or real numbers with a row for each listed edge, by name.

    Shapes:
        edge_index [2, E], node_slices and edge_slices [G + 1], names [N], edge_features [E, k]
        each.
    """

    edge_index: IntArray
    node_slices: IntArray
    edge_slices: IntArray
    names: tuple[str, ...] | None
    directed: bool
    left_out: tuple[str, ...] = ()
    edge_features: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    @property
    def num_graphs(self) -> int:
        """Number of graphs in the file."""
        return len(self.node_slices) - 1

    @property
    def num_nodes(self) -> int:
        """Number of nodes of all graphs."""
        return int(self.node_slices[-1])

    @property
    def num_edges(self) -> int:
        """Number of edges listed."""
        return int(self.edge_index.shape[1])

    @property
    def graph_of_edge(self) -> IntArray:
        """Index of each edge's graph, [E]."""
        return np.repeat(np.arange(self.num_graphs), np.diff(self.edge_slices))

    def each(self) -> Iterator[tuple[IntArray, int]]:
        """Edges of each graph, nodes counted from 0 and undirected edges both ways, and its size.

        Shapes:
            -> [2, E_g].
        """
        edge_ranges, node_ranges = pairwise(self.edge_slices), pairwise(self.node_slices)
        for (begin, end), (first, last) in zip(edge_ranges, node_ranges, strict=True):
            edges = self.edge_index[:, begin:end] - first
            yield edges if self.directed else both_ways(edges), int(last - first)

    @property
    def listed(self) -> IntArray:
        """The listed edge of each edge that `each` yields, [E], or [2 E] for undirected ones."""
        rows = np.arange(self.num_edges)
        if self.directed:
            return rows
        parts = [rows[begin:end] for begin, end in pairwise(self.edge_slices)]
        return np.concatenate([each for part in parts for each in (part, part)])

    def check_symmetric(self) -> None:
        """Check that every edge has its reverse, unless the format implies it.

        Raises:
            DataError: An edge has no reverse; says what to type.
        """
        if not self.directed:
            return
        source, target = self.edge_index
        there = source * self.num_nodes + target
        lonely = np.flatnonzero(~np.isin(target * self.num_nodes + source, there))
        if len(lonely):
            name = self.node_names()
            v, u = (name[node] for node in self.edge_index[:, lonely[0]])
            raise DataError(
                f"{len(lonely)} of the {self.num_edges} edges have no reverse, for example "
                f"{v} -> {u} without {u} -> {v}. If the edges are undirected, type "
                "--symmetrize.",
                code="data.one_way",
            )

    def node_names(self) -> NDArray[Any]:
        """Return the names of all nodes, as integers if all of them are, otherwise strings, [N]."""
        if self.names is None:
            first = np.repeat(self.node_slices[:-1], np.diff(self.node_slices))
            return np.arange(self.num_nodes) - first
        if all(_is_canonical_integer(name) for name in self.names):
            return np.array([int(name) for name in self.names], dtype=np.int64)
        return np.array(self.names, dtype=object)


def read_graph_file(
    path: str | Path,
    form: str | None = None,
    *,
    header: bool | None = None,
    edge_features: bool = False,
) -> GraphFile:
    """Read the graphs of a file.

    Args:
        path: The file.
        form: A key of `FORMATS`; by default chosen by the file extension.
        header: Whether the first line of an edge list names its columns; None if its words tell.
        edge_features: Whether to read features of edges, if the file has some.

    Raises:
        DataError: The file cannot be read as graphs; says where and why.
    """
    path = Path(path)
    form = form or format_of(path)
    if not path.is_file():
        fault = "does not exist"
        if path.exists():
            fault = "is a folder" if path.is_dir() else "is a pipe or a device"
        raise DataError(f"{path} {fault}; name a file.", code="data.missing")
    read = FORMATS[form].read
    if form == "edgelist":
        read = functools.partial(read_edge_list, header=header)
    elif header is not None:
        raise RequestError(
            f"--header, --no-header and data.header are about edge lists, but {path.name} is read "
            f"as {form}; leave it out.",
            code="data.header",
        )
    try:
        require_memory(path, path.stat().st_size, "its content")
        directed, graphs = read(path, edge_features)
    except OSError as error:
        raise GraphFileError(f"{path} cannot be read ({error.strerror or error}).") from error
    except MemoryError as error:
        raise GraphFileError(f"{path} does not fit into memory.", code="data.memory") from error
    return _united(path, graphs, directed)


def format_of(path: Path) -> str:
    """Return the format of a file by its extension.

    Raises:
        DataError: Its file extension is unknown.
    """
    for name, form in FORMATS.items():
        if path.suffix.lower() in form.extensions:
            return name
    extensions = ", ".join(each for form in FORMATS.values() for each in form.extensions)
    raise DataError(
        f"{path.name} has no known file extension (known: {extensions}). Rename it, or type "
        f"--format {'|'.join(FORMATS)}.",
        code="data.format",
    )


def _united(path: Path, graphs: Sequence[ParsedGraph], directed: bool) -> GraphFile:
    if not graphs:
        raise GraphFileError(f"{path} holds no graph.")
    num_nodes = sum(graph.num_nodes for graph in graphs)
    num_edges = sum(graph.edges.shape[1] for graph in graphs)
    # A row of each node and a few numbers of each edge are what any use of the graphs allocates.
    require_memory(path, 40 * num_nodes + 60 * num_edges, f"a graph of {num_nodes:,} nodes")
    node_slices = np.cumsum([0, *(graph.num_nodes for graph in graphs)])
    edge_slices = np.cumsum([0, *(graph.edges.shape[1] for graph in graphs)])
    for number, graph in enumerate(graphs):
        low, high = graph.edges.min(initial=0), graph.edges.max(initial=-1)
        if low < 0 or high >= graph.num_nodes:
            where = f"{path}" if len(graphs) == 1 else f"{path}, graph {number}"
            raise GraphFileError(
                f"{where}: an edge names node {low if low < 0 else high}, but the nodes are "
                f"0..{graph.num_nodes - 1}."
            )
    shifted = [g.edges + first for g, first in zip(graphs, node_slices, strict=False)]
    names: list[str] = []
    for graph in graphs:
        names += graph.names or ()
    features = joined_features(
        (f"graph {number} of {path}", graph.edges.shape[1], graph.edge_features)
        for number, graph in enumerate(graphs)
    )
    return GraphFile(
        np.ascontiguousarray(np.concatenate(shifted, axis=1), dtype=np.int64),
        node_slices,
        edge_slices,
        tuple(names) if len(names) == node_slices[-1] and names else None,
        directed,
        tuple(dict.fromkeys(part for graph in graphs for part in graph.left_out)),
        features,
    )


def _is_canonical_integer(text: str) -> bool:
    digits = text.removeprefix("-")
    plain = digits.isascii() and digits.isdigit() and len(digits) < 19
    return plain and str(int(text)) == text


@dataclass(frozen=True)
class Format:
    """A file format.

    Attributes:
        extensions: File extensions, in lower case.
        read: Returns whether edges are directed, and the graphs; asked whether to read features of
            edges.
    """

    extensions: tuple[str, ...]
    read: Callable[[Path, bool], tuple[bool, list[ParsedGraph]]]


FORMATS: Mapping[str, Format] = {
    "edgelist": Format((".txt", ".csv", ".tsv", ".edges", ".edgelist"), read_edge_list),
    "graphml": Format((".graphml",), read_graphml),
    "graph6": Format((".g6", ".graph6", ".s6", ".sparse6"), read_graph6),
    "npz": Format((".npz",), read_npz),
    "pt": Format((".pt", ".pth"), read_pt),
}
"""File formats by their name for ``--format``."""
