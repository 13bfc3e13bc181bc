"""All connected graphs of a few nodes, each once up to isomorphism."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unionsnn.base.errors import DataError
from unionsnn.expressivity.color_refinement import GraphUnion, edge_colors, graph_classes, refine
from unionsnn.expressivity.determinants import fingerprints

BoolArray = NDArray[np.bool_]

MAX_NODES = 8
NUM_CONNECTED = (1, 1, 2, 6, 21, 112, 853, 11117)
"""Connected graphs of 1, 2, ... nodes (OEIS A001349)."""


def connected_graphs(max_nodes: int) -> list[BoolArray]:
    """Adjacency of all connected graphs of 2 to max_nodes nodes, by numbers of nodes.

    Up to 7 nodes they are networkx's atlas. One of 8 nodes is one of 7 and another node, since a
    connected graph has a node that may be deleted; of those that colour refinement with rooted
    fingerprints at radius 2 does not tell apart one is kept, and their number is checked.

    Raises:
        DataError: More nodes than 8.
    """
    import networkx

    if max_nodes > MAX_NODES:
        raise DataError(
            f"graphs of up to {max_nodes} nodes were asked for; allowed: 2 to {MAX_NODES}"
        )
    graphs = [
        networkx.to_numpy_array(graph).astype(bool)
        for graph in networkx.graph_atlas_g()
        if 2 <= len(graph) <= max_nodes and networkx.is_connected(graph)
    ]
    return graphs + _extended([g for g in graphs if len(g) == 7]) if max_nodes == 8 else graphs


def _extended(graphs: list[BoolArray]) -> list[BoolArray]:
    """All connected graphs with one node more, from all connected graphs of n nodes."""
    size = len(graphs[0])
    found = []
    for graph in graphs:
        for subset in range(1, 1 << size):
            neighbors = (subset >> np.arange(size)) & 1 == 1
            larger = np.zeros((size + 1, size + 1), bool)
            larger[:size, :size] = graph
            larger[size, :size] = larger[:size, size] = neighbors
            found.append(larger)
    union = GraphUnion.of([(np.argwhere(graph).T, size + 1) for graph in found])
    values = union.graph.to_directed(fingerprints(union.graph, "rooted", (2,)).astype(np.float64))
    colors, _ = edge_colors(values, np.zeros(len(values), np.int64))
    _, first = np.unique(graph_classes(union, refine(union, colors)), return_index=True)
    if len(first) != NUM_CONNECTED[size]:
        raise AssertionError(f"{len(first)} graphs found, {NUM_CONNECTED[size]} exist")
    return [found[i] for i in sorted(first)]
