"""Attention over the nodes of each graph, with a structural bias."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from unionsnn.base.arguments import require_at_least
from unionsnn.base.errors import RequestError
from unionsnn.nn.batch import required
from unionsnn.nn.gates import StructuralGate, given_coefficient
from unionsnn.nn.padding import Padding

UNREACHABLE = 255
"""Distance value of two nodes without a path between them."""

EMBEDDING_STD = 0.02
"""Standard deviation of Graphormer's initial embeddings."""

# Number of matrices as large as a batch's scores, measured at the peak of a step on a CPU, rounded
# up: those that a layer keeps for the backward pass, without and with dropout, and all others.
_KEPT, _KEPT_WITH_DROPOUT = 1, 3
_BESIDE = {True: 5, False: 4}


class AttentionBias(nn.Module):
    r"""The bias added to the attention scores of a batch, computed once for all layers.

    .. math::
        A_{vu} = q_v \cdot k_u / \sqrt{d} + b_{vu}, \qquad
        b_{vu} = s_{\mathrm{dist}(v,u)} + \mathrm{Trans}(a_{vu}) [(v,u) \in E]

    s is the spatial encoding of "Do Transformers Really Perform Bad for Graph Representation?"
    (Ying et al., NeurIPS 2021), equation 6: one number for each distance and head. Distances above
    `max_distance` share one, as do pairs without a path, and all pairs with the graph's
    token. Trans is the bias of equation 6 of "Union Subgraph Neural Networks" (Xu et al.,
    AAAI 2024), with one gate channel per head: row v receives, column u sends.

    Edges that occur several times count once, and an edge from a node to itself has no bias. A gate
    with ``residual`` gives 1 + weights, which here adds a constant that marks edges.

    Args:
        heads: Number of attention heads.
        gate: Trans, with `heads` channels; None for no gate.
        max_distance: The largest distance that is distinguished; None for no spatial
            encoding.
        token: Whether each graph has a token; requires the spatial encoding.

    Shapes:
        - edge_index: [2, num_edges]
        - edge_coefficient: [num_edges, C], needed with a gate
        - distance: [number of pairs], needed with the spatial encoding: the distance matrices of
          the graphs one after another, row by row; 255 if there is no path
        - output: [num_graphs, heads, size, size], -inf at padding; without gate and spatial
          encoding a bool mask of the places to attend to, [num_graphs, 1, 1, size]

    Raises:
        RequestError: if `max_distance` is not in 1 ... 254, or a required input is missing.
    """

    def __init__(
        self,
        heads: int,
        *,
        gate: StructuralGate | None = None,
        max_distance: int | None = None,
        token: bool = False,
    ) -> None:
        super().__init__()
        if max_distance is not None and not 1 <= max_distance < UNREACHABLE:
            raise RequestError(
                f"max_distance is {max_distance}; it must be in 1 ... 254.", code="model.argument"
            )
        self.heads = heads
        self.gate = gate
        self.max_distance = max_distance
        # Distances 0 ... max_distance, then no path, then the token.
        rows = None if max_distance is None else max_distance + 2 + int(token)
        self.spatial = None if rows is None else nn.Parameter(torch.empty(rows, heads))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new weights of the spatial encoding and the gate."""
        if self.spatial is not None:
            nn.init.normal_(self.spatial, std=EMBEDDING_STD)
        if self.gate is not None:
            self.gate.reset_parameters()

    @property
    def learned(self) -> bool:
        """Whether there is a bias, rather than only a mask."""
        return self.spatial is not None or self.gate is not None

    def forward(
        self,
        padding: Padding,
        edge_index: Tensor,
        *,
        edge_coefficient: Tensor | None = None,
        distance: Tensor | None = None,
    ) -> Tensor:
        """Return the bias of all pairs of places; see the class for shapes."""
        keys = padding.keys[:, None, None]
        if not self.learned:
            return keys
        if self.spatial is not None:
            distance = required(
                "distance",
                distance,
                [padding.num_pairs],
                reader="The spatial encoding",
                remedy="all distances in each graph, row by row, as in data loaded with "
                "model.encodings.distance=true.",
            )
            bias = self._spatial(padding, distance, self.spatial)
        else:
            absent = torch.where(keys, 0.0, -torch.inf)
            bias = absent.repeat(1, self.heads, padding.size, 1)
        if self.gate is not None:
            coefficient = given_coefficient(edge_coefficient)
            trans = self.gate(coefficient, edge_index, padding.num_nodes)
            # Repeated edges are averaged rather than added, so that their gradients are too.
            trans = trans * padding.edge_shares(edge_index).to(trans.dtype).unsqueeze(1)
            bias = self._on_edges(bias.to(trans.dtype), padding.cells(edge_index), trans)
        return bias

    def _spatial(self, padding: Padding, distance: Tensor, table: Tensor) -> Tensor:
        """Return the spatial encoding of all pairs of places, [num_graphs, heads, size, size]."""
        last = len(table) - 2 - padding.tokens
        empty, absent = len(table), len(table) + 1
        constants = table.new_zeros(1, self.heads), table.new_full((1, self.heads), -torch.inf)
        row = torch.where(distance == UNREACHABLE, last + 1, distance.clamp(max=last).int())
        rows = torch.where(padding.keys[:, None], empty, absent).to(torch.int32)
        rows = rows.repeat(1, padding.size, 1)
        if padding.tokens:
            rows[:, :, 0] = last + 2
            rows[:, 0] = torch.where(padding.keys, last + 2, absent)
        rows = rows.masked_scatter_(padding.pairs, row).flatten(1)
        # Look up numbers in the order of the scores; rows would need a transposed copy.
        columns = torch.cat([table, *constants]).t()
        starts = (absent + 1) * torch.arange(self.heads, dtype=torch.int32, device=table.device)
        index = rows.unsqueeze(1) + starts.unsqueeze(1)
        looked_up = columns.flatten().index_select(0, index.flatten())
        return looked_up.view(-1, self.heads, padding.size, padding.size)

    def _on_edges(self, bias: Tensor, cells: Tensor, trans: Tensor) -> Tensor:
        """Add Trans to the cells of edges."""
        matrix = bias.size(2) * bias.size(3)
        graph = cells // matrix
        first = cells + graph * (self.heads - 1) * matrix
        places = first.unsqueeze(1) + matrix * torch.arange(self.heads, device=cells.device)
        return bias.flatten().index_add(0, places.flatten(), trans.flatten()).view_as(bias)

    def extra_repr(self) -> str:
        """Show the size of the spatial encoding."""
        return f"{self.heads}, max_distance={self.max_distance}"


class Attention(nn.Module):
    r"""Multi-head attention among the nodes of each graph.

    .. math::
        h_v \leftarrow W_O \, \Big\Vert_k \sum_u \mathrm{softmax}_u(q^k_v \cdot k^k_u / \sqrt{d/K}
        + b^k_{vu}) \, v^k_u

    "Attention Is All You Need" (Vaswani et al., NeurIPS 2017), section 3.2, with an additive bias.
    Linear maps run over actual nodes, only the scores over padded matrices.

    Args:
        channels: Width, a multiple of `heads`.
        heads: Number of heads.
        dropout: Probability of dropping an attention weight.

    Shapes:
        - h: [num_rows, channels], the rows of `padding`
        - bias: [num_graphs, heads or 1, size or 1, size], added to the scores, or bool, whether a
          place is attended to
        - output: [num_rows, channels]

    Raises:
        RequestError: if the width is not a multiple of `heads`.
    """

    def __init__(self, channels: int, heads: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.head_channels = head_width(channels, heads)
        self.heads = heads
        self.dropout = dropout
        self.project = nn.Linear(channels, 3 * channels)
        self.combine = nn.Linear(channels, channels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new weights, as `torch.nn.MultiheadAttention` does."""
        nn.init.xavier_uniform_(self.project.weight)
        nn.init.zeros_(self.project.bias)
        self.combine.reset_parameters()
        nn.init.zeros_(self.combine.bias)

    def forward(self, h: Tensor, padding: Padding, bias: Tensor) -> Tensor:
        """Let each node attend to all nodes of its graph."""
        projected = padding.pad(self.project(h))
        split = projected.view(*projected.shape[:2], 3, self.heads, self.head_channels)
        q, k, v = split.permute(2, 0, 3, 1, 4)  # each [num_graphs, heads, size, d]
        mixed = functional.scaled_dot_product_attention(
            q,
            k,
            v,
            attn_mask=bias if bias.dtype == torch.bool else bias.to(q.dtype),
            dropout_p=self.dropout if self.training else 0.0,
        )
        return self.combine(padding.unpad(mixed.transpose(1, 2).flatten(2)))


