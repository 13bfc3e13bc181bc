"""Edges of several graphs as arrays: made simple, cut by graph, and put together to a set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unionsnn.base.errors import DataError
from unionsnn.data.arrays import GraphArrays, IntArray


def slices(counts: ArrayLike) -> IntArray:
    """Where each of several consecutive ranges begins and ends.

    Shapes:
        counts [G] -> [G + 1].
    """
    return np.concatenate([[0], np.cumsum(np.asarray(counts, dtype=np.int64))]).astype(np.int64)


def simple_edges(edge_index: NDArray[Any], num_nodes: int) -> tuple[IntArray, IntArray]:
    """Drop loops and repeats, and sort by (sender, receiver).

    Args:
        edge_index: Directed edges.
        num_nodes: How many nodes there are.

    Returns:
        The edges, and the column that each one first stands in.

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
    """Columns of the edges that have no edge back.

    Shapes:
        edge_index [2, E] -> [F].
    """
    there = edge_index[0] * num_nodes + edge_index[1]
    back = edge_index[1] * num_nodes + edge_index[0]
    if np.array_equal(np.sort(there), np.sort(back)):
        return np.empty(0, dtype=np.int64)
    return np.flatnonzero(~np.isin(back, there))


def both_ways(edge_index: NDArray[Any]) -> IntArray:
    """Every edge, then every edge turned round.

    Shapes:
        edge_index [2, E] -> [2, 2 E].
    """
    edges = np.asarray(edge_index, dtype=np.int64)
    return np.concatenate([edges, edges[::-1]], axis=1)


def cut_by_graph(union: IntArray, node_slices: IntArray) -> tuple[IntArray, IntArray]:
    """Number the nodes within each graph, and say where each graph's edges begin and end.

    Args:
        union: Edges sorted by sender, nodes counted through all graphs.
        node_slices: Where each graph's nodes begin and end.

    Shapes:
        union [2, E], node_slices [G + 1] -> [2, E], [G + 1].
    """
    graph = np.searchsorted(node_slices, union[0], side="right") - 1
    counts = np.bincount(graph, minlength=len(node_slices) - 1)
    return np.ascontiguousarray(union - node_slices[graph]), slices(counts)


def united(edges: Sequence[IntArray], node_slices: IntArray) -> IntArray:
    """Join the edges of several graphs, nodes counted through all graphs.

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
    """Make a set of its graphs' edges, loops and repeats dropped; refuse one-way edges by name.

    Args:
        edges: Edges of each graph, its nodes counted from 0.
        node_slices: Where each graph's nodes begin and end.
        names: Name of each graph, for messages.
        remedy: What to type if an edge is meant to go both ways.
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
            f"{remedy} if an edge is meant to go both ways",
            code="data.one_way",
        )
    edge_index, edge_slices = cut_by_graph(simple, node_slices)
    return GraphArrays(
        edge_index=edge_index, node_slices=node_slices, edge_slices=edge_slices, **arrays
    )
