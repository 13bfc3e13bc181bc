"""Pooling to an independent set of nodes that differ from their neighbours."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.nn import MLP, GINConv
from torch_geometric.utils import scatter

# Values that agree in this many binary digits are equal: rounding errors must not decide.
_DIGITS = 12


class MEWISPool(nn.Module):
    r"""Keep a maximum-entropy weighted independent set of each graph's nodes.

    .. math::
        V_v = \Big\| \sum_{u \in N(v)} (h_v - h_u)^{\circ 2} \Big\|_2, \quad
        P = \mathrm{softmax}_{\text{graph}}(V), \quad H_v = -P_v \log P_v, \quad
        p = \sigma(\mathrm{GIN}_3(\mathrm{GIN}_2(\mathrm{GIN}_1(H))))

        \ell = \sum_v H_v - \sum_v H_v p_v + \sum_{v} \sum_{u \in N(v)} p_v p_u

    "Maximum Entropy Weighted Independent Set Pooling for Graph Neural Networks" (Nouranizadeh et
    al., 2021), equations 5 to 10 and algorithm 1; see `independent_set` and `within_three`. The
    scores p are trained by the loss alone: the choice of nodes has no gradient.

    Args:
        hidden_channels: Width of the scoring networks.

    Shapes:
        - h: [num_nodes, C]
        - edge_index: [2, num_edges], of a simple undirected graph
        - batch: [num_nodes]
        - kept: [number of kept nodes], their indices in ascending order
        - edges among kept nodes: [2, E], as positions in `kept`
        - loss of each graph: [num_graphs]
    """

    def __init__(self, hidden_channels: int) -> None:
        super().__init__()
        c = hidden_channels
        self.scores = nn.ModuleList(
            GINConv(MLP([width, c, c, last], norm=None)) for width, last in ((1, c), (c, c), (c, 1))
        )

    def forward(
        self, h: Tensor, edge_index: Tensor, batch: Tensor, num_graphs: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the kept nodes, the edges among them, and the loss of each graph."""
        # With the few digits of bfloat16, the choice of nodes would be arbitrary.
        with torch.autocast(h.device.type, enabled=False):
            h = h.to(next(self.parameters()).dtype)
            entropy = node_entropy(h, edge_index, batch, num_graphs)
            score = entropy.unsqueeze(1)
            for conv in self.scores:
                score = conv(score, edge_index)
            score = torch.sigmoid(score).squeeze(1)
            clash = _neighbour_sum(score, edge_index)
            loss = scatter(entropy - entropy * score + score * clash, batch, dim_size=num_graphs)
            chosen = independent_set(entropy, score, h, edge_index, batch, num_graphs)
            return torch.nonzero(chosen).flatten(), within_three(chosen, edge_index), loss


