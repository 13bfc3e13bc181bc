"""The union plug-in: structural weights on the messages of any PyG layer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric import EdgeIndex
from torch_geometric.nn import MessagePassing

from unionsnn.nn.gates import StructuralGate


class UnionPlugin(nn.Module):
    r"""Multiply the messages of a PyG layer by structural weights.

    .. math::
        m_{vu} \leftarrow \mathrm{Trans}(\tilde a_{vu}) \odot m_{vu}

    Equation 5 of "Union Subgraph Neural Networks" (Xu et al., AAAI 2024) where the layer's message
    is h_u itself (GIN, GraphSAGE, GraphConv). A layer that transforms first (GCN, GAT) has what it
    sends gated. Loops that the layer adds itself keep the weight 1. The wrapped layer, called
    directly, stays as it was.

    Args:
        conv: A `MessagePassing` layer, with any flow direction. It is used, not copied.
        channels: Width of the message (heads times channels where there are heads); found by a
            trial run on a graph of two nodes if left out.
        gate: Name of a preset, or a `StructuralGate` of that width.

    Shapes:
        - x: [num_nodes, in_channels]
        - edge_index: [2, num_edges]
        - edge_coefficient: [num_edges, len(gate.columns)]
        - output: what the layer returns

    Raises:
        TypeError: if `conv` is not a `MessagePassing` layer, or `edge_index` is of a form that
            skips the layer's message step.
        ValueError: if the width of the message is unknown or does not fit the gate.
    """

    def __init__(
        self,
        conv: MessagePassing,
        channels: int | None = None,
        gate: str | StructuralGate = "default",
    ) -> None:
        super().__init__()
        if not isinstance(conv, MessagePassing):
            raise TypeError(
                f"UnionPlugin wraps a PyG MessagePassing layer, it was given {type(conv).__name__}."
            )
        if isinstance(gate, StructuralGate):
            channels = gate.channels if channels is None else channels
            if channels != gate.channels:
                raise ValueError(
                    f"channels is {channels} but the gate has {gate.channels} channels; "
                    "leave channels out, or make a gate of that width."
                )
        if channels is None:
            channels = message_width(conv)
        self.conv = conv
        self.gate = StructuralGate.preset(gate, channels) if isinstance(gate, str) else gate
        # Plain attributes, not module state: they live during one call of forward only.
        self._weight: Tensor | None = None
        self._edge_index: Tensor | None = None
        self._sent: Tensor | None = None
        self._gated = False
        conv.register_propagate_forward_pre_hook(self._note_edges)
        conv.register_message_forward_hook(self._multiply)

    def reset_parameters(self) -> None:
        """Draw new weights in layer and gate; the gate's statistics stay."""
        self.conv.reset_parameters()
        self.gate.reset_parameters()

    def fit_statistics(self, data: Any) -> UnionPlugin:
        """Fit the gate's statistics to the training graphs.

        Args:
            data: A PyG data set or any iterable of `Data` with `edge_coefficient`, or the rows
                themselves as a tensor [num_edges, C].
        """
        self.gate.fit_statistics(coefficient_rows(data, self.gate))
        return self

    def forward(
        self, x: Any, edge_index: Tensor, *args: Any, edge_coefficient: Tensor, **kwargs: Any
    ) -> Any:
        """Call the layer with gated messages; other arguments go to the layer unchanged."""
        self._refuse_fused(edge_index)
        self._refuse_rows(edge_index, edge_coefficient)
        towards_source = self.conv.flow == "target_to_source"
        edges = edge_index.flip(0) if towards_source else edge_index
        receivers = x[-1] if isinstance(x, (tuple, list)) and x[-1] is not None else x
        num_nodes = (receivers[0] if isinstance(receivers, (tuple, list)) else receivers).size(0)
        self._weight = self.gate(edge_coefficient, edges, num_nodes)
        self._edge_index = edge_index
        self._gated = False
        try:
            out = self.conv(x, edge_index, *args, **kwargs)
            gated = self._gated
        finally:
            self._weight = self._edge_index = self._sent = None
        if not gated:
            raise TypeError(
                f"{type(self.conv).__name__} sent no message through `message`, so nothing was "
                "gated; this layer cannot be wrapped."
            )
        return out

    def _note_edges(self, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        if self._weight is not None:
            self._sent = inputs[0]

    def _multiply(self, module: nn.Module, inputs: tuple[Any, ...], message: Tensor) -> Any:
        if self._weight is None:
            return None
        edge_dim = module.node_dim if isinstance(module, MessagePassing) else -2
        edge_dim = edge_dim % message.dim()
        weight = self._aligned(message.size(edge_dim))
        self._gated = True
        trailing = message.shape[edge_dim + 1 :]
        if trailing.numel() != weight.size(1):
            raise ValueError(
                f"{type(module).__name__} sends messages of width {trailing.numel()}, the gate has "
                f"{weight.size(1)} channels; pass channels={trailing.numel()}."
            )
        return message * weight.view(weight.size(0), *trailing).to(message.dtype)

    def _aligned(self, num_messages: int) -> Tensor:
        """Weights in the order of the layer's messages."""
        assert self._weight is not None
        assert self._edge_index is not None
        sent, given, weight = self._sent, self._edge_index, self._weight
        if sent is given or sent is None:
            return weight
        loops = given[0] == given[1]
        # PyG's layers that add loops first remove existing ones and put theirs last.
        kept = given[:, ~loops]
        weight = weight[~loops]
        added = num_messages - kept.size(1)
        tail = sent[:, kept.size(1) :]
        if not torch.compiler.is_compiling() and not (
            added >= 0 and torch.equal(sent[:, : kept.size(1)], kept) and bool((tail[0] == tail[1]).all())
        ):
            if sent.shape == given.shape and torch.equal(sent, given):
                return self._weight
            raise TypeError(
                f"{type(self.conv).__name__} changes the order or number of edges before it sends "
                "messages, so weights cannot be matched to them; this layer cannot be wrapped."
            )
        return torch.cat([weight, weight.new_ones(added, weight.size(1))])

    def _refuse_fused(self, edge_index: Any) -> None:
        sorted_edges = isinstance(edge_index, EdgeIndex) and edge_index.is_sorted
        if not isinstance(edge_index, Tensor) or edge_index.is_sparse or sorted_edges or (
            edge_index.layout != torch.strided
        ):
            kind = "a sorted EdgeIndex" if sorted_edges else type(edge_index).__name__
            raise TypeError(
                f"edge_index is {kind}; PyG then fuses message and aggregation and no message can "
                "be gated. Pass a plain tensor [2, num_edges] (EdgeIndex.as_tensor(), "
                "torch_geometric.utils.to_edge_index)."
            )

    def _refuse_rows(self, edge_index: Tensor, edge_coefficient: Tensor) -> None:
        if edge_coefficient.size(0) != edge_index.size(1):
            raise ValueError(
                f"edge_coefficient has {edge_coefficient.size(0)} rows for {edge_index.size(1)} "
                "edges; compute it after the last transform that changes edges."
            )


def coefficient_rows(data: Any, gate: StructuralGate) -> Tensor:
    """Rows of all edges of a data set, for `StructuralGate.fit_statistics`.

    Args:
        data: Tensor [num_edges, C] or an iterable of `Data` with `edge_coefficient`. Where the
            data name their columns (`coefficient_columns`), the gate is told.
        gate: The gate that will read them.

    Raises:
        ValueError: if no graph has coefficients.
    """
    if isinstance(data, Tensor):
        return data
    graphs: Iterable[Any] = [data] if hasattr(data, "edge_index") and not hasattr(
        data, "__getitem__"
    ) else data
    rows = []
    for graph in graphs:
        values = graph.get("edge_coefficient") if isinstance(graph, Mapping) else getattr(
            graph, "edge_coefficient", None
        )
        if values is None:
            raise ValueError(
                "The data have no edge_coefficient. Load them with "
                "pre_transform=StructuralCoefficients() (or apply it to each graph)."
            )
        rows.append(values)
    if not rows:
        raise ValueError("The data set is empty; statistics need at least one training graph.")
    names = getattr(graph, "coefficient_columns", None)
    if names is not None:
        gate.set_columns(names.split(","))
    return torch.cat(rows)


def message_width(conv: MessagePassing) -> int:
    """Width of a layer's message, found by a trial run on a graph of two nodes.

    Raises:
        ValueError: if the layer needs more than node features and edges, or its input width is
            unknown.
    """
    in_channels = getattr(conv, "in_channels", None)
    if in_channels is None:
        linear = next((m for m in conv.modules() if isinstance(m, nn.Linear)), None)
        in_channels = None if linear is None else linear.in_features
    if isinstance(in_channels, (tuple, list)):
        in_channels = in_channels[0]
    widths: list[int] = []

    def look(module: nn.Module, inputs: tuple[Any, ...], message: Tensor) -> None:
        edge_dim = module.node_dim % message.dim()  # type: ignore[operator]
        widths.append(message.shape[edge_dim + 1 :].numel())

    if in_channels is not None and in_channels > 0:
        parameter = next(iter(conv.parameters()), torch.empty(0))
        x = torch.zeros(2, in_channels, dtype=parameter.dtype, device=parameter.device)
        edge_index = torch.tensor([[0, 1], [1, 0]], device=parameter.device)
        handle = conv.register_message_forward_hook(look)
        was_training = conv.training
        try:
            with torch.no_grad():
                conv.eval()(x, edge_index)
        except Exception:  # any failure has the same remedy, named below
            widths.clear()
        finally:
            conv.train(was_training)
            handle.remove()
    if not widths:
        raise ValueError(
            f"The width of {type(conv).__name__}'s messages could not be found; "
            "pass channels=<width of the message>."
        )
    return widths[0]
