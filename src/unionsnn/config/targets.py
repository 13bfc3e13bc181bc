"""The classes of ``data._target_``: their names in records, and their arguments."""

from __future__ import annotations

import ast
import hashlib
import re
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from unionsnn.base.imports import working_folder
from unionsnn.config.sections import all_sentences
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
_PACKAGE = __name__.partition(".")[0]
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
        arguments: The task, and keys of the section that are not common to all data sets.
    """
    if not target.startswith("unionsnn.data.sources."):
        return []
    module, _, name = target.rpartition(".")
    try:
        kind = getattr(import_module(module), name)
    except (ImportError, AttributeError):
        # Named when the data are made, with all that is known then.
        return []
    try:
        kind.model_validate(arguments)
    except ValidationError as error:
        return all_sentences(error, kind, arguments, "data")
    return []


def published_task(target: str, name: str) -> dict[str, str]:
    """Return task and metric of a published set, by the class of its format and its own name.

    Raises:
        RequestError: The format does not know the set.
    """
    if not target.startswith("unionsnn.data.sources."):
        return {}
    module, _, kind = target.rpartition(".")
    task, metric = getattr(import_module(module), kind).task_of(name)
    return {"task": task, "metric": metric}


def published_request(name: str) -> str | None:
    """Return how a published set without a configuration of its name is asked for, if there is one.

    Such as ``data=ogb data.name=ogbg-moltox21`` for ogbg-moltox21 and ogbg_moltox21.
    """
    catalog = import_module("unionsnn.data.catalog").CATALOG
    same = {each.replace("_", "-"): entry.request for each, entry in catalog.items()}
    request: str | None = same.get(name.lower().replace("_", "-"))
    return request


def optional_arguments(target: str) -> list[str]:
    """Return the keys of what an optimiser of torch's takes, read from its file without torch."""
    module, _, name = target.rpartition(".")
    torch = find_spec("torch") if module == "torch.optim" else None
    file = Path((torch and torch.origin) or "").parent / "optim" / f"{name.lower()}.py"
    if torch is None or not file.is_file():
        return []
    return [
        f"optimizer.{each.arg}"
        for kind in ast.parse(file.read_bytes()).body
        if isinstance(kind, ast.ClassDef) and kind.name == name
        for method in kind.body
        if isinstance(method, ast.FunctionDef) and method.name == "__init__"
        for each in (*method.args.args[2:], *method.args.kwonlyargs)
    ]


def is_network(target: str) -> bool:
    """Return whether a dotted path is that of a network of this package."""
    return target.startswith("unionsnn.models.")


def own_code(config: Config) -> list[str]:
    """Return the keys of a request that name code outside of this package, as they are typed."""
    shipped = {"model._target_": is_network, "data._target_": _is_data, "data.dataset": _is_pygs}
    return [
        f"{key}={target}"
        for key, target in _named(config).items()
        if not (key in shipped and shipped[key](target)) and not _is_library(target)
    ]


def _is_library(target: str) -> bool:
    """Return whether a class is one of the optimisers and callbacks that come with libraries."""
    return target.startswith(("torch.optim.", "pytorch_lightning."))


def _is_data(target: str) -> bool:
    return target.startswith("unionsnn.data.")


def _is_pygs(dataset: str) -> bool:
    """Return whether a class is one of PyG's data sets, as shipped options name them."""
    return re.fullmatch(r"torch_geometric\.datasets\.[A-Z]\w*", dataset) is not None


def _named(config: Config | Mapping[str, Any]) -> dict[str, str]:
    """Return the classes and functions that a request or its record names, by their keys."""
    if isinstance(config, Mapping):
        sections = {k: config.get(k) or {} for k in ("model", "data", "optimizer", "trainer")}
        named = {f"{k}._target_": str(sections[k].get("_target_")) for k in ("model", "data")}
        dataset = sections["data"].get("dataset")
        optimizer = sections["optimizer"].get("_target_")
        listed = sections["trainer"].get("callbacks") or []
        callbacks = [str(each.get("_target_")) for each in listed]
    else:
        named = {"model._target_": config.model.target, "data._target_": config.data.target}
        dataset = (config.data.model_extra or {}).get("dataset")
        optimizer = config.optimizer.target
        callbacks = [each.target for each in config.trainer.callbacks or []]
    if dataset is not None and not is_file(dataset):
        named["data.dataset"] = dataset
    if optimizer is not None:
        named["optimizer._target_"] = optimizer
    for number, target in enumerate(callbacks):
        named[f"trainer.callbacks[{number}]._target_"] = target
    return named


