"""The stack shared by all graph transformers."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal, Required, Unpack

from torch import Tensor, nn

from unionsnn.base.errors import RequestError
from unionsnn.base.memory import Extent
from unionsnn.models.arguments import Encodings, Gate, NetworkOptions, Readout, factory_of
from unionsnn.models.network import Network
from unionsnn.models.parts import make_head
from unionsnn.nn.attention import AttentionBias, attention_bytes
from unionsnn.nn.batch import GraphBatch, required
from unionsnn.nn.encoders import LaplacianEncoder, RandomWalkEncoder
from unionsnn.nn.gates import StructuralGate
from unionsnn.nn.loops import SelfLoops
from unionsnn.nn.padding import Padding

# In quarters: norms, activations and gathered rows take about a fourth of what linear maps keep.
_MORE = 5
# Rows of the network's width that the encoder of edges keeps for each edge: its output, the hidden
# layer of structural features, and a gradient.
_OF_THE_ENCODER = 3
# Without gradients: a layer's input, its padded parts, and the results.
_AT_ONCE = 2


class TransformerOptions(NetworkOptions, total=False):
    """Arguments of `GraphTransformer` that every network passes on."""

    out_channels: Required[int]
    gate: Gate | None
    num_layers: int
    heads: int
    dropout: float
    attention_dropout: float
    encodings: Encodings | None
    max_distance: int


class GraphTransformer(Network):
    r"""Encoders, layers with attention, readout and head, for graphs or nodes.

    .. math::
        h^{(0)}_v = E x_v + W_{RW} \mathrm{BN}(r_v) + W_L \lambda_v, \qquad
        h^{(l+1)} = \mathrm{layer}_l(h^{(l)}, b)

    r are the landing probabilities of a random walk, λ eigenvectors of the Laplacian, if the
    network reads them. GraphGPS concatenates such encodings to the node features; here they are
    added, which is more general and leaves each width free. b is the bias of `AttentionBias`,
    computed once and shared by all layers; with a gate it is equation 6 of "Union Subgraph Neural
    Networks" (Xu et al., AAAI 2024), on attention only: no message is gated.

    Args:
        layer: Factory of a layer of a width; its keyword arguments are `heads`, `dropout` and
            `attention_dropout`.
        out_channels: Number of classes or targets.
        gate: What makes Trans for a number of heads, one for all layers, as in `Gate`; None for a
            plain network.
        num_layers: Number of layers.
        heads: Number of attention heads, which divides `hidden_channels`.
        dropout: Probability of dropping a channel in the layers and the head.
        attention_dropout: Probability of dropping an attention weight.
        encodings: Encodings in the batches; None for none.
        max_distance: The largest distance that is distinguished; only with distances.
        token: Whether each graph is represented by a token; not for nodes.
        readout: ``sum``, ``mean`` or ``max``; only for graphs.
        options: Arguments of `Network`.

    Shapes:
        - batch: as in `GraphBatch`; a gate needs its `edge_coefficient`, and each of the
          `encodings` the attribute of its name
        - output: [num_graphs, num_nodes or num_pairs, out_channels]

    Raises:
        RequestError: if a choice or size is not allowed, or an encoding is missing.
    """

    at_most_1wl = True
    reads_encodings = ("random_walk", "laplacian", "distance")

    attends = True
    """Whether the layers have attention."""

    adds_loops: bool = False
    """Whether the layers expect an edge from each node to itself, after all others."""

    edge_rows: ClassVar[int] = 0
    """Rows of the network's width that a layer keeps for each edge with features."""

    not_exported = "torch.export cannot trace its padded attention for a free number of nodes"

    def __init__(
        self,
        layer: Callable[..., nn.Module],
        *,
        out_channels: int,
        gate: Gate | None = None,
        num_layers: int = 4,
        heads: int = 8,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        encodings: Encodings | None = None,
        max_distance: int = 20,
        token: bool = False,
        readout: Readout = "sum",
        **options: Unpack[NetworkOptions],
    ) -> None:
        super().__init__(
            out_channels=out_channels, num_layers=num_layers, readout=readout, **options
        )
        self.encodings = checked(encodings)
        self.token = token and self.level == "graph"
        steps, eigenvectors = self.encodings["random_walk"], self.encodings["laplacian"]
        channels = self.hidden_channels
        self.random_walk = RandomWalkEncoder(steps, channels) if steps else None
        self.laplacian = LaplacianEncoder(eigenvectors, channels) if eigenvectors else None
        make = factory_of(gate, StructuralGate)
        self.bias = AttentionBias(
            heads,
            gate=None if make is None else make(heads),
            max_distance=max_distance if self.encodings["distance"] else None,
            token=self.token,
        )
        self.attention_dropout = attention_dropout
        self.layers = nn.ModuleList(
            layer(channels, heads=heads, dropout=dropout, attention_dropout=attention_dropout)
            for _ in range(num_layers)
        )
        self.head = make_head(channels, out_channels, dropout, self.level)

    def embed(self, batch: GraphBatch) -> Tensor:
        """Encode features and positions, attend, and read out."""
        h = self.encoder(batch.x)
        if self.random_walk is not None:
            h = h + self.random_walk(self._required("random_walk", batch.random_walk, h))
        if self.laplacian is not None:
            eigenvectors = self._required("laplacian", batch.laplacian, h)
            h = h + self.laplacian(eigenvectors, batch.batch, batch.num_graphs)
        padding = Padding(batch.batch, batch.num_graphs, token=self.token, sizes=batch.sizes)
        edges = self.encoded_edges(batch)
        bias = self.attention_bias(batch, padding, edges)
        h = self.initial_rows(h, batch.edge_index, padding)
        edge_index = batch.edge_index
        if self.adds_loops:
            edge_index = SelfLoops(edge_index, len(batch.x), batch.loops).edge_index
        for layer in self.layers:
            h = self.step(layer, h, edge_index, padding, bias, edges)
        return self.pool(h, batch)

    def attention_bias(self, batch: GraphBatch, padding: Padding, edges: Tensor | None) -> Tensor:
        """Return what is added to the scores of all layers; see `AttentionBias`."""
        bias: Tensor = self.bias(
            padding,
            batch.edge_index,
            edge_coefficient=batch.edge_coefficient,
            distance=batch.distance,
        )
        return bias

    def initial_rows(self, h: Tensor, edge_index: Tensor, padding: Padding) -> Tensor:
        """Return the first layer's input rows from the encoded nodes."""
        return h

    def step(
        self,
        layer: nn.Module,
        h: Tensor,
        edge_index: Tensor,
        padding: Padding,
        bias: Tensor,
        edges: Tensor | None,
    ) -> Tensor:
        """Apply one layer."""
        return layer(h, edge_index, padding, bias, edges)

    def _required(
        self, name: Literal["random_walk", "laplacian"], encoding: Tensor | None, h: Tensor
    ) -> Tensor:
        """Return an encoding with one row of its size for each node."""
        size = self.encodings[name]
        return required(
            name,
            encoding,
            [h.size(0), size],
            reader=type(self).__name__,
            remedy=f"load the data with model.encodings.{name}={size}, or build the network "
            f"with model.encodings.{name}=0.",
        )

    def batch_bytes(self, extent: Extent) -> int:
        """Estimate the memory of attention over pairs, and of the layers over nodes and edges.

        Without edge features it assumes a few edges per node.
        """
        # A linear map keeps its input, and the next operation keeps its output.
        widths = [sum(p.shape) for p in self.layers.parameters() if p.dim() == 2]
        width = sum(widths) if self.training else _AT_ONCE * max(widths)
        # Attention pads its rows to the largest graph.
        places = extent.num_graphs * (extent.largest + int(self.token))
        nodes = places * width * self.element_size * _MORE // 4
        if self.edge_encoder is not None:
            rows = _OF_THE_ENCODER + self.edge_rows * (len(self.layers) if self.training else 1)
            nodes += extent.rows["edge_index"] * rows * self.hidden_channels * self.element_size
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
    """Return the encodings with defaults filled in; RequestError if one is not allowed."""
    known: Encodings = {"random_walk": 0, "laplacian": 0, "distance": False}
    faults = []
    for name, value in (encodings or {}).items():
        if name not in known:
            faults.append(f"encodings.{name} is {value!r}; allowed are {', '.join(known)}.")
        elif name == "distance":
            if not isinstance(value, bool):
                faults.append(f"encodings.distance is {value!r}; it must be true or false.")
        elif isinstance(value, bool) or not isinstance(value, int) or value < 0:
            faults.append(f"encodings.{name} is {value!r}; it must be an integer of at least 0.")
    if faults:
        raise RequestError(*faults, code="model.encodings")
    return {**known, **(encodings or {})}
