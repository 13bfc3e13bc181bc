"""Requests: composed by Hydra, checked as a whole, before torch is imported."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra._internal.sources_registry import SourcesRegistry
from hydra.core.global_hydra import GlobalHydra
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.types import Quote, QuotedString
from hydra.errors import HydraException
from hydra.plugins.config_source import ConfigResult
from omegaconf import DictConfig, OmegaConf, flag_override
from omegaconf.errors import OmegaConfBaseException

from unionsnn.base.errors import Fault, RequestError
from unionsnn.base.imports import check_path
from unionsnn.base.secrets import referenced_secrets
from unionsnn.config.grid import flatten, grid_faults
from unionsnn.config.overrides import (
    OWN_SECTION,
    added,
    group_fault,
    is_group,
    options_of,
    own_network,
    parse_overrides,
    type_fault,
    value_fault,
    with_own_section,
)
from unionsnn.config.packages import package_folders
from unionsnn.config.schema import Config
from unionsnn.config.targets import argument_faults, published_task
from unionsnn.config.yaml_files import read_yaml, user_folder


def config_folder() -> Path:
    """Folder of the shipped configuration, in the package or in a source checkout."""
    packaged = Path(str(files("unionsnn"))) / "conf"
    return packaged if packaged.is_dir() else Path(__file__).parents[3] / "conf"


class UserFolder(FileConfigSource):
    """The user's configuration folder, whose files are checked before Hydra reads them."""

    @staticmethod
    def scheme() -> str:
        """Return the scheme in Hydra's search path."""
        return "checked"

    def load_config(self, config_path: str) -> ConfigResult:
        """Read a file; RequestError if it is not a mapping in plain YAML.

        A value that it leaves open stays open: Hydra would keep the value of an earlier file.
        """
        path = Path(self.path) / self._normalize_file_name(config_path)
        content = read_yaml(path)
        if not isinstance(content, dict | None):
            raise RequestError(
                f"{path} holds {type(content).__name__}; a configuration maps keys to values.",
                code="yaml.kind",
            )
        result = super().load_config(config_path)
        if isinstance(result.config, DictConfig):
            _leave_open(result.config)
        return result


_OPEN = "<to be given>"
"""Stands for ??? in the user's files."""


def _leave_open(config: DictConfig) -> None:
    for key in config:
        if key == "defaults":
            continue
        if OmegaConf.is_missing(config, key):
            with flag_override(config, ["readonly", "struct"], False):
                config[key] = _OPEN
        elif not OmegaConf.is_interpolation(config, str(key)) and isinstance(
            config[key], DictConfig
        ):
            _leave_open(config[key])


SourcesRegistry.instance().register(UserFolder)


