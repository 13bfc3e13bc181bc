"""DropGIN."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Unpack

import torch
from torch import Tensor, nn

from unionsnn.base.arguments import require_at_least
from unionsnn.base.errors import DataError, RequestError
from unionsnn.base.memory import Extent
from unionsnn.models.gin import GIN
from unionsnn.models.mpnn import StackOptions
from unionsnn.nn.batch import GraphBatch
from unionsnn.nn.gates import given_coefficient
from unionsnn.nn.padding import Padding
from unionsnn.nn.readout import readout

# Rows drawn together, so that a node's rows do not depend on the rest of the batch.
_DRAWN = 256


class DropGIN(GIN):
    r"""GIN on many copies of a graph, each without some of its nodes, averaged.

    .. math::
        h_v = \frac{1}{r} \sum_{k : v \in G_k} h^{(L)}_{v, k}, \qquad
        h^{(l)}_{\cdot, k} = \mathrm{GIN}_l(h^{(l-1)}_{\cdot, k}; G_k)

    "DropGNN: Random Dropouts Increase the Expressiveness of Graph Neural Networks" (Papp et al.,
    NeurIPS 2021): in run k, G_k lacks each node of G with probability p, and all edges of it. The
    paper's rule is r = n and p = 2 / (1 + n) for a mean of n nodes; p is at most 1/2 here. The
    auxiliary loss is the mean of the losses of all runs, each read out by a linear map. With a gate
    it is UnionDropGIN: the messages of all runs are gated by the coefficients of the whole graph.

    In training the nodes are drawn from torch's generator, like dropout. In evaluation they depend
    on the index of a node in its graph and on `evaluation_seed`, so a prediction is reproducible
    and does not depend on the batch.

    Args:
        runs: r; None for the rule, which requires `fit_sizes`.
        drop_probability: p; None for the rule.
        auxiliary_weight: Weight of the auxiliary loss; 0 for none.
        options: Arguments of `GIN`.

    Attributes:
        evaluation_seed: Seed for dropping nodes in evaluation.

    Shapes:
        - batch, output: as for `MPNN`

    Raises:
        RequestError: if a choice or number is not allowed.
    """

    at_most_1wl = False
    memory_choices = (*GIN.memory_choices, "runs")

    not_exported = "which nodes a run drops depends on the data"

    def __init__(
        self,
        *,
        runs: int | None = None,
        drop_probability: float | None = None,
        auxiliary_weight: float = 1 / 3,
        train_eps: bool = True,
        **options: Unpack[StackOptions],
    ) -> None:
        super().__init__(train_eps=train_eps, **options)
        if runs is not None and runs < 1:
            raise RequestError(
                f"runs is {runs}; it must be at least 1, or null for the rule.",
                code="argument.size",
            )
        if drop_probability is not None and not 0 <= drop_probability < 1:
            raise RequestError(
                f"drop_probability is {drop_probability}; it must be in [0, 1), or null "
                "for the rule.",
                code="model.argument",
            )
        require_at_least("auxiliary_weight", auxiliary_weight, 0)
        self.runs = runs
        self.drop_probability = drop_probability
        self.auxiliary_weight = auxiliary_weight
        self.auxiliary: nn.Module = nn.Identity()
        if auxiliary_weight:
            out_channels = options["out_channels"]
            self.auxiliary = nn.Linear(
                self.hidden_channels,
                self.hidden_channels if self.level == "link" else out_channels,
            )
        self.mean_nodes = 0
        self.evaluation_seed = 0
        self._outputs: Tensor | None = None

    def fit_sizes(self, num_nodes: Tensor) -> DropGIN:
        """Store the mean size of the training graphs, for the rule.

        Shapes:
            - num_nodes: [num_graphs]
        """
        self.mean_nodes = max(1, round(float(num_nodes.double().mean())))
        return self

    @property
    def fitted(self) -> bool:
        """Whether there is a mean size."""
        return self.mean_nodes > 0

    def get_extra_state(self) -> Tensor:
        """Return the mean size, for the state dict."""
        return torch.tensor(self.mean_nodes, device="cpu")

    def set_extra_state(self, state: Tensor) -> None:
        """Restore the mean size from a state dict."""
        self.mean_nodes = int(state)

    @property
    def num_runs(self) -> int:
        """Number of runs r; DataError if the rule lacks the mean size."""
        return self._ruled() if self.runs is None else self.runs

    @property
    def probability(self) -> float:
        """Drop probability p; DataError if the rule lacks the mean size."""
        if self.drop_probability is not None:
            return self.drop_probability
        return min(2 / (1 + self._ruled()), 0.5)

    def _ruled(self) -> int:
        if not self.mean_nodes:
            raise DataError(
                f"{type(self).__name__} derives its runs and probability from the mean size of the "
                "training graphs, which is not set. Call fit_sizes(number of nodes of each graph), "
                "or set model.runs and model.drop_probability.",
                code="model.sizes",
            )
        return self.mean_nodes

    def draw(self, batch: Tensor, num_graphs: int, sizes: Sequence[int] | None = None) -> Tensor:
        """Draw which nodes are dropped in which run, [num_nodes, r].

        Args:
            batch: Graph of each node.
            num_graphs: Number of graphs.
            sizes: Number of nodes of each graph; None to read it from `batch`.
        """
        runs, probability = self.num_runs, self.probability
        if self.training:
            return torch.rand(len(batch), runs, device=batch.device) < probability
        padding = Padding(batch, num_graphs, sizes=sizes)
        generator = torch.Generator().manual_seed(self.evaluation_seed)
        rows = [
            torch.rand(_DRAWN, runs, generator=generator, dtype=torch.float32) < probability
            for _ in range(math.ceil(padding.size / _DRAWN))
        ]
        drawn = torch.cat(rows).to(batch.device, non_blocking=True)
        return drawn[padding.slots % padding.size]

    def embed(self, batch: GraphBatch) -> Tensor:
        """Encode nodes, convolve all runs, average them, and read out."""
        kept = ~self.draw(batch.batch, batch.num_graphs, batch.sizes).t()
        kept_edges = kept[:, batch.edge_index].all(dim=1)
        # The only numbers that a GPU has to tell, at once.
        nodes, edges_in_all = torch.stack([kept.sum(), kept_edges.sum()]).tolist()
        run, node = torch.nonzero_static(kept, size=nodes).unbind(1)
        of_run, edge = torch.nonzero_static(kept_edges, size=edges_in_all).unbind(1)
        number = kept.flatten().cumsum(0).view_as(kept) - 1
        edge_coefficient = batch.edge_coefficient
        if self.gated:
            edge_coefficient = given_coefficient(edge_coefficient).index_select(0, edge)
        h = self.encoder(batch.x).index_select(0, node)
        edge_index = number[of_run, batch.edge_index[:, edge]]
        edges = self.encoded_edges(batch)
        if edges is not None:
            edges = edges.index_select(0, edge)
        h, _ = self.convolve(h, edge_index, edges, edge_coefficient)
        self._outputs = None
        if self.training and self.auxiliary_weight:
            self._outputs = self._outputs_of_runs(h, run, node, len(kept), batch)
        h = readout(h, node, batch.x.size(0), "sum") / len(kept)
        return self.pool(h, batch)

    def _outputs_of_runs(
        self, h: Tensor, run: Tensor, node: Tensor, runs: int, batch: GraphBatch
    ) -> Tensor:
        """Return the output of each single run, [r, rows of the output, out_channels]."""
        if self.level == "graph":
            rows, place, kind = batch.num_graphs, batch.batch[node], self.readout
        else:
            rows, place, kind = batch.x.size(0), node, "sum"
        out: Tensor = self.auxiliary(readout(h, run * rows + place, runs * rows, kind))
        out = out.view(runs, rows, out.size(-1))
        return self.scores(out, batch) if self.level == "link" else out

    def auxiliary_loss(self, loss: Callable[[Tensor], Tensor]) -> Tensor | None:
        """Return what to add to the loss of the preceding training pass, or None.

        Args:
            loss: The loss of an output shaped like that of the network.
        """
        outputs, self._outputs = self._outputs, None
        if outputs is None:
            return None
        return self.auxiliary_weight * torch.stack([loss(out) for out in outputs]).mean()

    def batch_bytes(self, extent: Extent) -> int:
        """Estimate the memory of the layers' rows of nodes and edges in all runs."""
        return self.num_runs * self.layer_bytes(extent.rows["x"], extent.rows["edge_index"])
