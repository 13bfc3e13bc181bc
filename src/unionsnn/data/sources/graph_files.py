"""Readers of graph files: edge lists, GraphML, graph6, sparse6, npz and PyG's .pt."""

from __future__ import annotations

import csv
import functools
import math
import re
import warnings
import zipfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from unionsnn.base.errors import DataError, GraphFileError, RequestError
from unionsnn.base.memory import format_gigabytes, free_bytes
from unionsnn.data.arrays import IntArray
from unionsnn.data.edges import both_ways


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

    Shapes:
        edge_index [2, E], node_slices and edge_slices [G + 1], names [N].
    """

    edge_index: IntArray
    node_slices: IntArray
    edge_slices: IntArray
    names: tuple[str, ...] | None
    directed: bool
    left_out: tuple[str, ...] = ()

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
    """One graph as read: edges [2, E] and names [N], if there are any; what is not read."""

    edges: IntArray
    num_nodes: int
    names: Sequence[str] | None = None
    left_out: Collection[str] = ()


def read_graph_file(
    path: str | Path, form: str | None = None, *, header: bool | None = None
) -> GraphFile:
    """Read the graphs of a file.

    Args:
        path: The file.
        form: A key of `FORMATS`; by default chosen by the file extension.
        header: Whether the first line of an edge list names its columns; None if its words tell.

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
        read = functools.partial(_read_edge_list, header=header)
    elif header is not None:
        raise RequestError(
            f"--header and --no-header are about edge lists, but {path.name} is read as {form}; "
            "leave the option out.",
            code="data.header",
        )
    try:
        require_memory(path, path.stat().st_size, "its content")
        directed, graphs = read(path)
    except OSError as error:
        raise GraphFileError(f"{path} cannot be read ({error.strerror or error}).") from error
    except MemoryError as error:
        raise GraphFileError(f"{path} does not fit into memory.", code="data.memory") from error
    return _united(path, graphs, directed)


def require_memory(path: Path, needed: int, what: str) -> None:
    """Refuse what would not fit into memory, before it is allocated.

    Raises:
        GraphFileError: It would not fit.
    """
    free = free_bytes()
    if needed > free:
        raise GraphFileError(
            f"{path}: {what} would take {format_gigabytes(needed)} of memory, but "
            f"{format_gigabytes(free)} are free.",
            code="data.memory",
        )


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
    return GraphFile(
        np.ascontiguousarray(np.concatenate(shifted, axis=1), dtype=np.int64),
        node_slices,
        edge_slices,
        tuple(names) if len(names) == node_slices[-1] and names else None,
        directed,
        tuple(dict.fromkeys(part for graph in graphs for part in graph.left_out)),
    )


def _is_canonical_integer(text: str) -> bool:
    digits = text.removeprefix("-")
    plain = digits.isascii() and digits.isdigit() and len(digits) < 19
    return plain and str(int(text)) == text


# -- edge lists ----------------------------------------------------------------------------

_SEPARATORS = {".csv": ",", ".tsv": "\t", ".edges": None, ".edgelist": None}
"""What separates the columns, by file extension; None is any number of blanks or tabs."""

_HEADERS = {
    *(("source", "target"), ("src", "dst"), ("from", "to"), ("start", "end"), ("head", "tail")),
    *(("fromnode", "tonode"), ("fromid", "toid"), ("fromnodeid", "tonodeid")),
    *(("sourceid", "targetid"), ("sourcenode", "targetnode"), ("sender", "receiver")),
    *(("node1", "node2"), ("id1", "id2"), ("nodeid1", "nodeid2"), ("node1id", "node2id")),
    *(("vertex1", "vertex2"), ("nodea", "nodeb"), ("u", "v"), ("i", "j")),
}
"""Names of the two columns, in lower case without blanks and punctuation."""

