"""Base class of all networks: encoder, readout, head, and gates."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import (
    Any,
    ClassVar,
    Protocol,
    Self,
    get_args,
)

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from unionsnn.base.arguments import plain, require_at_least, require_choice
from unionsnn.base.errors import RequestError
from unionsnn.base.memory import Extent
from unionsnn.models.arguments import EdgeCoefficients, Level, Readout, factory_of
from unionsnn.nn.batch import GraphBatch
from unionsnn.nn.encoders import EdgeEncoder, StructuralEdgeEncoder, make_encoder
from unionsnn.nn.features import StructuralFeatures, structural_modules
from unionsnn.nn.gates import PRESETS, StructuralGate
from unionsnn.nn.norms import BatchCounts
from unionsnn.nn.readout import READOUTS, pair_scores, readout

_BY_NAME = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)

_READERS: Mapping[str, type[StructuralGate] | type[StructuralEdgeEncoder]] = {
    "gate": StructuralGate,
    "structural_encoder": StructuralEdgeEncoder,
}
"""What reads coefficients, by the argument of a network that makes it."""


class CoefficientColumns(Protocol):
    """The coefficients of a data set: a `CoefficientSpec`."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        ...

    @property
    def radius(self) -> tuple[int, ...]:
        """Radii."""
        ...

    @property
    def has_tree_value(self) -> bool:
        """Whether the excess is defined."""
        ...


class NetworkData(Protocol):
    """What `Network.for_data` asks a data module for."""

    @property
    def task(self) -> str:
        """Its task, such as node_classification."""
        ...

    @property
    def num_features(self) -> int | tuple[int, ...]:
        """Width of the node features, or the cardinality of each categorical one."""
        ...

    @property
    def num_edge_features(self) -> int | tuple[int, ...] | None:
        """The same of the edges; None if none are read."""
        ...

    @property
    def num_outputs(self) -> int:
        """Number of classes or targets."""
        ...

    @property
    def spec(self) -> CoefficientColumns | None:
        """The coefficients in its batches."""
        ...

    @property
    def layer_spec(self) -> CoefficientColumns | None:
        """The coefficient in its batches for layers that read their own."""
        ...

    @property
    def encodings(self) -> Any:
        """Its encodings, with a method `wanted`."""
        ...


