"""Encoding of the edges along shortest paths, for attention."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from unionsnn.base.arguments import require_at_least
from unionsnn.nn.attention import EMBEDDING_STD
from unionsnn.nn.padding import Padding

# A distance of 255 says that there is no path, and one of 254 may be longer.
_DISTANCES = 256
# Numbers of paths are exact or relative to each other; far below an overflow.
_MOST_PATHS = 1e150
# Bytes of a candidate for a step while steps are searched: an edge, a row of pairs and three
# numbers in between; and of a step: its three indices, its number of paths twice.
_OF_A_CANDIDATE, _OF_A_STEP = 40, 40
# Rows of all heads for each step of one length, and for each pair, at the same time.
_ROWS_OF_A_STEP, _ROWS_OF_A_PAIR = 3, 3


class PathEncoding(nn.Module):
    r"""Mean encoding of the edges along all shortest paths between two nodes.

    .. math::
        c_{vu} = \frac{1}{|P_{vu}|} \sum_{(e_1, \dots, e_N) \in P_{vu}}
        \frac{1}{\min(N, M)} \sum_{n=1}^{\min(N, M)} e_n \cdot w_n

    Equation 7 of "Do Transformers Really Perform Bad for Graph Representation?" (Ying et al.,
    NeurIPS 2021), with one w_n for each head; M is `multi_hop_max_dist` of the authors' code, which
    reads the first M edges of longer paths. P_vu are the shortest paths from v to u, the receiver
    first, and each edge is read in the direction towards v, so that c_vu = e_vu · w_1 for
    neighbours.

    Equation 7 takes one shortest path. Where there are several, it depends on the order of the
    nodes which one a search finds; the mean over all does not, and is the same where there is only
    one. It needs no list of paths: with the numbers σ of shortest paths,

    .. math::
        q_{vu} = \sum_{t \in N(u),\, d(v,t) + 1 = d(v,u)} \frac{\sigma_{vt}}{\sigma_{vu}}
        \bigl(q_{vt} + [d(v,u) \le M]\; e_{tu} \cdot w_{d(v,u)}\bigr), \qquad
        c_{vu} = q_{vu} / \min(d(v,u), M)

    Edges that occur several times count once, with the mean of their features. c is 0 without a
    path, for v = u, and for distances that are truncated, of more than 254.

    Args:
        channels: Width of the edge features.
        heads: Number of attention heads.
        max_path: M, the number of edges that are read of a path.

    Shapes:
        - edges: [num_edges, channels]
        - edge_index: [2, num_edges], each edge in both directions
        - distance: [number of pairs], as for `AttentionBias`
        - output: [number of pairs, heads]

    Raises:
        RequestError: if `max_path` is below 1.
    """

    def __init__(self, channels: int, heads: int, *, max_path: int = 5) -> None:
        super().__init__()
        require_at_least("max_path", max_path, 1)
        self.weight = nn.Parameter(torch.empty(max_path, channels, heads))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new weights, as for the spatial encoding."""
        nn.init.normal_(self.weight, std=EMBEDDING_STD)

    def forward(
        self, edges: Tensor, edge_index: Tensor, padding: Padding, distance: Tensor
    ) -> Tensor:
        """Return the encoding of all pairs of nodes of the same graph."""
        # Pairs in the order of their distances, so that those of a distance are one slice.
        place = torch.empty_like(distance, dtype=torch.long)
        place[torch.argsort(distance, stable=True)] = torch.arange(
            len(distance), device=distance.device
        )
        counts = torch.zeros(_DISTANCES, dtype=torch.long, device=distance.device)
        counts.index_add_(0, distance.int(), torch.ones_like(place))
        in_slice = place - (counts.cumsum(0) - counts)[distance.int()]
        # The size of each edge's graph, whose nodes are the roots of its steps.
        roots = padding.node_counts[padding.locate(edge_index[0])[0]]
        *sizes, candidates = torch.cat([counts, roots.sum().unsqueeze(0)]).tolist()
        max_path = len(self.weight)
        scores = torch.einsum("ec,nch->neh", edges, self.weight)
        share = padding.edge_shares(edge_index).double()
        paths = share.new_ones(sizes[0])
        q = scores.new_zeros(sizes[0], scores.size(2))
        levels = [q]
        steps = _steps(edge_index, padding, distance, in_slice, roots, candidates)
        for level, (near, far, edge) in enumerate(zip(*steps, strict=True), 1):
            along = paths[near] * share[edge]
            paths = paths.new_zeros(sizes[level]).index_add(0, far, along)
            rate = (along / paths[far]).to(scores.dtype).unsqueeze(1)
            paths = paths.clamp(max=_MOST_PATHS)
            step = q.index_select(0, near)
            if level <= max_path:
                step = step + scores[level - 1].index_select(0, edge)
            q = scores.new_zeros(sizes[level], scores.size(2)).index_add(0, far, rate * step)
            levels.append(q / min(level, max_path))
        rest = len(distance) - sum(sizes[: len(levels)])
        levels.append(scores.new_zeros(rest, scores.size(2)))
        return torch.cat(levels).index_select(0, place)


