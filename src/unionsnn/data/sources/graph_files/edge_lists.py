"""Edge lists: a line for each edge, whose first two columns are names of nodes."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from unionsnn.base.errors import GraphFileError
from unionsnn.base.words import is_number
from unionsnn.data.arrays import IntArray
from unionsnn.data.sources.graph_files.look_alikes import LookAlikes
from unionsnn.data.sources.graph_files.parsed import ParsedGraph, number_column

_SEPARATORS = {".csv": ",", ".tsv": "\t", ".edges": None, ".edgelist": None}
"""What separates the columns, by file extension; None is any number of blanks or tabs."""

_HEADERS = {
    *(("source", "target"), ("source", "destination"), ("source", "dest"), ("src", "dst")),
    *(("src", "dest"), ("from", "to"), ("start", "end"), ("head", "tail")),
    *(("fromnode", "tonode"), ("fromid", "toid"), ("fromnodeid", "tonodeid")),
    *(("sourceid", "targetid"), ("sourcenode", "targetnode"), ("sender", "receiver")),
    *(("node1", "node2"), ("id1", "id2"), ("nodeid1", "nodeid2"), ("node1id", "node2id")),
    *(("vertex1", "vertex2"), ("nodea", "nodeb"), ("u", "v"), ("i", "j")),
}
"""Names of the two columns, in lower case without blanks and punctuation."""

_ATTRIBUTES = re.compile(r"\s\{.*\}$")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def read_edge_list(
    path: Path, edge_features: bool = False, header: bool | None = None
) -> tuple[bool, list[ParsedGraph]]:
    """Read two names per line; further columns are features of edges, or left out.

    A header that is told says where the two names stand, if it calls their columns so.
    """
    numbers: dict[str, int] = {}
    ends: list[int] = []
    rows: list[tuple[int, list[str]]] = []
    told: list[str] = []
    begin: list[str] = []
    again = 0
    order = [0, 1]
    others = LookAlikes()
    first, width, left_out = 0, 0, False
    for line, (*fields, more) in _edge_rows(path):
        if header and not told:
            told, first, order = fields, line, _order(path, line, fields)
            width = len(fields) if order[:2] != [0, 1] else 0
            continue
        begin = begin or fields
        if fields == told:
            raise GraphFileError(
                f"{path}, line {line}: this is the header of line {first} again; join files "
                "without the headers of all but the first.",
                code="data.header",
            )
        if ends and fields == begin:
            again = again or line
        if width and len(fields) != width:
            raise GraphFileError(
                f"{path}, line {line}: {' '.join(fields)[:60]!r} has {len(fields)} columns, the "
                f"lines before have {width}."
            )
        # A header may leave out the further columns.
        if ends or header is False or not _is_header(fields):
            width = len(fields)
            others.add(fields)
        left_out |= bool(more) or len(fields) > 2
        if order[:2] != [0, 1]:
            fields = [fields[i] for i in order]
        if edge_features:
            if more:
                raise GraphFileError(
                    f"{path}, line {line}: attributes in braces are not read as features of "
                    "edges; write columns of numbers after the two names, the same on all lines.",
                    code="data.edge_features",
                )
            rows.append((line, fields[2:]))
        first = first or line
        ends += [numbers.setdefault(name, len(numbers)) for name in fields[:2]]
    edges, names = np.array(ends, dtype=np.int64).reshape(-1, 2).T, list(numbers)
    titles = [told[i] for i in order[2:]] if told else []
    if header is None and _begins_with_header(path, first, begin, again, edges, names):
        edges, names = edges[:, 1:] - 2, names[2:]
        (_, titles), rows = rows[0] if rows else (0, []), rows[1:]
    others.check(path)
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
    if edge_features:
        return True, [ParsedGraph(edges, len(names), names, (), _edge_features(path, rows, titles))]
    columns = ("the columns after the second",) if left_out else ()
    return True, [ParsedGraph(edges, len(names), names, columns)]


def _edge_features(
    path: Path, rows: Sequence[tuple[int, list[str]]], titles: Sequence[str]
) -> dict[str, NDArray[Any]]:
    """Return the columns after the second: by the names in a header, or in the order written."""
    count = len(rows[0][1]) if rows else 0
    if len(titles) != count or len(set(titles)) != count:
        titles = [f"column {i + 3}" for i in range(count)]
        order = list(range(count))
    else:
        order = sorted(range(count), key=lambda i: titles[i])
    where = [f"{path}, line {line}" for line, _ in rows]
    return {
        titles[i]: number_column([fields[i] for _, fields in rows], where, titles[i]) for i in order
    }


def _plain(title: str) -> str:
    return re.sub(r"[\W_]", "", title.lower())


def _is_header(fields: Sequence[str]) -> bool:
    return tuple(map(_plain, fields[:2])) in _HEADERS


def _order(path: Path, line: int, titles: Sequence[str]) -> list[int]:
    """Return where the names of source and target stand, by a header, then the other columns.

    Raises:
        GraphFileError: Several columns have such a name, or one has it without the other.
    """
    plain = [_plain(title) for title in titles]
    pairs = [pair for pair in _HEADERS if set(pair) <= set(plain)]
    if ("source", "target") in pairs:
        pairs = [("source", "target")]
    elif tuple(plain[:2]) in pairs:
        pairs = [(plain[0], plain[1])]
    lone = not pairs and ("source" in plain[1:] or "target" in [plain[0], *plain[2:]])
    ends = {"source", "target"}.union(*pairs)
    if len(pairs) > 1 or lone or any(plain.count(word) > 1 for word in ends):
        raise GraphFileError(
            f"{path}, line {line}: the header is {', '.join(titles)[:80]!r}, which leaves open "
            "what columns have the two ends of an edge; call one source and one target.",
            code="data.header",
        )
    chosen = [plain.index(word) for word in pairs[0]] if pairs else [0, 1]
    return [*chosen, *(i for i in range(len(titles)) if i not in chosen)]


def _begins_with_header(
    path: Path, line: int, begin: Sequence[str], again: int, edges: IntArray, names: Sequence[str]
) -> bool:
    """Return whether the first line names the columns.

    It does not if one of its names comes again or both are numbers.

    Args:
        path: The file.
        line: The number of its first line.
        begin: All columns of its first line.
        again: The number of a line that is equal to the first one; 0 for none.
        edges: Both ends of all lines, [2, lines].
        names: The names of the nodes, as they come.

    Raises:
        GraphFileError: It is not certain.
    """
    if not begin:
        return False
    known = _is_header(begin)
    words = {word for pair in _HEADERS for word in pair if len(word) > 1}
    if _plain(begin[0]) in words:
        if edges[1, 0] == 0 and (edges[:, 1:] > 0).all():
            raise _doubtful(path, line, begin, "which come nowhere else,")
        # Node 0 always comes with node 1.
        pair = (edges[0] == 0) & (edges[1] == 1)
        if again and known and ((edges < 2).any(axis=0) == pair).all():
            raise _doubtful(path, line, begin, f"which come again in line {again} alone,")
    if _announces_counts(begin, edges, names):
        raise _doubtful(path, line, begin, "with as many lines below as the last number says,")
    if len(names) < 2 or edges[1, 0] != 1 or (edges[:, 1:] < 2).any():
        return False
    if edges.shape[1] == 1 or all(is_number(name) for name in names[:2]):
        return known
    if known and _order(path, line, begin)[:2] != [0, 1]:
        raise _doubtful(path, line, begin, "with source and target beside them,")
    # Nodes may be called u, v, i and j.
    if known and (len(names[0]) > 1 or all(is_number(name) for name in names[2:])):
        return True
    raise _doubtful(path, line, begin, "which come nowhere else,")


def _announces_counts(begin: Sequence[str], edges: IntArray, names: Sequence[str]) -> bool:
    """Return whether the first line may be the numbers of nodes and edges."""
    if len(begin) > 3 or edges.shape[1] < 3 or not all(_is_count(word) for word in begin):
        return False
    nodes, below = int(begin[0]), int(begin[-1])
    if below != edges.shape[1] - 1 or (len(begin) == 3 and begin[0] != begin[1]):
        return False
    rest = [names[node] for node in np.unique(edges[:, 1:])]
    if not all(map(_is_count, rest)) or (begin[0] != begin[1] and begin[1] in rest):
        return False
    ids = [int(name) for name in rest]
    return max(ids) - (min(ids) > 0) < nodes


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19


def _doubtful(path: Path, line: int, begin: Sequence[str], sign: str) -> GraphFileError:
    return GraphFileError(
        f"{path}, line {line}: {begin[0][:40]!r} and {begin[1][:40]!r}, {sign} "
        "may be the names of the columns or an edge. Type --header or --no-header "
        "(data.header=true or false for data=folder); or call the columns source and target, or "
        "write a line with these names above the first edge.",
        code="data.header",
    )


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
            read: list[str] = []
            rows = csv.reader(
                _kept(lines, read), delimiter=separator, skipinitialspace=True, strict=True
            )
            began = False
            for row in rows:
                text = "".join(read).lstrip()
                read.clear()
                fields = [_bare(field, text) for field in row]
                if not any(fields) and len(fields) < 2:
                    continue
                if doubtful and text.startswith(("#", "%")):
                    _check_comment(path, rows.line_num, " ".join(fields), began)
                    continue
                began = True
                if len(fields) < 2 or not all(field.strip() for field in fields[:2]):
                    raise _no_edge(path, rows.line_num, row)
                if (
                    doubtful
                    and separator == ","
                    and '"' not in text
                    and any(" " in field for field in fields[:2])
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


def _kept(lines: Iterable[tuple[int, str]], read: list[str]) -> Iterator[str]:
    for _, line in lines:
        read.append(line)
        yield line


def _bare(field: str, line: str) -> str:
    """Return a field without the blanks around it; those inside quotes belong to it."""
    quoted = '"' + field.replace('"', '""') + '"'
    return field if quoted in line else field.strip(" \t")


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
        text = line.strip(" \t\r\n")
        if not text:
            continue
        if text[0] in "#%":
            _check_comment(path, number, text, began)
            continue
        began = True
        bare = _ATTRIBUTES.sub("", text)
        # Not at no-break spaces, which may be part of a name.
        fields = re.split("[ \t]+", bare)
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
