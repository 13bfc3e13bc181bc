"""GPS: general, powerful, scalable graph transformer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, Unpack

from torch import Tensor, nn
from torch_geometric.nn import GCNConv, GINConv, GINEConv

from unionsnn.base.arguments import require_choice
from unionsnn.base.errors import RequestError
from unionsnn.models.arguments import Norm, Readout, encodes_edges
from unionsnn.models.parts import make_norm, two_layer_mlp
from unionsnn.models.transformer import GraphTransformer, TransformerOptions
from unionsnn.nn.attention import Attention, feedforward
from unionsnn.nn.conv.edge_gcn import EdgeGCNConv
from unionsnn.nn.conv.gine import AlikeGINEConv
from unionsnn.nn.padding import Padding

LOCAL: Mapping[str, Callable[[int], nn.Module] | None] = {
    "gine": lambda c: AlikeGINEConv(two_layer_mlp(c, "none"), c),
    "gin": lambda c: GINConv(two_layer_mlp(c, "none")),
    "gcn": lambda c: GCNConv(c, c, add_self_loops=False),
    "none": None,
}
"""Message passing in parallel with the attention; GCN reads edges with loops."""

EDGE_READING: Mapping[str, Callable[[int], nn.Module]] = {
    "gine": lambda c: GINEConv(two_layer_mlp(c, "none")),
    "gcn": EdgeGCNConv,
}
"""The same with edge features."""

ATTENTION = ("graphormer", "plain", "none")
"""Attention with the spatial encoding of Graphormer, without it, or none."""


class GPSLayer(nn.Module):
    r"""Message passing and attention in parallel, then a feed-forward network.

    .. math::
        h_L = \mathrm{norm}(h + \mathrm{conv}(h)), \quad
        h_A = \mathrm{norm}(h + \mathrm{attn}(h)), \quad
        h \leftarrow \mathrm{norm}(h_L + h_A + \mathrm{FFN}(h_L + h_A))

    "Recipe for a General, Powerful, Scalable Graph Transformer" (Rampášek et al., NeurIPS 2022),
    equations 4 to 7; with dropout after conv, attn and in the FFN of twice the width.

    Args:
        channels: Width.
        conv: Message passing; None for none.
        attention: Attention; None for none.
        norm: ``batch``, ``layer`` or ``none``.
        dropout: Probability of dropping a channel.

    Shapes:
        - h: [num_nodes, channels]
        - edge_index: [2, num_edges]
        - bias: as in `Attention`
        - edges: [num_edges, channels], read by conv; None for none
        - output: [num_nodes, channels]
    """

    def __init__(
        self,
        channels: int,
        conv: nn.Module | None,
        attention: Attention | None,
        *,
        norm: Norm = "batch",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.conv = conv
        self.attention = attention
        self.feedforward = feedforward(channels, 2, nn.ReLU, dropout)
        self.conv_norm = None if conv is None else make_norm(norm, channels)
        self.attention_norm = None if attention is None else make_norm(norm, channels)
        self.norm = make_norm(norm, channels)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        h: Tensor,
        edge_index: Tensor,
        padding: Padding,
        bias: Tensor,
        edges: Tensor | None = None,
    ) -> Tensor:
        """Apply message passing and attention, add them, and transform the sum."""
        parts = []
        if self.conv is not None and self.conv_norm is not None:
            given = () if edges is None else (edges,)
            parts.append(self.conv_norm(h + self.dropout(self.conv(h, edge_index, *given))))
        if self.attention is not None and self.attention_norm is not None:
            parts.append(self.attention_norm(h + self.dropout(self.attention(h, padding, bias))))
        h = parts[0] + parts[1] if len(parts) == 2 else parts[0]
        return self.norm(h + self.feedforward(h))


class GPS(GraphTransformer):
    r"""GPS: message passing and attention in parallel in each layer.

    "Recipe for a General, Powerful, Scalable Graph Transformer" (Rampášek et al., NeurIPS 2022);
    see `GPSLayer`. With a gate it is UnionGPS, equation 6 of "Union Subgraph Neural Networks": the
    attention is biased, the messages are unchanged. Edge features are read by the message passing
    of each layer, not by the attention.

    Args:
        local: Message passing: ``gine`` (without edge features with one learned vector per layer
            for all edges), ``gin``, ``gcn`` (with edge features `EdgeGCNConv`) or ``none``. Of
            these, ``gine`` and ``gcn`` read edge features; GIN with edge features is ``gine``.
        attention: ``graphormer``, with the spatial encoding of distances, ``plain`` or ``none``.
        norm: ``batch``, ``layer`` or ``none``.
        readout: ``sum``, ``mean`` or ``max``; only for graphs.
        options: Arguments of `GraphTransformer`; `encodings` must have distances exactly if the
            attention reads them.

    Raises:
        RequestError: if a choice is not allowed, or choices are incompatible.
    """

    reads_edges = True
    for_nodes: ClassVar[Mapping[str, Any]] = {"norm": "layer"}
    # The message, and its gradient or its normalised copy.
    edge_rows = 2

    def __init__(
        self,
        *,
        local: Literal["gine", "gin", "gcn", "none"] = "gine",
        attention: Literal["graphormer", "plain", "none"] = "graphormer",
        norm: Norm = "batch",
        readout: Readout = "sum",
        **options: Unpack[TransformerOptions],
    ) -> None:
        require_choice("local", local, LOCAL)
        require_choice("attention", attention, ATTENTION)
        if local == attention == "none":
            raise RequestError(
                "local and attention are both 'none', which leaves no layer to train.",
                code="model.argument",
            )
        if attention == "none" and options.get("gate") not in (None, "none"):
            raise RequestError(
                "attention is 'none', but the gate is a bias on attention: type gate=none, or "
                "another model.attention.",
                code="model.argument",
            )
        convs: Mapping[str, Callable[[int], nn.Module] | None] = LOCAL
        if encodes_edges(options):
            convs = EDGE_READING
            if local not in convs:
                raise RequestError(
                    f"local is {local!r}, which does not read edge features: type model.local=gine "
                    "or gcn, or data.edge_features=none and gate.inject=gate.",
                    code="model.edges",
                )
        reads = attention == "graphormer"
        if bool((options.get("encodings") or {}).get("distance")) != reads:
            raise RequestError(
                f"attention is {attention!r}, which reads {'the' if reads else 'no'} distances "
                f"within each graph: type model.encodings.distance={str(reads).lower()}, in Python "
                f'encodings={{"distance": {reads}}}.',
                code="model.argument",
            )

        def layer(
            channels: int, *, heads: int, dropout: float, attention_dropout: float
        ) -> GPSLayer:
            make = convs[local]
            return GPSLayer(
                channels,
                None if make is None else make(channels),
                None
                if attention == "none"
                else Attention(channels, heads, dropout=attention_dropout),
                norm=norm,
                dropout=dropout,
            )

        super().__init__(layer, readout=readout, **options)
        self.attends = attention != "none"
        self.adds_loops = local == "gcn" and not encodes_edges(options)
