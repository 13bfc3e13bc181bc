"""Graphormer."""

from __future__ import annotations

import functools
from typing import Unpack

import torch
from torch import Tensor, nn

from unionsnn.base.arguments import require_at_least
from unionsnn.base.errors import RequestError
from unionsnn.base.memory import Extent
from unionsnn.models.arguments import encodes_edges
from unionsnn.models.transformer import GraphTransformer, TransformerOptions
from unionsnn.nn.attention import EMBEDDING_STD, TransformerBlock
from unionsnn.nn.batch import GraphBatch
from unionsnn.nn.edge_paths import PathEncoding, path_bytes
from unionsnn.nn.padding import Padding

# `multi_hop_max_dist` of the authors' code.
_MAX_PATH = 5
# Matrices as large as a batch's scores: the encodings as such, their sum with the bias, a gradient.
_PADDED = 3


class Graphormer(GraphTransformer):
    r"""Graphormer: a transformer with encodings of degrees and distances.

    .. math::
        h^{(0)}_v = E x_v + z_{\deg(v)}, \qquad
        h \leftarrow h + \mathrm{MHA}(\mathrm{LN}(h)), \quad
        h \leftarrow h + \mathrm{FFN}(\mathrm{LN}(h))

    "Do Transformers Really Perform Bad for Graph Representation?" (Ying et al., NeurIPS 2021),
    equations 5, 6, 8 and 9, in its first version. A learned number for the distance of two nodes is
    added to their score. Each graph has a token in addition to its nodes, a learned row with its
    own distance to all nodes, which represents the graph; on node tasks there is none. Graphs are
    undirected, so a node has one degree. Edge features are read along shortest paths, equation 7,
    see `PathEncoding`. With a gate it is Unionormer, equation 6 of "Union Subgraph Neural
    Networks".

    Args:
        max_degree: The largest degree that is distinguished.
        feedforward_ratio: Hidden width of the feed-forward network divided by the network's width.
        max_path: Number of edges whose features are read of each path; None for 5 with edge
            features, as in the authors' code, and must be None without.
        options: Arguments of `GraphTransformer`; `encodings` must have distances.

    Raises:
        RequestError: if a choice is not allowed, or distances are missing.
    """

    reads_edges = True

    def __init__(
        self,
        *,
        max_degree: int = 64,
        feedforward_ratio: int = 1,
        max_path: int | None = None,
        **options: Unpack[TransformerOptions],
    ) -> None:
        if not (options.get("encodings") or {}).get("distance"):
            raise RequestError(
                "Graphormer reads the distances within each graph: type "
                'model.encodings.distance=true, in Python encodings={"distance": True}.',
                code="model.argument",
            )
        require_at_least("max_degree", max_degree, 1)
        if max_path is not None and not encodes_edges(options):
            raise RequestError(
                f"max_path is {max_path}, but no edge features are read: leave model.max_path out, "
                "or type data.edge_features=labels or gate.inject=edge.",
                code="model.argument",
            )
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
        self.paths: PathEncoding | None = None
        if self.edge_encoder is not None:
            max_path = _MAX_PATH if max_path is None else max_path
            self.paths = PathEncoding(self.hidden_channels, self.bias.heads, max_path=max_path)

    def attention_bias(self, batch: GraphBatch, padding: Padding, edges: Tensor | None) -> Tensor:
        """Return the bias with the encoding of edges along shortest paths."""
        bias = super().attention_bias(batch, padding, edges)
        if self.paths is None or edges is None or batch.distance is None:
            return bias
        c = self.paths(edges, batch.edge_index, padding, batch.distance)
        return bias + padding.on_pairs(c)

    def initial_rows(self, h: Tensor, edge_index: Tensor, padding: Padding) -> Tensor:
        """Return the nodes with their degree encodings, then the tokens."""
        shares = padding.edge_shares(edge_index)
        degree = shares.new_zeros(len(h)).index_add(0, edge_index[1], shares).round().long()
        h = h + self.degree(degree.clamp(max=self.degree.num_embeddings - 1))
        if self.first is None:
            return h
        return torch.cat([h, self.first.expand(padding.num_graphs, -1).to(h.dtype)])

    def step(
        self,
        layer: nn.Module,
        h: Tensor,
        edge_index: Tensor,
        padding: Padding,
        bias: Tensor,
        edges: Tensor | None,
    ) -> Tensor:
        """Apply one layer, which reads the edges only through the bias."""
        return layer(h, padding, bias)

    def pool(self, h: Tensor, batch: GraphBatch) -> Tensor:
        """Return the tokens of graphs, or the nodes."""
        return self.norm(h[len(batch.x) :]) if self.first is not None else self.norm(h)

    def batch_bytes(self, extent: Extent) -> int:
        """Estimate the memory of attention, of the layers, and of encodings along paths."""
        needed = super().batch_bytes(extent)
        if self.paths is None:
            return needed
        max_path, _, heads = self.paths.weight.shape
        padded = extent.num_graphs * heads * (extent.largest + int(self.token)) ** 2
        search, kept = path_bytes(
            extent.pairs,
            extent.rows["edge_index"],
            heads=heads,
            max_path=max_path,
            largest=extent.largest,
            element_size=self.element_size,
        )
        # Layers keep nothing yet while steps are searched.
        return max(search, needed + kept + _PADDED * padded * self.element_size)
