"""GIN with maximum-entropy weighted independent set pooling."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Unpack

import torch
from torch import Tensor, nn
from torch_geometric.nn import GINConv

from unionsnn.base.errors import RequestError
from unionsnn.models.arguments import Gate, NetworkOptions, Norm, Readout, refuse_gate
from unionsnn.models.network import Network
from unionsnn.models.parts import make_head, make_norm, two_layer_mlp
from unionsnn.nn.batch import GraphBatch
from unionsnn.nn.mewis import MEWISPool, undirected
from unionsnn.nn.readout import readout


class MEWISPoolNet(Network):
    r"""GIN layers with poolings in between that keep an independent set of nodes.

    .. math::
        h \leftarrow [h +]\; \mathrm{dropout}(\mathrm{ReLU}(\mathrm{norm}(\mathrm{GIN}(h)))),
        \qquad (h, A) \leftarrow \mathrm{MEWISPool}(h, A) \text{ after some of them}

    "Maximum Entropy Weighted Independent Set Pooling for Graph Neural Networks" (Nouranizadeh et
    al., 2021); see `MEWISPool`. The k-th of K poolings among L layers comes after layer
    ⌈k L / (K + 1)⌉; with K = 2 and L = 5 as in the authors' deepest network. The loss that trains
    the poolings' scores is added, as the mean over graphs of the sum over poolings. Graphs are
    taken as simple and undirected. Only dropout is random.

    Args:
        out_channels: Number of classes or targets.
        gate: Must be None.
        num_layers: Number of GIN layers.
        num_pools: Number of poolings, at most one per layer.
        pool_weight: Weight of the poolings' loss.
        dropout: Probability of dropping a channel after each layer.
        norm: ``batch``, ``layer`` or ``none``, after each layer and inside its MLP.
        residual: Whether to add each layer's input to its output.
        readout: ``sum``, ``mean`` or ``max`` over the remaining nodes.
        options: Arguments of `Network`, of graphs and without edge features.

    Shapes:
        - batch: as in `GraphBatch`; no coefficient is read
        - output: [num_graphs, out_channels]

    Raises:
        RequestError: if a choice or size is not allowed, there is a gate, or the task is on nodes.
    """

    not_exported = "which nodes a pooling keeps depends on the data"

    def __init__(
        self,
        *,
        out_channels: int,
        gate: Gate | None = None,
        num_layers: int = 5,
        num_pools: int = 2,
        pool_weight: float = 0.2,
        dropout: float = 0.0,
        norm: Norm = "batch",
        residual: bool = True,
        readout: Readout = "mean",
        **options: Unpack[NetworkOptions],
    ) -> None:
        super().__init__(
            out_channels=out_channels, num_layers=num_layers, readout=readout, **options
        )
        refuse_gate(
            gate, "MEWISPool", "its layers run on graphs of kept nodes, whose edges have none"
        )
        if self.level != "graph":
            raise RequestError(
                "MEWISPool drops nodes, so it has no output for each of them: choose a set of "
                "graphs, or another model.",
                code="model.argument",
            )
        if not 1 <= num_pools <= num_layers:
            raise RequestError(
                f"num_pools is {num_pools}; allowed are 1 to num_layers, which is {num_layers}.",
                code="model.argument",
            )
        if not 0 <= pool_weight < math.inf:
            raise RequestError(
                f"pool_weight is {pool_weight}; it must be at least 0 and finite.",
                code="model.argument",
            )
        self.residual = residual
        self.pool_weight = pool_weight
        # -(-a // b) rounds up.
        self.pooled_after = [-(-k * num_layers // (num_pools + 1)) for k in range(1, num_pools + 1)]
        channels = self.hidden_channels
        self.convs = nn.ModuleList(
            GINConv(two_layer_mlp(channels, norm), train_eps=True) for _ in range(num_layers)
        )
        self.norms = nn.ModuleList(make_norm(norm, channels) for _ in range(num_layers))
        self.pools = nn.ModuleList(MEWISPool(channels) for _ in range(num_pools))
        self.dropout = nn.Dropout(dropout)
        self.head = make_head(channels, out_channels, dropout, self.level)
        self._pool_loss: Tensor | None = None

    def embed(self, batch: GraphBatch) -> Tensor:
        """Encode nodes, alternate convolution and pooling, and read out."""
        edge_index = undirected(batch.edge_index, len(batch.x))
        h, graph = self.encoder(batch.x), batch.batch
        losses = []
        pools = iter(self.pools)
        for number, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True), 1):
            new = self.dropout(torch.relu(norm(conv(h, edge_index))))
            h = h + new if self.residual else new
            if number in self.pooled_after:
                kept, edge_index, loss = next(pools)(h, edge_index, graph, batch.num_graphs)
                h, graph = h.index_select(0, kept), graph.index_select(0, kept)
                losses.append(loss.mean())
        # None in evaluation: a module that holds an autograd result cannot be copied.
        self._pool_loss = self.pool_weight * sum(losses) if self.training else None
        return readout(h, graph, batch.num_graphs, self.readout)

    def auxiliary_loss(self, loss: Callable[[Tensor], Tensor]) -> Tensor | None:
        """Return the poolings' loss of the preceding training pass, or None."""
        return self._pool_loss
