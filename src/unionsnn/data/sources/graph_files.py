"""Readers of graph files: edge lists, GraphML, graph6, sparse6, npz and PyG's .pt."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unionsnn.base.errors import DataError, GraphFileError
from unionsnn.data.arrays import NPZ_ERRORS, IntArray
from unionsnn.data.edges import both_ways

_COMMENTS = ("#", "%", "//")
_HEADERS = {
    ("source", "target"),
    ("src", "dst"),
    ("from", "to"),
    ("fromnodeid", "tonodeid"),
    ("node1", "node2"),
    ("u", "v"),
}


@dataclass(frozen=True, eq=False)
class GraphFile:
    """The graphs of a file as one disjoint union, with edges as listed in the file.

    Attributes:
        edge_index: Edges in the file's order, with global node numbers.
        node_slices: Where each graph's nodes begin and end.
        edge_slices: Where each graph's edges begin and end.
        names: Name of each node in the file; None if nodes are numbered from 0 within each graph.
        directed: Whether each edge is one direction; otherwise each edge is listed once for both.

    Shapes:
        edge_index [2, E], node_slices and edge_slices [G + 1], names [N].
    """

    edge_index: IntArray
    node_slices: IntArray
    edge_slices: IntArray
    names: tuple[str, ...] | None
    directed: bool

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


@dataclass(frozen=True, eq=False)
class _Graph:
    """One graph as read: edges [2, E] and names [N], if there are any."""

    edges: IntArray
    num_nodes: int
    names: Sequence[str] | None = None


def read_graph_file(path: str | Path, form: str | None = None) -> GraphFile:
    """Read the graphs of a file.

    Args:
        path: The file.
        form: A key of `FORMATS`; by default chosen by the file extension.

    Raises:
        DataError: The file cannot be read as graphs; says where and why.
    """
    path = Path(path)
    form = form or format_of(path)
    if not path.is_file():
        raise DataError(
            f"{path} {'is a folder' if path.is_dir() else 'does not exist'}; name a file.",
            code="data.missing",
        )
    try:
        directed, graphs = FORMATS[form].read(path)
    except OSError as error:
        raise GraphFileError(f"{path} cannot be read ({error.strerror or error}).") from error
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


def _united(path: Path, graphs: Sequence[_Graph], directed: bool) -> GraphFile:
    if not graphs:
        raise GraphFileError(f"{path} holds no graph.")
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
    return GraphFile(
        np.ascontiguousarray(np.concatenate(shifted, axis=1), dtype=np.int64),
        node_slices,
        edge_slices,
        tuple(names) if len(names) == node_slices[-1] and names else None,
        directed,
    )


def _is_canonical_integer(text: str) -> bool:
    digits = text.removeprefix("-")
    plain = digits.isascii() and digits.isdigit() and len(digits) < 19
    return plain and str(int(text)) == text


# -- edge lists ----------------------------------------------------------------------------


def _read_edge_list(path: Path) -> tuple[bool, list[_Graph]]:
    """Read two names per line; further columns, such as weights, are ignored."""
    numbers: dict[str, int] = {}
    ends: list[int] = []
    for source, target in _pairs(path):
        ends.append(numbers.setdefault(source, len(numbers)))
        ends.append(numbers.setdefault(target, len(numbers)))
    edges, names = np.array(ends, dtype=np.int64).reshape(-1, 2).T, list(numbers)
    # An apparent header is an edge if one of its names is a node of another edge.
    if _is_header(names[:2]) and not (edges[:, 1:] < 2).any():
        edges, names = edges[:, 1:] - 2, names[2:]
    if not names:
        raise GraphFileError(f"{path} holds no edge: write two node names per line.")
    return True, [_Graph(edges, len(names), names)]


def _pairs(path: Path) -> Iterator[tuple[str, str]]:
    comma: bool | None = None
    width = 0
    for number, line in _data_lines(path):
        if comma is None:
            comma = "," in line
        try:
            table = csv.reader([line], skipinitialspace=True, strict=True)
            fields = [field.strip() for field in next(table)] if comma else line.split()
        except (csv.Error, ValueError):
            fields = []
        if len(fields) < 2 or not fields[0] or not fields[1]:
            raise GraphFileError(
                f"{path}, line {number}: {line[:60]!r} is not an edge. Write two node names, "
                "separated by a comma or by blanks, in the same way on all lines."
            )
        if width and len(fields) != width:
            raise GraphFileError(
                f"{path}, line {number}: {line[:60]!r} has {len(fields)} columns, the lines "
                f"before have {width}."
            )
        # A header may leave out the further columns.
        if width or not _is_header(fields):
            width = len(fields)
        yield fields[0], fields[1]


def _data_lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        with path.open(encoding="utf-8-sig") as file:
            for number, line in enumerate(file, 1):
                if "\0" in line:
                    raise GraphFileError(f"{path}, line {number}: this is not a text file.")
                text = line.strip()
                if text and not text.startswith(_COMMENTS):
                    yield number, text
    except UnicodeDecodeError as error:
        raise GraphFileError(f"{path} is not a text file in UTF-8 ({error.reason}).") from error


def _is_header(fields: Sequence[str]) -> bool:
    return tuple(field.lower() for field in fields[:2]) in _HEADERS


# -- formats that networkx reads -----------------------------------------------------------


def _read_graphml(path: Path) -> tuple[bool, list[_Graph]]:
    from xml.etree.ElementTree import ParseError

    import networkx

    try:
        graph = networkx.read_graphml(path)
    except (networkx.NetworkXException, ParseError, KeyError, ValueError, TypeError) as error:
        raise GraphFileError(f"{path} is not GraphML that can be read ({error}).") from error
    names = [str(node) for node in graph]
    position = {node: i for i, node in enumerate(graph)}
    pairs = [(position[v], position[u]) for v, u in graph.edges()]
    return graph.is_directed(), [_Graph(_as_edges(pairs), len(names), names)]


def _read_graph6(path: Path) -> tuple[bool, list[_Graph]]:
    """Read one graph per line, in graph6 or sparse6."""
    import networkx

    graphs = []
    for number, raw in enumerate(path.read_bytes().splitlines(), 1):
        line = raw.strip()
        for header in (b">>graph6<<", b">>sparse6<<"):
            line = line.removeprefix(header)
        if not line:
            continue
        sparse = line.startswith(b":")
        read = networkx.from_sparse6_bytes if sparse else networkx.from_graph6_bytes
        try:
            if not all(62 < byte < 127 for byte in line[sparse:]):
                raise ValueError("a byte outside 63..126")
            graph = read(line)
        except (networkx.NetworkXException, ValueError, IndexError) as error:
            raise GraphFileError(
                f"{path}, line {number} is not {'sparse6' if sparse else 'graph6'} ({error})."
            ) from error
        graphs.append(_Graph(_as_edges(graph.edges()), graph.number_of_nodes()))
    return False, graphs


def _as_edges(pairs: Iterable[tuple[int, int]]) -> IntArray:
    return np.array(list(pairs), dtype=np.int64).reshape(-1, 2).T


# -- arrays --------------------------------------------------------------------------------


def _read_npz(path: Path) -> tuple[bool, list[_Graph]]:
    """Read ``edge_index`` and optionally ``num_nodes``, or a sparse matrix saved by scipy."""
    try:
        with path.open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            if not hasattr(archive, "files"):
                raise ValueError("it holds a single array, not named ones")
            names = set(archive.files)
            arrays = {k: archive[k] for k in ("edge_index", "num_nodes") if k in names}
    except NPZ_ERRORS as error:
        advice = "; arrays of objects are never unpickled" if "pickle" in str(error) else ""
        raise GraphFileError(
            f"{path} is not an npz file that can be read ({error}{advice})."
        ) from error
    if "edge_index" in arrays:
        return True, [_from_arrays(path, arrays["edge_index"], arrays.get("num_nodes"))]
    if {"format", "shape"} <= names:
        return True, [_from_matrix(path)]
    raise GraphFileError(
        f"{path} holds {', '.join(sorted(names)) or 'nothing'}; needed is edge_index [2, E] with "
        "or without num_nodes, or an adjacency matrix written by scipy.sparse.save_npz."
    )


def _from_arrays(path: Path, edge_index: Any, num_nodes: Any) -> _Graph:
    from unionsnn.coefficients.graph import as_edge_index, check_num_nodes

    try:
        edges = as_edge_index(edge_index)
        if num_nodes is None:
            return _Graph(edges, int(edges.max(initial=-1)) + 1)
        number = np.asarray(num_nodes)
        return _Graph(edges, check_num_nodes(number.item() if number.size == 1 else num_nodes))
    except (TypeError, ValueError) as error:
        raise GraphFileError(f"{path}: {error}") from error


def _from_matrix(path: Path) -> _Graph:
    from scipy import sparse

    try:
        with path.open("rb") as file:
            matrix = sparse.load_npz(file).tocoo()
    except Exception as error:  # Damage can surface anywhere between zip, npy and scipy's checks.
        raise GraphFileError(
            f"{path} is not a sparse matrix that scipy reads ({error})."
        ) from error
    if matrix.shape[0] != matrix.shape[1]:
        raise GraphFileError(
            f"{path} holds a matrix of {matrix.shape[0]} x {matrix.shape[1]}; an adjacency matrix "
            "is square."
        )
    there = matrix.data != 0
    edges = np.stack([matrix.row[there], matrix.col[there]]).astype(np.int64)
    return _Graph(edges, int(matrix.shape[0]))


# -- PyG -----------------------------------------------------------------------------------


def _read_pt(path: Path) -> tuple[bool, list[_Graph]]:
    """Read a file saved by torch with weights-only loading, which runs no code of the file."""
    import pickle

    import torch
    from torch_geometric.data import Data
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import GlobalStorage

    # Plain containers of PyG, without code that loading would run.
    # Leaving the context removes its classes from torch's list, so PyG's own entries are excluded.
    allowed = torch.serialization.get_safe_globals()
    containers = [
        c for c in (Data, DataEdgeAttr, DataTensorAttr, GlobalStorage) if c not in allowed
    ]
    unreadable = GraphFileError(f"{path} is not a file that torch.save wrote, or it is damaged.")
    try:
        with torch.serialization.safe_globals(containers), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        if "Unsupported operand" in str(error):
            raise unreadable from error
        raise GraphFileError(
            f"{path} holds Python objects other than tensors and PyG's data, which could run "
            "code when loaded, so it is refused. Save the edges alone: "
            "torch.save({'edge_index': data.edge_index, 'num_nodes': data.num_nodes}, file)."
        ) from error
    except (RuntimeError, EOFError, ValueError, KeyError) as error:
        raise unreadable from error
    return True, _graphs_of(path, content)


def _graphs_of(path: Path, content: Any) -> list[_Graph]:
    """Extract the graphs of a tensor, a mapping, PyG's Data, a list of these, or a saved set."""
    if isinstance(content, tuple) and len(content) in (2, 3) and isinstance(content[1], Mapping):
        return _graphs_of_set(path, content[0], content[1])
    if isinstance(content, list | tuple):
        return [graph for element in content for graph in _graphs_of(path, element)]
    if isinstance(content, Mapping):
        edges, nodes = content.get("edge_index"), content.get("num_nodes")
    elif hasattr(content, "edge_index"):
        edges = content.edge_index
        with warnings.catch_warnings():
            # Without a number of nodes, PyG guesses it from the edges, as we do.
            warnings.simplefilter("ignore")
            nodes = content.num_nodes
    else:
        edges, nodes = content, None
    if edges is None or not hasattr(edges, "numpy"):
        raise GraphFileError(
            f"{path} holds {type(content).__name__} without a tensor edge_index; needed is PyG's "
            "Data, a mapping with edge_index, a tensor [2, E], or a list of these."
        )
    return [_from_arrays(path, edges.numpy(), nodes)]


