"""What the shipped networks are, from their classes and files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

import torch

from unionsnn.base.errors import RequestError
from unionsnn.base.words import nearest
from unionsnn.config.compose import compose_config
from unionsnn.config.keys import content_of, gate_of, groups
from unionsnn.config.schema import Config
from unionsnn.models.network import Network
from unionsnn.training.build import build_model, count_parameters


@dataclass(frozen=True)
class NetworkFacts:
    """What a shipped network is.

    Args:
        name: Its option, as in ``model=gin``.
        title: What it is, with its paper.
        parameters: Trainable parameters at its defaults, with one node feature and one output.
        gate: Preset of its gate; None without a gate.
        edge_features: Whether its layers read features of edges.
        memory: Whether it estimates the memory of a batch.
        exports: Whether ``unionsnn export`` can trace it.
        reason: Why it cannot; empty if it can.
        kind: Dotted path of its class.
    """

    name: str
    title: str
    parameters: int
    gate: str | None
    edge_features: bool
    memory: bool
    exports: bool
    reason: str
    kind: str

    def to_json(self) -> dict[str, Any]:
        """Return plain types."""
        return asdict(self)


def networks(names: Sequence[str] | None = None) -> list[NetworkFacts]:
    """Return the facts of networks.

    Args:
        names: Their options; None for all.

    Raises:
        RequestError: One of them is unknown.
    """
    (group,) = (each for each in groups() if each.name == "model")
    unknown = [name for name in names or () if name not in group.options]
    if unknown:
        raise RequestError(
            *(
                f"model={name} is unknown; allowed are {', '.join(group.options)}."
                f"{nearest(name, group.options)}"
                for name in unknown
            ),
            code="config.unknown_option",
        )
    plain = compose_config([]).to_dict()
    # It depends on the gate.
    plain["coefficient"]["radius"] = None
    return [
        _facts(name, title, plain)
        for name, title in group.options.items()
        if names is None or name in names
    ]


def _facts(name: str, title: str, plain: Mapping[str, Any]) -> NetworkFacts:
    model, gate = content_of("model", name), content_of("gate", gate_of(name))
    config = Config.from_dict({**plain, "model": model, "gate": gate})
    with torch.device("meta"):
        made = cast("Network", build_model(config, 1, 1))
    return NetworkFacts(
        name=name,
        title=title,
        parameters=count_parameters(made),
        gate=config.gate.preset,
        edge_features=made.reads_edges,
        memory=type(made).batch_bytes is not Network.batch_bytes,
        exports=not made.not_exported,
        reason=made.not_exported,
        kind=config.model.target,
    )
