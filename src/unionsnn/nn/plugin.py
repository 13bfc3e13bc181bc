"""The union plug-in: structural weights on the messages of any PyG layer."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric import EdgeIndex
from torch_geometric.data.data import BaseData
from torch_geometric.nn import FastRGCNConv, MessagePassing, RGCNConv

from unionsnn.base.errors import RequestError
from unionsnn.nn.features import Shared, StructuralFeatures, refuse_other_edges, structural_modules
from unionsnn.nn.gates import StructuralGate


@dataclass
class _Pass:
    """State of a plug-in during one forward pass."""

    weight: Tensor | None
    """None until the first message tells a gate without a width its own."""
    given: Tensor
    """The edges that `weight` belongs to."""
    sent: Tensor
    """The edges that the layer sends its messages along."""
    rows: Tensor
    gate_input: tuple[Tensor, Tensor, int]
    gated: bool = False


class UnionPlugin(nn.Module):
    r"""Multiply the messages of a PyG layer by structural weights.

    .. math::
        m_{vu} \leftarrow \mathrm{Trans}(\tilde a_{vu}) \odot m_{vu}

    Equation 5 of "Union Subgraph Neural Networks" (Xu et al., AAAI 2024) where the layer's message
    is h_u itself (GIN, GraphSAGE, GraphConv). For a layer that transforms first (GCN, GAT), the
    transformed message is gated. Self loops added by the layer keep weight 1. Called directly, the
    wrapped layer is unchanged. `torch.compile` traces both together, `torch.export` with
    ``strict=False``; `torch.jit` is not supported. A plug-in must not run in several threads at
    once, since it stores the weights of a pass.

    Args:
        conv: A `MessagePassing` layer, with any flow direction. It is used, not copied.
        channels: Width of the message (heads times channels for layers with heads). By default it
            is found by a trial run on a graph of two nodes or, where that fails and with -1, at the
            first pass, as by PyG's lazy layers: a state dict may be loaded and an optimiser made
            before.
        gate: Name of a preset, a `StructuralGate` of that width, or a function that makes one from
            the width. A preset reads the columns of `StructuralCoefficients()`, until
            `fit_statistics` or `gate.set_columns` names others.
        radius: Radius of a preset, one or several; None for the preset's own. `default` has 1, 2
            and 3, which suit graphs like molecules; for a large graph with hubs use 1, here and in
            `StructuralCoefficients(radius=1)`.

    Shapes:
        - the layer's first argument, x: [num_nodes, in_channels], or a pair of such tensors, where
          the longer one starts with the nodes of the shorter one (as in neighbour sampling)
        - edge_index, wherever the layer has it: [2, num_edges]
        - edge_coefficient: [num_edges, len(gate.columns)]
        - output: what the layer returns

    Raises:
        TypeError: if `conv` is not a `MessagePassing` layer or does not send individual messages,
            or the type of `edge_index` skips the layer's message step; says what works instead.
        RequestError: if the width of the message does not fit the gate, or the rows do not fit the
            edges.
    """

    def __init__(
        self,
        conv: MessagePassing,
        channels: int | None = None,
        gate: str | StructuralGate | Callable[[int], StructuralGate] = "default",
        *,
        radius: int | Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        reason = refusal(conv)
        if reason is not None:
            raise TypeError(reason)
        if radius is not None and not isinstance(gate, str):
            raise RequestError(
                "radius was given together with a gate, which has its own; leave it out.",
                code="gate.argument",
            )
        if isinstance(gate, StructuralGate):
            channels = gate.channels if channels is None else channels
            if gate.is_lazy and channels != -1:
                gate.materialize(channels)
            if channels != gate.channels:
                raise RequestError(
                    f"channels is {channels} but the gate has {gate.channels} channels; "
                    "leave channels out, or make a gate of that width.",
                    code="gate.argument",
                )
        else:
            if channels is None:
                try:
                    channels = message_width(conv)
                except RequestError:
                    channels = -1
            gate = preset_gate(gate, channels, radius) if isinstance(gate, str) else gate(channels)
        self.conv = conv
        self.gate = gate
        # Set only during a pass; otherwise messages stay as they are.
        self._pass: _Pass | None = None
        # Whether the edges of a pass were compared with those of the layer.
        self._was_read = False
        # Rows of the call of a whole network, and whether it has come here; see `plug_in`.
        self.given: Tensor | None = None
        self.reached = False
        names = list(inspect.signature(conv.forward).parameters)
        self._x, self._edges = names[0], "edge_index" if "edge_index" in names else names[1]
        self._edges_at = names.index(self._edges)
        # PyG does not call hooks in traced code. Another plug-in of the same layer stays inside.
        for name, method in (("propagate", self._propagate), ("message", self._message)):
            setattr(conv, name, functools.partial(method, vars(conv).get(name)))

    def reset_parameters(self) -> None:
        """Reinitialise layer and gate; the gate's statistics are kept."""
        self.conv.reset_parameters()
        self.gate.reset_parameters()

    def fit_statistics(self, data: Any) -> UnionPlugin:
        """Fit the gate's statistics to the training graphs.

        Args:
            data: A PyG data set, one `Data` or any iterable of them, each with
                `edge_coefficient`; or the rows themselves as a tensor [num_edges, C].

        Returns:
            The plug-in itself.

        Raises:
            RequestError: if there are no coefficients, or required columns are missing.
        """
        self.gate.fit_statistics(coefficient_rows(data, self.gate))
        return self

    def forward(self, *args: Any, edge_coefficient: Tensor | None = None, **kwargs: Any) -> Any:
        """Call the layer with gated messages; other arguments go to the layer unchanged."""
        rows = self.given if edge_coefficient is None else edge_coefficient
        self.reached = True
        if rows is None:
            raise RequestError(
                "edge_coefficient is missing: pass edge_coefficient=data.edge_coefficient, which "
                "pre_transform=StructuralCoefficients(), or coefficients=True of a data module, "
                "adds to each graph.",
                code="batch.attribute",
            )
        x = args[0] if args else kwargs.get(self._x)
        at = self._edges_at
        edge_index: Any = args[at] if len(args) > at else kwargs.get(self._edges)
        _refuse_fused(edge_index)
        given, edges = rows, edge_index
        if self.conv.flow == "target_to_source":
            # The gate expects receivers in the second row; its own check sees a view without note.
            refuse_other_edges(rows, edge_index)
            rows, edges = rows.view_as(rows), edge_index.flip(0)
        gate_input = rows, edges, _num_nodes(x, self.conv.node_dim)
        weight = None if self.gate.is_lazy else self.gate(*gate_input)
        current = _Pass(weight, edge_index, edge_index, given, gate_input)
        self._pass = current
        try:
            out = self.conv(*args, **kwargs)
        finally:
            self._pass = None
        if not current.gated:
            raise TypeError(
                f"{type(self.conv).__name__} sent no message through `message`, so nothing was "
                "gated; this layer cannot be wrapped."
            )
        return out

    def _propagate(self, inner: Any, edge_index: Any, *args: Any, **kwargs: Any) -> Any:
        """Record the edges along which the layer is about to propagate."""
        if self._pass is not None:
            self._pass.sent = edge_index
        elif self.given is not None:
            raise TypeError(
                f"The network calls a {type(self.conv).__name__} past its plug-in, so nothing "
                "would be gated: it holds the layer in a place that plug_in does not see, such as "
                "a list that is no ModuleList."
            )
        if inner is not None:
            return inner(edge_index, *args, **kwargs)
        return type(self.conv).propagate(self.conv, edge_index, *args, **kwargs)

    def _message(self, inner: Any, *args: Any, **kwargs: Any) -> Any:
        """Gate the messages that the layer makes."""
        if inner is not None:
            message = inner(*args, **kwargs)
        else:
            message = type(self.conv).message(self.conv, *args, **kwargs)
        return message if self._pass is None else self._gated(self._pass, message)

    def _gated(self, current: _Pass, message: Tensor) -> Tensor:
        """Multiply messages by their weights."""
        name = type(self.conv).__name__
        num_messages, *trailing = message.shape[_edge_dim(self.conv, message) :]
        width = torch.Size(trailing).numel()
        if current.weight is None:
            if self.gate.is_lazy:
                self.gate.materialize(width)
            current.weight = self.gate(*current.gate_input)
        weight = self._aligned(current, current.weight)
        if torch.compiler.is_compiling():
            # The number of loops is known only when the program runs.
            torch._check(num_messages == weight.size(0))  # type: ignore[no-untyped-call]
        elif num_messages != weight.size(0):
            raise TypeError(
                f"{name} sends {num_messages} messages along {weight.size(0)} edges; "
                "this layer cannot be wrapped."
            )
        if width != weight.size(1):
            raise RequestError(
                f"{name} sends messages of width {width}, but the gate has {weight.size(1)} "
                f"channels; pass channels={width}.",
                code="gate.width",
            )
        current.gated = True
        return message * weight.view(num_messages, *trailing).to(message.dtype)

    def _aligned(self, current: _Pass, weight: Tensor) -> Tensor:
        """Return the weights in the order of the messages, with 1 for added loops.

        Layers that add loops first remove existing ones, and append theirs. On a CPU and in the
        first pass, whether a layer does so is read; then it is asserted, without waiting.
        """
        given, sent = current.given, current.sent
        if sent is given:
            return weight
        if torch.compiler.is_compiling() or (self._was_read and given.device.type == "cuda"):
            return self._asserted(current, weight)
        self._was_read = True
        if torch.equal(sent, given):
            return weight
        shared = Shared.of(current.rows, given)
        kept, edges = shared.get("without_loops", lambda: _without_loops(given))
        head, tail = sent[:, : edges.size(1)], sent[:, edges.size(1) :]
        if not torch.equal(head, edges) or bool((tail[0] != tail[1]).any()):
            raise TypeError(self._other_edges)
        if len(kept) < len(weight):
            weight = weight.index_select(0, kept)
        return torch.cat([weight, weight.new_ones(tail.size(1), weight.size(1))])

    def _asserted(self, current: _Pass, weight: Tensor) -> Tensor:
        """Align without reading values; a device assertion fails for other edges."""
        given, sent, num_nodes = current.given, current.sent, current.gate_input[2]
        num_sent = sent.size(1)
        if _known_equal(num_sent, given.size(1)):
            same = (sent == given).all()
        else:
            shared = Shared.of(current.rows, given)
            order, edges, count = shared.get(
                ("loops_last", num_nodes), lambda: _loops_last(given, num_nodes)
            )
            is_edge = torch.arange(num_sent, device=given.device) < count
            same = torch.where(
                is_edge, (sent == edges[:, :num_sent]).all(0), sent[0] == sent[1]
            ).all() & (count <= num_sent)
            # Loops have the weight 1 anyway.
            ones = weight.new_ones(num_nodes, weight.size(1))
            weight = torch.cat([weight.index_select(0, order), ones])[:num_sent]
        if not torch.compiler.is_exporting():
            torch._assert_async(same, self._other_edges)
        return weight

    @property
    def _other_edges(self) -> str:
        return (
            f"{type(self.conv).__name__} changes the order or number of edges before it sends "
            "messages, so weights cannot be matched to them; this layer cannot be wrapped."
        )


