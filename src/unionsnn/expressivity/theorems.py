"""The paper's theorems as measured facts, on every graph of a list.

Theorem 1 (Xu et al., AAAI 2024): nodes whose union subgraphs are isomorphic have isomorphic overlap
subgraphs; not conversely. Nodes i and j are isomorphic in a kind of subgraph if a bijection of
their neighbours carries the subgraph of each edge (i, v) to an isomorphic one of (j, u). Theorem 3:
with the coefficient more is told apart than by 1-WL.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unionsnn.expressivity.canonical import edge_form
from unionsnn.expressivity.color_refinement import GraphUnion, graph_classes, refine

BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class NodePair:
    """Two nodes, each of a graph.

    Attributes:
        graphs: Numbers of the graphs.
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
        """Class of the substructure of each directed edge (u, v), v its receiver.

        Args:
            kind: One of `canonical.KINDS`.
            rooted: Whether an isomorphism must carry the edge to the edge.

        Shapes:
            -> [E].
        """
        seen: dict[bytes, int] = {}
        owner, first = self.union.graph_of_edge, self.union.node_slices
        found = np.empty(len(owner), np.int64)
        for e, (g, u, v) in enumerate(zip(owner, *self.union.edge_index, strict=True)):
            form = edge_form(self.adjacencies[g], v - first[g], u - first[g], kind, rooted=rooted)
            found[e] = seen.setdefault(form, len(seen))
        return found

    def node_multisets(self, forms: IntArray) -> list[bytes]:
        """Multiset of the classes around each node."""
        starts = self.union.graph.indptr
        parts = np.split(forms, starts[1:-1])
        return [np.sort(part).tobytes() for part in parts]

    def implication_failures(
        self, premise: Sequence[bytes], conclusion: Sequence[bytes]
    ) -> list[NodePair]:
        """One pair of nodes for each class of the premise that holds different conclusions.

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
    """Nodes with isomorphic union subgraphs whose overlap subgraphs are not isomorphic.

    Args:
        census: The graphs.
        rooted: Whether an isomorphism of union subgraphs must carry the edge to the edge.
    """
    union = census.node_multisets(census.forms("union", rooted=rooted))
    return census.implication_failures(
        union, census.node_multisets(census.forms("overlap", rooted=False))
    )


def theorem_one_converse(census: Census) -> list[NodePair]:
    """Nodes with isomorphic overlap subgraphs whose union subgraphs are not isomorphic."""
    overlap = census.node_multisets(census.forms("overlap", rooted=False))
    return census.implication_failures(
        overlap, census.node_multisets(census.forms("union", rooted=False))
    )


def coarser_pairs(classes: IntArray, other: IntArray) -> int:
    """Number of classes that hold graphs which the other partition keeps apart."""
    together = np.unique(np.stack([classes, other]), axis=1)
    return int((np.bincount(together[0]) > 1).sum())


def one_wl_classes(union: GraphUnion) -> IntArray:
    """Class of each graph by 1-WL without colours."""
    return graph_classes(union, refine(union, np.zeros(union.edge_index.shape[1], np.int64)))


def collisions(classes: IntArray, sizes: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """For each class of several graphs its two smallest, the smallest such pair first.

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
    """Number of 4-cycles: half of Σ over pairs of nodes of (common neighbours choose 2)."""
    common = np.triu(adjacency.astype(np.int64) @ adjacency.astype(np.int64), 1)
    return int((common * (common - 1) // 2).sum()) // 2
