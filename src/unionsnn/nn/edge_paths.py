"""Encoding of the edges along shortest paths, for attention."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from unionsnn.base.arguments import require_at_least
from unionsnn.nn.attention import EMBEDDING_STD
from unionsnn.nn.padding import Padding

# A distance of 255 says that there is no path, and one of 254 may be longer.
_DISTANCES = 256
# Numbers of paths are exact or relative to each other; far below an overflow.
_MOST_PATHS = 1e150
# Bytes of a candidate for a step while steps are searched: four indices and two distances; and of
# a step: its three indices, its number of paths, its level and its place in the order of levels.
_OF_A_CANDIDATE, _OF_A_STEP = 34, 48


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
        # Pairs in the order of their distances, so that each level is one slice.
        place = torch.empty_like(distance, dtype=torch.long)
        place[torch.argsort(distance, stable=True)] = torch.arange(
            len(distance), device=distance.device
        )
        counts = torch.bincount(distance.int(), minlength=_DISTANCES)
        place_in_level = place - (counts.cumsum(0) - counts)[distance.int()]
        sizes = counts.tolist()
        max_path = len(self.weight)
        scores = torch.einsum("ec,nch->neh", edges, self.weight)
        share = padding.edge_shares(edge_index).double()
        paths = share.new_ones(sizes[0])
        q = scores.new_zeros(sizes[0], scores.size(2))
        levels = [q]
        for level, (near, far, edge) in enumerate(_steps(edge_index, padding, distance), 1):
            along = paths[place_in_level[near]] * share[edge]
            to = place_in_level[far]
            paths = paths.new_zeros(sizes[level]).index_add(0, to, along)
            rate = (along / paths[to]).to(scores.dtype).unsqueeze(1)
            paths = paths.clamp(max=_MOST_PATHS)
            step = q.index_select(0, place_in_level[near])
            if level <= max_path:
                step = step + scores[level - 1].index_select(0, edge)
            q = scores.new_zeros(sizes[level], scores.size(2)).index_add(0, to, rate * step)
            levels.append(q / min(level, max_path))
        rest = len(distance) - sum(sizes[: len(levels)])
        levels.append(scores.new_zeros(rest, scores.size(2)))
        return torch.cat(levels).index_select(0, place)


def _steps(
    edge_index: Tensor, padding: Padding, distance: Tensor
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield the last steps of all shortest paths of 1, 2, ... edges.

    Yields:
        The pair that a step starts from, the pair that it leads to, and the edge that it takes, a
        row for each step.
    """
    counts = torch.tensor(padding.counts, device=edge_index.device)
    start = counts.square().cumsum(0) - counts.square()
    graph, rank = padding.locate(edge_index)
    # One candidate for each edge and each root, a node of the edge's graph.
    size = counts[graph[0]]
    edge = torch.arange(len(size), device=size.device).repeat_interleave(size)
    root = torch.arange(len(edge), device=size.device) - (size.cumsum(0) - size)[edge]
    row = start[graph[0]][edge] + root * size[edge]
    near, far = row + rank[1][edge], row + rank[0][edge]
    level = distance[far].int()
    nearer = ((distance[near].int() + 1 == level) & (level < _DISTANCES - 1)).nonzero().squeeze(1)
    level = level[nearer]
    order = nearer[torch.argsort(level, stable=True)]
    sizes = torch.bincount(level, minlength=1)[1:].tolist()
    yield from zip(
        *(torch.split(each[order], sizes) for each in (near, far, edge)),
        strict=True,
    )


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
    of_pairs = num_pairs * (2 * 8 + 3 * heads * element_size)
    of_edges = 2 * num_edges * max_path * heads * element_size
    return candidates * _OF_A_CANDIDATE, steps * (_OF_A_STEP + element_size) + of_pairs + of_edges
