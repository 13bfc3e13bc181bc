"""Requests: composed by Hydra, checked as a whole, before torch is imported."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra._internal.sources_registry import SourcesRegistry
from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, Quote, QuotedString
from hydra.errors import HydraException
from hydra.plugins.config_source import ConfigResult
from omegaconf import DictConfig, OmegaConf, flag_override
from omegaconf.errors import OmegaConfBaseException

from unionsnn.base.errors import Fault, RequestError
from unionsnn.base.imports import check_path
from unionsnn.base.secrets import referenced_secrets
from unionsnn.base.words import nearest
from unionsnn.config.grid import flatten, grid_faults
from unionsnn.config.packages import package_folders
from unionsnn.config.schema import Config
from unionsnn.config.targets import (
    argument_faults,
    is_network,
    optional_arguments,
    published_request,
    published_task,
)
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
        parsed = _parse(overrides)
        own = _own_network(parsed)
        if own:
            check_path(own, "model._target_")
            parsed = _with_own_section(parsed)
        groups = [o for o in parsed if _is_group(o, loader)]
        chosen = [o for o in groups if o.input_line != _OWN_SECTION]
        faults = [f for o in chosen if (f := _group_fault(o, loader, config_dir))]
        if faults:
            raise RequestError(*faults)
        base = _compose([*search, *(str(o.input_line) for o in groups)])
        if own:
            # Keys that no file has go to the constructor, which is asked when it is called.
            present = {key for key, _ in flatten(OmegaConf.to_container(base))}
            parsed = _parse([_added(o, present) for o in parsed])
        faults = [f for o in parsed if o not in groups and (f := _value_fault(o, base, loader))]
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

    if wrong := grid_faults(plain, checked, _type_fault, check):
        raise RequestError(*wrong, code="config.grid")
    return checked.replace({"protocol.grid": grid})


def _own_network(parsed: Sequence[Override]) -> str | None:
    """Return the class from outside of this package that ``model._target_`` is set to, if any."""
    for override in parsed:
        if override.key_or_group == "model._target_" and not override.is_delete():
            target = str(override.value())
            return None if is_network(target) else target
    return None


_OWN_SECTION = "model=base/own"


def _with_own_section(parsed: Sequence[Override]) -> list[Override]:
    """Put the section of a class of the user's in front, unless a model is chosen."""
    chosen = any(override.key_or_group == "model" for override in parsed)
    return [*([] if chosen else _parse([_OWN_SECTION])), *parsed]


def _added(override: Override, known: set[str]) -> str:
    """Return an override in Hydra's syntax, where a new key of the model has a plus in front."""
    words, key = str(override.input_line), str(override.key_or_group)
    of_model = key.startswith("model.")
    if of_model and key not in known and not (override.is_add() or override.is_delete()):
        return f"+{words.lstrip('+')}"
    if key == "model._target_" and override.is_add():
        return words.lstrip("+")
    return words


def _tracker_name(option: str, search: Sequence[str]) -> str:
    """Return the tracker of an option, whose file may be the user's own with another name."""
    if is_shipped("logger", option):
        return option
    return str(_compose([*search, f"logger={option}"]).logger.name)


def refuse_repeats(words: Sequence[str]) -> None:
    """Refuse overrides of which two give one key different values.

    Raises:
        RequestError: There are some.
    """
    first: dict[str, str] = {}
    faults = []
    for word in words:
        key = word.partition("=")[0].strip().lstrip("+~")
        before = first.setdefault(key, word)
        if before != word:
            faults.append(Fault(f"{before} and {word} both set {key}; keep one.", "config.twice"))
    if faults:
        raise RequestError(*faults)


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
        parsed = _parse(overrides)
        parsed = _with_own_section(parsed) if _own_network(parsed) else parsed
        loader = GlobalHydra.instance().config_loader()
        words = [str(o.input_line) for o in parsed if _is_group(o, loader)]
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


def _parse(overrides: Sequence[str]) -> list[Override]:
    parser = OverridesParser.create()
    parsed, faults = [], []
    for words in overrides:
        if len(words) > _LONGEST:
            # Hydra's parser needs minutes for what no one types.
            faults.append(
                Fault(
                    f"{words[:60]}... has {len(words):,} characters; an override has at most "
                    f"{_LONGEST:,}. Put long values into a file of --config-dir.",
                    "config.syntax",
                )
            )
            continue
        try:
            override = parser.parse_override(words)
        except HydraException:
            faults.append(_syntax_fault(words, parser))
            continue
        except RecursionError:
            faults.append(Fault(f"{words[:60]}... is nested too deeply.", "config.syntax"))
            continue
        except ValueError as error:
            # Python reads no whole number of more than 4,300 digits.
            faults.append(Fault(f"{words[:60]}... cannot be read: {error}.", "config.syntax"))
            continue
        parsed.append(override)
        if not override.key_or_group:
            faults.append(Fault(f"{words} names no key. {_SYNTAX}", "config.syntax"))
        elif override.is_sweep_override():
            faults.append(Fault(f"{words}: {_several(words)}", "config.sweep"))
    if faults:
        raise RequestError(*faults)
    return parsed


def _several(words: str) -> str:
    """Say what to type for several values of a key, which Hydra's multirun would take."""
    key, _, values = words.partition("=")
    if key == "logger":
        return f"several trackers are a list; type logger=[{values}]."
    search = f"to search, unionsnn sweep STUDY '{key}={{}}'."
    if "(" in values:
        return f"a training has one value for each key; {search.format(values)}"
    each = " ".join(f"{key}={value.strip()}" for value in values.split(","))
    return (
        f"a training has one value for each key. To compare them, type unionsnn compare {each}; "
        f"{search.format(f'choice({values})')}"
    )


