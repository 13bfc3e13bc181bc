"""Edges of several graphs as arrays: simplified, cut by graph, and joined to a set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unionsnn.base.errors import DataError
from unionsnn.data.arrays import GraphArrays, IntArray


def slices(counts: ArrayLike) -> IntArray:
    """Return the slices of consecutive ranges with given lengths.

    Shapes:
        counts [G] -> [G + 1].
    """
    return np.concatenate([[0], np.cumsum(np.asarray(counts, dtype=np.int64))]).astype(np.int64)


def simple_edges(edge_index: NDArray[Any], num_nodes: int) -> tuple[IntArray, IntArray]:
    """Drop loops and repeats, then sort by (sender, receiver).

    Args:
        edge_index: Directed edges.
        num_nodes: Number of nodes.

    Returns:
        The edges, and the first column of each in the input.

    Shapes:
        edge_index [2, E] -> [2, E'], [E'].
    """
    edges = np.asarray(edge_index, dtype=np.int64)
    codes = edges[0] * num_nodes + edges[1]
    if (edges[0] != edges[1]).all() and (np.diff(codes) > 0).all():
        return edges, np.arange(edges.shape[1])
    keep = np.flatnonzero(edges[0] != edges[1])
    codes, first = np.unique(codes[keep], return_index=True)
    return np.stack(np.divmod(codes, max(num_nodes, 1))), keep[first]


def one_way_edges(edge_index: IntArray, num_nodes: int) -> IntArray:
    """Return the columns of edges without a reverse edge.

    Shapes:
        edge_index [2, E] -> [F].
    """
    there = edge_index[0] * num_nodes + edge_index[1]
    back = edge_index[1] * num_nodes + edge_index[0]
    if np.array_equal(np.sort(there), np.sort(back)):
        return np.empty(0, dtype=np.int64)
    return np.flatnonzero(~np.isin(back, there))


def both_ways(edge_index: NDArray[Any]) -> IntArray:
    """Return all edges followed by all reversed edges.

    Shapes:
        edge_index [2, E] -> [2, 2 E].
    """
    edges = np.asarray(edge_index, dtype=np.int64)
    return np.concatenate([edges, edges[::-1]], axis=1)


def cut_by_graph(union: IntArray, node_slices: IntArray) -> tuple[IntArray, IntArray]:
    """Number the nodes within each graph, and return the slices of the graphs' edges.

    Args:
        union: Edges sorted by sender, with global node numbers.
        node_slices: Where each graph's nodes begin and end.

    Shapes:
        union [2, E], node_slices [G + 1] -> [2, E], [G + 1].
    """
    graph = np.searchsorted(node_slices, union[0], side="right") - 1
    counts = np.bincount(graph, minlength=len(node_slices) - 1)
    return np.ascontiguousarray(union - node_slices[graph]), slices(counts)


def united(edges: Sequence[IntArray], node_slices: IntArray) -> IntArray:
    """Join the edges of several graphs, with global node numbers.

    Shapes:
        edges G times [2, E_g], node_slices [G + 1] -> [2, E].
    """
    if not edges:
        return np.empty((2, 0), dtype=np.int64)
    first = np.repeat(node_slices[:-1], [part.shape[1] for part in edges])
    return np.concatenate(edges, axis=1).astype(np.int64) + first


def graphs_of_edges(
    edges: Sequence[IntArray],
    node_slices: IntArray,
    names: Sequence[str],
    *,
    remedy: str = "data.symmetrize=true",
    **arrays: Any,
) -> GraphArrays:
    """Make a set of graphs from their edges without loops and repeats; refuse one-way edges.

    Args:
        edges: Edges of each graph, with nodes from 0.
        node_slices: Where each graph's nodes begin and end.
        names: Name of each graph, for messages.
        remedy: What to type if edges are undirected.
        arrays: Further fields of `GraphArrays`.
    """
    union = united(edges, node_slices)
    simple, _ = simple_edges(union, int(node_slices[-1]))
    lonely = one_way_edges(simple, int(node_slices[-1]))
    if len(lonely):
        edge = simple[:, lonely[0]]
        graph = int(np.searchsorted(node_slices, edge[0], side="right")) - 1
        local = (edge - node_slices[graph]).tolist()
        raise DataError(
            f"{names[graph]}: edge {local} has no edge back ({len(lonely)} such edges); type "
            f"{remedy} if edges are undirected",
            code="data.one_way",
        )
    edge_index, edge_slices = cut_by_graph(simple, node_slices)
    return GraphArrays(
        edge_index=edge_index, node_slices=node_slices, edge_slices=edge_slices, **arrays
    )
