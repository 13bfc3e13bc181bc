"""Rooted subgraphs: the subgraph within some hops of each node."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from unionsnn.base.errors import DataError
from unionsnn.data.arrays import IntArray

PackedArray = NDArray[np.int32]
"""All subgraphs of a set as one array for the cache: see `rooted_subgraphs`."""

COLUMNS = 3
"""Number of columns of a packed array."""

COUNTS = {
    "subgraph_index": "x",
    "subgraph_edge_index": "subgraph_index",
    "subgraph_edge": "edge_index",
}
"""Index attributes, and the attribute whose entries they index in each graph."""

# Maximum index in 32 bits.
_MOST = np.iinfo(np.int32).max
# Number of candidate edges of subgraphs processed together.
_BLOCK = 1 << 21


def rooted_subgraphs(
    edge_index: IntArray,
    node_slices: IntArray,
    hops: int,
    report: Callable[[int, int], None] | None = None,
) -> PackedArray:
    """Make the subgraphs induced on the nodes within some hops of each node.

    Section 3.1 of "Nested Graph Neural Networks" (Zhang and Li, NeurIPS 2021). Hops go along edges
    in either direction. Repeated edges are repeated in the subgraphs too.

    Args:
        edge_index: Edges of all graphs, nodes counted through.
        node_slices: Where each graph's nodes begin and end.
        hops: Maximum distance to the root.
        report: Called with graphs done and the total number of graphs.

    Returns:
        A first row with the numbers of copies, edges and hops. Then a row for each copy, sorted:
        root, node, distance. Then a row for each edge of a subgraph: sender and receiver as global
        copy numbers, and the original edge.

    Shapes:
        edge_index [2, E]; node_slices [G + 1] -> [1 + copies + edges, 3].

    Raises:
        DataError: if there are too many for 32-bit indices.
    """
    count = int(node_slices[-1])
    near = _near(edge_index, count)
    by_sender = np.argsort(edge_index[0], kind="stable")
    degree = np.bincount(edge_index[0], minlength=count)
    first = np.cumsum(degree) - degree
    copies: list[PackedArray] = []
    edges: list[PackedArray] = []
    num_copies = num_edges = 0
    for low, high in _blocks(edge_index, node_slices, hops):
        root, node, distance = _balls(near, low, high, hops)
        # All edges from nodes of a subgraph; those that end in the same subgraph are kept.
        leaving = degree[node]
        copy = np.repeat(np.arange(len(node)), leaving)
        rank = np.arange(len(copy)) - np.repeat(np.cumsum(leaving) - leaving, leaving)
        edge = by_sender[first[node[copy]] + rank]
        key = root * count + node
        wanted = root[copy] * count + edge_index[1, edge]
        place = np.minimum(np.searchsorted(key, wanted), max(len(key) - 1, 0))
        inside = key[place] == wanted
        copies.append(_rows(root, node, distance))
        edges.append(_rows(copy[inside] + num_copies, place[inside] + num_copies, edge[inside]))
        num_copies += len(node)
        num_edges += int(inside.sum())
        if max(num_copies, num_edges) > _MOST:
            raise DataError(
                f"the subgraphs of {hops} hops have more than {_MOST:,} nodes or edges: choose "
                "fewer hops (model.encodings.subgraph), or a set of fewer or smaller graphs",
                code="memory.too_large",
            )
        if report:
            done = np.searchsorted(node_slices[1:], high, side="right")
            report(int(done), len(node_slices) - 1)
    head = np.array([[num_copies, num_edges, hops]], dtype=np.int32)
    return np.concatenate([head, *copies, *edges])


def peak_bytes(edge_index: IntArray, node_slices: IntArray, hops: int) -> int:
    """Return an upper bound on the memory of computing or reading the subgraphs."""
    copies, edges = _bounds(edge_index, node_slices, hops)
    row = COLUMNS * np.dtype(np.int32).itemsize
    # Once in blocks, once as one array, and once unpacked; indices of a block have 8 bytes.
    return int(3 * row * (copies.sum() + edges.sum())) + 8 * 8 * _BLOCK


def _near(edge_index: IntArray, count: int) -> scipy.sparse.csr_array:
    """Return the adjacency with ones on the diagonal, [count, count]."""
    loops = np.arange(count)
    sender = np.concatenate([edge_index[0], edge_index[1], loops])
    receiver = np.concatenate([edge_index[1], edge_index[0], loops])
    ones = np.ones(len(sender), dtype=np.int32)
    near = scipy.sparse.coo_array((ones, (sender, receiver)), shape=(count, count)).tocsr()
    near.sum_duplicates()
    near.data[:] = 1
    return near


def _balls(
    near: scipy.sparse.csr_array, low: int, high: int, hops: int
) -> tuple[IntArray, IntArray, IntArray]:
    """Return sorted root, node and distance of all copies with roots from `low` to `high`."""
    roots = np.arange(low, high)
    ones = np.ones(len(roots), dtype=np.int32)
    shape = (len(roots), near.shape[0])
    ball = scipy.sparse.csr_array((ones, roots, np.arange(len(roots) + 1)), shape=shape)
    times = ball.copy()
    for _ in range(hops):
        ball = ball @ near
        ball.data[:] = 1
        times = times + ball
    times.sort_indices()
    # A node is in the balls of all radii from its distance.
    root = np.repeat(roots, np.diff(times.indptr))
    return root, times.indices.astype(np.int64), hops + 1 - times.data


def _bounds(
    edge_index: IntArray, node_slices: IntArray, hops: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return upper bounds on each root's subgraph nodes, and on the edges that leave them."""
    count = int(node_slices[-1])
    near = _near(edge_index, count).astype(np.float64)
    sizes = np.diff(node_slices)
    degree = np.bincount(edge_index[0], minlength=count).astype(np.float64)
    graph = np.repeat(np.arange(len(sizes)), sizes)
    all_edges = np.bincount(graph, weights=degree, minlength=len(sizes))
    nodes, edges = np.ones(count), degree
    # Lazy walks: at least one to each reachable node.
    for _ in range(hops):
        nodes = np.minimum(near @ nodes, sizes[graph])
        edges = np.minimum(near @ edges, all_edges[graph])
    return nodes, edges


def _blocks(edge_index: IntArray, node_slices: IntArray, hops: int) -> Iterator[tuple[int, int]]:
    """Yield first and last root of blocks processed together."""
    nodes, edges = _bounds(edge_index, node_slices, hops)
    total = np.cumsum(nodes + edges)
    low = 0
    while low < len(total):
        before = total[low - 1] if low else 0.0
        high = max(low + 1, int(np.searchsorted(total, before + _BLOCK, side="right")))
        yield low, high
        low = high


def _rows(*columns: IntArray) -> PackedArray:
    return np.stack(columns, axis=1).astype(np.int32)
