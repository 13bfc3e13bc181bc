"""Files of other formats whose lines could pass for edges."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from unionsnn.base.errors import GraphFileError

_ARROWS = {"->", "--", "<-", "<->", "<--", "-->", "=>", "\u2192", "\u2194"}
_BITS = {"0", "1", "0.0", "1.0"}


class LookAlikes:
    """What lines of three and more columns are together, where no list of edges looks like it."""

    def __init__(self) -> None:
        self._lines = 0
        self._arrows = self._marks = True
        self._matrix: list[list[str]] | None = []
        self._neighbors: dict[str, list[str]] | None = {}

    def add(self, fields: Sequence[str]) -> None:
        """Look at one line."""
        self._lines += 1
        if self._arrows:
            self._arrows = len(fields) > 2 and fields[1] in _ARROWS
        if self._marks:
            self._marks = (
                len(fields) > 2 and fields[0] == "e" and all(f.isdecimal() for f in fields[1:3])
            )
        if self._matrix is not None:
            self._matrix.append(list(fields))
            if not 3 <= len(fields) >= len(self._matrix) or not _BITS.issuperset(fields):
                self._matrix = None
        if self._neighbors is not None:
            if len(fields) < 3 or fields[0] in self._neighbors:
                self._neighbors = None
            else:
                self._neighbors[fields[0]] = list(fields[1:])

    def check(self, path: Path) -> None:
        """Refuse the file if its lines are certainly no edges.

        Raises:
            GraphFileError: They are not; says what they are.
        """
        fault = ""
        if not self._lines:
            return
        if self._arrows:
            fault = "has an arrow in the second column of every line; leave the arrows out"
        elif self._marks and path.suffix.lower() not in (".csv", ".tsv"):
            fault = (
                "has lines 'e 1 2', as DIMACS writes edges; leave the e out. If e is a node, write "
                "commas between the columns and call the file .csv"
            )
        elif self._is_matrix():
            fault = (
                "is a square table of 0 and 1, an adjacency matrix; write it with "
                "scipy.sparse.save_npz('graph.npz', scipy.sparse.csr_matrix(matrix))"
            )
        elif self._lists_neighbors():
            fault = (
                "has a line for each node with all of its neighbors; read it with "
                "networkx.read_adjlist and write networkx.write_edgelist(graph, 'graph.edgelist', "
                "data=False)"
            )
        if fault:
            raise GraphFileError(f"{path} {fault}. Edge lists have two node names per line.")

    def _is_matrix(self) -> bool:
        rows = self._matrix
        if not rows or len(rows) != len(rows[0]):
            return False
        # Two nodes have four edges at most.
        transposed = [list(column) for column in zip(*rows, strict=True)]
        return len(rows) > 4 or rows == transposed

    def _lists_neighbors(self) -> bool:
        lists = self._neighbors
        # Three lines could also be a triangle with weights.
        if not lists or len(lists) < 4:
            return False
        others = {node: set(listed) - {node} for node, listed in lists.items()}
        return all(
            len(others[node]) == len(lists[node])
            and all(node in others.get(other, ()) for other in others[node])
            for node in others
        )