_ATTRIBUTES = re.compile(r"\s\{.*\}$")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def _read_edge_list(path: Path, header: bool | None = None) -> tuple[bool, list[_Graph]]:
    """Read two names per line; further columns, such as weights, are left out."""
    numbers: dict[str, int] = {}
    ends: list[int] = []
    first, width, left_out = 0, 0, False
    for line, (*fields, more) in _edge_rows(path):
        if not ends and header:
            header, first = False, line
            continue
        if width and len(fields) != width:
            raise GraphFileError(
                f"{path}, line {line}: {' '.join(fields)[:60]!r} has {len(fields)} columns, the "
                f"lines before have {width}."
            )
        # A header may leave out the further columns.
        if ends or header is False or not _is_header(fields):
            width = len(fields)
        left_out |= bool(more) or len(fields) > 2
        first = first or line
        ends += [numbers.setdefault(name, len(numbers)) for name in fields[:2]]
    edges, names = np.array(ends, dtype=np.int64).reshape(-1, 2).T, list(numbers)
    if header is None and _begins_with_header(path, first, edges, names):
        edges, names = edges[:, 1:] - 2, names[2:]
    if not names:
        raise GraphFileError(f"{path} holds no edge: write two node names per line.")
    for name in names:
        if _UNPRINTABLE.search(name) or not name.strip("#%/"):
            raise GraphFileError(
                f"{path}: {name[:60]!r} cannot be the name of a node: it holds a tab or another "
                "control character, or only the signs of a comment. Separate columns as the "
                "file extension says (.csv: commas, .tsv: tabs, .edgelist: blanks) and put "
                "comments, which begin with # or %, above the first edge of a .txt or .edgelist."
            )
    columns = ("the columns after the second",) if left_out else ()
    return True, [_Graph(edges, len(names), names, columns)]


def _is_header(fields: Sequence[str]) -> bool:
    return tuple(re.sub(r"[\W_]", "", field.lower()) for field in fields[:2]) in _HEADERS