def _graphs_of_set(path: Path, data: Any, slices: Mapping[str, Any]) -> list[_Graph]:
    """Extract the graphs saved by PyG's InMemoryDataset: all in one, with slices."""
    values = data if isinstance(data, Mapping) else data.to_dict()
    if "edge_index" not in values or "edge_index" not in slices:
        raise GraphFileError(f"{path} is a saved data set without edge_index.")
    bounds = [int(i) for i in slices["edge_index"]]
    sizes: Sequence[int | None] = [None] * (len(bounds) - 1)
    if "x" in slices:
        sizes = [int(end - begin) for begin, end in pairwise(slices["x"])]
    elif "_num_nodes" in values:
        sizes = [int(n) for n in values["_num_nodes"]]
    edges = values["edge_index"].numpy()
    return [
        _from_arrays(path, edges[:, begin:end], size)
        for (begin, end), size in zip(pairwise(bounds), sizes, strict=True)
    ]


@dataclass(frozen=True)
class Format:
    """A file format.

    Attributes:
        extensions: File extensions, in lower case.
        read: Returns whether edges are directed, and the graphs.
    """

    extensions: tuple[str, ...]
    read: Callable[[Path], tuple[bool, list[_Graph]]]


FORMATS: Mapping[str, Format] = {
    "edgelist": Format((".txt", ".csv", ".tsv", ".edges", ".edgelist"), _read_edge_list),
    "graphml": Format((".graphml",), _read_graphml),
    "graph6": Format((".g6", ".graph6", ".s6", ".sparse6"), _read_graph6),
    "npz": Format((".npz",), _read_npz),
    "pt": Format((".pt", ".pth"), _read_pt),
}
"""File formats by their name for ``--format``."""
