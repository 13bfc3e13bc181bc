"""The paper's theorems, checked on every connected graph of a few nodes.

Theorem 1 (Xu et al., AAAI 2024): nodes whose union subgraphs are isomorphic have isomorphic overlap
subgraphs; not conversely. Nodes i and j are isomorphic in a kind of subgraph if a bijection of
their neighbours maps the subgraph of each edge (i, v) to an isomorphic one of (j, u). Theorem 3:
the coefficient tells more apart than 1-WL.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unionsnn.base.errors import RequestError
from unionsnn.expressivity.bench import Bench
from unionsnn.expressivity.color_refinement import GraphUnion, edge_colors, graph_classes, refine
from unionsnn.expressivity.edge_colorings import EdgeColoring
from unionsnn.expressivity.fingerprints import fingerprints
from unionsnn.expressivity.graph_sets import Family

BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]

MAX_NODES = 8
"""Maximum number of nodes: a canonical form tries all orders in the worst case."""

NUM_CONNECTED = (1, 1, 2, 6, 21, 112, 853, 11117)
"""Connected graphs of 1, 2, ... nodes (OEIS A001349)."""

THEOREM_ONE_NODES = 7
"""Maximum number of nodes of the graphs on which theorem 1 is checked."""

FAILING = ("1wl", "a~", "a", "spectrum", "rooted", "a@2", "spectrum@2", "rooted@2")
"""Choices whose smallest failures are searched for."""

APPENDIX_PAIR = ("GMo`?K", "GhCK@K")
"""Two squares joined by an edge, and an 8-cycle with its long chord, in graph6.

The smallest pair like that of appendix A: 2 and 0 cycles of length 4; 1-WL, overlap and union minus
do not tell them apart, union does. Among connected graphs of up to 8 nodes no pair has fewer edges.
"""

KINDS = ("union", "overlap", "union_minus")
"""Kinds of subgraphs around an edge."""


def connected_graphs(max_nodes: int) -> list[BoolArray]:
    """Return the adjacency of all connected graphs of 2 to max_nodes nodes, by size.

    Up to 7 nodes they are networkx's atlas. A graph of 8 nodes extends one of 7 by a node, since a
    connected graph has a node whose deletion keeps it connected; of those that colour refinement
    with rooted fingerprints at radius 2 does not tell apart one is kept, and their number is
    checked.

    Raises:
        RequestError: max_nodes exceeds 8.
    """
    import networkx

    if max_nodes > MAX_NODES:
        raise RequestError(
            f"max_nodes is {max_nodes}; allowed: 2 to {MAX_NODES}.", code="expressivity.max_nodes"
        )
    graphs = [
        networkx.to_numpy_array(graph).astype(bool)
        for graph in networkx.graph_atlas_g()
        if 2 <= len(graph) <= max_nodes and networkx.is_connected(graph)
    ]
    return graphs + _extended([g for g in graphs if len(g) == 7]) if max_nodes == 8 else graphs


def _extended(graphs: list[BoolArray]) -> list[BoolArray]:
    """Return all connected graphs with one more node, from all connected graphs of n nodes."""
    size = len(graphs[0])
    candidates = []
    for graph in graphs:
        for subset in range(1, 1 << size):
            neighbors = (subset >> np.arange(size)) & 1 == 1
            larger = np.zeros((size + 1, size + 1), bool)
            larger[:size, :size] = graph
            larger[size, :size] = larger[:size, size] = neighbors
            candidates.append(larger)
    union = GraphUnion.of([(np.argwhere(graph).T, size + 1) for graph in candidates])
    values = union.graph.to_directed(fingerprints(union.graph, "rooted", (2,)).astype(np.float64))
    colors, _ = edge_colors(values, np.zeros(len(values), np.int64))
    _, first = np.unique(graph_classes(union, refine(union, colors)), return_index=True)
    if len(first) != NUM_CONNECTED[size]:
        raise AssertionError(f"{len(first)} graphs found, {NUM_CONNECTED[size]} exist")
    return [candidates[i] for i in sorted(first)]


def canonical_form(adjacency: BoolArray, marks: IntArray) -> bytes:
    """Return the same bytes for two graphs exactly if an isomorphism preserves the marks.

    The smallest adjacency matrix over all orders of the nodes that sort their invariants: mark,
    degree, and the degrees and marks of the neighbours.

    Args:
        adjacency: Symmetric, without loops.
        marks: A small number for each node.

    Shapes:
        adjacency [n, n], marks [n].

    Raises:
        RequestError: The graph has more than `MAX_NODES` nodes.
    """
    if len(marks) > MAX_NODES:
        raise RequestError(
            f"A graph of {len(marks)} nodes has no canonical form here; allowed: {MAX_NODES}.",
            code="expressivity.max_nodes",
        )
    return _form(len(marks), adjacency.tobytes(), np.asarray(marks, np.int64).tobytes())


@lru_cache(maxsize=1 << 16)
def _form(size: int, edges: bytes, marked: bytes) -> bytes:
    adjacency = np.frombuffer(edges, np.bool_).reshape(size, size)
    marks = np.frombuffer(marked, np.int64)
    degrees = adjacency.sum(axis=1)
    of_node = list(zip(marks.tolist(), degrees.tolist(), strict=True))
    keys = [
        (of_node[i], sorted(of_node[j] for j in np.flatnonzero(adjacency[i]))) for i in range(size)
    ]
    order = sorted(range(size), key=keys.__getitem__)
    cells = [list(cell) for _, cell in itertools.groupby(order, key=keys.__getitem__)]
    permutations = itertools.product(*(itertools.permutations(cell) for cell in cells))
    orders = np.array([list(itertools.chain(*parts)) for parts in permutations], np.int64).reshape(
        -1, size
    )
    above = np.triu_indices(size, 1)
    bits = adjacency[orders[:, above[0]], orders[:, above[1]]]
    codes = np.packbits(bits, axis=1)
    best = min(row.tobytes() for row in codes) if codes.shape[1] else b""
    return bytes([size]) + marks[order].astype(np.uint8).tobytes() + best


def substructure(adjacency: BoolArray, v: int, u: int, kind: str) -> tuple[BoolArray, IntArray]:
    """Extract the radius-1 substructure of an edge from a graph.

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
    """Return the canonical form of the substructure of an edge.

    Args:
        adjacency: Of the graph.
        v: One end of the edge.
        u: The other.
        kind: One of `KINDS`.
        rooted: Whether an isomorphism must map v to v and u to u.
    """
    inside, nodes = substructure(adjacency, v, u, kind)
    marks = np.where(nodes == v, 2, np.where(nodes == u, 1, 0)) * rooted
    return canonical_form(inside, marks)