def compose_config(overrides: Sequence[str], config_dir: str | Path | None = None) -> Config:
    """Compose one experiment and check it.

    Args:
        overrides: In Hydra's syntax, such as ``model=gin`` or ``optimizer.lr=0.01``.
        config_dir: A folder of the user's, searched in addition to the shipped one.

    Raises:
        RequestError: with every fault.
    """
    search = _search_path(config_dir)
    with initialize_config_dir(str(config_folder()), version_base="1.3"):
        loader = GlobalHydra.instance().config_loader()
        parsed = parse_overrides(overrides)
        own = own_network(parsed)
        if own:
            check_path(own, "model._target_")
            parsed = with_own_section(parsed)
        packages = package_folders(config_folder())
        groups = [o for o in parsed if is_group(o, loader)]
        chosen = [o for o in groups if o.input_line != OWN_SECTION]
        faults = [f for o in chosen if (f := group_fault(o, loader, config_dir, packages))]
        if faults:
            raise RequestError(*faults)
        base = _compose([*search, *(str(o.input_line) for o in groups)])
        if own:
            # Keys that no file has go to the constructor, which is asked when it is called.
            present = {key for key, _ in flatten(OmegaConf.to_container(base))}
            parsed = parse_overrides([added(o, present) for o in parsed])
        faults = [f for o in parsed if o not in groups and (f := value_fault(o, base, loader))]
        if faults:
            raise RequestError(*faults)
        config = _compose([*search, *(str(o.input_line) for o in parsed)])
        if own and not any(o.key_or_group == "model.name" for o in parsed):
            config.model.name = own.rpartition(".")[2]
        loggers = [o.value() for o in parsed if o.key_or_group == "logger"]
        if loggers and isinstance(loggers[-1], list):
            # Hydra merges their options, and keeps the last name.
            config.logger.name = [_tracker_name(str(option), search) for option in loggers[-1]]
    unresolved = dict(flatten(OmegaConf.to_container(config)))
    if missing := sorted(key for key, value in unresolved.items() if value in ("???", _OPEN)):
        raise RequestError(
            *(f"{key} must be given: type {key}=..." for key in missing), code="config.missing"
        )
    # Other keys refer to the metric.
    open_keys = [key for key in ("task", "metric") if config.data.get(key, "") is None]
    if open_keys:
        known = published_task(str(config.data.get("_target_")), str(config.data.get("name")))
        for key in open_keys:
            config.data[key] = known.get(key)
    try:
        plain: Any = OmegaConf.to_container(config, resolve=True)
    except OmegaConfBaseException as error:
        raise RequestError(" ".join(str(error).split()), code="config.reference") from None
    given = {o.key_or_group for o in parsed}
    grid = plain["protocol"].pop("grid", None) if isinstance(plain.get("protocol"), dict) else None
    checked = _checked(plain, given).hiding(referenced_secrets(unresolved.values()))
    if grid is None:
        return checked
    plain["protocol"]["grid"] = grid

    def check(cell: dict[str, Any]) -> Config:
        return _checked(cell, given | grid.keys())

    if wrong := grid_faults(plain, checked, type_fault, check):
        raise RequestError(*wrong, code="config.grid")
    return checked.replace({"protocol.grid": grid})


def _tracker_name(option: str, search: Sequence[str]) -> str:
    """Return the tracker of an option, whose file may be the user's own with another name."""
    if is_shipped("logger", option):
        return option
    return str(_compose([*search, f"logger={option}"]).logger.name)


def _search_path(config_dir: str | Path | None) -> list[str]:
    """Return the override that adds the folders of packages and of the user.

    Raises:
        RequestError: if there is no such folder, or Hydra would read a shipped file for one of its.
    """
    packages = package_folders(config_folder())
    if config_dir is None:
        return _searched([folder.path for folder in packages])
    path = user_folder(config_dir).resolve()
    if "${" in str(path):
        raise RequestError(
            f"--config-dir is {str(path)!r}; Hydra reads ${{ as a reference: rename the folder.",
            code="config.folder",
        )
    for shipped in sorted(config_folder().rglob("*.yaml")):
        own = path / shipped.relative_to(config_folder())
        if own.is_file() and own.read_bytes() != shipped.read_bytes():
            raise RequestError(
                f"{own} has the name of a shipped file, which would be read in its place; give it "
                f"another name, such as {own.parent.name}/my_{own.name}.",
                code="config.shadowed",
            )
    for folder in packages:
        for name in folder.files():
            if (path / name).is_file() and not (path / name).samefile(folder.path / name):
                raise RequestError(
                    f"{path / name} has the name of a file of {folder.origin}; give it another.",
                    code="config.shadowed",
                )
    return _searched([*(folder.path for folder in packages), path])


def _searched(folders: Sequence[Path]) -> list[str]:
    """Return the override for Hydra, whatever characters the paths have."""
    if not folders:
        return []
    scheme = UserFolder.scheme()
    places = [QuotedString(f"{scheme}://{path}", Quote.double).with_quotes() for path in folders]
    return [f"hydra.searchpath=[{','.join(places)}]"]


