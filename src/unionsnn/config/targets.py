"""The classes of ``data._target_``: their names in records, and their arguments."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from unionsnn.config.sections import sentences
from unionsnn.config.yaml_files import read_yaml, user_folder

if TYPE_CHECKING:
    from unionsnn.config.schema import Config

_RECORDED_AS = {
    "unionsnn.data.sources.tu.TU": "unionsnn.data.datamodules.TUDataModule",
    "unionsnn.data.sources.cycles.Cycles": "unionsnn.data.datamodules.CyclesDataModule",
    "unionsnn.data.sources.zinc.Zinc": "unionsnn.data.molecules.ZincDataModule",
    "unionsnn.data.sources.ogb.OGB": "unionsnn.data.molecules.OGBDataModule",
    "unionsnn.data.sources.planetoid.Planetoid": "unionsnn.data.nodes.PlanetoidDataModule",
    "unionsnn.data.sources.amazon.Amazon": "unionsnn.data.nodes.AmazonDataModule",
    "unionsnn.data.sources.folder.Folder": "unionsnn.data.own.FolderDataModule",
    "unionsnn.data.sources.pyg.PyG": "unionsnn.data.own.PyGDataModule",
    "unionsnn.data.sources.pyg.PyGNodes": "unionsnn.data.own.PyGNodeDataModule",
}
# The names of the first records, by which hashes and files on disk keep calling these classes. What
# came later is recorded by its own name.
_CURRENT = {recorded: current for current, recorded in _RECORDED_AS.items()}


def recorded_target(target: str) -> str:
    """Return the name of a class in hashes and records."""
    return _RECORDED_AS.get(target, target)


def current_target(target: str) -> str:
    """Return the current path of a class named in a configuration or record."""
    return _CURRENT.get(target, target)


def argument_faults(target: str, arguments: Mapping[str, Any]) -> list[str]:
    """Return the faults of keys specific to one data format.

    The formats of this package need no torch: their classes are imported, and asked. A class of the
    user's own is imported when the data are made, and checks its arguments then.

    Args:
        target: The class in ``data._target_``.
        arguments: Keys of the section that are not common to all data sets.
    """
    if not target.startswith("unionsnn.data.sources."):
        return []
    module, _, name = target.rpartition(".")
    try:
        getattr(import_module(module), name).model_validate(arguments)
    except ValidationError as error:
        return [fault for each in error.errors() for fault in sentences(each, "data")]
    except (ImportError, AttributeError):
        # Named when the data are made, with all that is known then.
        return []
    return []


def is_network(target: str) -> bool:
    """Return whether a dotted path is that of a network of this package."""
    return target.startswith("unionsnn.models.")


def own_code(config: Config) -> list[str]:
    """Return the keys of a request that name code outside of this package, as they are typed."""
    shipped = {"model._target_": is_network, "data._target_": _is_data}
    return [
        f"{key}={target}"
        for key, target in _named(config).items()
        if not (key in shipped and shipped[key](target))
    ]


def _is_data(target: str) -> bool:
    return target.startswith("unionsnn.data.")


def _named(config: Config) -> dict[str, str]:
    """Return the classes and functions that a request names, by their keys."""
    named = {"model._target_": config.model.target, "data._target_": config.data.target}
    dataset = (config.data.model_extra or {}).get("dataset")
    return named if dataset is None else {**named, "data.dataset": dataset}


def named_networks(config_dir: str | Path | None) -> set[str]:
    """Return the classes that the files of a user's folder name as networks.

    Raises:
        RequestError: if there is no such folder, or a file in it cannot be read.
    """
    if config_dir is None:
        return set()
    contents = map(read_yaml, sorted((user_folder(config_dir) / "model").rglob("*.yaml")))
    return {str(each.get("_target_")) for each in contents if isinstance(each, dict)}


def code_digests(config: Config) -> dict[str, str]:
    """Return the SHA-256 of the file of each class that a request names outside of this package.

    Modules that such a file imports are not covered.
    """
    digests = {}
    for target in _named(config).values():
        module = str(target).rpartition(".")[0]
        if not module or module.partition(".")[0] == __name__.partition(".")[0]:
            continue
        try:
            spec = find_spec(module)
            file = Path((spec and spec.origin) or "")
            digests[str(target)] = hashlib.sha256(file.read_bytes()).hexdigest()
        except (ImportError, ValueError, OSError):
            # Named where it is imported.
            continue
    return digests