class TransformerBlock(nn.Module):
    r"""Attention and a feed-forward network, each with a residual connection and a layer norm.

    .. math::
        \text{norm first:}\quad h \leftarrow h + \mathrm{attn}(\mathrm{LN}(h)), \quad
        h \leftarrow h + \mathrm{FFN}(\mathrm{LN}(h)) \\
        \text{norm last:}\quad h \leftarrow \mathrm{LN}(h + \mathrm{attn}(h)), \quad
        h \leftarrow \mathrm{LN}(h + \mathrm{FFN}(h))

    Args:
        channels: Width.
        heads: Number of heads.
        feedforward_ratio: Hidden width of the feed-forward network divided by `channels`.
        activation: Factory of the activation in the feed-forward network.
        norm_first: Whether the norms come first.
        dropout: Probability of dropping a channel after attention and each linear map.
        attention_dropout: Probability of dropping an attention weight.

    Shapes:
        - h: [num_rows, channels], the rows of `padding`
        - bias: as in `Attention`
        - output: [num_rows, channels]
    """

    def __init__(
        self,
        channels: int,
        heads: int,
        *,
        feedforward_ratio: int,
        activation: Callable[[], nn.Module],
        norm_first: bool,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.norm_first = norm_first
        self.attention = Attention(channels, heads, dropout=attention_dropout)
        self.feedforward = feedforward(channels, feedforward_ratio, activation, dropout)
        self.attention_norm = nn.LayerNorm(channels)
        self.feedforward_norm = nn.LayerNorm(channels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, h: Tensor, padding: Padding, bias: Tensor) -> Tensor:
        """Apply attention, then the feed-forward network."""
        if self.norm_first:
            h = h + self.dropout(self.attention(self.attention_norm(h), padding, bias))
            return h + self.feedforward(self.feedforward_norm(h))
        h = self.attention_norm(h + self.dropout(self.attention(h, padding, bias)))
        return self.feedforward_norm(h + self.feedforward(h))


def feedforward(
    channels: int, ratio: int, activation: Callable[[], nn.Module], dropout: float
) -> nn.Sequential:
    """Make a transformer's feed-forward network: linear, activation, linear, each with dropout.

    Raises:
        RequestError: if `ratio`, the hidden width divided by `channels`, is below 1.
    """
    require_at_least("feedforward_ratio", ratio, 1)
    hidden = ratio * channels
    return nn.Sequential(
        nn.Linear(channels, hidden),
        activation(),
        nn.Dropout(dropout),
        nn.Linear(hidden, channels),
        nn.Dropout(dropout),
    )


def head_width(channels: int, heads: int) -> int:
    """Return the width of one head; RequestError if the heads cannot divide the width."""
    if heads < 1 or channels % heads:
        raise RequestError(
            f"hidden_channels is {channels} and heads is {heads}; "
            "the width must be a multiple of the number of heads.",
            code="model.heads",
        )
    return channels // heads


def attention_bytes(
    num_graphs: int,
    num_nodes_max: int,
    *,
    heads: int,
    num_layers: int,
    tokens: int = 0,
    training: bool = True,
    dropout: bool = False,
    element_size: int = 4,
) -> int:
    """Estimate the peak memory of biased attention, as far as it grows with pairs of nodes.

    Each layer keeps its attention weights for the backward pass; the bias, its index and gradients
    and the scores of the current layer are a few more matrices of the same size. With only a mask
    and without dropout, no such matrix is made.

    Args:
        num_graphs: Graphs of a batch.
        num_nodes_max: Nodes of its largest graph.
        heads: Attention heads.
        num_layers: Layers.
        tokens: Tokens that each graph has.
        training: Whether there is a backward pass.
        dropout: Whether attention weights are dropped.
        element_size: Bytes of a number.
    """
    scores = num_graphs * heads * (num_nodes_max + tokens) ** 2 * element_size
    kept = _KEPT_WITH_DROPOUT if dropout else _KEPT
    return scores * (_BESIDE[training] + num_layers * kept * training)
