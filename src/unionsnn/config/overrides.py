"""What is typed, KEY=VALUE and GROUP=OPTION: its syntax, and what is wrong with it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf

from unionsnn.base.errors import Fault, RequestError
from unionsnn.base.words import nearest
from unionsnn.config.grid import flatten
from unionsnn.config.packages import PackageFolder
from unionsnn.config.targets import is_network, optional_arguments, published_request


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


def own_network(parsed: Sequence[Override]) -> str | None:
    """Return the class from outside of this package that ``model._target_`` is set to, if any."""
    for override in parsed:
        if override.key_or_group == "model._target_" and not override.is_delete():
            target = str(override.value())
            return None if is_network(target) else target
    return None


OWN_SECTION = "model=base/own"
"""What a class of the user's is chosen with, if no model is."""


def with_own_section(parsed: Sequence[Override]) -> list[Override]:
    """Put the section of a class of the user's in front, unless a model is chosen."""
    chosen = any(override.key_or_group == "model" for override in parsed)
    return [*([] if chosen else parse_overrides([OWN_SECTION])), *parsed]


def added(override: Override, known: set[str]) -> str:
    """Return an override in Hydra's syntax, where a new key of the model has a plus in front."""
    words, key = str(override.input_line), str(override.key_or_group)
    of_model = key.startswith("model.")
    if of_model and key not in known and not (override.is_add() or override.is_delete()):
        return f"+{words.lstrip('+')}"
    if key == "model._target_" and override.is_add():
        return words.lstrip("+")
    return words


def parse_overrides(overrides: Sequence[str]) -> list[Override]:
    """Parse overrides in Hydra's syntax.

    Raises:
        RequestError: with every fault of syntax, and every key with several values.
    """
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


def is_group(override: Override, loader: ConfigLoader) -> bool:
    """Return whether an override chooses an option of a group."""
    key = override.key_or_group
    return "." not in key and bool(loader.get_group_options(key))


def options_of(group: str, loader: ConfigLoader) -> list[str]:
    """Return the options of a group; folders named base hold parts of options."""
    folders = [f for f in loader.get_group_options(group, ObjectType.GROUP) if f != "base"]
    inner = (f"{f}/{name}" for f in folders for name in loader.get_group_options(f"{group}/{f}"))
    return [*loader.get_group_options(group), *inner]


def group_fault(
    override: Override,
    loader: ConfigLoader,
    config_dir: str | Path | None,
    packages: Sequence[PackageFolder],
) -> Fault | None:
    """Return why the choice of an option of a group is refused; None if it is not.

    Args:
        override: The choice.
        loader: Hydra's.
        config_dir: The folder of the user's.
        packages: Those of installed packages.
    """
    group = override.key_or_group
    options = set(options_of(group, loader))
    if config_dir is not None:
        folder = Path(config_dir) / group
        files_there = folder.rglob("*.yaml")
        options |= {p.relative_to(folder).with_suffix("").as_posix() for p in files_there}
    theirs = {option: folder.origin for folder in packages for option in folder.options(group)}
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


def value_fault(override: Override, base: DictConfig, loader: ConfigLoader) -> Fault | None:
    """Return why a key, or its value beside the shipped one, is refused; None if it is not."""
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
    return type_fault(key, override.value(), leaves.get(key))


def type_fault(key: str, value: Any, default: Any) -> Fault | None:
    """Compare with the type of the shipped value; the schema checks other types and null."""
    if value is None or not isinstance(default, bool | int | float) or "$" in str(value):
        return None
    wanted = (int, float) if isinstance(default, float) else (type(default),)
    if isinstance(value, wanted) and isinstance(value, bool) == isinstance(default, bool):
        return None
    kind = {bool: "true or false", int: "a whole number", float: "a number"}[type(default)]
    return Fault(f"{key} is {value!r}; it must be {kind}, such as {default}.", "config.type")