def _steps(
    edge_index: Tensor,
    padding: Padding,
    distance: Tensor,
    in_slice: Tensor,
    roots: Tensor,
    candidates: int,
) -> tuple[Sequence[Tensor], Sequence[Tensor], Sequence[Tensor]]:
    """Return the last steps of all shortest paths of 1, 2, ... edges.

    Args:
        edge_index: Senders, then receivers.
        padding: The places of the nodes.
        distance: Distance of each pair.
        in_slice: Number of each pair among those of the same distance.
        roots: Number of nodes of each edge's graph.
        candidates: The sum of these.

    Returns:
        For each length, and each step: the number of the pair that it starts from, that of the pair
        that it leads to, and the edge that it takes.
    """
    pairs = padding.node_counts.square()
    start = pairs.cumsum(0) - pairs
    graph, rank = padding.locate(edge_index)
    # One candidate for each edge and each root, a node of the edge's graph.
    edge = torch.arange(len(roots), device=roots.device)
    edge = edge.repeat_interleave(roots, output_size=candidates)
    # Pairs of the root with the first node of its graph; sums in place, as there are many.
    row = torch.arange(candidates, device=roots.device)
    row -= (roots.cumsum(0) - roots)[edge]
    row *= roots[edge]
    row += start[graph[0]][edge]
    level = distance[row + rank[0][edge]]
    # An unreachable node has no neighbour that is reached.
    nearer = (distance[row + rank[1][edge]].int() + 1 == level.int()) & (level < _DISTANCES - 1)
    of_level = torch.zeros(_DISTANCES, dtype=torch.long, device=row.device)
    _, *sizes = of_level.index_add_(0, level.int(), nearer.long()).tolist()
    while sizes and not sizes[-1]:
        sizes.pop()
    chosen = torch.nonzero_static(nearer, size=sum(sizes)).squeeze(1)
    chosen = chosen[torch.argsort(level[chosen], stable=True)]
    row, edge = row[chosen], edge[chosen]
    near, far = in_slice[row + rank[1][edge]], in_slice[row + rank[0][edge]]
    return torch.split(near, sizes), torch.split(far, sizes), torch.split(edge, sizes)


def path_bytes(
    num_pairs: int, num_edges: int, *, heads: int, max_path: int, largest: int, element_size: int
) -> tuple[int, int]:
    """Estimate the memory of `PathEncoding`: while it searches steps, and after that.

    Args:
        num_pairs: Pairs of nodes of the same graph.
        num_edges: Edges, in both directions.
        heads: Attention heads.
        max_path: As for `PathEncoding`.
        largest: Nodes of the largest graph.
        element_size: Bytes of a number.
    """
    candidates = largest * num_edges
    # One direction of an edge at most leads away from a root.
    steps = candidates // 2
    row = heads * element_size
    of_steps = steps * (_OF_A_STEP + _ROWS_OF_A_STEP * row)
    of_pairs = num_pairs * (2 * 8 + _ROWS_OF_A_PAIR * row)
    return candidates * _OF_A_CANDIDATE, of_steps + of_pairs + 2 * num_edges * max_path * row