def refusal(conv: Any) -> str | None:
    """Return why a layer cannot be wrapped and what works instead; None if it can, or may."""
    name = type(conv).__name__
    if not isinstance(conv, MessagePassing):
        whole = isinstance(conv, nn.Module) and any(
            isinstance(part, MessagePassing) for part in conv.modules()
        )
        instead = " For all layers of a network: unionsnn.plug_in(network)." if whole else ""
        return f"UnionPlugin wraps a PyG MessagePassing layer, but got {name}.{instead}"
    if conv.decomposed_layers > 1:
        return (
            f"{name} has decomposed_layers={conv.decomposed_layers}: it sends each message in "
            "pieces, which cannot be gated; set it to 1."
        )
    if getattr(conv, "cached", False) and {"_cached_x", "_cached_h"} & vars(conv).keys():
        return (
            f"{name} has cached=True: it sends messages once and caches the result, so the gate "
            "would not learn; leave cached out."
        )
    if isinstance(conv, RGCNConv) and not isinstance(conv, FastRGCNConv):
        return (
            f"{name} sends the messages of one relation after the other; use FastRGCNConv, which "
            "sends all at once."
        )
    return None


def _edge_dim(conv: MessagePassing, message: Tensor) -> int:
    """Return the edge dimension of the messages, which channels follow."""
    return int(conv.node_dim) % message.dim()


