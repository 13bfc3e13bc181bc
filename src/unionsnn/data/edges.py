"""Edges of several graphs as arrays: simplified, cut by graph, and joined to a set."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unionsnn.base.errors import DataError
from unionsnn.data.arrays import GraphArrays, IntArray

logger = logging.getLogger(__name__)


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
    there.sort()
    back.sort()
    if np.array_equal(there, back):
        return np.empty(0, dtype=np.int64)
    return np.flatnonzero(~np.isin(edge_index[1] * num_nodes + edge_index[0], there))


def with_reverses(simple: IntArray, first: IntArray, lonely: IntArray) -> tuple[IntArray, IntArray]:
    """Add the reverse of one-way edges, which has the features of its edge.

    Args:
        simple: Edges, sorted, as `simple_edges` returns them.
        first: The column of each in the input.
        lonely: Those without a reverse edge, as `one_way_edges` returns them.

    Shapes:
        simple [2, E], first [E], lonely [F] -> [2, E + F], [E + F].
    """
    if not len(lonely):
        return simple, first
    both = np.concatenate([simple, simple[::-1, lonely]], axis=1)
    order = np.lexsort(both[::-1])
    return both[:, order], np.concatenate([first, first[lonely]])[order]


def unequal_repeat(
    edge_index: NDArray[Any],
    num_nodes: int,
    simple: IntArray,
    first: IntArray,
    features: NDArray[Any],
) -> tuple[int, int] | None:
    """Find a repeated edge whose features are not those of its first occurrence.

    The two directions of an edge may differ.

    Args:
        edge_index: The edges that `simple_edges` was given.
        num_nodes: Number of nodes.
        simple: What it returned.
        first: What it returned.
        features: A row for each given edge.

    Returns:
        The columns of the repeat and of the first occurrence; None if all agree.

    Shapes:
        edge_index [2, E]; simple [2, E'], first [E']; features [E, k].
    """
    proper = np.flatnonzero(edge_index[0] != edge_index[1])
    if len(proper) == simple.shape[1]:
        return None
    codes = edge_index[0, proper] * num_nodes + edge_index[1, proper]
    original = first[np.searchsorted(simple[0] * num_nodes + simple[1], codes)]
    differ = (features[proper] != features[original]).any(axis=1)
    if not differ.any():
        return None
    at = int(np.argmax(differ))
    return int(proper[at]), int(original[at])


def warn_of_loops(edge_index: NDArray[Any], where: str) -> None:
    """Say that edges from a node to itself are dropped although they have features."""
    loops = int((edge_index[0] == edge_index[1]).sum())
    if loops:
        logger.warning(
            "%s: edges from a node to itself are dropped, with their features (%d)", where, loops
        )


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
    edge_slices = np.searchsorted(union[0], node_slices)
    first = np.repeat(node_slices[:-1], np.diff(edge_slices))
    return np.ascontiguousarray(union - first), edge_slices


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
    **options: Any,
) -> GraphArrays:
    """Make a set of graphs from the edges of each, with nodes from 0: see `graphs_of_union`.

    Shapes:
        edges G times [2, E_g].
    """
    return graphs_of_union(united(edges, node_slices), node_slices, names, **options)


def graphs_of_union(
    union: IntArray,
    node_slices: IntArray,
    names: Sequence[str],
    *,
    symmetrize: bool = False,
    remedy: str = "data.symmetrize=true",
    edge_features: Mapping[str, NDArray[Any]] | None = None,
    **arrays: Any,
) -> GraphArrays:
    """Make a set of graphs from their edges without loops and repeats; refuse one-way edges.

    Args:
        union: Edges of all graphs, with global node numbers.
        node_slices: Where each graph's nodes begin and end.
        names: Name of each graph, for messages.
        symmetrize: Whether to add the reverse of one-way edges.
        remedy: What to type if edges are undirected.
        edge_features: A row for each edge of all graphs, by its name in `GraphArrays`. Those of a
            repeated edge must agree; the two directions of an edge may differ.
        arrays: Further fields of `GraphArrays`.

    Shapes:
        union [2, E]; edge_features [E, k].
    """
    num_nodes = int(node_slices[-1])
    simple, first = simple_edges(union, num_nodes)

    def shown(edge: IntArray) -> tuple[str, list[int]]:
        graph = int(np.searchsorted(node_slices, edge[0], side="right")) - 1
        return names[graph], (edge - node_slices[graph]).tolist()

    for key, rows in (edge_features or {}).items():
        wrong = ~np.isfinite(rows).all(axis=1) if rows.dtype.kind == "f" else (rows < 0).any(axis=1)
        if wrong.any():
            row = int(np.argmax(wrong))
            name, local = shown(union[:, row])
            allowed = "finite" if rows.dtype.kind == "f" else "numbers from 0"
            raise DataError(
                f"{name}: {key} of edge {local} are {rows[row].tolist()}; they must be {allowed}",
                code="data.edge_features",
            )
        repeat = unequal_repeat(union, num_nodes, simple, first, rows)
        if repeat is not None:
            name, local = shown(union[:, repeat[0]])
            given = " and ".join(str(rows[row].tolist()) for row in reversed(repeat))
            raise DataError(
                f"{name}: edge {local} is given more than once, with {key} {given}; give it once, "
                "or with the same values",
                code="data.edge_features",
            )
    if edge_features:
        warn_of_loops(union, names[0] if len(names) == 1 else f"{names[0]} and others")
    lonely = one_way_edges(simple, num_nodes)
    if len(lonely) and not symmetrize:
        name, local = shown(simple[:, lonely[0]])
        raise DataError(
            f"{name}: edge {local} has no edge back ({len(lonely)} such edges); type "
            f"{remedy} if edges are undirected",
            code="data.one_way",
        )
    simple, first = with_reverses(simple, first, lonely)
    edge_index, edge_slices = cut_by_graph(simple, node_slices)
    arrays |= {key: rows[first] for key, rows in (edge_features or {}).items()}
    return GraphArrays(
        edge_index=edge_index, node_slices=node_slices, edge_slices=edge_slices, **arrays
    )
