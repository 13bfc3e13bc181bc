"""Effects of deletions on the coefficient of a union subgraph: the paper's case study.

The paper (Xu et al., AAAI 2024) claims of the union subgraph S of an edge (v, u) that deleting an
edge of S raises a = Σ σ_i(P), that deleting a node lowers it, and that the effect grows with the
kind of the edge, E1 < E2 < E3 < E4: E1 inside the common nodes N[v] ∩ N[u], E2 between these and
the exclusive nodes of one end, E3 between exclusive nodes of different ends, E4 between exclusive
nodes of the same end.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from unionsnn.coefficients.graph import SimpleGraph

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

KINDS = ("E1", "E2", "E3", "E4")

# A change below this share of a is rounding.
_SAME = 1e-9


@dataclass(frozen=True, eq=False)
class UnionSubgraph:
    """A union subgraph; its nodes 0 and 1 are v and u.

    Attributes:
        adjacency: Symmetric, without loops; every node is next to v or u.

    Shapes:
        adjacency [n, n].
    """

    adjacency: BoolArray

    @property
    def num_nodes(self) -> int:
        """Number of nodes n."""
        return len(self.adjacency)

    def edges(self, *, at_ends: bool) -> IntArray:
        """Edges (i, j), i < j, ascending, with or without those at v or u, [m, 2]."""
        pairs = np.argwhere(np.triu(self.adjacency))
        return pairs if at_ends else pairs[(pairs >= 2).all(axis=1)]

    def kinds(self, edges: IntArray) -> IntArray:
        """Kind of each edge as a position in `KINDS`; v and u are common nodes themselves.

        Shapes:
            edges [m, 2] -> [m].
        """
        closed = self.adjacency[:2] | np.eye(2, self.num_nodes, dtype=bool)
        common = closed.all(axis=0)
        side = np.where(common, 0, np.where(closed[0], 1, 2))
        first, second = side[edges].T
        inside = (first == 0) & (second == 0)
        between = (first == 0) != (second == 0)
        return np.where(inside, 0, np.where(between, 1, np.where(first != second, 2, 3)))

    def names(self) -> list[str]:
        """Readable names: v, u, c1... (common), v1... and u1... (exclusive)."""
        found = ["v", "u"]
        counts = {"c": 0, "v": 0, "u": 0}
        for at_v, at_u in self.adjacency[2:, :2]:
            side = "c" if at_v and at_u else "v" if at_v else "u"
            counts[side] += 1
            found.append(f"{side}{counts[side]}")
        return found


@dataclass(frozen=True, eq=False)
class Deletions:
    """Effects a(S without it) - a(S) of each deletion from one union subgraph.

    Attributes:
        a: The coefficient before.
        edges: The edges deleted one at a time.
        kinds: Their kinds, positions in `KINDS`.
        by_edge: Effect of each; NaN if the rest is disconnected and P is undefined.
        by_node: Effect of deleting each node except v and u.

    Shapes:
        edges [m, 2], kinds [m], by_edge [m], by_node [n - 2].
    """

    a: float
    edges: IntArray
    kinds: IntArray
    by_edge: FloatArray
    by_node: FloatArray


@dataclass(frozen=True)
class Shares:
    """How often deletions raised, kept and lowered a, and by how much on average.

    Attributes:
        cases: Deletions counted.
        raised: Share of them that raised a; None without any, like all that follows.
        kept: Share that left a unchanged.
        lowered: Share that lowered a.
        mean: Mean effect.
    """

    cases: int
    raised: float | None
    kept: float | None
    lowered: float | None
    mean: float | None


@dataclass(frozen=True, eq=False)
class CaseStudy:
    """Deletions from many union subgraphs, taken together.

    Attributes:
        subgraphs: Number of union subgraphs.
        too_large: Union subgraphs left out because they have too many nodes.
        disconnecting: Deletions of edges left out because the rest is disconnected.
        edge: Effects of deleting edges.
        node: Effects of deleting nodes.
        kinds: Effects of deleting edges of each kind.
        with_all_kinds: Subgraphs in which an edge of each kind was deleted.
        ordered: Those of them in which the mean effects rise from E1 to E4.
        effects: Effects of each kind of edge, and of nodes.
    """

    subgraphs: int
    too_large: int
    disconnecting: int
    edge: Shares
    node: Shares
    kinds: dict[str, Shares]
    with_all_kinds: int
    ordered: int
    effects: dict[str, FloatArray]

    @property
    def ordered_overall(self) -> bool:
        """Whether the overall mean effects rise from E1 to E4; False if one is missing."""
        means = [m for kind in KINDS if (m := self.kinds[kind].mean) is not None]
        rising = all(low < high for low, high in pairwise(means))
        return rising and len(means) == len(KINDS)

    def to_dict(self) -> dict[str, Any]:
        """Return everything except the single effects as plain types."""
        return {
            "subgraphs": self.subgraphs,
            "too_large": self.too_large,
            "disconnecting": self.disconnecting,
            "edge": vars(self.edge),
            "node": vars(self.node),
            "kinds": {kind: vars(shares) for kind, shares in self.kinds.items()},
            "with_all_kinds": self.with_all_kinds,
            "ordered": self.ordered,
            "ordered_overall": self.ordered_overall,
        }


def example_subgraph() -> UnionSubgraph:
    """Build a union subgraph of eight nodes with edges of all four kinds."""
    # v u | c1 c2 common | v1 v2 | u1 u2
    edges = [(0, i) for i in (1, 2, 3, 4, 5)] + [(1, i) for i in (2, 3, 6, 7)]
    return _from_edges(8, [*edges, (2, 3), (3, 4), (4, 5), (5, 6), (6, 7)])


def random_subgraphs(
    count: int, *, max_nodes: int, generator: np.random.Generator
) -> Iterator[UnionSubgraph]:
    """Draw union subgraphs of 4 to `max_nodes` nodes.

    The number of nodes is uniform; every node but v and u is common or exclusive to one of the
    ends with equal chances; any two of them are adjacent with a probability that is drawn
    uniformly from 0..1 for each subgraph.

    Args:
        count: Number of subgraphs.
        max_nodes: Maximum number of nodes, at least 4.
        generator: Source of randomness.
    """
    for _ in range(count):
        n = int(generator.integers(4, max_nodes + 1))
        adjacency = np.zeros((n, n), dtype=bool)
        adjacency[2:, 2:] = np.triu(generator.random((n - 2, n - 2)) < generator.random(), 1)
        side = generator.integers(3, size=n - 2)
        adjacency[0, 1] = True
        adjacency[0, 2:] = side != 2
        adjacency[1, 2:] = side != 1
        yield UnionSubgraph(adjacency | adjacency.T)


def real_subgraphs(
    graph: SimpleGraph, count: int, *, max_nodes: int, generator: np.random.Generator
) -> tuple[list[UnionSubgraph], int]:
    """Return the union subgraphs of edges drawn without repetition.

    Args:
        graph: The graph.
        count: Number of edges; all if the graph has fewer.
        max_nodes: Maximum number of nodes of a subgraph.
        generator: Source of randomness.

    Returns:
        The subgraphs, and the number of those left out because they are larger.
    """
    total = graph.num_undirected_edges
    chosen = np.sort(generator.permutation(total)[:count])
    found = []
    for v, u in graph.edges[:, chosen].T.tolist():
        nodes = [v, u, *sorted({*_neighbors(graph, v), *_neighbors(graph, u)} - {v, u})]
        if len(nodes) > max_nodes:
            continue
        rows = np.array(nodes)
        adjacency = np.stack([np.isin(rows, _neighbors(graph, node)) for node in nodes])
        found.append(UnionSubgraph(adjacency))
    return found, len(chosen) - len(found)


def study(
    graph: SimpleGraph | None, *, count: int, max_nodes: int, seed: int, at_ends: bool = False
) -> CaseStudy:
    """Measure deletions from random union subgraphs, or from those of a graph.

    Args:
        graph: Source of the subgraphs; None for random ones.
        count: Number of subgraphs, or of edges of the graph.
        max_nodes: Maximum number of nodes of a subgraph.
        seed: Random seed.
        at_ends: Whether to delete the edges at v or u too.
    """
    generator = np.random.default_rng(seed)
    if graph is None:
        drawn = random_subgraphs(count, max_nodes=max_nodes, generator=generator)
        return measure(drawn, at_ends=at_ends)
    found, too_large = real_subgraphs(graph, count, max_nodes=max_nodes, generator=generator)
    return measure(found, at_ends=at_ends, too_large=too_large)


def delete_each(subgraph: UnionSubgraph, *, at_ends: bool = False) -> Deletions:
    """Delete every edge, and every node except v and u, one at a time.

    Without the edges at v or u (`at_ends` false) the rest is the union subgraph of the smaller
    graph and always connected. Deleting an edge at v or u may disconnect a node; the coefficient is
    then undefined and the effect NaN.

    Args:
        subgraph: The union subgraph S.
        at_ends: Whether to delete the edges at v or u too.
    """
    edges = subgraph.edges(at_ends=at_ends)
    without = np.repeat(subgraph.adjacency[None], len(edges) + 1, axis=0)
    rows = np.arange(len(edges)) + 1
    without[rows, edges[:, 0], edges[:, 1]] = False
    without[rows, edges[:, 1], edges[:, 0]] = False
    a, *after = path_coefficients(without)
    n = subgraph.num_nodes
    kept = np.array([np.delete(np.arange(n), node) for node in range(2, n)], dtype=np.int64)
    kept = kept.reshape(max(n - 2, 0), n - 1)
    smaller = subgraph.adjacency[kept[:, :, None], kept[:, None, :]]
    return Deletions(
        float(a),
        edges,
        subgraph.kinds(edges),
        np.array(after) - a,
        path_coefficients(smaller) - a,
    )


def path_coefficients(adjacency: BoolArray) -> FloatArray:
    """Compute a = Σ |λ(P)| of several graphs of one size; NaN for disconnected ones.

    Shapes:
        adjacency [k, n, n] -> [k].
    """
    n = adjacency.shape[-1]
    step = adjacency.astype(np.float32)
    reached = adjacency | np.eye(n, dtype=bool)
    distance = adjacency.astype(np.float64)
    for length in range(2, n):
        new = (reached.astype(np.float32) @ step > 0) & ~reached
        if not new.any():
            break
        distance[new] = length
        reached |= new
    connected = reached.all(axis=(1, 2))
    result = np.full(len(adjacency), np.nan)
    result[connected] = np.abs(np.linalg.eigvalsh(distance[connected])).sum(axis=-1)
    return result


def measure(
    subgraphs: Iterable[UnionSubgraph], *, at_ends: bool = False, too_large: int = 0
) -> CaseStudy:
    """Delete each edge and node of many union subgraphs and count what happens.

    Args:
        subgraphs: The union subgraphs.
        at_ends: Whether to delete the edges at v or u too.
        too_large: Number of subgraphs left out before.
    """
    studied = [delete_each(subgraph, at_ends=at_ends) for subgraph in subgraphs]
    a = np.array([d.a for d in studied])
    scale_edge = np.repeat(a, [len(d.by_edge) for d in studied])
    scale_node = np.repeat(a, [len(d.by_node) for d in studied])
    by_edge = _joined([d.by_edge for d in studied])
    kinds = _joined([d.kinds for d in studied]).astype(np.int64)
    by_node = _joined([d.by_node for d in studied])
    there = ~np.isnan(by_edge)
    of_kind = [there & (kinds == k) for k in range(len(KINDS))]
    orders = [order for d in studied if (order := _is_ordered(d)) is not None]
    return CaseStudy(
        subgraphs=len(studied),
        too_large=too_large,
        disconnecting=int((~there).sum()),
        edge=_shares(by_edge[there], scale_edge[there]),
        node=_shares(by_node, scale_node),
        kinds={
            kind: _shares(by_edge[rows], scale_edge[rows])
            for kind, rows in zip(KINDS, of_kind, strict=True)
        },
        with_all_kinds=len(orders),
        ordered=sum(orders),
        effects={
            **{kind: by_edge[rows] for kind, rows in zip(KINDS, of_kind, strict=True)},
            "node": by_node,
        },
    )


def _is_ordered(deletions: Deletions) -> bool | None:
    """Return whether the mean effects rise from E1 to E4; None if a kind is missing."""
    effects = [deletions.by_edge[deletions.kinds == k] for k in range(len(KINDS))]
    effects = [e[~np.isnan(e)] for e in effects]
    if any(len(e) == 0 for e in effects):
        return None
    means = [e.mean() for e in effects]
    least = _SAME * deletions.a
    return all(high - low > least for low, high in pairwise(means))


def _shares(effects: FloatArray, scale: FloatArray) -> Shares:
    if not len(effects):
        return Shares(0, None, None, None, None)
    raised = float((effects > _SAME * scale).mean())
    lowered = float((effects < -_SAME * scale).mean())
    kept = float((np.abs(effects) <= _SAME * scale).mean())
    return Shares(len(effects), raised, kept, lowered, float(effects.mean()))


def _joined(arrays: Sequence[npt.NDArray[Any]]) -> FloatArray:
    return np.concatenate([np.empty(0), *arrays])


def _neighbors(graph: SimpleGraph, node: int) -> list[int]:
    neighbors: list[int] = graph.indices[graph.indptr[node] : graph.indptr[node + 1]].tolist()
    return neighbors


def _from_edges(n: int, edges: Iterable[tuple[int, int]]) -> UnionSubgraph:
    adjacency = np.zeros((n, n), dtype=bool)
    for i, j in edges:
        adjacency[i, j] = adjacency[j, i] = True
    return UnionSubgraph(adjacency)