def _num_nodes(x: Any, node_dim: int) -> int:
    """Return the number of nodes of the features, or of the larger of a pair."""
    parts = x if isinstance(x, tuple | list) else (x,)
    # A vector has one number per node.
    sizes = [p.size(node_dim if p.dim() > 1 else 0) for p in parts if isinstance(p, Tensor)]
    if not sizes:
        raise TypeError(f"x is {type(x).__name__}; it must be a tensor or a pair of tensors.")
    return max(sizes)


def _refuse_fused(edge_index: Any) -> None:
    """Raise TypeError for edge types for which PyG may not materialise messages."""
    is_sorted = isinstance(edge_index, EdgeIndex) and edge_index.is_sorted
    if isinstance(edge_index, Tensor) and edge_index.layout == torch.strided and not is_sorted:
        return
    kind = type(edge_index).__name__
    if is_sorted:
        kind = "a sorted EdgeIndex"
    elif isinstance(edge_index, Tensor):
        kind = f"a tensor of layout {edge_index.layout}"
    raise TypeError(
        f"edge_index is {kind}; PyG then fuses message and aggregation, and no message can "
        "be gated. Pass a plain tensor [2, num_edges] (EdgeIndex.as_tensor(), "
        "torch_geometric.utils.to_edge_index)."
    )


