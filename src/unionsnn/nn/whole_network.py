"""The plug-in for all layers of a network at once."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch_geometric.data.data import BaseData
from torch_geometric.nn import HeteroConv, MessagePassing

from unionsnn.base.errors import RequestError
from unionsnn.base.rows import note_edges
from unionsnn.nn.features import share
from unionsnn.nn.gates import StructuralGate
from unionsnn.nn.plugin import UnionPlugin, refusal

Network = TypeVar("Network", bound=nn.Module)


@dataclass(frozen=True)
class Plugged:
    """What `plug_in` did to a network.

    Attributes:
        gated: Names of the layers that are gated, and what they are.
        left: Names of the layers that are not, and why.
    """

    gated: Mapping[str, str]
    left: Mapping[str, str]

    def __str__(self) -> str:
        lines = [f"{name}: gated, {what}" for name, what in self.gated.items()]
        return "\n".join(lines + [f"{name}: not gated. {why}" for name, why in self.left.items()])


def plug_in(
    network: Network,
    gate: str | Callable[[int], StructuralGate] = "default",
    *,
    radius: int | Sequence[int] | None = None,
) -> Network:
    r"""Wrap every message-passing layer of a network in a `UnionPlugin`, in place.

    The network is then called with one more argument, ``network(x, edge_index,
    edge_coefficient=data.edge_coefficient)``, or with a `Data` that has the coefficients; its own
    ``forward`` does not know of them. All layers must send messages along the edges of the call.
    `fit_statistics(network, training_graphs)` fits all gates.

    Args:
        network: A model of PyG (`GCN`, `GIN`, `GraphSAGE`, `GAT`, ...), layers of `GPSConv`, or any
            module of one's own. `UnionPlugin` layers in it stay as they are, and get the rows too.
        gate: Name of a preset, or a function that makes the gate of each layer from the width of
            its message, which is -1 where only the first pass tells it.
        radius: As for `UnionPlugin`.

    Returns:
        The network itself. Its attribute ``plugged``, a `Plugged`, lists the layers; those that
        could not be wrapped are also warned of.

    Raises:
        RequestError: if no layer can be wrapped, or the network was plugged in before.
    """
    if isinstance(network, MessagePassing | UnionPlugin):
        reason = None if isinstance(network, UnionPlugin) else _refusal(network)
        raise RequestError(
            reason or f"{type(network).__name__} is a single layer; wrap it: UnionPlugin(layer).",
            code="plugin.network",
        )
    before = [name for name, part in network.named_modules() if hasattr(part, "plugged")]
    if before:
        raise RequestError(
            f"{before[0] or type(network).__name__} was plugged in already; plug in the outermost "
            "network, once.",
            code="plugin.network",
        )
    if isinstance(gate, StructuralGate):
        raise RequestError(
            "gate is a single StructuralGate, but every layer needs its own; pass a function such "
            "as lambda channels: StructuralGate(channels).",
            code="gate.argument",
        )
    there = {n: part for n, part in network.named_modules() if isinstance(part, UnionPlugin)}
    gated = {name: type(part.conv).__name__ for name, part in there.items()}
    of: dict[nn.Module, UnionPlugin] = {part.conv: part for part in there.values()}
    if len(of) < len(there):
        raise RequestError(
            f"Two of {', '.join(there)} wrap the same layer, whose messages only one can gate.",
            code="plugin.network",
        )
    left: dict[str, str] = {}

    def wrap(module: nn.Module, path: str) -> None:
        # All names, as a layer may have two.
        for name, child in list(module._modules.items()):
            at = f"{path}{name}"
            if child is None or isinstance(child, UnionPlugin):
                continue
            if not isinstance(child, MessagePassing | HeteroConv):
                wrap(child, f"{at}.")
                continue
            reason = _refusal(child)
            if reason is not None:
                left[at] = reason
                continue
            if child not in of:
                of[child] = UnionPlugin(child, gate=gate, radius=radius)
            setattr(module, name, of[child])
            gated[at] = type(child).__name__

    wrap(network, "")
    report = Plugged(gated, left)
    if not gated:
        why = f"\n{report}" if left else ""
        raise RequestError(
            f"{type(network).__name__} has no layer that can be gated.{why}", code="plugin.network"
        )
    if left:
        warnings.warn(
            f"{len(left)} of {len(left) + len(gated)} layers of {type(network).__name__} are not "
            f"gated:\n{report}",
            stacklevel=2,
        )
    network.plugged = report  # type: ignore[assignment]
    hands = _Hands(network, list(of.values()))
    network.register_forward_pre_hook(hands.out, with_kwargs=True)
    network.register_forward_hook(hands.back, always_call=True)
    return network


def _refusal(layer: nn.Module) -> str | None:
    if isinstance(layer, HeteroConv):
        return (
            "HeteroConv has a graph for each edge type; use layers that take edge_type, such as "
            "FastRGCNConv and RGATConv, on data.to_homogeneous()."
        )
    if "edge_index" not in inspect.signature(layer.forward).parameters:
        return f"{type(layer).__name__} takes no edge_index."
    return refusal(layer)


class _Hands:
    """Hands the rows of a network's call to its plug-ins, and takes them back.

    Args:
        network: The network, whose own ``forward`` may take the rows as well.
        plugins: All plug-ins in it.
    """

    def __init__(self, network: nn.Module, plugins: list[UnionPlugin]) -> None:
        self.plugins = plugins
        self.name = type(network).__name__
        names = list(inspect.signature(network.forward).parameters)
        self.takes_rows = "edge_coefficient" in names
        self.edges_at = names.index("edge_index") if "edge_index" in names else len(names)

    def out(self, network: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Take the rows out of the arguments."""
        rows = kwargs.get("edge_coefficient")
        if rows is None:
            graphs = (value for value in (*args, *kwargs.values()) if isinstance(value, BaseData))
            rows = next((data.edge_coefficient for data in graphs if _has_rows(data)), None)
        if not isinstance(rows, Tensor):
            raise RequestError(
                f"edge_coefficient is missing: call {self.name} with "
                "edge_coefficient=data.edge_coefficient, which pre_transform="
                "StructuralCoefficients() adds to each graph.",
                code="batch.attribute",
            )
        edge_index = args[self.edges_at] if len(args) > self.edges_at else kwargs.get("edge_index")
        if isinstance(edge_index, Tensor) and not torch.compiler.is_compiling():
            rows = share(rows, edge_index)
            # That of this call: a layer may get other edges.
            note_edges(rows, edge_index)
        for plugin in self.plugins:
            plugin.given, plugin.reached = rows, False
        if self.takes_rows:
            return args, kwargs
        return args, {key: value for key, value in kwargs.items() if key != "edge_coefficient"}

    def back(self, network: nn.Module, args: tuple[Any, ...], out: Any) -> None:
        """Take the rows back, also after a failure, when there is no output."""
        idle = not any(plugin.reached for plugin in self.plugins)
        for plugin in self.plugins:
            plugin.given = None
        if idle and out is not None:
            raise RequestError(
                f"{self.name} called none of the layers that plug_in has wrapped, so nothing was "
                "gated.",
                code="plugin.network",
            )


def _has_rows(data: BaseData) -> bool:
    return "edge_coefficient" in data
