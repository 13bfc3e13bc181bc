"""UGformer."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Unpack

import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv

from unionsnn.models.arguments import Readout, encodes_edges
from unionsnn.models.transformer import GraphTransformer, TransformerOptions
from unionsnn.nn.attention import TransformerBlock
from unionsnn.nn.conv.edge_gcn import EdgeGCNConv
from unionsnn.nn.padding import Padding


class UGformerLayer(nn.Module):
    r"""A transformer block among all nodes of a graph, then a graph convolution.

    .. math::
        h \leftarrow \mathrm{LN}(h + \mathrm{MHA}(h)), \quad
        h \leftarrow \mathrm{LN}(h + \mathrm{FFN}(h)), \quad
        h \leftarrow \mathrm{dropout}(\mathrm{ReLU}(\mathrm{GCN}(h)))

    Args:
        channels: Width.
        conv: The graph convolution, GCN or, with edge features, `EdgeGCNConv`.
        dropout: Probability of dropping a channel in the block and after the convolution.
        block: Further arguments of `TransformerBlock`.

    Shapes:
        - h: [num_nodes, channels]
        - edge_index: [2, num_edges], as conv expects it
        - bias: as in `Attention`
        - edges: [num_edges, channels], read by conv; None for none
        - output: [num_nodes, channels]
    """

    def __init__(
        self,
        channels: int,
        conv: Callable[[int], nn.Module],
        *,
        dropout: float = 0.0,
        **block: Any,
    ) -> None:
        super().__init__()
        self.block = TransformerBlock(
            channels, activation=nn.ReLU, norm_first=False, dropout=dropout, **block
        )
        self.conv = conv(channels)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        h: Tensor,
        edge_index: Tensor,
        padding: Padding,
        bias: Tensor,
        edges: Tensor | None = None,
    ) -> Tensor:
        """Apply the block, then the convolution."""
        h = self.block(h, padding, bias)
        given = () if edges is None else (edges,)
        return self.dropout(torch.relu(self.conv(h, edge_index, *given)))


class UGformer(GraphTransformer):
    r"""UGformer: alternating transformer blocks and graph convolutions.

    "Universal Graph Transformer Self-Attention Networks" (Nguyen et al., WWW 2022), variant 2: each
    layer lets all nodes of a graph attend to each other, then aggregates over the edges with GCN;
    see `UGformerLayer`. Edge features are read by the GCN, see `EdgeGCNConv`. The published code
    sums a prediction from each layer's readout; here the last layer is read out, as in all networks
    of this package. With a gate it has the bias of equation 6 of "Union Subgraph Neural Networks";
    the convolution is unchanged.

    Args:
        feedforward_ratio: Hidden width of the feed-forward network divided by the network's width.
        readout: ``sum``, ``mean`` or ``max``; only for graphs.
        options: Arguments of `GraphTransformer`; if `encodings` has distances, the attention has
            Graphormer's spatial encoding.
    """

    reads_edges = True
    # The message, and its gradient or its normalised copy.
    edge_rows = 2

    def __init__(
        self,
        *,
        feedforward_ratio: int = 2,
        readout: Readout = "sum",
        **options: Unpack[TransformerOptions],
    ) -> None:
        with_edges = encodes_edges(options)
        conv = EdgeGCNConv if with_edges else lambda c: GCNConv(c, c, add_self_loops=False)
        layer = functools.partial(UGformerLayer, conv=conv, feedforward_ratio=feedforward_ratio)
        super().__init__(layer, readout=readout, **options)
        self.adds_loops = not with_edges
