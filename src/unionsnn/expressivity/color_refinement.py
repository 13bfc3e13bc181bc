"""Colour refinement (1-WL) of many graphs at once, in which every edge carries a colour.

In each round a node's colour becomes that of (its colour, the multiset of (colour of u, colour of
the edge u -> v) over its neighbours u), until no class splits any more (Weisfeiler and Leman 1968;
with edge colours it bounds what message passing with edge weights can tell apart). Classes are
compared in full, never by a hash alone: the result is exact, given the colours.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from unionsnn.coefficients.graph import SimpleGraph
from unionsnn.coefficients.kernels.jit import kernel
from unionsnn.coefficients.kernels.substructures import mix

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
NodeArray = npt.NDArray[np.int32]

TOLERANCE = 1e-11
"""Numbers of an edge are equal if they differ by at most this, in units of 1 + |value|."""


@dataclass(frozen=True, eq=False)
class GraphUnion:
    """A disjoint union of graphs, with edges in the order of the adjacency's rows.

    Attributes:
        graph: The disjoint union.
        edge_index: Directed edges (u, v): messages to v = 0, 1, ..., senders u ascending.
        node_slices: Where each graph's nodes begin and end.

    Shapes:
        edge_index [2, E], node_slices [G + 1].
    """

    graph: SimpleGraph
    edge_index: IntArray
    node_slices: IntArray

    @classmethod
    def of(cls, graphs: Sequence[tuple[Any, int]]) -> "GraphUnion":
        """Make the disjoint union of graphs.

        Args:
            graphs: edge_index with both directions, and number of nodes of each.

        Raises:
            ValueError: An edge has no reverse, or a node does not exist.
        """
        slices = np.cumsum([0, *(num_nodes for _, num_nodes in graphs)])
        shifted = [
            np.asarray(e).reshape(2, -1) + s for (e, _), s in zip(graphs, slices, strict=False)
        ]
        edges = np.concatenate([np.empty((2, 0), np.int64), *shifted], axis=1).astype(np.int64)
        simple = SimpleGraph.from_edge_index(edges, int(slices[-1]))
        receivers = np.repeat(np.arange(simple.num_nodes), np.diff(simple.indptr))
        ordered = np.stack([simple.indices.astype(np.int64), receivers])
        graph = SimpleGraph.from_edge_index(ordered, simple.num_nodes)
        return cls(graph, ordered, slices)

    @property
    def num_graphs(self) -> int:
        """Number of graphs."""
        return len(self.node_slices) - 1

    @property
    def graph_of_edge(self) -> IntArray:
        """Index of the graph of each directed edge, [E]."""
        owner = np.repeat(np.arange(self.num_graphs), np.diff(self.node_slices))
        return owner[self.edge_index[1]]


@dataclass(frozen=True)
class Margin:
    """How clearly numbers were equal or different, in units of 1 + |value|.

    Attributes:
        equal: The largest difference that counted as equal.
        different: The smallest gap that counted as a difference; None without any.
        exact: Whether the numbers are integers, so that no tolerance was needed.
    """

    equal: float
    different: float | None
    exact: bool

    def __or__(self, other: "Margin") -> "Margin":
        """Return the narrower margin of two."""
        gaps = [m.different for m in (self, other) if m.different is not None]
        return Margin(
            max(self.equal, other.equal), min(gaps, default=None), self.exact and other.exact
        )


def cluster(
    values: npt.NDArray[Any], groups: IntArray, tolerance: float = TOLERANCE
) -> tuple[IntArray, Margin]:
    """Group equal numbers into classes, within each group.

    Sorted numbers of a group belong to different classes if the gap between neighbours exceeds
    tolerance (1 + |value|); integers, if they differ at all. Numbers are compared, never their
    bytes, so -0.0 equals 0.0.

    Args:
        values: The numbers.
        groups: Groups, across which numbers are never compared.
        tolerance: The largest gap that counts as equal.

    Shapes:
        values [E], groups [E] -> [E].

    Raises:
        ValueError: A value is not finite.
    """
    numbers = np.asarray(values, np.float64)
    if not np.isfinite(numbers).all():
        raise ValueError("a number of an edge is not finite, so it has no class.")
    if not len(numbers):
        return np.empty(0, np.int64), Margin(0.0, None, True)
    exact = bool((numbers == np.rint(numbers)).all())
    order = np.lexsort((numbers, groups))
    ordered, group = numbers[order], groups[order]
    same_group = group[1:] == group[:-1]
    gaps = np.diff(ordered) / (1.0 + np.abs(ordered[:-1]))
    apart = gaps > (0.0 if exact else tolerance)
    starts = np.concatenate([[True], ~same_group | apart])
    classes = np.empty(len(numbers), np.int64)
    classes[order] = np.cumsum(starts) - 1
    first = np.flatnonzero(starts)
    last = np.append(first[1:], len(numbers)) - 1
    spread = (ordered[last] - ordered[first]) / (1.0 + np.abs(ordered[first]))
    told = gaps[same_group & apart]
    different = float(told.min()) if len(told) else None
    return classes, Margin(float(spread.max()), different, exact)


def edge_colors(
    values: npt.NDArray[Any], groups: IntArray, tolerance: float = TOLERANCE
) -> tuple[IntArray, Margin]:
    """Make a colour for each row of numbers, equal if all columns are.

    Shapes:
        values [E, C], groups [E] -> [E].
    """
    colors, margin = np.zeros(len(values), np.int64), Margin(0.0, None, True)
    for column in values.T:
        classes, found = cluster(column, groups, tolerance)
        pairs = colors * (classes.max(initial=0) + 1) + classes
        colors = np.unique(pairs, return_inverse=True)[1].reshape(-1)
        margin |= found
    return colors, margin


def refine(union: GraphUnion, colors: IntArray) -> IntArray:
    """Refine the colours of all nodes until they are stable.

    Args:
        union: The graphs.
        colors: Colour of each directed edge (u, v), as seen from v.

    Shapes:
        colors [E] -> [N].
    """
    num_nodes = union.graph.num_nodes
    nodes = np.zeros(num_nodes, np.int64)
    count = 0
    slots = 1 << max(4, (2 * num_nodes).bit_length())
    keys = np.empty(len(colors), np.int64)
    factor = int(colors.max(initial=0)) + 1
    while True:
        table = np.full(slots, -1, np.int64)
        refined = np.empty(num_nodes, np.int64)
        found = _round(
            union.graph.indptr, union.graph.indices, colors, factor, nodes, refined, keys, table
        )
        if found == count:
            return nodes
        nodes, count = refined, found


@kernel
def _round(
    indptr: IntArray,
    indices: NodeArray,
    edge_colors: IntArray,
    factor: int,
    colors: IntArray,
    refined: IntArray,
    keys: IntArray,
    table: IntArray,
) -> int:
    """Refine once; return the number of colours.

    Shapes:
        indptr [N + 1], indices, edge_colors, keys [E], colors, refined [N], table [a power of two,
        at least 2 N], of -1.
    """
    count = 0
    mask = table.shape[0] - 1
    for v in range(colors.shape[0]):
        begin, end = indptr[v], indptr[v + 1]
        for k in range(begin, end):
            keys[k] = colors[indices[k]] * factor + edge_colors[k]
        keys[begin:end].sort()
        digest = mix(colors[v])
        for k in range(begin, end):
            digest = mix(digest ^ keys[k])
        slot = digest & mask
        while table[slot] >= 0:
            other = table[slot]
            if _is_same(indptr, colors, keys, v, other):
                break
            slot = (slot + 1) & mask
        if table[slot] < 0:
            table[slot] = v
            refined[v] = count
            count += 1
        else:
            refined[v] = refined[table[slot]]
    return count


@kernel
def _is_same(indptr: IntArray, colors: IntArray, keys: IntArray, v: int, u: int) -> bool:
    size = indptr[v + 1] - indptr[v]
    if colors[v] != colors[u] or size != indptr[u + 1] - indptr[u]:
        return False
    return np.array_equal(keys[indptr[v] : indptr[v + 1]], keys[indptr[u] : indptr[u + 1]])


def graph_classes(union: GraphUnion, colors: IntArray) -> IntArray:
    """Return the class of each graph, equal if the multisets of node colours are.

    Shapes:
        colors [N] -> [G].
    """
    seen: dict[bytes, int] = {}
    parts = (np.sort(colors[begin:end]) for begin, end in pairwise(union.node_slices.tolist()))
    return np.array([seen.setdefault(part.tobytes(), len(seen)) for part in parts], np.int64)
