"""The stack shared by all message-passing networks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Required, Unpack

import torch
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing

from unionsnn.models.arguments import Gate, GateFactory, NetworkOptions, Norm, Readout, factory_of
from unionsnn.models.network import Network
from unionsnn.models.parts import make_head, make_norm
from unionsnn.nn.batch import GraphBatch, required
from unionsnn.nn.conv.union import UnionConv
from unionsnn.nn.features import refuse_other_edges, share
from unionsnn.nn.gates import StructuralGate, given_coefficient
from unionsnn.nn.loops import SelfLoops
from unionsnn.nn.plugin import UnionPlugin, message_width

_GATED = (UnionPlugin, UnionConv)

State = Tensor | tuple[Tensor, ...] | None
"""What layers read in addition to nodes and edges: encoded edges, a coefficient, a memory."""


class StackOptions(NetworkOptions, total=False):
    """Arguments of `MPNN` that every network passes on."""

    out_channels: Required[int]
    gate: Gate | None
    num_layers: int
    dropout: float
    norm: Norm
    residual: bool
    readout: Readout


class MPNN(Network):
    r"""Encoder, message-passing layers, readout and head, for graphs or nodes.

    .. math::
        h^{(l+1)} = [h^{(l)} +]\; \mathrm{dropout}(\mathrm{ReLU}(\mathrm{norm}(
        \mathrm{conv}_l(h^{(l)}))))

    Args:
        conv: Factory of a layer that keeps the given width. With a gate, it is wrapped in
            `UnionPlugin`, unless it has a gate already (UnionSNN's own layer).
        out_channels: Number of classes or targets.
        gate: What makes a gate for each layer, as in `Gate`; None for the plain network.
        num_layers: Number of message-passing layers.
        dropout: Probability of dropping a channel after each layer.
        norm: ``batch``, ``layer`` or ``none``, after each layer and inside its MLP.
        residual: Whether to add each layer's input to its output.
        readout: ``sum``, ``mean`` or ``max``; only for graphs.
        options: Arguments of `Network`.

    Shapes:
        - batch: as in `GraphBatch`; a gate and a structural encoder need its
          `edge_coefficient`
        - output: [num_graphs, num_nodes or num_pairs, out_channels]

    Raises:
        RequestError: if a choice or size is not allowed.
    """

    at_most_1wl = True
    adds_loops: bool = False
    """Whether its layers expect an edge from each node to itself, after all others."""

    # A full batch is one step per epoch, so running statistics would lag behind for long.
    for_nodes: ClassVar[Mapping[str, Any]] = {"norm": "layer"}

    def __init__(
        self,
        conv: Callable[[int], MessagePassing],
        *,
        out_channels: int,
        gate: Gate | None = None,
        num_layers: int = 4,
        dropout: float = 0.0,
        norm: Norm = "batch",
        residual: bool = True,
        readout: Readout = "sum",
        **options: Unpack[NetworkOptions],
    ) -> None:
        super().__init__(
            out_channels=out_channels, num_layers=num_layers, readout=readout, **options
        )
        self.residual = residual
        make, channels = factory_of(gate, StructuralGate), self.hidden_channels
        self.convs = nn.ModuleList(plugged(conv(channels), make) for _ in range(num_layers))
        self.norms = nn.ModuleList(make_norm(norm, channels) for _ in range(num_layers))
        self.dropout = nn.Dropout(dropout)
        self.head = make_head(channels, out_channels, dropout, self.level)

    def embed(self, batch: GraphBatch) -> Tensor:
        """Encode nodes, convolve, and read out."""
        h = self.encoder(batch.x)
        state, rows = self.initial_state(h, batch), batch.edge_coefficient
        if not self.adds_loops:
            h, _ = self.convolve(h, batch.edge_index, state, rows)
            return self.pool(h, batch)
        loops = SelfLoops(batch.edge_index, batch.x.size(0), batch.loops)
        if self.gated:
            rows = given_coefficient(rows)
            refuse_other_edges(rows, batch.edge_index)
            rows = loops.append(rows)
        h, _ = self.convolve(h, loops.edge_index, self.looped(state, loops), rows)
        return self.pool(h, batch)

    @property
    def gated(self) -> bool:
        """Whether the layers have gates."""
        return isinstance(self.convs[0], _GATED)

    def initial_state(self, h: Tensor, batch: GraphBatch) -> State:
        """Return what the first layer reads in addition: encoded edges, or None."""
        return self.encoded_edges(batch)

    def looped(self, state: State, loops: SelfLoops) -> State:
        """Return the state, rows of edges, with rows of zeros for loops."""
        if isinstance(state, tuple):
            return tuple(map(loops.append, state))
        return None if state is None else loops.append(state)

    def convolve(
        self, h: Tensor, edge_index: Tensor, state: State, edge_coefficient: Tensor | None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Apply all layers; return new node features and the last state.

        A layer gets the tensors of the state as further arguments. One that returns more than
        features updates the first of them (edge features, a memory) for the next layer.
        """
        given = () if state is None else state if isinstance(state, tuple) else (state,)
        arguments = {}
        if self.gated:
            rows = given_coefficient(edge_coefficient)
            arguments["edge_coefficient"] = share(rows, edge_index)
        for conv, norm in zip(self.convs, self.norms, strict=True):
            new = conv(h, edge_index, *given, **arguments)
            if isinstance(new, tuple):
                new, *updated = new
                given = (*updated, *given[len(updated) :])
            new = self.dropout(torch.relu(norm(new)))
            h = h + new if self.residual else new
        return h, given


class CoefficientMPNN(MPNN):
    """A stack whose layers read their own coefficient, with or without a gate."""

    reads_layer_coefficient = True

    def initial_state(self, h: Tensor, batch: GraphBatch) -> State:
        """Return the coefficient, [num_edges], and encoded edges if there are any.

        Raises:
            RequestError: unless each edge has a coefficient.
        """
        coefficient = required(
            "layer_coefficient",
            batch.layer_coefficient,
            [batch.edge_index.size(1), 1],
            reader=type(self).__name__,
            remedy="the coefficient that model.coefficient describes, one row per edge.",
        ).squeeze(1)
        edges = self.encoded_edges(batch)
        return coefficient if edges is None else (coefficient, edges)


def plugged(conv: MessagePassing, gate: GateFactory | None) -> nn.Module:
    """Wrap a layer in `UnionPlugin` if there is a gate that the layer does not have itself."""
    if gate is None or isinstance(conv, _GATED):
        return conv
    return UnionPlugin(conv, gate=gate(message_width(conv)))
