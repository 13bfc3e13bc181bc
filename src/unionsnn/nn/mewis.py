"""Pooling to an independent set of nodes that differ from their neighbours."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.nn import MLP, GINConv
from torch_geometric.utils import scatter

# Values that agree in this many binary digits are equal: rounding errors must not decide.
_DIGITS = 12
# Rounds of a choice before a GPU is asked whether it is final.
_ROUNDS = 16


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
            choice = _Choice(entropy, score, h, edge_index, batch, num_graphs)
            while True:
                chosen = choice.improved()
                # All that a GPU has to tell, at once.
                told = torch.stack([choice.doubtful, chosen.sum(), num_walks(chosen, edge_index)])
                doubtful, size, walks = told.tolist()
                if not doubtful:
                    break
            kept = torch.nonzero_static(chosen, size=size).flatten()
            return kept, within_three(chosen, edge_index, walks), loss


def node_entropy(h: Tensor, edge_index: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
    r"""Return H_v of each node: large if it, among others, differs from its neighbours.

    Shapes:
        - h: [num_nodes, C]
        - output: [num_nodes]
    """
    sender, receiver = edge_index
    difference = (h.index_select(0, receiver) - h.index_select(0, sender)).square()
    squares = h.new_zeros(h.shape).index_add(0, receiver, difference)
    variation = torch.linalg.vector_norm(squares, dim=1)
    # By the logarithm, which is finite if P is 0.
    highest = scatter(variation.detach(), batch, dim_size=num_graphs, reduce="max")
    shifted = variation - highest.index_select(0, batch)
    total = scatter(shifted.exp(), batch, dim_size=num_graphs)
    logarithm = shifted - total.index_select(0, batch).log()
    return -logarithm.exp() * logarithm


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
    choice = _Choice(entropy, score, h, edge_index, batch, num_graphs)
    while True:
        chosen = choice.improved()
        if not choice.doubtful:
            return chosen


class _Choice:
    """The choice of `independent_set`, found for all nodes at once instead of one after another.

    Whether a node is chosen depends on those of higher rank alone, so a choice that agrees with
    itself in all nodes is the one that a visit in the order of the ranks makes. It is approached in
    rounds: a node is chosen unless a neighbour of higher rank is or it was rejected. Once nothing
    changes in a graph, its losses after each chosen node are sums over a prefix, and the first node
    by which the initial loss is exceeded is rejected. Rejections are rare, and rounds few.

    Attributes:
        doubtful: Number of nodes that changed in the last round or were rejected after it, [].
    """

    @torch.no_grad()
    def __init__(
        self,
        entropy: Tensor,
        score: Tensor,
        h: Tensor,
        edge_index: Tensor,
        batch: Tensor,
        num_graphs: int,
    ) -> None:
        nodes, device = len(batch), batch.device
        self.entropy, self.score = entropy.detach(), score.detach()
        self.edge_index, self.batch, self.num_graphs = edge_index, batch, num_graphs
        self.rank = _ranks(self.score, h)
        self.node_of_rank = torch.empty_like(self.rank)
        self.node_of_rank.scatter_(0, self.rank, torch.arange(nodes, device=device))
        # Nodes by graph, then by rank, and the first of each graph.
        self.order = torch.argsort(batch * nodes + self.rank)
        ones = torch.ones_like(batch)
        sizes = ones.new_zeros(num_graphs).index_add_(0, batch, ones)
        self.begin = sizes.cumsum(0) - sizes
        sender, receiver = edge_index
        self.sent_rank = self.rank.index_select(0, sender)
        # A node reads neighbours of higher rank only; the others write to a place beyond all.
        later = self.sent_rank < self.rank.index_select(0, receiver)
        self.reader = torch.where(later, receiver, nodes)
        degree = _neighbour_sum(torch.ones_like(self.score), edge_index)
        self.alone = degree == 0
        # 1 for a node that may be chosen by its rank, as a number so that it can be added.
        self.allowed = (~self.alone).to(self.score.dtype)
        self.accepted = self.allowed
        self.doubtful = ones.sum()

    @torch.no_grad()
    def improved(self) -> Tensor:
        """Return the chosen nodes after another block of rounds; final if none is doubtful."""
        sender, accepted = self.edge_index[0], self.accepted
        for _ in range(_ROUNDS):
            before = accepted
            hits = before.new_zeros(len(before) + 1)
            hits.index_add_(0, self.reader, before.index_select(0, sender))
            accepted = (hits[:-1] == 0) * self.allowed
        self.accepted = accepted
        changed = accepted != before
        of_graph = scatter(changed.long(), self.batch, dim_size=self.num_graphs)
        rejected = self._first_too_costly() & (of_graph == 0).index_select(0, self.batch)
        self.allowed = self.allowed.masked_fill(rejected, 0)
        self.doubtful = changed.sum() + rejected.sum()
        chosen = self.alone | (accepted > 0)
        bare = scatter(chosen.long(), self.batch, dim_size=self.num_graphs) == 0
        return chosen | self._first(self.rank) & bare.index_select(0, self.batch)

    def _first_too_costly(self) -> Tensor:
        """Mask of the first accepted node of each graph by which its initial loss is exceeded."""
        nodes, accepted = len(self.batch), self.accepted > 0
        sender, receiver = self.edge_index
        # The rank at which the score of a node falls to 0, since a neighbour is accepted.
        falls = torch.full_like(self.rank, nodes).scatter_reduce_(
            0,
            receiver,
            self.sent_rank.where(accepted.index_select(0, sender), nodes),
            "amin",
        )
        now, then = falls.index_select(0, receiver), falls.index_select(0, sender)
        # Neighbours that have their score at that time, and those that lose it at the same time.
        share = (then == now).to(self.score.dtype) - 2 * (then >= now)
        beside = torch.zeros_like(self.score)
        beside.index_add_(0, receiver, share * self.score.index_select(0, sender))
        lost = (self.score * (self.entropy + beside)).masked_fill(falls == nodes, 0)
        change = accepted * (self.score - 1) * self.entropy
        change.index_add_(0, self.node_of_rank[falls.clamp(max=nodes - 1)], lost)
        # In double precision, as the sums of other graphs are subtracted again.
        total = torch.zeros(nodes + 1, dtype=torch.double, device=change.device)
        total[1:] = change.index_select(0, self.order).double().cumsum(0)
        base = total.index_select(0, self.begin).index_select(0, self.batch)
        after = torch.empty_like(base).scatter_(0, self.order, total[1:]) - base
        over = accepted & (after > 0)
        return over & self._first(self.rank.where(over, nodes))

    def _first(self, rank: Tensor) -> Tensor:
        """Mask of the node of the lowest rank in each graph."""
        first = scatter(rank, self.batch, dim_size=self.num_graphs, reduce="min")
        return rank == first.index_select(0, self.batch)


def num_walks(chosen: Tensor, edge_index: Tensor) -> Tensor:
    """Return the number of walks of two or three edges from a chosen node to a chosen node, [].

    No two of the chosen nodes are adjacent.
    """
    beside = _neighbour_sum(chosen.long(), edge_index)
    sender, receiver = edge_index
    through = beside.index_select(0, sender) * beside.index_select(0, receiver)
    return beside.square().sum() + through.sum()


def within_three(chosen: Tensor, edge_index: Tensor, walks: int | None = None) -> Tensor:
    """Return edges between chosen nodes that are joined by a walk of two or three edges.

    No two of the chosen nodes are adjacent, so these are those at most three hops apart.

    Args:
        chosen: Mask of pairwise non-adjacent nodes.
        edge_index: Edges, each in both directions.
        walks: Their number, `num_walks`; None to compute it.

    Shapes:
        - chosen: [num_nodes]
        - edge_index: [2, num_edges]
        - output: [2, E], as positions among the chosen nodes
    """
    if walks is None:
        walks = int(num_walks(chosen, edge_index))
    nodes, device = len(chosen), chosen.device
    sender, receiver = edge_index
    # The chosen neighbours of each node, one node after another.
    ignored = ~chosen.index_select(0, sender)
    near = sender[torch.argsort(receiver + nodes * ignored, stable=True)]
    count = torch.zeros_like(chosen, dtype=torch.long).index_add_(0, receiver, (~ignored).long())
    begin = count.cumsum(0) - count
    # A walk passes one node, or the two of an edge: each pair of their chosen neighbours is joined.
    middle = torch.arange(nodes, device=device)
    first, last = torch.cat([middle, sender]), torch.cat([middle, receiver])
    width = count.index_select(0, last)
    pairs = count.index_select(0, first) * width
    through = torch.arange(len(pairs), device=device).repeat_interleave(pairs, output_size=walks)
    nth = torch.arange(walks, device=device) - (pairs.cumsum(0) - pairs).index_select(0, through)
    width = width.index_select(0, through)
    start = near[begin[first].index_select(0, through) + nth // width]
    end = near[begin[last].index_select(0, through) + nth % width]
    return (chosen.cumsum(0) - 1)[_simple(torch.stack([start, end]), nodes)]


def undirected(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Return each edge once in both directions, without loops, in ascending order.

    Shapes:
        - edge_index: [2, num_edges]
        - output: [2, E]
    """
    return _simple(torch.cat([edge_index, edge_index.flip(0)], dim=1), num_nodes)


