"""Networks from outside of this package: what their constructor and their forward pass take."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from types import MethodType
from typing import Any, NamedTuple

from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn.models.basic_gnn import BasicGNN

from unionsnn.base.errors import RequestError
from unionsnn.nn.batch import ATTRIBUTES, GraphBatch

ALIASES: Mapping[str, str] = {
    "num_features": "in_channels",
    "num_node_features": "in_channels",
    "num_classes": "out_channels",
    "num_edge_features": "edge_channels",
    "edge_dim": "edge_channels",
}
"""Other names of constructor arguments, as PyG calls its data sets' widths."""

DEFAULTS: Mapping[str, Any] = {"hidden_channels": 64, "num_layers": 4, "dropout": 0.0}
"""What a constructor is given that requires these, unless the configuration says otherwise."""

_VALUES = ("x", "edge_index", "batch", "num_graphs", *ATTRIBUTES)
"""What a forward pass may name."""

_CALLED: Mapping[str, str] = {"batch_size": "num_graphs", "batch_index": "batch"}
"""Other names of these."""


def constructor_arguments(
    kind: type[nn.Module], offered: Mapping[str, Any], typed: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments of a network's constructor: those that it names.

    A constructor of the user's with ``**kwargs`` is given everything.

    Args:
        kind: The network.
        offered: What follows from data and gate, by the names of `StackOptions`.
        typed: What the configuration sets, which it must take.

    Raises:
        RequestError: It does not take what is set, or needs what nothing gives.
    """
    name = f"{kind.__module__}.{kind.__qualname__}"
    parameters = {
        key: each
        for key, each in inspect.signature(kind).parameters.items()
        if each.kind is not each.VAR_POSITIONAL
    }
    keywords = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    parameters = {k: p for k, p in parameters.items() if p.kind is not p.VAR_KEYWORD}
    # PyG's networks hand their keywords to a layer.
    if keywords and not kind.__init__.__module__.startswith("torch_geometric."):
        return {**offered, **typed}
    given = {}
    for key, parameter in parameters.items():
        source = ALIASES.get(key, key)
        if key in typed:
            given[key] = typed[key]
        elif source in offered:
            given[key] = offered[source]
        elif parameter.default is parameter.empty and key in DEFAULTS:
            given[key] = DEFAULTS[key]
        elif parameter.default is parameter.empty:
            raise RequestError(
                f"{name} needs {key}, which nothing gives: type model.{key}=..., or give it a "
                f"default. Passed by themselves are {', '.join((*offered, *ALIASES))}.",
                code="model.argument",
            )
    unknown = [key for key in typed if key not in given]
    if unknown and not keywords:
        raise RequestError(
            f"{name} takes no {', '.join(unknown)}, which the configuration sets: leave out "
            f"{', '.join(f'model.{key}' for key in unknown)}, and a model=... beside "
            f"model._target_. It takes {', '.join(parameters) or 'nothing'}.",
            code="model.argument",
        )
    return {**given, **{key: typed[key] for key in unknown}}


def adapt(network: nn.Module, *, level: str, out_channels: int) -> None:
    """Let a network that is called with a `GraphBatch` receive what its forward pass names.

    A single argument called ``batch`` is the `GraphBatch`, one called ``data`` PyG's `Batch`;
    several are its attributes, such as ``forward(x, edge_index, batch)``. Weights and attributes of
    the network stay as they are.

    Args:
        network: The network.
        level: Whether there is a row of output for each ``graph``, ``node`` or ``link``, a pair of
            nodes in `edge_label_index`.
        out_channels: Columns of the output.

    Raises:
        RequestError: Its forward pass names something else.
    """
    kind = type(network)
    whole, pyg, parameters, needed, named = _call(kind)
    unknown = [key for key in needed if key not in named]
    if not (whole or pyg) and (unknown or "x" not in named):
        raise RequestError(
            f"{kind.__name__}.forward({', '.join(parameters)}) is not understood: it may take one "
            "argument, data (PyG's Batch) or batch (a GraphBatch), or several by these names: "
            f"{', '.join((*_VALUES, *_CALLED))}. Rename "
            f"{', '.join(unknown) or 'the node features to x'}, or give a default.",
            code="model.forward",
        )

    def forward(self: nn.Module, batch: GraphBatch) -> Tensor:
        if whole:
            output = kind.forward(self, batch)
        elif pyg:
            output = kind.forward(self, _pyg_batch(batch))
        else:
            values = {key: getattr(batch, value) for key, value in named.items()}
            for key in needed:
                if values[key] is None:
                    raise RequestError(
                        f"{kind.__name__}.forward needs {key}, which these batches do not have: "
                        f"type {_REMEDIES.get(key, '+model.encodings={...}')}, or give it a "
                        "default.",
                        code="model.forward",
                    )
            output = kind.forward(self, **values)
        rows = batch.num_graphs if level == "graph" else batch.x.size(0)
        if level == "link" and batch.edge_label_index is not None:
            rows = batch.edge_label_index.size(1)
        return _checked(output, kind.__name__, rows, level, out_channels)

    # A method, not a closure over the network, so that a copy calls its own weights.
    network.forward = MethodType(forward, network)


def reads_edges(network: nn.Module) -> bool:
    """Return whether edge features may reach a network that `adapt` understands."""
    call = _call(type(network))
    if isinstance(network, BasicGNN):
        # PyG's models name edge_attr in any case; layers without a width for it drop it.
        widths = [getattr(layer, "edge_dim", 0) for layer in network.convs]
        return network.supports_edge_attr and None not in widths
    return call.whole or call.pyg or "edge_attr" in call.named


class _Call(NamedTuple):
    """What a forward pass takes: a `GraphBatch`, PyG's `Batch`, or attributes by name."""

    whole: bool
    pyg: bool
    parameters: list[str]
    needed: list[str]
    named: dict[str, str]
    """The attribute of the batch for each parameter that names one."""


def _call(kind: type[nn.Module]) -> _Call:
    parameters = {
        key: each
        for key, each in list(inspect.signature(kind.forward).parameters.items())[1:]
        if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    }
    needed = [key for key, each in parameters.items() if each.default is each.empty]
    single = needed[0] if len(needed) == 1 else ""
    hint = str(parameters[single].annotation) if single else ""
    whole = single == "batch" or "GraphBatch" in hint or not parameters
    pyg = not whole and (single == "data" or hint.strip("'<>").rpartition(".")[2] in _PYG)
    named = {key: _CALLED.get(key, key) for key in parameters if _CALLED.get(key, key) in _VALUES}
    return _Call(whole, pyg, list(parameters), needed, named)


_PYG = ("Data", "Batch")

_REMEDIES: Mapping[str, str] = {
    "edge_attr": "data.edge_features=labels, attributes or both",
    "edge_coefficient": "gate=default",
    "layer_coefficient": "model.coefficient={...}",
}


def _pyg_batch(batch: GraphBatch) -> Batch:
    """Return a batch as PyG's, without targets."""
    given = {key: getattr(batch, key) for key in _VALUES if key != "num_graphs"}
    made = Batch(_base_cls=Data, **{k: v for k, v in given.items() if v is not None})
    made._num_graphs, made._sizes = batch.num_graphs, batch.sizes
    return made


def _checked(output: Any, name: str, rows: int, level: str, columns: int) -> Tensor:
    """Return what a forward pass returned; RequestError if it has another shape."""
    if isinstance(output, Tensor) and output.dim() == 1 and columns == 1:
        output = output.unsqueeze(1)
    if isinstance(output, Tensor) and output.dim() == 2 and output.shape == (rows, columns):
        return output
    given = list(output.shape) if isinstance(output, Tensor) else f"a {type(output).__name__}"
    advice = ""
    if level == "graph" and isinstance(output, Tensor) and output.shape[:1] != (rows,):
        advice = (
            " Pool the nodes of each graph, as in torch_geometric.nn.global_add_pool(h, batch, "
            "num_graphs)."
        )
    if level == "link" and isinstance(output, Tensor) and output.shape[:1] != (rows,):
        advice = (
            " Name edge_label_index in its forward pass, [2, num_links], and return the scores of "
            "these pairs, as in (h[edge_label_index[0]] * h[edge_label_index[1]]).sum(dim=-1)."
        )
    raise RequestError(
        f"{name} returned {given} for a batch of {rows} {level}s; it must return a tensor "
        f"[{rows}, {columns}], a row for each {level}.{advice}",
        code="model.output",
    )
