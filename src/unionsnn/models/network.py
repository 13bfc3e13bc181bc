"""Base class of all networks: encoder, readout, head, and gates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, Protocol, Required, TypedDict, runtime_checkable

from torch import Tensor, nn
from torch_geometric.nn import BatchNorm

from unionsnn.base.arguments import require_at_least, require_choice
from unionsnn.base.errors import RequestError
from unionsnn.base.memory import Extent
from unionsnn.nn.batch import GraphBatch
from unionsnn.nn.encoders import EdgeEncoder, StructuralEdgeEncoder, make_encoder
from unionsnn.nn.features import structural_modules
from unionsnn.nn.gates import StructuralGate
from unionsnn.nn.readout import READOUTS, readout

GateFactory = Callable[[int], StructuralGate]
"""Factory of a gate with a given number of channels."""

EdgeEncoderFactory = Callable[[int], StructuralEdgeEncoder]
"""Factory of an encoder of coefficients with a given number of channels."""


class Encodings(TypedDict, total=False):
    """Encodings of position and structure that a network reads."""

    random_walk: int
    """Steps of the random walk whose encoded landing probabilities are added to the nodes."""
    laplacian: int
    """Number of Laplacian eigenvectors whose encoding is added to the nodes."""
    distance: bool
    """Whether attention reads the distance of two nodes."""
    subgraph: int
    """Number of hops of the subgraphs rooted at the nodes."""


class NetworkOptions(TypedDict, total=False):
    """Arguments that every network takes."""

    in_channels: Required[int | Sequence[int]]
    out_channels: Required[int]
    level: Literal["graph", "node"]
    edge_channels: int | Sequence[int] | None
    gate: GateFactory | None
    structural_encoder: EdgeEncoderFactory | None
    hidden_channels: int
    num_layers: int
    dropout: float


class Network(nn.Module):
    """Encoder, layers of a subclass, readout and head, for graphs or nodes.

    A subclass creates the `head` after its layers and implements `embed`.

    Attributes:
        head: From embeddings of graphs or nodes to classes or targets.
        edge_encoder: Encoder of edge features; None if the network reads none.
        reads_edges: Whether its layers read edge features.
        at_most_1wl: Whether it tells apart no more graphs than 1-WL, as long as it has neither a
            gate nor a coefficient nor edge features nor encodings.
        memory_choices: Arguments to reduce if a batch needs too much memory.

    Args:
        in_channels: Width of the node features, or the cardinality of each categorical one.
        level: ``graph`` for one row per graph, ``node`` for one per node.
        hidden_channels: Width of the network.
        num_layers: Number of layers.
        readout: ``sum``, ``mean`` or ``max``; only for graphs.
        edge_channels: Width of the edge features, or the cardinality of each categorical one; None
            if there are none.
        structural_encoder: Factory of an encoder that adds structural coefficients to the edge
            features; None for none.

    Raises:
        RequestError: if a choice or size is not allowed, or edge features are given to a network
            that does not read them.
    """

    head: nn.Module
    reads_edges: ClassVar[bool] = False
    at_most_1wl: ClassVar[bool] = False
    memory_choices: ClassVar[tuple[str, ...]] = ("hidden_channels", "num_layers")

    def __init__(
        self,
        *,
        in_channels: int | Sequence[int],
        level: Literal["graph", "node"],
        hidden_channels: int,
        num_layers: int,
        readout: Literal["sum", "mean", "max"],
        edge_channels: int | Sequence[int] | None = None,
        structural_encoder: EdgeEncoderFactory | None = None,
    ) -> None:
        super().__init__()
        require_at_least("hidden_channels", hidden_channels, 1)
        require_at_least("num_layers", num_layers, 1)
        require_choice("level", level, ("graph", "node"))
        require_choice("readout", readout, READOUTS)
        self.level = level
        self.hidden_channels = hidden_channels
        self.readout = readout
        self.encoder = make_encoder(in_channels, hidden_channels)
        self.edge_encoder: EdgeEncoder | None = None
        if edge_channels is not None or structural_encoder is not None:
            if not self.reads_edges:
                raise RequestError(
                    f"{type(self).__name__} does not read edge features: type "
                    "data.edge_features=none and gate.inject=gate, or choose another model.",
                    code="model.edges",
                )
            structural = None if structural_encoder is None else structural_encoder(hidden_channels)
            self.edge_encoder = EdgeEncoder(edge_channels, structural, hidden_channels)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Return logits or targets, [num_graphs or num_nodes, out_channels]."""
        return self.head(self.embed(batch))

    def embed(self, batch: GraphBatch) -> Tensor:
        """Return the embeddings of graphs (or nodes), the input of the head."""
        raise NotImplementedError

    def encoded_edges(self, batch: GraphBatch) -> Tensor | None:
        """Return the embeddings of edges, [num_edges, hidden_channels]; None if none are read."""
        return None if self.edge_encoder is None else self.edge_encoder(batch)

    def pool(self, h: Tensor, batch: GraphBatch) -> Tensor:
        """Return embeddings of graphs (or nodes) from the node rows after the last layer."""
        if self.level == "node":
            return h
        return readout(h, batch.batch, batch.num_graphs, self.readout)

    def batch_bytes(self, extent: Extent) -> int | None:
        """Estimate the peak memory of a step on a batch, in the network's current mode.

        Returns:
            The bytes; None if the network has no estimate.
        """
        return None

    @property
    def element_size(self) -> int:
        """Bytes per number inside the network."""
        return next(self.head.parameters()).element_size()


