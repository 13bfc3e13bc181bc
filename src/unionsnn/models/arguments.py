"""Arguments of networks: what a gate stands for, encodings, and those that all pass on."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Required, TypedDict, TypeVar

from torch import nn

from unionsnn.base.arguments import require_choice
from unionsnn.base.errors import RequestError
from unionsnn.nn.encoders import StructuralEdgeEncoder
from unionsnn.nn.gates import PRESETS, StructuralGate

GateFactory = Callable[[int], StructuralGate]
"""Factory of a gate with a given number of channels."""

EdgeEncoderFactory = Callable[[int], StructuralEdgeEncoder]
"""Factory of an encoder of coefficients with a given number of channels."""

Gate = str | Mapping[str, Any] | StructuralGate | GateFactory
"""What makes the gates of a network: the name of a preset, the arguments of `StructuralGate` but
for its width, an example of the width of the layers, or a factory."""

EdgeCoefficients = str | Mapping[str, Any] | StructuralEdgeEncoder | EdgeEncoderFactory
"""The same for an encoder of coefficients as features of edges."""

_Reader = TypeVar("_Reader", StructuralGate, StructuralEdgeEncoder)


Level = Literal["graph", "node", "link"]
"""What has a row of output: a graph, a node, or a pair of nodes."""


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


Norm = Literal["batch", "layer", "none"]
"""What normalises the rows of nodes."""

Readout = Literal["sum", "mean", "max"]
"""What makes the row of a graph of those of its nodes."""


class NetworkOptions(TypedDict, total=False):
    """Arguments of `Network` that every network passes on."""

    in_channels: Required[int | Sequence[int]]
    level: Level
    edge_channels: int | Sequence[int] | None
    structural_encoder: EdgeCoefficients | None
    hidden_channels: int


def factory_of(
    given: str | Mapping[str, Any] | _Reader | Callable[[int], _Reader] | None,
    kind: type[_Reader],
) -> Callable[[int], _Reader] | None:
    """Return the factory of gates, or of encoders of coefficients, that an argument stands for.

    Args:
        given: A `Gate`, ``none`` or None for none. A preset reads the columns of
            `StructuralCoefficients()`; layers get copies of an example, with weights of their own.
        kind: `StructuralGate` or `StructuralEdgeEncoder`.

    Raises:
        RequestError: it is none of these; an example of another width is refused where it is used.
    """
    if given is None or given == "none":
        return None
    if isinstance(given, str):
        require_choice(kind.kind, given, (*PRESETS, "none"))
        columns = StructuralGate.preset("default", 1).required_columns
        return functools.partial(kind.preset, given, columns=columns)
    if isinstance(given, Mapping):
        return functools.partial(kind, **given)
    if isinstance(given, kind):
        return functools.partial(_like, given)
    if isinstance(given, nn.Module) or not callable(given):
        raise RequestError(
            f"{kind.kind} is a {type(given).__name__}; give the name of a preset "
            f"({', '.join(PRESETS)}), a {kind.__name__}, or a factory that takes the width, such "
            f"as functools.partial({kind.__name__}, radius=1).",
            code="gate.argument",
        )
    return given


def _like(example: Any, channels: int) -> Any:
    """Return a gate or encoder with the arguments and statistics of another, and new weights."""
    made = copy.deepcopy(example)
    if example.channels == -1:
        made.materialize(channels)
    elif example.channels != channels:
        raise RequestError(
            f"The {example.kind} has {example.channels} channels, but here it needs {channels}: "
            f"give the name of a preset, or functools.partial({type(example).__name__}, ...), "
            "which makes one for each width.",
            code="gate.width",
        )
    made.reset_parameters()
    return made


def encodes_edges(options: NetworkOptions) -> bool:
    """Return whether a network with these arguments reads edge features."""
    encoder = options.get("structural_encoder")
    return options.get("edge_channels") is not None or encoder not in (None, "none")


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
            f"must be an integer of at least 1, as in model.encodings.{name}=3, in Python "
            f'encodings={{"{name}": 3}}.{leave}',
            code="model.encodings",
        )
    return {name: size}  # type: ignore[misc]


def refuse_gate(gate: Gate | None, model: str, reason: str) -> None:
    """Refuse a gate in a network to which the union plug-in does not apply.

    Raises:
        RequestError: if there is a gate, with the reason.
    """
    if gate not in (None, "none"):
        raise RequestError(
            f"{model} takes no gate, because {reason}: type gate=none.", code="model.gate"
        )
