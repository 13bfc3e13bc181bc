"""Identity of an experiment: hash, differing keys, name of the run folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unionsnn.base.errors import RequestError
from unionsnn.config.grid import flatten
from unionsnn.config.pairs import PairConfig
from unionsnn.config.schema import Config

# What may differ between two runs of the same experiment.
_NOT_IN_HASH = (
    ("paths",),
    ("logger",),
    ("run_dir",),
    ("force",),
    ("accept_code",),
    ("coefficient", "max_hours"),
    ("data", "mirror"),
    ("data", "offline"),
    ("protocol", "workers"),
    ("protocol", "together"),
    ("protocol", "only"),
    ("trainer", "accelerator"),
    ("trainer", "devices"),
    ("trainer", "num_nodes"),
    ("trainer", "sync_batchnorm"),
    ("trainer", "threads"),
    ("trainer", "progress"),
    ("trainer", "keep_checkpoints"),
)

SERVING = ("data.batch_size", "data.features", "data.edge_features", "data.normalize_features")
"""Keys of how the same graphs are presented to a model."""

Recorded = Config | PairConfig | Mapping[str, Any]
"""A configuration, or that in a record, which may be from an older version."""


def determining(config: Recorded) -> dict[str, Any]:
    """Return the part of a configuration that determines a result."""
    content = config if isinstance(config, Mapping) else config.to_dict()
    plain: dict[str, Any] = json.loads(json.dumps(content))
    for path in _NOT_IN_HASH:
        section = plain
        for key in path[:-1]:
            section = section.get(key, {})
        section.pop(path[-1], None)
    return plain


def config_hash(config: Recorded) -> str:
    """Return the hash of the determining part: 8 hex digits, independent of the order of keys."""
    canonical = json.dumps(determining(config), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:8]


def differing_keys(one: Recorded, other: Recorded) -> list[str]:
    """Return the dotted determining keys in which two configurations differ."""
    left, right = (dict(flatten(determining(config))) for config in (one, other))
    return sorted(k for k in left.keys() | right.keys() if left.get(k) != right.get(k))


def refuse_debug(config: Recorded, command: str) -> None:
    """Refuse a request or record of a trial to a command that counts results.

    Raises:
        RequestError: It is one.
    """
    debug = determining(config).get("debug")
    if debug is not None:
        raise RequestError(
            f"debug is {debug!r}, whose figures are no result, so unionsnn {command} does not take "
            f"it; leave it out, or type unionsnn train debug={debug} ... for each configuration.",
            code="config.debug",
        )


def run_folder(config: Config | PairConfig) -> Path:
    """Return the run folder of a configuration, given or derived in ``paths.output``."""
    if config.run_dir is not None:
        return Path(config.run_dir).expanduser()
    name = f"{config.protocol.name}-{config_hash(config)}"
    if isinstance(config, Config) and config.debug is not None:
        name = f"debug-{config.debug}-{name}"
    return Path(config.paths.output).expanduser() / config.data.name / config.model.name / name