@dataclass(frozen=True)
class NodePair:
    """Two nodes of the same or different graphs.

    Attributes:
        graphs: Indices of the graphs.
        nodes: The node in each.
    """

    graphs: tuple[int, int]
    nodes: tuple[int, int]


class Census:
    """Isomorphism classes of the substructures of all edges of some graphs of up to 8 nodes.

    Args:
        adjacencies: Of the graphs, without loops.
    """

    def __init__(self, adjacencies: Sequence[BoolArray]) -> None:
        self.adjacencies = tuple(adjacencies)
        self.union = GraphUnion.of([(np.argwhere(a).T, len(a)) for a in adjacencies])

    def forms(self, kind: str, *, rooted: bool) -> IntArray:
        """Return the class of the substructure of each directed edge (u, v) with receiver v.

        Args:
            kind: One of `KINDS`.
            rooted: Whether an isomorphism must map the edge to the edge.

        Shapes:
            -> [E].
        """
        seen: dict[bytes, int] = {}
        owner, first = self.union.graph_of_edge, self.union.node_slices
        classes = np.empty(len(owner), np.int64)
        for e, (g, u, v) in enumerate(zip(owner, *self.union.edge_index, strict=True)):
            form = edge_form(self.adjacencies[g], v - first[g], u - first[g], kind, rooted=rooted)
            classes[e] = seen.setdefault(form, len(seen))
        return classes

    def node_multisets(self, forms: IntArray) -> list[bytes]:
        """Return the multiset of the classes around each node."""
        starts = self.union.graph.indptr
        parts = np.split(forms, starts[1:-1])
        return [np.sort(part).tobytes() for part in parts]

    def implication_failures(
        self, premise: Sequence[bytes], conclusion: Sequence[bytes]
    ) -> list[NodePair]:
        """Return a pair of nodes for each class of the premise with different conclusions.

        The pairs come smallest first, those inside one graph before others of that size.
        """
        seen: dict[bytes, dict[bytes, list[int]]] = {}
        for node, (given, concluded) in enumerate(zip(premise, conclusion, strict=True)):
            seen.setdefault(given, {}).setdefault(concluded, []).append(node)
        failures = [self._smallest(groups.values()) for groups in seen.values() if len(groups) > 1]
        return sorted(failures, key=self._rank)

    def _smallest(self, groups: Iterable[list[int]]) -> NodePair:
        first, second, *_ = groups
        pairs = [self._pair(i, j) for i in first[:50] for j in second[:50]]
        return min(pairs, key=self._rank)

    def _pair(self, i: int, j: int) -> NodePair:
        slices = self.union.node_slices
        g, h = (int(np.searchsorted(slices, node, side="right")) - 1 for node in (i, j))
        return NodePair((g, h), (int(i - slices[g]), int(j - slices[h])))

    def _rank(self, pair: NodePair) -> tuple[int, bool, int]:
        sizes = [len(self.adjacencies[g]) for g in pair.graphs]
        return max(sizes), pair.graphs[0] != pair.graphs[1], sum(sizes)


def theorem_one(census: Census, *, rooted: bool) -> list[NodePair]:
    """Return nodes with isomorphic union subgraphs but non-isomorphic overlap subgraphs.

    Args:
        census: The graphs.
        rooted: Whether an isomorphism of union subgraphs must map the edge to the edge.
    """
    union = census.node_multisets(census.forms("union", rooted=rooted))
    return census.implication_failures(
        union, census.node_multisets(census.forms("overlap", rooted=False))
    )


