"""One graph as parsed from a file, and the memory that it may take."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from unionsnn.base.errors import GraphFileError
from unionsnn.base.memory import format_gigabytes, free_bytes
from unionsnn.data.arrays import IntArray


@dataclass(frozen=True, eq=False)
class ParsedGraph:
    """One graph as read: edges [2, E] and names [N], if there are any; what is not read."""

    edges: IntArray
    num_nodes: int
    names: Sequence[str] | None = None
    left_out: Collection[str] = ()


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


def as_edges(pairs: Iterable[tuple[int, int]]) -> IntArray:
    """Return pairs of nodes as an array.

    Shapes:
        -> [2, E].
    """
    return np.array(list(pairs), dtype=np.int64).reshape(-1, 2).T