_LONGEST = 10_000
_SYNTAX = "Overrides have the form key=value, such as model=gin or optimizer.lr=0.01."


def _syntax_fault(words: str, parser: OverridesParser) -> Fault:
    """Return the fault of words that are not an override; often a value just lacks quotes."""
    key, equals, value = words.partition("=")
    escaped = value.replace('"', '\\"')
    quoted = f'{key}="{escaped}"'
    try:
        parser.parse_override(quoted)
    except HydraException:
        equals = ""
    if not (key and equals):
        return Fault(f"{words} is not an override. {_SYNTAX}", "config.syntax")
    return Fault(
        f"{words}: a value with such characters must be quoted; type {shlex.quote(quoted)}",
        "config.syntax",
    )


def _is_group(override: Override, loader: ConfigLoader) -> bool:
    key = override.key_or_group
    return "." not in key and bool(loader.get_group_options(key))


def _options(group: str, loader: ConfigLoader) -> list[str]:
    """Return the options of a group; folders named base hold parts of options."""
    folders = [f for f in loader.get_group_options(group, ObjectType.GROUP) if f != "base"]
    inner = (f"{f}/{name}" for f in folders for name in loader.get_group_options(f"{group}/{f}"))
    return [*loader.get_group_options(group), *inner]


def _group_fault(
    override: Override, loader: ConfigLoader, config_dir: str | Path | None
) -> Fault | None:
    group = override.key_or_group
    options = set(_options(group, loader))
    if config_dir is not None:
        folder = Path(config_dir) / group
        files_there = folder.rglob("*.yaml")
        options |= {p.relative_to(folder).with_suffix("").as_posix() for p in files_there}
    theirs = {
        option: folder.origin
        for folder in package_folders(config_folder())
        for option in folder.options(group)
    }
    options |= theirs.keys()
    shown = ", ".join(f"{o} ({theirs[o]})" if o in theirs else o for o in sorted(options))
    if override.is_delete() and group != "experiment":
        return Fault(
            f"{override.input_line}: an experiment needs its {group}; type {group}=..., one of "
            f"{', '.join(sorted(options))}.",
            "config.missing",
        )
    value = override.value()
    if group == "logger" and isinstance(value, list) and value:
        # Several trackers go together.
        value = next((name for name in value if str(name) not in options), value[0])
    named = isinstance(value, str | int | float) and not isinstance(value, bool)
    if override.is_delete() or (named and str(value) in options):
        return None
    if value is None and group == "experiment":
        return None
    if isinstance(value, list):
        return Fault(
            f"{override.input_line}: {group} takes one of {', '.join(sorted(options))}.",
            "config.several",
        )
    if group == "data" and (request := published_request(str(value))):
        return Fault(
            f"{override.input_line} is asked for by its format: type {request}.",
            "config.unknown_option",
        )
    if group == "model" and isinstance(value, str) and ("." in value or ":" in value):
        path = value.removeprefix("./").replace(".py", "").replace(":", ".").replace("/", ".")
        path = path if "." in path else f"{path}.NAME"
        return Fault(
            f"{override.input_line} is no model of a file; for a class of yours, type "
            f"model._target_={path}.",
            "config.unknown_option",
        )
    own = " Another class is named by optimizer._target_=package.module.Class."
    other = own if group == "optimizer" else ""
    return Fault(
        f"{group}={override.get_value_element_as_str()} is unknown; allowed are {shown}."
        f"{nearest(str(value), options)}{other}",
        "config.unknown_option",
    )


def _value_fault(override: Override, base: DictConfig, loader: ConfigLoader) -> Fault | None:
    key = override.key_or_group
    if override.is_add() or override.is_force_add() or override.is_delete():
        return None
    leaves = dict(flatten(OmegaConf.to_container(base)))
    known = (
        set(leaves)
        | {k.rpartition(".")[0] for k in leaves}
        | set(loader.get_group_options("", ObjectType.GROUP))
    )
    if key not in known:
        parent = key.rpartition(".")[0]
        near = nearest(key, known)
        if key.rpartition(".")[2] == "num_workers":
            near = (
                " Batches are gathered from tensors in memory, without processes that load them: "
                "leave it out."
            )
        if key in optional_arguments(str(leaves.get("optimizer._target_"))):
            near = f" It is an argument of the class: type +{override.input_line}."
        inside = sorted(k for k in leaves if k.startswith(f"{parent}.")) if parent else []
        allowed = f" Keys there: {', '.join(inside)}." if inside and not near else ""
        return Fault(f"The key {key!r} does not exist.{near}{allowed}", "config.unknown_key")
    return _type_fault(key, override.value(), leaves.get(key))


def _type_fault(key: str, value: Any, default: Any) -> Fault | None:
    """Compare with the type of the shipped value; the schema checks other types and null."""
    if value is None or not isinstance(default, bool | int | float) or "$" in str(value):
        return None
    wanted = (int, float) if isinstance(default, float) else (type(default),)
    if isinstance(value, wanted) and isinstance(value, bool) == isinstance(default, bool):
        return None
    kind = {bool: "true or false", int: "a whole number", float: "a number"}[type(default)]
    return Fault(f"{key} is {value!r}; it must be {kind}, such as {default}.", "config.type")


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
        words = [f"{g}={o}" for g in groups for o in _options(g, loader)]
        for folder in package_folders(config_folder()):
            words += [f"{group}={option}" for group in groups for option in folder.options(group)]
        words += [f"{key}=" for key, _ in flatten(OmegaConf.to_container(compose("train")))]
    return sorted(word for word in words if word.startswith(incomplete))