def group_choices(overrides: Sequence[str], config_dir: str | Path | None = None) -> dict[str, str]:
    """Return the chosen option of each group, including those of the experiment."""
    search = _search_path(config_dir)
    with initialize_config_dir(str(config_folder()), version_base="1.3"):
        parsed = parse_overrides(overrides)
        parsed = with_own_section(parsed) if own_network(parsed) else parsed
        loader = GlobalHydra.instance().config_loader()
        words = [str(o.input_line) for o in parsed if is_group(o, loader)]
        config = compose("train", [*search, *words], return_hydra_config=True)
        chosen = OmegaConf.to_container(config.hydra.runtime.choices)
    assert isinstance(chosen, dict)
    return {
        str(group): str(option)
        for group, option in chosen.items()
        if option is not None and "/" not in str(group) and group != "experiment"
    }


def is_shipped(group: str, option: str) -> bool:
    """Return whether an option of a group is in the shipped configuration, or a package's."""
    return option_origin(group, option) is not None


def option_origin(group: str, option: str) -> str | None:
    """Return the distribution that an option of a group comes from; None for the user's own."""
    shipped = config_folder()
    if (shipped / group / f"{option}.yaml").is_file():
        return "unionsnn"
    found = (each for each in package_folders(shipped) if option in each.options(group))
    return next((each.origin for each in found), None)


def first_groups() -> set[str]:
    """Return the groups that each request has, before options add others."""
    defaults = OmegaConf.load(config_folder() / "train.yaml").defaults
    return {str(group) for entry in defaults if isinstance(entry, DictConfig) for group in entry}


def _compose(overrides: Sequence[str]) -> DictConfig:
    try:
        config = compose("train", overrides=list(overrides), return_hydra_config=True)
        chosen = config.hydra.runtime.choices
        if chosen.get("logger") is None and not any(o.startswith("logger=[") for o in overrides):
            raise RequestError(
                "A file's defaults name several loggers; name them on the command line, as in "
                "logger=[csv,wandb].",
                code="config.several",
            )
        with flag_override(config, "struct", False):
            del config["hydra"]
        return config
    except RequestError:
        raise
    except RecursionError:
        raise RequestError(
            "The configuration is nested too deeply, or a file's defaults name the file itself.",
            code="config.compose",
        ) from None
    except (HydraException, OmegaConfBaseException, ValueError, TypeError) as error:
        # The last two are what Hydra raises for a list of defaults of another shape.
        cause = error.__cause__ or error
        raise RequestError(" ".join(str(cause).split()), code="config.compose") from None


def _checked(plain: dict[str, Any], given: set[str]) -> Config:
    """Return a request without grid, checked and resolved."""
    checked = Config.from_dict(plain)
    arguments = {"task": checked.data.task, **(checked.data.model_extra or {})}
    if faults := argument_faults(checked.data.target, arguments):
        raise RequestError(*faults)
    faults = [
        Fault(
            f"{key} is {value:,}, but this machine has {os.cpu_count()} processors; at most "
            f"{most:,} are started.",
            "config.machine",
        )
        for most in [max(64, 4 * (os.cpu_count() or 1))]
        for key, value in (
            ("trainer.threads", checked.trainer.threads),
            ("trainer.devices", checked.trainer.devices),
            ("protocol.workers", checked.protocol.workers),
        )
        if value > most
    ]
    if faults:
        raise RequestError(*faults)
    budget = checked.model.parameter_budget
    if "model.hidden_channels" in given and budget is not None:
        raise RequestError(
            f"model.hidden_channels is set and model.parameter_budget is {budget}, which "
            "determines the width: set one of them, or type model.parameter_budget=null "
            "to disable an experiment's budget.",
            code="config.budget",
        )
    return checked


def completions(incomplete: str) -> list[str]:
    """Return completions: group=option for groups, key= for other keys."""
    with initialize_config_dir(str(config_folder()), version_base="1.3"):
        loader = GlobalHydra.instance().config_loader()
        groups = loader.get_group_options("", ObjectType.GROUP)
        words = [f"{g}={o}" for g in groups for o in options_of(g, loader)]
        for folder in package_folders(config_folder()):
            words += [f"{group}={option}" for group in groups for option in folder.options(group)]
        words += [f"{key}=" for key, _ in flatten(OmegaConf.to_container(compose("train")))]
    return sorted(word for word in words if word.startswith(incomplete))