def _known_equal(first: int, second: int) -> bool:
    """Return whether sizes are equal; in traced code, whether they are for all inputs."""
    if not torch.compiler.is_compiling():
        return first == second
    # Takes a second to import, which a compiler has spent already.
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    return bool(statically_known_true(first == second))


def _without_loops(edges: Tensor) -> tuple[Tensor, Tensor]:
    """Return the places of the edges between different nodes, and these edges."""
    kept = (edges[0] != edges[1]).nonzero().squeeze(1)
    return kept, edges.index_select(1, kept)


def _loops_last(edges: Tensor, num_nodes: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the same without reading values: the places of all edges, of self loops last.

    Shapes:
        - edges: [2, num_edges]
        - output: places, [num_edges]; the edges in that order, and `num_nodes` more, [2, num_edges
          + num_nodes]; the number of edges between different nodes, []
    """
    is_loop = edges[0] == edges[1]
    order = torch.argsort(is_loop, stable=True)
    padded = torch.cat([edges.index_select(1, order), edges.new_zeros(2, num_nodes)], dim=1)
    return order, padded, (~is_loop).sum()


def fit_statistics(network: nn.Module, data: Any) -> None:
    """Fit all gates and encoders of coefficients of a network to the training graphs.

    Args:
        network: Any module that contains them, such as layers in `UnionPlugin`.
        data: As for `UnionPlugin.fit_statistics`.

    Raises:
        RequestError: if the network has none, or as for `UnionPlugin.fit_statistics`.
    """
    reading = structural_modules(network)
    if not reading:
        raise RequestError(
            f"{type(network).__name__} reads no structural coefficients: wrap its layers in "
            "UnionPlugin, or give them the output of a StructuralEdgeEncoder.",
            code="gate.statistics",
        )
    # An iterator can be read only once.
    graphs = data if isinstance(data, Tensor | BaseData) else list(data)
    for module in reading:
        module.fit_statistics(coefficient_rows(graphs, module))


def coefficient_rows(data: Any, reader: StructuralFeatures) -> Tensor:
    """Return the rows of all edges of a data set, for `StructuralFeatures.fit_statistics`.

    Args:
        data: Tensor [num_edges, C], a `Data` or an iterable of them with `edge_coefficient`. If the
            data names its columns (`coefficient_columns`), they are set on the reader.
        reader: What is fitted.

    Shapes:
        - output: [num_edges of all graphs, C]

    Raises:
        RequestError: if there is no graph, a graph has no coefficients, columns differ, or required
            columns are missing.
    """
    if isinstance(data, Tensor):
        return data
    graphs: Iterable[BaseData] = [data] if isinstance(data, BaseData) else data
    rows: list[Tensor] = []
    columns: set[str] = set()
    for graph in graphs:
        if "edge_coefficient" not in graph:
            raise RequestError(
                "The data has no edge_coefficient. Load it with "
                "pre_transform=StructuralCoefficients() (or apply it to each graph), or make the "
                "data module with coefficients=True.",
                code="gate.statistics",
            )
        rows.append(graph.edge_coefficient)
        if "coefficient_columns" in graph:
            names = graph.coefficient_columns
            # In a batch this is a list with one entry per graph.
            columns.update([names] if isinstance(names, str) else names)
    if not rows:
        raise RequestError(
            "The data set is empty; statistics need at least one training graph.",
            code="gate.statistics",
        )
    if len(columns) > 1:
        raise RequestError(
            f"The graphs differ in their coefficient columns: {sorted(columns)}. Compute them "
            "with one StructuralCoefficients.",
            code="gate.statistics",
        )
    for names in columns:
        reader.set_columns(names.split(","))
    return torch.cat(rows)


def preset_gate(
    name: str, channels: int, radius: int | Sequence[int] | None = None
) -> StructuralGate:
    """Make a gate that reads the columns of `StructuralCoefficients(radius=radius)`."""
    at = {} if radius is None else {"radius": radius}
    gate = StructuralGate.preset(name, channels, **at)
    gate.set_columns(StructuralGate.preset("default", 1, **at).required_columns)
    return gate


def message_width(conv: MessagePassing) -> int:
    """Return the width of a layer's message, as declared or found by a trial run on two nodes.

    The trial runs a copy on the CPU: the layer, its device (even meta) and the random state are
    unchanged.

    Raises:
        RequestError: if the layer needs more than node features and edges, or its input width is
            unknown.
    """
    declared = getattr(conv, "message_channels", None)
    if declared is not None:
        return int(declared)
    widths: list[int] = []

    def look(trial: MessagePassing, inputs: tuple[Any, ...], message: Tensor) -> None:
        widths.append(message.shape[_edge_dim(trial, message) + 1 :].numel())

    in_channels = _in_channels(conv)
    if in_channels:
        try:
            with torch.device("cpu"), torch.random.fork_rng(devices=[]), torch.no_grad():
                # Empty, so that a layer on the meta device can run: only shapes matter.
                trial = copy.deepcopy(conv).to_empty(device="cpu").eval()
                trial.register_message_forward_hook(look)
                dtype = next((p.dtype for p in trial.parameters()), None)
                x = tuple(torch.zeros(2, width, dtype=dtype) for width in in_channels)
                edge_index = torch.tensor([[0, 1], [1, 0]])
                trial(x if len(x) > 1 else x[0], edge_index)
        except Exception:  # any failure has the same remedy, given below
            widths.clear()
    if not widths:
        raise RequestError(
            f"The width of {type(conv).__name__}'s messages could not be found; "
            "pass channels=<width of the message>.",
            code="gate.width",
        )
    return widths[0]


def _in_channels(conv: MessagePassing) -> tuple[int, ...]:
    """Return the input width or widths declared by a layer or its first linear map."""
    for module in conv.modules():
        for name in ("in_channels", "in_features"):
            declared = getattr(module, name, ())
            widths = declared if isinstance(declared, tuple | list) else (declared,)
            # -1 is a lazy width, set by the first call.
            if widths and all(isinstance(width, int) and width > 0 for width in widths):
                return tuple(widths)
    return ()