class Network(nn.Module):
    r"""Encoder, layers of a subclass, readout and head, for graphs, nodes or pairs of nodes.

    A subclass creates the `head` after its layers and implements `embed`. For links the head has
    the width of the network, and a pair of nodes the score

    .. math::
        s_{uv} = \langle \mathrm{head}(h_u), \mathrm{head}(h_v) \rangle

    Attributes:
        head: From embeddings of graphs or nodes to classes or targets, of nodes to what is scored.
        edge_encoder: Encoder of edge features; None if the network reads none.
        reads_edges: Whether its layers read edge features.
        at_most_1wl: Whether it tells apart no more graphs than 1-WL, as long as it has neither a
            gate nor a coefficient nor edge features nor encodings.
        not_exported: Why torch.export cannot trace it; empty if it can.
        memory_choices: Arguments to reduce if a batch needs too much memory.
        default_gate: The gate of `for_data`.
        for_nodes: Arguments of `for_data` for tasks on nodes.
        reads_encodings: Which encodings it takes, in the argument `encodings`.
        reads_layer_coefficient: Whether its layers read a coefficient of their own.

    Args:
        in_channels: Width of the node features, or the cardinality of each categorical one.
        level: ``graph`` for one row per graph, ``node`` for one per node, ``link`` for one per pair
            of nodes in `edge_label_index`.
        out_channels: Number of classes or targets, as `unionsnn.training.Task` finds it; 1 for
            links.
        hidden_channels: Width of the network.
        num_layers: Number of layers.
        readout: ``sum``, ``mean`` or ``max``; only for graphs.
        edge_channels: Width of the edge features, or the cardinality of each categorical one; None
            if there are none.
        structural_encoder: What adds structural coefficients to the edge features, as in
            `EdgeCoefficients`; None for none.

    Raises:
        RequestError: if a choice or size is not allowed, or edge features are given to a network
            that does not read them.
    """

    head: nn.Module
    reads_edges: ClassVar[bool] = False
    at_most_1wl: ClassVar[bool] = False
    not_exported: ClassVar[str] = ""
    memory_choices: ClassVar[tuple[str, ...]] = ("hidden_channels", "num_layers")
    default_gate: ClassVar[str | None] = None
    for_nodes: ClassVar[Mapping[str, Any]] = {}
    reads_encodings: ClassVar[tuple[str, ...]] = ()
    reads_layer_coefficient: ClassVar[bool] = False

    _given: tuple[tuple[Any, ...], dict[str, Any]]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Keep the arguments, whatever the constructor of a subclass takes."""
        parameters = inspect.signature(cls.__init__).parameters.values()
        if args and all(each.kind in _BY_NAME for each in [*parameters][1:]):
            named = ", ".join(
                f"{name}={value!r}"
                for name, value in zip(("in_channels", "out_channels"), args, strict=False)
            )
            raise RequestError(
                f"{cls.__name__} takes its arguments by name: {cls.__name__}({named}, ...).",
                code="model.argument",
            )
        network = super().__new__(cls)
        # Not yet a module, which sets attributes in its own way.
        object.__setattr__(network, "_given", (args, kwargs))
        return network

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Let `embed` take PyG's batches and graphs, too."""
        super().__init_subclass__(**kwargs)
        if "embed" in vars(cls):
            cls.embed = _of_any_batch(cls.embed)  # type: ignore[method-assign]

    @classmethod
    def for_data(cls, data: NetworkData, **options: Any) -> Self:
        """Make the network that fits a data module: widths, level, edge features and coefficients.

        The statistics of gates, and what else depends on the training graphs, are fitted when a
        `unionsnn.training.Task` starts to fit; by hand, `unionsnn.fit_statistics` fits the gates.

        Args:
            data: A data module, such as `unionsnn.data.TUDataModule("MUTAG", coefficients=True)`.
            options: Arguments of the network. `gate` is the name of a preset (``default``,
                ``paper``, ``authors-code`` or ``none``), which reads the columns of the data, or
                anything else that is a `Gate`; by default the plain network, of UnionSNN
                ``default``. `structural_encoder` likewise.

        Raises:
            RequestError: if the data lack what the network reads.
        """
        level = data.task.partition("_")[0]
        made: dict[str, Any] = {
            "in_channels": data.num_features,
            "out_channels": data.num_outputs,
            "level": level,
            **(cls.for_nodes if level == "node" else {}),
        }
        if data.num_edge_features is not None:
            made["edge_channels"] = data.num_edge_features
        given = {"gate": cls.default_gate, **options}
        for name, kind in _READERS.items():
            if given.get(name) not in (None, "none"):
                plain = name != "gate" or cls.default_gate is None
                without = f", or the network with {name}=None" if plain else ""
                given[name] = _reading(given[name], kind, data.spec, cls.__name__, without)
        if cls.reads_layer_coefficient and data.layer_spec is None:
            raise RequestError(
                f"The layers of {cls.__name__} read a coefficient of their own, which the data "
                "module lacks: make it with layer_spec=CoefficientSpec(...), for GraphSNN "
                'CoefficientSpec("overlap", "node_edge_count", exponent=2), for CurvGN '
                'CoefficientSpec(descriptor="curvature_graph").',
                code="batch.attribute",
            )
        if cls.reads_encodings:
            made["encodings"] = {
                name: bool(size) if name == "distance" else size
                for name, size in data.encodings.wanted().items()
                if name in cls.reads_encodings
            }
        try:
            network = cls(**{**made, **given})
        except RequestError as error:
            if cls.reads_encodings and not data.encodings.wanted():
                raise RequestError(
                    *error.faults,
                    f"{cls.__name__} takes the encodings of the data module, which has none: make "
                    "it with encodings={...}, of the keys " + ", ".join(cls.reads_encodings) + ".",
                    code="model.encodings",
                ) from error
            raise
        if data.spec is not None:
            for module in structural_modules(network):
                module.set_columns(data.spec.columns)
        return network

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments that make the network again, in plain types, for a checkpoint.

        Raises:
            RequestError: if one of them cannot be written down.
        """
        args, kwargs = self._given
        signature = inspect.signature(type(self).__init__)
        given = signature.bind(self, *args, **kwargs).arguments
        first, *parameters = signature.parameters.values()
        del given[first.name]
        taken, anything = {each.name for each in parameters}, False
        for parameter in parameters:
            if parameter.kind is parameter.VAR_KEYWORD:
                given.update(given.pop(parameter.name, {}))
                anything = True
        for name, kind in _READERS.items():
            parts = [each for each in self.modules() if isinstance(each, kind)]
            if parts and (anything or name in taken):
                # As they are, whoever has set their columns, and also by default.
                given[name] = _shared_options(parts, kind, type(self).__name__)
        return {name: plain(value, name) for name, value in given.items()}

    def __init__(
        self,
        *,
        in_channels: int | Sequence[int],
        level: Level = "graph",
        out_channels: int | None = None,
        hidden_channels: int = 64,
        num_layers: int,
        readout: Readout,
        edge_channels: int | Sequence[int] | None = None,
        structural_encoder: EdgeCoefficients | None = None,
    ) -> None:
        super().__init__()
        require_at_least("hidden_channels", hidden_channels, 1)
        require_at_least("num_layers", num_layers, 1)
        require_choice("level", level, get_args(Level))
        if level == "link" and out_channels != 1:
            raise RequestError(
                f"out_channels is {out_channels}, but a link has one score: type out_channels=1.",
                code="model.argument",
            )
        require_choice("readout", readout, READOUTS)
        self.level = level
        self.out_channels = out_channels
        self.hidden_channels = hidden_channels
        self.readout = readout
        self.encoder = make_encoder(in_channels, hidden_channels)
        self.edge_encoder: EdgeEncoder | None = None
        # Made at the first pass: layers may be converted before.
        self._counts: BatchCounts | None = None
        make = factory_of(structural_encoder, StructuralEdgeEncoder)
        if edge_channels is not None or make is not None:
            if not self.reads_edges:
                raise RequestError(
                    f"{type(self).__name__} does not read edge features: type "
                    f"data.edge_features=none{'' if make is None else ' and gate.inject=gate'}, or "
                    "choose another model.",
                    code="model.edges",
                )
            structural = None if make is None else make(hidden_channels)
            self.edge_encoder = EdgeEncoder(edge_channels, structural, hidden_channels)

    def forward(self, batch: GraphBatch | Data) -> Tensor:
        """Return logits or targets, [num_graphs, num_nodes or num_pairs, out_channels]."""
        if self.level != "link":
            return self.head(self.embed(batch))
        batch = batch if isinstance(batch, GraphBatch) else GraphBatch.of(batch)
        return self.scores(self.head(self.embed(batch)), batch)

    def scores(self, rows: Tensor, batch: GraphBatch) -> Tensor:
        """Return the scores of the batch's pairs from rows of its nodes, [..., num_pairs, 1].

        Raises:
            RequestError: if the batch has no pairs.
        """
        if batch.edge_label_index is None:
            raise RequestError(
                f"{type(self).__name__} scores pairs of nodes, but the batch has none: give it "
                "edge_label_index, [2, num_pairs].",
                code="batch.attribute",
            )
        return pair_scores(rows, batch.edge_label_index)

    def embed(self, batch: GraphBatch | Data) -> Tensor:
        """Return the embeddings of graphs (or nodes, also for links), the input of the head.

        Args:
            batch: A `GraphBatch`, or a graph or batch of PyG with the same attributes.

        Shapes:
            - output: [num_graphs or num_nodes, hidden_channels]
        """
        raise NotImplementedError

    def encoded_edges(self, batch: GraphBatch) -> Tensor | None:
        """Return the embeddings of edges, [num_edges, hidden_channels]; None if none are read."""
        return None if self.edge_encoder is None else self.edge_encoder(batch)

    def pool(self, h: Tensor, batch: GraphBatch) -> Tensor:
        """Return embeddings of graphs (or nodes) from the node rows after the last layer."""
        if self.level != "graph":
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


def _of_any_batch(embed: Callable[..., Tensor]) -> Callable[..., Tensor]:
    @functools.wraps(embed)
    def wrapped(network: Network, batch: GraphBatch | Data) -> Tensor:
        if not isinstance(batch, GraphBatch):
            batch = GraphBatch.of(batch)
        # One may call that of its base class.
        outer = type(network).embed is wrapped
        if not outer or not network.training or torch.compiler.is_compiling():
            return embed(network, batch)
        if network._counts is None:
            network._counts = BatchCounts(network)
        with network._counts.of_a_pass():
            return embed(network, batch)

    return wrapped


def _reading(
    given: Any,
    kind: type[StructuralGate] | type[StructuralEdgeEncoder],
    spec: CoefficientColumns | None,
    network: str,
    without: str,
) -> Any:
    """Return what makes a gate or encoder, of a preset one at the radii of the data."""
    if spec is None:
        raise RequestError(
            f"{network} reads structural coefficients, which the data module has not: make the "
            f"data module with coefficients=True{without}.",
            code="gate.columns",
        )
    if not isinstance(given, str):
        return given
    require_choice(kind.kind, given, (*PRESETS, "none"))
    # The others are the paper's, of radius 1.
    radius = spec.radius if given == "default" or 1 not in spec.radius else (1,)
    of_data: dict[str, Any] = {"radius": radius}
    if given == "default" and not spec.has_tree_value:
        of_data["features"] = ("raw", "cyclomatic")
    return functools.partial(kind.preset, given, **of_data)


def _shared_options(
    parts: Sequence[StructuralFeatures], kind: type[StructuralFeatures], network: str
) -> dict[str, Any]:
    """Return the arguments that all gates, or encoders, of a network were made with."""
    options = parts[0].options
    if any(type(each) is not kind or each.options != options for each in parts):
        raise RequestError(
            f"The {kind.kind}s of {network} are not all a {kind.__name__} with the same arguments, "
            "so they cannot be written down.",
            code="checkpoint.arguments",
        )
    return options