def _begins_with_header(path: Path, line: int, edges: IntArray, names: Sequence[str]) -> bool:
    """Return whether the first line names the columns.

    It does not if one of its names comes again or both are numbers.

    Raises:
        GraphFileError: It is not certain.
    """
    known = _is_header(names[:2])
    if len(names) < 2 or edges[1, 0] != 1 or (edges[:, 1:] < 2).any():
        return False
    if edges.shape[1] == 1 or all(_is_number(name) for name in names[:2]):
        return known
    # Nodes may be called u, v, i and j.
    if known and (len(names[0]) > 1 or all(_is_number(name) for name in names[2:])):
        return True
    raise GraphFileError(
        f"{path}, line {line}: {names[0][:40]!r} and {names[1][:40]!r}, which come nowhere else, "
        "may be the names of the columns or an edge. Type --header or --no-header; or call the "
        "columns source and target, or write a line with these names above the first edge.",
        code="data.header",
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _edge_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of each line and its columns, then whether attributes were cut off."""
    try:
        separator = _SEPARATORS.get(path.suffix.lower(), "")
        doubtful = separator == ""
        if doubtful:
            separator = _separator(path)
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = _checked_lines(path, file)
            if separator is None:
                yield from _blank_separated(path, lines)
                return
            rows = csv.reader(
                (line for _, line in lines), delimiter=separator, skipinitialspace=True, strict=True
            )
            began = False
            for row in rows:
                fields = [field.strip() for field in row]
                if not any(fields) and len(fields) < 2:
                    continue
                if doubtful and fields[0].startswith(("#", "%")):
                    _check_comment(path, rows.line_num, " ".join(fields), began)
                    continue
                began = True
                if len(fields) < 2 or not fields[0] or not fields[1]:
                    raise _no_edge(path, rows.line_num, row)
                if (
                    doubtful
                    and separator == ","
                    and any(" " in field and not {",", '"'} & {*field} for field in fields[:2])
                ):
                    raise GraphFileError(
                        f"{path}, line {rows.line_num}: {separator.join(row)[:60]!r} has commas "
                        "and blanks, and either may separate the columns. Rename the file: .csv "
                        "for commas, .tsv for tabs, .edgelist for blanks."
                    )
                yield rows.line_num, [*fields, ""]
    except UnicodeDecodeError as error:
        raise GraphFileError(f"{path} is not a text file in UTF-8 ({error.reason}).") from error
    except csv.Error as error:
        raise GraphFileError(
            f"{path}, line {rows.line_num}: quotes are not as CSV has them ({error})."
        ) from error


def _checked_lines(path: Path, file: TextIO) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(file, 1):
        if "\0" in line:
            raise GraphFileError(f"{path}, line {number}: this is not a text file.")
        if number == 1 and line.startswith("%%MatrixMarket"):
            raise GraphFileError(
                f"{path} is in the Matrix Market format. Convert it: scipy.sparse.save_npz("
                "'graph.npz', scipy.io.mmread(file))."
            )
        yield number, line


def _separator(path: Path) -> str | None:
    """Return what separates columns where the file extension leaves it open.

    A tab or a comma does where each line has one.
    """
    with path.open(encoding="utf-8-sig") as file:
        common = {"\t", ","}
        for line in file:
            text = line.strip()
            if text and not text.startswith(("#", "%")):
                common = {each for each in common if each in text}
                if not common:
                    break
        return "\t" if "\t" in common else "," if common else None


def _blank_separated(
    path: Path, lines: Iterable[tuple[int, str]]
) -> Iterator[tuple[int, list[str]]]:
    """Yield columns between blanks; networkx writes a dictionary of attributes after them."""
    began = False
    for number, line in lines:
        text = line.strip()
        if not text:
            continue
        if text[0] in "#%":
            _check_comment(path, number, text, began)
            continue
        began = True
        bare = _ATTRIBUTES.sub("", text)
        fields = bare.split()
        if len(fields) < 2 or any(f.strip(",;") != f or f[0] == '"' for f in fields[:2]):
            raise _no_edge(path, number, [text])
        yield number, [*fields, "more" if bare != text and not text.endswith("{}") else ""]


def _check_comment(path: Path, number: int, text: str, began: bool) -> None:
    """Refuse a comment that may be an edge: below the first one, or without a blank."""
    words = text.lstrip("#%").split()
    if began or (text.lstrip("#%")[:1].strip() and len(words) == 2 and not _is_header(words)):
        raise GraphFileError(
            f"{path}, line {number}: {text[:60]!r} may be a comment or an edge. Comments begin "
            "with # or % and a blank and stand above the first edge; names that begin so are "
            "read from .csv and .tsv, which have no comments."
        )


def _no_edge(path: Path, number: int, row: Sequence[str]) -> GraphFileError:
    return GraphFileError(
        f"{path}, line {number}: {', '.join(row)[:60]!r} is not an edge. Write two node names, "
        "separated as the file extension says: commas in .csv, tabs in .tsv, blanks in .edges and "
        ".edgelist, any of these in .txt, but the same on all lines. Quotes are for .csv and .tsv, "
        "comments for the others."
    )


# -- GraphML, graph6 and sparse6 -----------------------------------------------------------


def _read_graphml(path: Path) -> tuple[bool, list[_Graph]]:
    """Read all graphs of a file; networkx reads the first, and makes up what edges lack."""
    from xml.etree.ElementTree import ParseError, parse

    try:
        root = parse(path).getroot()
    except (ParseError, ValueError, LookupError) as error:
        raise GraphFileError(f"{path} is not GraphML that can be read ({error}).") from error
    if _tag(root) != "graphml":
        raise GraphFileError(f"{path} is not GraphML: its outer element is {_tag(root)[:40]!r}.")
    keys = {key.get("id"): key.get("attr.name") or key.get("id") for key in root}
    directed, graphs = set(), []
    for number, element in enumerate(each for each in root if _tag(each) == "graph"):
        where = f"{path}, graph {number}"
        default = element.get("edgedefault")
        if default not in ("directed", "undirected"):
            raise GraphFileError(
                f"{where}: edgedefault is {default!r}, not directed or undirected."
            )
        word = "true" if default == "directed" else "false"
        position: dict[str, int] = {}
        pairs, data = [], set()
        nodes, edges = ([e for e in element if _tag(e) == kind] for kind in ("node", "edge"))
        others = {_tag(e) for e in element.iter()} - {"graph", "node", "edge", "data", "desc"}
        nested = sum(_tag(e) == "graph" for e in element.iter()) > 1
        if nested or others & {"hyperedge", "port", "endpoint"}:
            raise GraphFileError(
                f"{where} holds graphs within nodes, ports or hyperedges, which are not read."
            )
        for node in nodes:
            name = node.get("id")
            if name is None or name in position:
                raise GraphFileError(f"{where}: a node has no id, or that of another: {name!r}.")
            position[name] = len(position)
        for edge in edges:
            ends = edge.get("source"), edge.get("target")
            if None in ends or not position.keys() >= set(ends):
                raise GraphFileError(
                    f"{where}: an edge is between {ends[0]!r} and {ends[1]!r}, of which one is "
                    "missing or no node of the graph."
                )
            if edge.get("directed", word) != word:
                raise GraphFileError(f"{where}: some edges are directed and others are not.")
            pairs.append((position[str(ends[0])], position[str(ends[1])]))
        for part in (*nodes, *edges):
            data |= {str(keys.get(each.get("key"))) for each in part if _tag(each) == "data"}
        directed.add(default == "directed")
        graphs.append(_Graph(_as_edges(pairs), len(position), list(position), sorted(data)))
    if len(directed) > 1:
        raise GraphFileError(f"{path}: some graphs are directed and others are not.")
    return True in directed, graphs


def _tag(element: Any) -> str:
    """Return the name of an element without its namespace."""
    return str(element.tag).rpartition("}")[2]


def _read_graph6(path: Path) -> tuple[bool, list[_Graph]]:
    """Read one graph per line, in graph6 or sparse6."""
    import networkx
    from networkx.readwrite.graph6 import data_to_n

    graphs = []
    content = path.read_bytes()
    # networkx allocates 500 bytes for each node that the first bytes of a line announce.
    left = max(10**5, 64 * len(content))
    for number, raw in enumerate(content.splitlines(), 1):
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
            order, _ = data_to_n([byte - 63 for byte in line[sparse:][:8]])
            left -= order
            if left < 0:
                raise ValueError(
                    f"{order:,} nodes in a line of {len(line):,} bytes are nearly all without an "
                    "edge; if that is right, save edge_index and num_nodes in an npz file"
                )
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


def npz_arrays(path: Path, wanted: Collection[str]) -> tuple[dict[str, NDArray[Any]], set[str]]:
    """Read some arrays of an npz file, after their sizes were compared with the free memory.

    Args:
        path: The file.
        wanted: Names of arrays to read, if they are there.

    Returns:
        The arrays, and the names of all.

    Raises:
        GraphFileError: The file is damaged, too large, or holds pickled objects.
    """
    formats = np.lib.format
    try:
        with path.open("rb") as file:
            if file.read(6) == formats.MAGIC_PREFIX:
                raise ValueError("it holds a single array, not named ones")
            with zipfile.ZipFile(file) as archive:
                members = {each.filename.removesuffix(".npy"): each for each in archive.infolist()}
                if len(members) != len(archive.infolist()):
                    raise ValueError("two arrays have the same name")
                chosen = {name: each for name, each in members.items() if name in wanted}
                require_memory(path, sum(each.file_size for each in chosen.values()), "its arrays")
                arrays = {}
                for name, each in chosen.items():
                    with archive.open(each) as member:
                        old = formats.read_magic(member) == (1, 0)
                        header = (
                            formats.read_array_header_1_0
                            if old
                            else (formats.read_array_header_2_0)
                        )
                        shape, _, dtype = header(member)
                        if math.prod(shape) * dtype.itemsize > each.file_size:
                            raise ValueError(f"{name} of shape {shape} is larger than its content")
                    with archive.open(each) as member:
                        arrays[name] = formats.read_array(member, allow_pickle=False)
                return arrays, set(members)
    except (GraphFileError, OSError):
        raise
    except Exception as error:  # Damage can surface anywhere between zip, zlib and npy.
        advice = "; arrays of objects are never unpickled" if "pickle" in str(error) else ""
        raise GraphFileError(
            f"{path} is not an npz file that can be read ({error}{advice})."
        ) from error


_MATRIX = ("format", "shape", "data", "row", "col", "indices", "indptr", "offsets")


def _read_npz(path: Path) -> tuple[bool, list[_Graph]]:
    """Read ``edge_index`` and optionally ``num_nodes``, or a sparse matrix saved by scipy."""
    arrays, names = npz_arrays(path, ("edge_index", "num_nodes", *_MATRIX))
    if "edge_index" in arrays:
        others = sorted(names - {"edge_index", "num_nodes", "node_labels", "node_attributes"})
        return True, [_from_arrays(path, arrays["edge_index"], arrays.get("num_nodes"), others)]
    if {"format", "shape"} <= names:
        return True, [_from_matrix(path, arrays)]
    raise GraphFileError(
        f"{path} holds {', '.join(sorted(names)) or 'nothing'}; needed is edge_index [2, E] with "
        "or without num_nodes, or an adjacency matrix written by scipy.sparse.save_npz."
    )


def _from_arrays(
    path: Path, edge_index: Any, num_nodes: Any, left_out: Collection[str] = ()
) -> _Graph:
    from unionsnn.coefficients.graph import as_edge_index, check_num_nodes

    try:
        # A tensor may stand for more numbers than it stores.
        require_memory(path, 8 * math.prod(np.shape(edge_index)), "edge_index")
        edges = as_edge_index(edge_index)
        if num_nodes is not None:
            number = np.asarray(num_nodes)
            given = check_num_nodes(number.item() if number.size == 1 else num_nodes)
            return _Graph(edges, given, None, left_out)
        count = int(edges.max(initial=-1)) + 1
        if count > 10**6 and count > 10 * len(np.unique(edges)):
            raise RequestError(
                f"the largest node id is {count - 1}, but only {len(np.unique(edges))} nodes have "
                "an edge. Give num_nodes if the others are nodes too; otherwise renumber them: "
                "_, edge_index = np.unique(edge_index, return_inverse=True), then reshape(2, -1).",
                code="graph.node_id",
            )
        return _Graph(edges, count, None, left_out)
    except (TypeError, ValueError) as error:
        raise GraphFileError(f"{path}: {error}") from error


def _from_matrix(path: Path, arrays: Mapping[str, NDArray[Any]]) -> _Graph:
    """Read an adjacency matrix; compiled code of scipy follows its index arrays unchecked."""
    from scipy import sparse

    for name in ("indptr", "indices", "row", "col", "offsets"):
        if name in arrays and (arrays[name].dtype.kind not in "iu" or arrays[name].ndim != 1):
            raise GraphFileError(f"{path}: {name} is not a row of integers.")
    if "indptr" in arrays and arrays["indptr"][-1:].tolist() != [len(arrays.get("indices", ()))]:
        raise GraphFileError(f"{path}: indptr does not end at the number of indices.")
    try:
        with path.open("rb") as file:
            matrix = sparse.load_npz(file)
        if "indptr" in arrays:
            matrix.check_format(full_check=True)
        matrix = matrix.tocoo()
        edges = np.stack([matrix.row, matrix.col]).astype(np.int64)[:, matrix.data != 0]
        weighted = bool((matrix.data[matrix.data != 0] != 1).any())
    except Exception as error:  # Damage can surface anywhere in scipy's checks.
        raise GraphFileError(
            f"{path} is not a sparse matrix that scipy reads ({error})."
        ) from error
    if matrix.shape[0] != matrix.shape[1]:
        raise GraphFileError(
            f"{path} holds a matrix of {matrix.shape[0]} x {matrix.shape[1]}; an adjacency matrix "
            "is square."
        )
    return _Graph(edges, int(matrix.shape[0]), None, ["the matrix's values"] if weighted else [])


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
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                sizes = [each.file_size for each in archive.infolist()]
            require_memory(path, sum(sizes), "its content")
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
    except (DataError, MemoryError):
        raise
    except Exception as error:  # Damage can surface anywhere in torch's unpickler.
        raise unreadable from error
    return True, _graphs_of(path, content)


_NODE_ROWS = (
    *("x", "pos", "feat", "batch", "node_type", "node_labels", "node_attributes"),
    *("train_mask", "val_mask", "test_mask"),
)
"""What has a row for each node, in PyG's data and in our npz files."""


def _graphs_of(path: Path, content: Any, depth: int = 0) -> list[_Graph]:
    """Extract the graphs of a tensor, a mapping, PyG's Data, a list of these, or a saved set."""
    from torch import Tensor
    from torch_geometric.data import Data

    if isinstance(content, tuple) and len(content) in (2, 3) and isinstance(content[1], Mapping):
        return _graphs_of_set(path, content[0], content[1])
    if isinstance(content, list | tuple) and depth < 3:
        return [graph for each in content for graph in _graphs_of(path, each, depth + 1)]
    values: Mapping[Any, Any] = {"edge_index": content}
    if isinstance(content, Data):
        values = content.to_dict()
    elif isinstance(content, Mapping):
        values = content
    edges = values.get("edge_index")
    if not isinstance(edges, Tensor):
        raise GraphFileError(
            f"{path} holds {type(content).__name__} without a tensor edge_index; needed is PyG's "
            "Data, a mapping with edge_index, a tensor [2, E], or a list of these."
        )
    there = {k: v for k, v in values.items() if isinstance(v, Tensor) and v.dim()}
    sizes: dict[str, Any] = {key: len(there[key]) for key in _NODE_ROWS if key in there}
    if values.get("num_nodes") is not None:
        sizes["num_nodes"] = values["num_nodes"]
    left_out = [str(k) for k, v in values.items() if v is not None]
    return [_from_tensor(path, edges, sizes, left_out)]


def _from_tensor(path: Path, edges: Any, sizes: Mapping[str, Any], keys: Collection[str]) -> _Graph:
    """Read a tensor of edges; everything that tells the number of nodes must agree."""
    numbers = {str(getattr(size, "tolist", lambda size=size: size)()) for size in sizes.values()}
    if len(numbers) > 1:
        told = ", ".join(f"{size} by {key}" for key, size in sizes.items())
        raise GraphFileError(f"{path}: the number of nodes is {told}; these must agree.")
    try:
        require_memory(path, 8 * edges.numel(), "edge_index")
        array = edges.detach().numpy()
    except (TypeError, RuntimeError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise GraphFileError(f"{path}: edge_index is not a plain tensor ({error}).") from error
    others = [key for key in keys if key not in ("edge_index", "num_nodes")]
    return _from_arrays(path, array, next(iter(sizes.values()), None), others)


def _graphs_of_set(path: Path, data: Any, slices: Mapping[str, Any]) -> list[_Graph]:
    """Extract the graphs saved by PyG's InMemoryDataset: all in one, with slices."""
    from torch import Tensor

    values = data if isinstance(data, Mapping) else getattr(data, "to_dict", dict)()
    edges = values.get("edge_index")
    if not isinstance(edges, Tensor) or edges.dim() != 2 or "edge_index" not in slices:
        raise GraphFileError(f"{path} is a saved data set without edge_index.")
    bounds = _bounds(path, "edge_index", slices["edge_index"], edges.shape[1])
    count = len(bounds) - 1
    sizes: list[dict[str, Any]] = [{} for _ in range(count)]
    rows = {
        key: _bounds(path, key, slices[key], len(values[key]))
        for key in _NODE_ROWS
        if key in slices and isinstance(values.get(key), Tensor) and values[key].dim()
    }
    told = {key: [end - begin for begin, end in pairwise(ends)] for key, ends in rows.items()}
    for key in ("num_nodes", "_num_nodes"):
        if isinstance(values.get(key), list | Tensor):
            told["num_nodes"] = [int(number) for number in values[key]]
    for key, numbers in told.items():
        if len(numbers) != count:
            raise GraphFileError(
                f"{path}: the slices of edge_index are of {count} graphs, but {key} of "
                f"{len(numbers)}."
            )
        for size, number in zip(sizes, numbers, strict=True):
            size[key] = number
    keys = [str(key) for key, value in values.items() if value is not None and key != "_num_nodes"]
    return [
        _from_tensor(path, edges[:, begin:end], size, keys)
        for (begin, end), size in zip(pairwise(bounds), sizes, strict=True)
    ]


def _bounds(path: Path, key: str, slices: Any, end: int) -> list[int]:
    """Return where the part of each graph begins and ends; refuse slices that leave rows out."""
    try:
        bounds = [int(i) for i in slices]
    except (TypeError, ValueError, RuntimeError):
        bounds = []
    if len(bounds) < 2 or bounds[0] != 0 or bounds[-1] != end or bounds != sorted(bounds):
        raise GraphFileError(
            f"{path}: the slices of {key} must rise from 0 to its {end} columns or rows, so that "
            "each belongs to one graph."
        )
    return bounds


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
