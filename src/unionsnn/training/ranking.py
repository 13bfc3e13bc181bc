"""Ranks of the pairs of nodes that are linked: the metric of PCQM-Contact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor
from torch_geometric.data import Data
from torchmetrics import Metric

from unionsnn.base.errors import UndefinedMetricError

FILTERS = ("mrr-extended", "mrr-filtered", "mrr-raw")
"""The mean reciprocal ranks by name; they differ in what is not ranked, see `Queries`."""

# Scores that differ by less than this share of the largest one are equal: nodes that no network
# tells apart would otherwise be ranked by rounding, which depends on the batch.
_TOLERANCE = 1e-5


@dataclass(frozen=True)
class Queries:
    r"""For each linked pair (u, v), the pairs of u with all nodes of its graph.

    The rank of v is its place by the scores of these pairs, where ties count half, the mean of the
    best and the worst place (as in OGB's evaluator):

    .. math::
        \mathrm{rank}_{uv} = 1 + \sum_{w \in C_{uv}} [s_{uw} > s_{uv}] +
        \tfrac{1}{2} [s_{uw} = s_{uv}], \qquad
        \mathrm{MRR} = \frac{1}{|G|} \sum_g \frac{1}{|P_g|} \sum_{uv \in P_g}
        \frac{1}{\mathrm{rank}_{uv}}

    ``mrr-raw`` (Dwivedi et al. 2022, "Long Range Graph Benchmark") ranks v among all other nodes of
    the graph. ``mrr-filtered`` leaves out the other nodes that u is linked to, which are right
    answers too. ``mrr-extended`` (Tönshoff et al. 2023, "Where did the gap go?") also leaves out u
    itself, whose score with itself is large for any dot product.

    Args:
        pairs: The pairs to score, grouped by u.
        answer: For each linked pair, its place among these.
        first: For each linked pair, the first place of its u.
        counts: For each linked pair, the number of nodes of its graph.
        graph: For each linked pair, its graph.

    Shapes:
        pairs [2, Q]; answer, first, counts, graph [P].
    """

    pairs: Tensor
    answer: Tensor
    first: Tensor
    counts: Tensor
    graph: Tensor

    @classmethod
    def of(cls, batch: Data, links: Tensor) -> Self:
        """Make the queries of the linked pairs of a batch, [2, P]."""
        nodes, query = torch.unique(links[0], return_inverse=True)
        graph = batch.batch[nodes]
        counts, begin = batch.ptr.diff()[graph], batch.ptr[graph]
        first = counts.cumsum(0) - counts
        tail = _ranges(begin, counts)
        pairs = torch.stack([nodes.repeat_interleave(counts), tail])
        answer = first[query] + links[1] - begin[query]
        return cls(pairs, answer, first[query], counts[query], graph[query])

    def reciprocal_ranks(self, scores: Tensor, kind: str) -> Tensor:
        """Return the mean over the linked pairs of each graph that has some, [graphs].

        Args:
            scores: Scores of `pairs`; NaN and infinity give NaN.
            kind: One of `FILTERS`.

        Shapes:
            scores [Q].
        """
        left_out = torch.zeros_like(scores, dtype=torch.bool)
        if kind != "mrr-raw":
            left_out[self.answer] = True
        if kind == "mrr-extended":
            left_out |= self.pairs[0] == self.pairs[1]
        place = _ranges(self.first, self.counts)
        asked = torch.arange(len(self.answer), device=scores.device)
        asked = asked.repeat_interleave(self.counts)

        def total(rows: Tensor) -> Tensor:
            return scores.new_zeros(len(self.answer)).index_add(0, asked, rows.to(scores.dtype))

        found = scores[place]
        largest = scores.new_zeros(len(self.answer)).scatter_reduce(
            0, asked, found.abs(), reduce="amax"
        )
        above = found - scores[self.answer][asked]
        margin = _TOLERANCE * largest[asked]
        others = ~left_out[place] & (place != self.answer[asked])
        rank = 1 + total(others & (above > margin)) + total(others & (above.abs() <= margin)) / 2
        rank[total(~found.isfinite()) > 0] = torch.nan
        graphs, of_graph = torch.unique(self.graph, return_inverse=True)
        mean = scores.new_zeros(len(graphs)).index_add(0, of_graph, 1 / rank)
        return mean / of_graph.bincount(minlength=len(graphs))


def _ranges(begins: Tensor, counts: Tensor) -> Tensor:
    """Return begin, begin + 1, ... for each of several ranges, one after another."""
    offset = (begins - (counts.cumsum(0) - counts)).repeat_interleave(counts)
    return offset + torch.arange(len(offset), device=begins.device)


class MeanReciprocalRank(Metric):
    """Mean over the graphs that have a linked pair, whatever the batches.

    Shapes:
        update: mean reciprocal ranks of graphs [G].

    Raises:
        UndefinedMetricError: No graph has a linked pair.
    """

    full_state_update = False

    def __init__(self) -> None:
        # Each process evaluates the whole part.
        super().__init__(sync_on_compute=False)
        self.graphs: list[Tensor]
        self.add_state("graphs", [], dist_reduce_fx="cat")

    def update(self, ranks: Tensor) -> None:
        """Add the graphs of a batch."""
        self.graphs.append(ranks.detach())

    def compute(self) -> Tensor:
        """Return the mean."""
        ranks = torch.cat(self.graphs).cpu().double()
        if not len(ranks):
            raise UndefinedMetricError("mrr is undefined: no graph has a linked pair of nodes.")
        return ranks.mean().float()
