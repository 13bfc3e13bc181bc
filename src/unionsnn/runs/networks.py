"""What the shipped networks are, from their classes and files.

The facts of those of this package are kept in `networks.json`, so that they are told without torch.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from unionsnn.base.errors import RequestError
from unionsnn.base.words import nearest
from unionsnn.config.compose import compose_config
from unionsnn.config.keys import content_of, gate_of, groups
from unionsnn.config.schema import Config

if TYPE_CHECKING:
    from unionsnn.models.network import Network

KEPT = Path(__file__).with_name("networks.json")
"""The facts of the networks of this package, and what each was made from."""


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
    kept = json.loads(KEPT.read_text(encoding="utf-8"))
    return [
        _kept(name, title, kept.get(name)) or made_facts(name, title)
        for name, title in group.options.items()
        if names is None or name in names
    ]


def _kept(name: str, title: str, row: Mapping[str, Any] | None) -> NetworkFacts | None:
    """Return the facts that are kept of a network; None if it is made by another request now."""
    if row is None or row["request"] != request_of(name):
        return None
    return NetworkFacts(name=name, title=title, **row["facts"])


def request_of(name: str) -> str:
    """Return a digest of what a network is made from: the keys of its model and its gate."""
    content = content_of("model", name), content_of("gate", gate_of(name))
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]


def made_facts(name: str, title: str) -> NetworkFacts:
    """Return the facts of a network that is made for it, which takes torch."""
    import torch

    from unionsnn.models.network import Network as Base
    from unionsnn.training.build import build_model, count_parameters

    plain = compose_config([]).to_dict()
    # It depends on the gate.
    plain["coefficient"]["radius"] = None
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
        memory=type(made).batch_bytes is not Base.batch_bytes,
        exports=not made.not_exported,
        reason=made.not_exported,
        kind=config.model.target,
    )