def node_entropy(h: Tensor, edge_index: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
    r"""Return H_v of each node: large if it, among others, differs from its neighbours.

    Shapes:
        - h: [num_nodes, C]
        - output: [num_nodes]
    """
    sender, receiver = edge_index
    difference = (h[receiver] - h[sender]).square()
    squares = h.new_zeros(h.shape).index_add(0, receiver, difference)
    variation = torch.linalg.vector_norm(squares, dim=1)
    # By the logarithm, which is finite if P is 0.
    highest = scatter(variation.detach(), batch, dim_size=num_graphs, reduce="max")
    shifted = variation - highest[batch]
    total = scatter(shifted.exp(), batch, dim_size=num_graphs)
    logarithm = shifted - total[batch].log()
    return -logarithm.exp() * logarithm


@torch.no_grad()
def independent_set(
    entropy: Tensor, score: Tensor, h: Tensor, edge_index: Tensor, batch: Tensor, num_graphs: int
) -> Tensor:
    """Choose pairwise non-adjacent nodes by the method of conditional expectation.

    Algorithm 1 of the paper, in all graphs at once. A node without neighbours is chosen. The others
    are visited by descending score: a node is chosen, and its neighbours are ruled out, if with its
    score 1 and theirs 0 the loss does not exceed the initial one. If a graph would be left without
    nodes, its first node is chosen. Nodes of equal score are ordered by their features, and only if
    those are equal too by their index.

    Shapes:
        - entropy, score: [num_nodes]
        - h: [num_nodes, C]
        - output: [num_nodes], true for chosen nodes
    """
    nodes = len(batch)
    rank = _ranks(score, h)
    chosen = torch.bincount(edge_index[1], minlength=nodes) == 0
    open_ = ~chosen
    value = score.detach().clone()
    clash = _neighbour_sum(value, edge_index)
    loss = value.new_zeros(num_graphs)
    while open_.any():
        first = scatter(rank.where(open_, nodes), batch, dim_size=num_graphs, reduce="min")
        candidate = open_ & (rank == first[batch])
        beside = _neighbour_sum(candidate.to(value.dtype), edge_index)
        gained, lost = candidate * (1 - value), beside * value
        change = lost * (entropy - 2 * clash + _neighbour_sum(lost, edge_index)) - gained * entropy
        after = loss + scatter(change, batch, dim_size=num_graphs)
        taken = after <= 0
        loss = after.where(taken, loss)
        chosen |= candidate & taken[batch]
        open_ &= ~(candidate | ((beside > 0) & taken[batch]))
        value = value + (gained - lost) * taken[batch]
        clash = _neighbour_sum(value, edge_index)
    first = scatter(rank, batch, dim_size=num_graphs, reduce="min")
    bare = scatter(chosen.long(), batch, dim_size=num_graphs, reduce="max") == 0
    return chosen | (bare[batch] & (rank == first[batch]))


def within_three(chosen: Tensor, edge_index: Tensor) -> Tensor:
    """Return edges between chosen nodes that are joined by a walk of two or three edges.

    No two of the chosen nodes are adjacent, so these are those at most three hops apart.

    Shapes:
        - chosen: [num_nodes]
        - edge_index: [2, num_edges]
        - output: [2, E], as positions among the chosen nodes
    """
    nodes = len(chosen)
    sender, receiver = edge_index[:, torch.argsort(edge_index[0], stable=True)]
    degree = torch.bincount(sender, minlength=nodes)
    begin = degree.cumsum(0) - degree

    def one_further(walks: Tensor) -> Tensor:
        """Extend walks by one edge; a walk is encoded as start * nodes + end."""
        start, end = walks // nodes, walks % nodes
        walk = torch.arange(len(walks), device=walks.device).repeat_interleave(degree[end])
        before = degree[end].cumsum(0) - degree[end]
        nth = torch.arange(len(walk), device=walks.device) - before[walk]
        return start[walk] * nodes + receiver[begin[end[walk]] + nth]

    one = (sender * nodes + receiver)[chosen[sender]]
    one_or_two = torch.unique(torch.cat([one, one_further(one)]))
    two_or_three = torch.unique(one_further(one_or_two))
    pairs = torch.stack([two_or_three // nodes, two_or_three % nodes])
    pairs = pairs[:, chosen[pairs[1]] & (pairs[0] != pairs[1])]
    return (chosen.cumsum(0) - 1)[pairs]


def _neighbour_sum(value: Tensor, edge_index: Tensor) -> Tensor:
    sender, receiver = edge_index
    return torch.zeros_like(value).index_add(0, receiver, value[sender])


def _ranks(score: Tensor, h: Tensor) -> Tensor:
    """Return each node's rank by descending score, then by its features."""
    weights = torch.arange(1, h.size(1) + 1, dtype=h.dtype, device=h.device)
    order = torch.argsort(_rounded(h @ weights), descending=True, stable=True)
    order = order[torch.argsort(_rounded(score)[order], descending=True, stable=True)]
    rank = torch.empty_like(order)
    rank[order] = torch.arange(len(order), device=order.device)
    return rank


def _rounded(value: Tensor) -> Tensor:
    mantissa, exponent = torch.frexp(value)
    return torch.ldexp((mantissa * 2**_DIGITS).round(), exponent)
