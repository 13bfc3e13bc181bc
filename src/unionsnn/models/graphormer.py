"""Graphormer."""

from __future__ import annotations

import functools
from typing import Unpack

import torch
from torch import Tensor, nn

from unionsnn.base.arguments import require_at_least
from unionsnn.base.errors import RequestError
from unionsnn.models.transformer import GraphTransformer, TransformerOptions
from unionsnn.nn.attention import EMBEDDING_STD, TransformerBlock
from unionsnn.nn.batch import GraphBatch
from unionsnn.nn.padding import Padding


class Graphormer(GraphTransformer):
    r"""Graphormer: a transformer whose nodes know their degrees and distances.

    .. math::
        h^{(0)}_v = E x_v + z_{\deg(v)}, \qquad
        h \leftarrow h + \mathrm{MHA}(\mathrm{LN}(h)), \quad
        h \leftarrow h + \mathrm{FFN}(\mathrm{LN}(h))

    "Do Transformers Really Perform Bad for Graph Representation?" (Ying et al., NeurIPS 2021),
    equations 5, 6, 8 and 9, in its first version. The score of a pair of nodes has a learned number
    of its distance added to it. Each graph has a token beside its nodes, a learned row whose
    distance to all is one of its own, and a graph is represented by its token; for tasks on nodes
    there is none. Graphs are undirected, so a node has one degree, and edge features are not read.
    With a gate it is Unionormer, equation 6 of "Union Subgraph Neural Networks".

    Args:
        max_degree: The largest degree that is told from larger ones.
        feedforward_ratio: Width inside the feed-forward network by that of the network.
        options: Arguments of `GraphTransformer`; `encodings` must have distances.

    Raises:
        RequestError: if a choice is not allowed, or the distances are left out.
    """

    def __init__(
        self,
        *,
        max_degree: int = 64,
        feedforward_ratio: int = 1,
        **options: Unpack[TransformerOptions],
    ) -> None:
        if not (options.get("encodings") or {}).get("distance"):
            raise RequestError(
                "Graphormer reads the distances within each graph: type "
                "model.encodings.distance=true.",
                code="model.argument",
            )
        require_at_least("max_degree", max_degree, 1)
        layer = functools.partial(
            TransformerBlock,
            feedforward_ratio=feedforward_ratio,
            activation=nn.GELU,
            norm_first=True,
        )
        super().__init__(layer, token=True, **options)
        self.degree = nn.Embedding(max_degree + 1, self.hidden_channels)
        self.first = nn.Parameter(torch.empty(1, self.hidden_channels)) if self.token else None
        self.norm = nn.LayerNorm(self.hidden_channels)
        nn.init.normal_(self.degree.weight, std=EMBEDDING_STD)
        if self.first is not None:
            nn.init.normal_(self.first, std=EMBEDDING_STD)

    def initial_rows(self, h: Tensor, edge_index: Tensor, padding: Padding) -> Tensor:
        """Nodes with their degrees, then the tokens."""
        shares = padding.edge_shares(edge_index)
        degree = shares.new_zeros(len(h)).index_add(0, edge_index[1], shares).round().long()
        h = h + self.degree(degree.clamp(max=self.degree.num_embeddings - 1))
        if self.first is None:
            return h
        return torch.cat([h, self.first.expand(padding.num_graphs, -1).to(h.dtype)])

    def step(
        self, layer: nn.Module, h: Tensor, edge_index: Tensor, padding: Padding, bias: Tensor
    ) -> Tensor:
        """One layer, which sees the edges in the bias alone."""
        return layer(h, padding, bias)

    def pool(self, h: Tensor, batch: GraphBatch) -> Tensor:
        """The tokens, or the nodes."""
        return self.norm(h[len(batch.x) :]) if self.first is not None else self.norm(h)