def is_file(dataset: str) -> bool:
    """Return whether ``data.dataset`` is a file of graphs, not code."""
    return dataset.endswith(".pt")


def named_networks(*folders: str | Path | None) -> set[str]:
    """Return the classes that the files of folders name as networks.

    Args:
        folders: The user's folder, and those of installed packages; None for none.

    Raises:
        RequestError: if there is no such folder, or a file in it cannot be read.
    """
    given = [user_folder(folder) / "model" for folder in folders if folder is not None]
    contents = (read_yaml(path) for folder in given for path in sorted(folder.rglob("*.yaml")))
    return {str(each.get("_target_")) for each in contents if isinstance(each, dict)}


def code_digests(config: Config | Mapping[str, Any]) -> dict[str, str]:
    """Return the SHA-256 of each file of the user's own that a request runs.

    Returns:
        The digests by the classes and functions that the request names outside of this package, and
        by the modules that their files import from the same folder, directly or through others. A
        module that is imported by a computed name is not seen.
    """
    digests: dict[str, str] = {}
    for target in map(str, _named(config).values()):
        module = target.rpartition(".")[0]
        if not module or module.partition(".")[0] == _PACKAGE or _is_library(target):
            continue
        try:
            with working_folder(module):
                spec = find_spec(module)
            file = Path((spec and spec.origin) or "")
            digests[target] = _sha256(file)
        except (ImportError, ValueError, OSError):  # RequestError is a ValueError.
            # Named where it is imported.
            continue
        depth = module.count(".") + (file.name == "__init__.py")
        for name, path in _imported(module, file.absolute().parents[depth]).items():
            if name != module:
                digests[name] = _sha256(path)
    return dict(sorted(digests.items()))


def changed_code(config: Config, before: Mapping[str, str] | None) -> list[str]:
    """Return what was digested before and is of other content now, by the names in `before`."""
    now = code_digests(config) if before else {}
    return [name for name, digest in (before or {}).items() if now.get(name) != digest]


def changed_since(
    config: Mapping[str, Any], before: Iterable[Mapping[str, str] | None]
) -> list[str]:
    """Return whose file is another now than when the repetitions of a record were trained.

    A file that is not found says nothing: the record may be of another machine.

    Args:
        config: The recorded configuration.
        before: The digests of each repetition.
    """
    digests = [each for each in before if each]
    now = code_digests(config) if digests else {}
    changed = {k for each in digests for k, digest in each.items() if now.get(k, digest) != digest}
    return sorted(changed)


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _imported(module: str, root: Path) -> dict[str, Path]:
    """Return the files of a module, its packages, and all that they import below a folder.

    Nothing is imported. Among installed packages, only those of the module's own count.
    """
    installed = any(part in ("site-packages", "dist-packages") for part in root.parts)
    installed |= root == Path(sysconfig.get_path("stdlib"))
    top = module.partition(".")[0]
    found: dict[str, Path] = {}
    waiting = [module]
    while waiting:
        parts = waiting.pop().split(".")
        if parts[0] == _PACKAGE or (installed and parts[0] != top):
            continue
        for end in range(1, len(parts) + 1):
            name, place = ".".join(parts[:end]), root.joinpath(*parts[:end])
            files = (place / "__init__.py", place.with_name(f"{place.name}.py"))
            file = next((each for each in files if each.is_file()), None)
            if file is None or name in found:
                continue
            found[name] = file
            package = name if file.name == "__init__.py" else name.rpartition(".")[0]
            waiting += _imports(file, package)
    return found


def _imports(file: Path, package: str) -> Iterator[str]:
    """Yield the names of all modules that a file may import."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        # Named where it is imported.
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")
            start = above[: len(above) - node.level + 1] if node.level else []
            base = ".".join([*start, *([node.module] if node.module else [])])
            # What is imported from a package may be one of its modules.
            yield from (f"{base}.{each.name}".strip(".") for each in node.names)