def encodes_edges(options: NetworkOptions) -> bool:
    """Return whether a network with these arguments reads edge features."""
    return options.get("edge_channels") is not None or options.get("structural_encoder") is not None


def sole_encoding(
    network: str,
    name: Literal["random_walk", "laplacian", "subgraph"],
    encodings: Encodings | None,
) -> Encodings:
    """Return the encodings of a network that reads exactly one of them.

    Raises:
        RequestError: if it is missing, or another one is given.
    """
    given = {key: value for key, value in (encodings or {}).items() if value}
    size = given.pop(name, 0)
    if given or not isinstance(size, int) or size < 1:
        leave = "".join(f" Leave model.encodings.{key} out." for key in given)
        raise RequestError(
            f"{network} reads the encoding {name} and no other, but encodings is {encodings}: it "
            f"must be an integer of at least 1, as in model.encodings.{name}=3.{leave}",
            code="model.encodings",
        )
    return {name: size}  # type: ignore[misc]


def refuse_gate(gate: GateFactory | None, model: str, reason: str) -> None:
    """Refuse a gate in a network to which the union plug-in does not apply.

    Raises:
        RequestError: if there is a gate, with the reason.
    """
    if gate is not None:
        raise RequestError(
            f"{model} takes no gate, because {reason}: type gate=none.", code="model.gate"
        )


def make_head(hidden_channels: int, out_channels: int, dropout: float) -> nn.Sequential:
    """Make the head from embeddings to classes or targets: linear, ReLU, dropout, linear."""
    return nn.Sequential(
        nn.Linear(hidden_channels, hidden_channels),
        nn.ReLU(),
        nn.Dropout(dropout),
        nn.Linear(hidden_channels, out_channels),
    )


@runtime_checkable
class FitsSizes(Protocol):
    """A network that depends on the sizes of the training graphs."""

    def fit_sizes(self, num_nodes: Tensor) -> Any:
        """Read the number of nodes of each training graph, [num_graphs]."""


@runtime_checkable
class FitsDegrees(Protocol):
    """A network that depends on the degrees in the training graphs."""

    def fit_degrees(self, histogram: Tensor) -> Any:
        """Read how many nodes receive 0, 1, 2, ... messages, [largest number of messages + 1]."""


def fit_to_training(
    network: nn.Module,
    rows: Callable[[], Tensor],
    sizes: Callable[[], Tensor],
    degrees: Callable[[], Tensor],
) -> None:
    """Fit a network to the training graphs: statistics of gates and encoders, sizes and degrees.

    Args:
        network: The network; with a method of `FitsSizes` or `FitsDegrees`, that is called.
        rows: Returns the coefficients of all training edges, [num_edges, num_columns].
        sizes: Returns the number of nodes of each training graph, [num_graphs].
        degrees: Returns how many of their nodes receive 0, 1, 2, ... messages.
    """
    needing = [module for module in structural_modules(network) if module.needs_statistics]
    if needing:
        fitted_to = rows()
        for module in needing:
            module.fit_statistics(fitted_to)
    if isinstance(network, FitsSizes):
        network.fit_sizes(sizes())
    if isinstance(network, FitsDegrees):
        network.fit_degrees(degrees())


def two_layer_mlp(channels: int, norm: str = "batch") -> nn.Sequential:
    """Make the MLP of GIN, GraphSNN and UnionSNN layers: linear, norm, ReLU, linear."""
    return nn.Sequential(
        nn.Linear(channels, channels),
        make_norm(norm, channels),
        nn.ReLU(),
        nn.Linear(channels, channels),
    )


def make_norm(kind: str, channels: int) -> nn.Module:
    """Make a normalisation of node features.

    Raises:
        RequestError: if `kind` is unknown.
    """
    require_choice("norm", kind, ("batch", "layer", "none"))
    if kind == "batch":
        # A training batch may consist of a single node.
        return BatchNorm(channels, allow_single_element=True)
    return nn.LayerNorm(channels) if kind == "layer" else nn.Identity()
