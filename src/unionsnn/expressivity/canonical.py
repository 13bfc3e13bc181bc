"""Isomorphism classes of small graphs around an edge, by a canonical form."""

import itertools
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import numpy.typing as npt

BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int64]

MAX_NODES = 8
"""Most nodes of a graph that has a form here: in the worst case all orders are tried."""

KINDS = ("union", "overlap", "union_minus")


def canonical_form(adjacency: BoolArray, marks: IntArray) -> bytes:
    """Return the same bytes for two graphs exactly if an isomorphism carries marks to equal marks.

    The smallest adjacency matrix over all orders of the nodes that sort their invariants: mark,
    degree, and the degrees and marks of the neighbours.

    Args:
        adjacency: Symmetric, without loops.
        marks: A small number for each node.

    Shapes:
        adjacency [n, n], marks [n].

    Raises:
        ValueError: More than `MAX_NODES` nodes.
    """
    if len(marks) > MAX_NODES:
        raise ValueError(
            f"a graph of {len(marks)} nodes has no canonical form here; allowed: {MAX_NODES}."
        )
    return _form(len(marks), adjacency.tobytes(), np.asarray(marks, np.int64).tobytes())


@lru_cache(maxsize=1 << 16)
def _form(size: int, edges: bytes, marked: bytes) -> bytes:
    adjacency = np.frombuffer(edges, np.bool_).reshape(size, size)
    marks = np.frombuffer(marked, np.int64)
    degrees = adjacency.sum(axis=1)
    own = list(zip(marks.tolist(), degrees.tolist(), strict=True))
    keys = [(own[i], sorted(own[j] for j in np.flatnonzero(adjacency[i]))) for i in range(size)]
    order = sorted(range(size), key=keys.__getitem__)
    cells = [list(cell) for _, cell in itertools.groupby(order, key=keys.__getitem__)]
    orders = np.array(list(_orders(cells)), np.int64).reshape(-1, size)
    above = np.triu_indices(size, 1)
    bits = adjacency[orders[:, above[0]], orders[:, above[1]]]
    codes = np.packbits(bits, axis=1)
    best = min(row.tobytes() for row in codes) if codes.shape[1] else b""
    return bytes([size]) + marks[order].astype(np.uint8).tobytes() + best


def _orders(cells: list[list[int]]) -> Iterator[list[int]]:
    for parts in itertools.product(*(itertools.permutations(cell) for cell in cells)):
        yield [node for part in parts for node in part]


def substructure(adjacency: BoolArray, v: int, u: int, kind: str) -> tuple[BoolArray, IntArray]:
    """Cut the radius-1 substructure of an edge out of a graph.

    Args:
        adjacency: Of the graph.
        v: One end of the edge.
        u: The other.
        kind: One of `KINDS`.

    Shapes:
        adjacency [N, N] -> [n, n], and the chosen nodes [n].
    """
    closed = adjacency | np.eye(len(adjacency), dtype=bool)
    at_v, at_u = closed[v], closed[u]
    nodes = np.flatnonzero(at_v & at_u if kind == "overlap" else at_v | at_u)
    inside = adjacency
    if kind == "union_minus":
        inside = adjacency & (np.outer(at_v, at_v) | np.outer(at_u, at_u))
    return np.ascontiguousarray(inside[np.ix_(nodes, nodes)]), nodes


def edge_form(adjacency: BoolArray, v: int, u: int, kind: str, *, rooted: bool) -> bytes:
    """Canonical form of the substructure of an edge.

    Args:
        adjacency: Of the graph.
        v: One end of the edge.
        u: The other.
        kind: One of `KINDS`.
        rooted: Whether an isomorphism must carry v to v and u to u.
    """
    inside, nodes = substructure(adjacency, v, u, kind)
    marks = np.where(nodes == v, 2, np.where(nodes == u, 1, 0)) * rooted
    return canonical_form(inside, marks)
