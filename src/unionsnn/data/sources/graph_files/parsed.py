"""One graph as parsed from a file, and the memory that it may take."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unionsnn.base.errors import GraphFileError
from unionsnn.base.memory import free_bytes
from unionsnn.base.words import format_bytes
from unionsnn.data.arrays import IntArray


@dataclass(frozen=True, eq=False)
class ParsedGraph:
    """One graph as read from a file.

    Attributes:
        edges: Edges as the file lists them.
        num_nodes: Number of nodes.
        names: Names of the nodes, if there are any.
        left_out: What else the file holds, which is not read.
        edge_features: Tables of whole or real numbers with a row for each edge, by name.

    Shapes:
        edges [2, E]; names [N]; edge_features [E, k] each.
    """

    edges: IntArray
    num_nodes: int
    names: Sequence[str] | None = None
    left_out: Collection[str] = ()
    edge_features: Mapping[str, NDArray[Any]] = field(default_factory=dict)


def number_column(texts: Sequence[str], where: Sequence[str], name: str) -> NDArray[Any]:
    """Read one number of each edge: integers, or real numbers if one is not written as integer.

    Args:
        texts: The numbers as written.
        where: Where each of them is written, for messages.
        name: Name of the column, for messages.

    Shapes:
        -> [E, 1], int64 or float64.

    Raises:
        GraphFileError: One is not a number.
    """
    numbers = [_number(text) for text in texts]
    wrong = next((i for i, number in enumerate(numbers) if number is None), None)
    if wrong is not None:
        raise GraphFileError(
            f"{where[wrong]}: {name} is {texts[wrong][:40]!r}, but features of edges are numbers. "
            "Number the categories from 0, or delete the column.",
            code="data.edge_features",
        )
    dtype = np.int64 if all(isinstance(number, int) for number in numbers) else np.float64
    try:
        return np.array(numbers, dtype=dtype)[:, None]
    except OverflowError as error:
        raise GraphFileError(
            f"{where[0]} and others: the numbers of {name} are too large.",
            code="data.edge_features",
        ) from error


def _number(text: str) -> float | None:
    """Return a number as it is written, whole or real; None if it is none."""
    # Python reads 1_0 as 10, and digits of all scripts.
    for kind in (int, float) if "_" not in text and text.isascii() else ():
        with suppress(ValueError):
            return kind(text)
    return None


def joined_features(
    graphs: Iterable[tuple[str, int, Mapping[str, NDArray[Any]]]],
) -> dict[str, NDArray[Any]]:
    """Join the features of the edges of several graphs.

    Args:
        graphs: Of each graph its name for messages, its number of edges, and its tables.

    Shapes:
        [E_g, k] each -> [E_1 + ... + E_G, k] each.

    Raises:
        GraphFileError: Graphs with edges do not all have the same tables of the same widths.
    """
    filled = [(name, tables) for name, count, tables in graphs if count]
    if not filled:
        return {}
    first, wanted = filled[0][0], _described(filled[0][1])
    for name, tables in filled[1:]:
        if _described(tables) != wanted:
            raise GraphFileError(
                f"the edges of {first} have {wanted or 'no features'}, but those of {name} "
                f"{_described(tables) or 'none'}; all edges need the same.",
                code="data.edge_features",
            )
    return {key: np.concatenate([tables[key] for _, tables in filled]) for key in filled[0][1]}


def _described(tables: Mapping[str, NDArray[Any]]) -> str:
    wide = {key: f" ({table.shape[1]} columns)" for key, table in tables.items()}
    return ", ".join(key + ("" if tables[key].shape[1] == 1 else wide[key]) for key in tables)


def require_memory(path: Path, needed: int, what: str) -> None:
    """Refuse what would not fit into memory, before it is allocated.

    Raises:
        GraphFileError: It would not fit.
    """
    free = free_bytes()
    if needed > free:
        raise GraphFileError(
            f"{path}: {what} would take {format_bytes(needed)} of memory, but "
            f"{format_bytes(free)} are free.",
            code="data.memory",
        )


def as_edges(pairs: Iterable[tuple[int, int]]) -> IntArray:
    """Return pairs of nodes as an array.

    Shapes:
        -> [2, E].
    """
    return np.array(list(pairs), dtype=np.int64).reshape(-1, 2).T