def _simple(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Return each edge once, without loops, in ascending order, [2, E]."""
    sender, receiver = edge_index
    code = (sender * num_nodes + receiver).where(sender != receiver, -1).sort().values
    again = torch.zeros_like(code, dtype=torch.bool)
    again[1:] = code[1:] == code[:-1]
    code = code[~again & (code >= 0)]
    return torch.stack([code // num_nodes, code % num_nodes])


def _neighbour_sum(value: Tensor, edge_index: Tensor) -> Tensor:
    sender, receiver = edge_index
    return torch.zeros_like(value).index_add(0, receiver, value.index_select(0, sender))


def _ranks(score: Tensor, h: Tensor) -> Tensor:
    """Return each node's rank by descending score, then by its features."""
    weights = torch.arange(1, h.size(1) + 1, dtype=h.dtype, device=h.device)
    order = torch.argsort(_rounded(h @ weights), descending=True, stable=True)
    order = order[torch.argsort(_rounded(score)[order], descending=True, stable=True)]
    place = torch.arange(len(order), device=order.device)
    return torch.empty_like(order).scatter_(0, order, place)


def _rounded(value: Tensor) -> Tensor:
    mantissa, exponent = torch.frexp(value)
    return torch.ldexp((mantissa * 2**_DIGITS).round(), exponent)