def theorem_one_converse(census: Census) -> list[NodePair]:
    """Return nodes with isomorphic overlap subgraphs but non-isomorphic union subgraphs."""
    overlap = census.node_multisets(census.forms("overlap", rooted=False))
    return census.implication_failures(
        overlap, census.node_multisets(census.forms("union", rooted=False))
    )


def coarser_pairs(classes: IntArray, other: IntArray) -> int:
    """Count the classes whose graphs the other partition separates."""
    together = np.unique(np.stack([classes, other]), axis=1)
    return int((np.bincount(together[0]) > 1).sum())


def one_wl_classes(union: GraphUnion) -> IntArray:
    """Return the class of each graph by 1-WL without colours."""
    return graph_classes(union, refine(union, np.zeros(union.edge_index.shape[1], np.int64)))


def collisions(classes: IntArray, sizes: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the two smallest graphs of each class of several, smallest pair first.

    Args:
        classes: Class of each graph.
        sizes: Numbers of nodes and edges of each.

    Shapes:
        classes [G].
    """
    members: dict[int, list[int]] = {}
    for graph in sorted(range(len(classes)), key=lambda g: (sizes[g], g)):
        members.setdefault(int(classes[graph]), []).append(graph)
    pairs = [(group[0], group[1]) for group in members.values() if len(group) > 1]
    return sorted(pairs, key=lambda pair: (sizes[pair[1]], pair))


def four_cycles(adjacency: BoolArray) -> int:
    """Count the 4-cycles: half of Σ over pairs of nodes of (common neighbours choose 2)."""
    common = np.triu(adjacency.astype(np.int64) @ adjacency.astype(np.int64), 1)
    return int((common * (common - 1) // 2).sum()) // 2


def graph_of(text: str) -> BoolArray:
    """Read the adjacency of a graph in graph6."""
    import networkx

    return np.asarray(networkx.to_numpy_array(networkx.from_graph6_bytes(text.encode()))) > 0


def text_of(adjacency: BoolArray) -> str:
    """Write a graph in graph6."""
    import networkx

    graph = networkx.from_numpy_array(adjacency)
    return str(networkx.to_graph6_bytes(graph, header=False).decode().strip())


def as_family(name: str, adjacencies: Sequence[BoolArray]) -> Family:
    """Make a family of adjacency matrices."""
    return Family(name, name, tuple((np.argwhere(a).T, len(a)) for a in adjacencies))


def check_theorems(max_nodes: int) -> dict[str, Any]:
    """Check the theorems on all connected graphs up to a size; graphs are in graph6."""
    graphs = connected_graphs(max_nodes)
    census = Census([g for g in graphs if len(g) <= THEOREM_ONE_NODES])
    bench = Bench([as_family("small", graphs)], threads=1)
    classes = {
        name: bench.graph_classes(bench.values(EdgeColoring.parse(name))) for name in FAILING
    }
    sizes = [(len(g), int(g.sum()) // 2) for g in graphs]
    failures = {}
    for name, partition in classes.items():
        pairs = collisions(partition, sizes)
        smallest = [text_of(graphs[g]) for g in pairs[0]] if pairs else None
        failures[name] = {"classes": len(pairs), "pair": smallest}

    def plain(pairs: Sequence[NodePair]) -> list[dict[str, Any]]:
        return [
            {
                "graphs": [text_of(census.adjacencies[g]) for g in pair.graphs],
                "nodes": list(pair.nodes),
            }
            for pair in pairs
        ]

    return {
        "max_nodes": max_nodes,
        "graphs": len(graphs),
        "theorem_1": {
            "graphs": len(census.adjacencies),
            "unrooted": plain(theorem_one(census, rooted=False)),
            "rooted": plain(theorem_one(census, rooted=True)),
            "converse": plain(theorem_one_converse(census)[:1]),
        },
        "theorem_3": {
            name: {
                "coarser": coarser_pairs(partition, classes["1wl"]),
                "finer": coarser_pairs(classes["1wl"], partition),
            }
            for name, partition in classes.items()
            if name != "1wl"
        },
        "smallest_failures": failures,
        "appendix_a": {
            "pair": list(APPENDIX_PAIR),
            "four_cycles": [four_cycles(graph_of(text)) for text in APPENDIX_PAIR],
            "told_apart": appendix_verdicts(),
        },
    }


def appendix_census() -> Census:
    """Return the census of the pair like that of appendix A."""
    return Census([graph_of(text) for text in APPENDIX_PAIR])


def appendix_verdicts() -> dict[str, bool]:
    """Return which edge colours tell that pair apart: none, or the class of each subgraph kind."""
    census = appendix_census()
    told = {"1-WL": bool(np.diff(one_wl_classes(census.union))[0])}
    for kind in ("overlap", "union_minus", "union"):
        nodes = refine(census.union, census.forms(kind, rooted=True))
        told[kind] = bool(np.diff(graph_classes(census.union, nodes))[0])
    return told
