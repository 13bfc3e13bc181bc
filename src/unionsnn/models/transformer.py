"""The stack that all graph transformers share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from torch import Tensor, nn

from unionsnn.base.errors import RequestError
from unionsnn.base.memory import Extent
from unionsnn.models.network import Encodings, GateFactory, Network, NetworkOptions, make_head
from unionsnn.nn.attention import AttentionBias, attention_bytes
from unionsnn.nn.batch import GraphBatch, required
from unionsnn.nn.encoders import LaplacianEncoder, RandomWalkEncoder
from unionsnn.nn.padding import Padding

# Quarters: norms, activations and gathered rows come to about a fourth of what linear maps keep.
_MORE = 5
# Without gradients: what a layer is given, its padded parts, and what is made of them.
_AT_ONCE = 2


class TransformerOptions(NetworkOptions, total=False):
    """Arguments of `GraphTransformer` that every network passes on."""

    heads: int
    attention_dropout: float
    encodings: Encodings | None
    max_distance: int


class GraphTransformer(Network):
    r"""Encoders, layers with attention, readout and head, for graphs or nodes.

    .. math::
        h^{(0)}_v = E x_v + W_{RW} \mathrm{BN}(r_v) + W_L \lambda_v, \qquad
        h^{(l+1)} = \mathrm{layer}_l(h^{(l)}, b)

    r are the landing probabilities of a random walk, λ eigenvectors of the Laplacian, where the
    network reads them. GraphGPS puts such encodings beside the node features; they are added here,
    which contains the other and leaves each width open. b is the bias of `AttentionBias`, made
    once and the same in all layers; with a gate it is equation 6 of "Union Subgraph Neural
    Networks" (Xu et al., AAAI 2024), on attention alone: no message is gated.

    Args:
        layer: Makes one layer of a width; its keyword arguments are `heads`, `dropout` and
            `attention_dropout`.
        in_channels: Width of the node features, or how many values each categorical one can take.
        out_channels: Number of classes or targets.
        level: ``graph`` for one row per graph, ``node`` for one per node.
        gate: Makes Trans for a number of heads; one for all layers. None for the plain network.
        hidden_channels: Width of the network, a multiple of `heads`.
        num_layers: Number of layers.
        heads: Number of attention heads.
        dropout: Probability of dropping a channel in the layers and the head.
        attention_dropout: Probability of dropping an attention weight.
        encodings: What the batches carry for it; None for nothing.
        max_distance: The largest distance that is told from larger ones; only with distances.
        token: Whether each graph has a token that is its representation; not for nodes.
        readout: ``sum``, ``mean`` or ``max``; only for graphs.

    Shapes:
        - batch: as in `GraphBatch`; a gate needs its `edge_coefficient`, and each of the
          `encodings` the attribute of its name
        - output: [num_graphs or num_nodes, out_channels]

    Raises:
        RequestError: if a choice or size is not allowed, or an encoding is not given.
    """

    at_most_1wl = True

    attends = True
    """Whether the layers have attention."""

    def __init__(
        self,
        layer: Callable[..., nn.Module],
        *,
        in_channels: int | Sequence[int],
        out_channels: int,
        level: Literal["graph", "node"] = "graph",
        gate: GateFactory | None = None,
        hidden_channels: int = 64,
        num_layers: int = 4,
        heads: int = 8,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        encodings: Encodings | None = None,
        max_distance: int = 20,
        token: bool = False,
        readout: Literal["sum", "mean", "max"] = "sum",
    ) -> None:
        super().__init__(
            in_channels=in_channels,
            level=level,
            hidden_channels=hidden_channels,
            num_layers=num_layers,
            readout=readout,
        )
        self.encodings = checked(encodings)
        self.token = token and level == "graph"
        steps, eigenvectors = self.encodings["random_walk"], self.encodings["laplacian"]
        self.random_walk = RandomWalkEncoder(steps, hidden_channels) if steps else None
        self.laplacian = LaplacianEncoder(eigenvectors, hidden_channels) if eigenvectors else None
        self.bias = AttentionBias(
            heads,
            gate=None if gate is None else gate(heads),
            max_distance=max_distance if self.encodings["distance"] else None,
            token=self.token,
        )
        self.attention_dropout = attention_dropout
        self.layers = nn.ModuleList(
            layer(
                hidden_channels, heads=heads, dropout=dropout, attention_dropout=attention_dropout
            )
            for _ in range(num_layers)
        )
        self.head = make_head(hidden_channels, out_channels, dropout)

    def embed(self, batch: GraphBatch) -> Tensor:
        """Encode features and positions, attend, read out."""
        h = self.encoder(batch.x)
        if self.random_walk is not None:
            h = h + self.random_walk(self._required("random_walk", batch.random_walk, h))
        if self.laplacian is not None:
            eigenvectors = self._required("laplacian", batch.laplacian, h)
            h = h + self.laplacian(eigenvectors, batch.batch, batch.num_graphs)
        padding = Padding(batch.batch, batch.num_graphs, token=self.token)
        bias = self.bias(
            padding,
            batch.edge_index,
            edge_coefficient=batch.edge_coefficient,
            distance=batch.distance,
        )
        h = self.initial_rows(h, batch.edge_index, padding)
        for layer in self.layers:
            h = self.step(layer, h, batch.edge_index, padding, bias)
        return self.pool(h, batch)

    def initial_rows(self, h: Tensor, edge_index: Tensor, padding: Padding) -> Tensor:
        """Rows that the first layer is given, from the encoded nodes."""
        return h

    def step(
        self, layer: nn.Module, h: Tensor, edge_index: Tensor, padding: Padding, bias: Tensor
    ) -> Tensor:
        """One layer."""
        return layer(h, edge_index, padding, bias)

    def _required(
        self, name: Literal["random_walk", "laplacian"], encoding: Tensor | None, h: Tensor
    ) -> Tensor:
        """Return an encoding that has one row of its size for each node."""
        size = self.encodings[name]
        return required(
            name,
            encoding,
            [h.size(0), size],
            reader=type(self).__name__,
            remedy=f"data loaded with model.encodings.{name}={size} have it; or build the network "
            f"with model.encodings.{name}=0.",
        )

    def batch_bytes(self, extent: Extent) -> int:
        """What attention keeps of pairs, and the layers of nodes.

        What grows with edges is not counted beyond a few for each node.
        """
        # A linear map keeps what it is given, and what follows keeps what it gives.
        widths = [sum(p.shape) for p in self.layers.parameters() if p.dim() == 2]
        width = sum(widths) if self.training else _AT_ONCE * max(widths)
        # Attention pads its rows to the largest graph.
        places = extent.num_graphs * (extent.largest + int(self.token))
        nodes = places * width * self.element_size * _MORE // 4
        dropout = self.training and self.attention_dropout > 0
        if not (self.attends and (self.bias.learned or dropout)):
            return nodes
        return nodes + attention_bytes(
            extent.num_graphs,
            extent.largest,
            heads=self.bias.heads,
            num_layers=len(self.layers),
            tokens=int(self.token),
            training=self.training,
            dropout=dropout,
            element_size=self.element_size,
        )


def checked(encodings: Encodings | None) -> Encodings:
    """Return the encodings with none left out; raises RequestError if one is not allowed."""
    known: Encodings = {"random_walk": 0, "laplacian": 0, "distance": False}
    faults = []
    for name, value in (encodings or {}).items():
        if name not in known:
            faults.append(f"encodings.{name} is {value!r}; allowed are {', '.join(known)}.")
        elif name == "distance":
            if not isinstance(value, bool):
                faults.append(f"encodings.distance is {value!r}; it must be true or false.")
        elif isinstance(value, bool) or not isinstance(value, int) or value < 0:
            faults.append(f"encodings.{name} is {value!r}; it must be a number from 0.")
    if faults:
        raise RequestError(*faults, code="model.encodings")
    return {**known, **(encodings or {})}
