"""The keys of a configuration: types from the schema, defaults and meanings from the files.

The comment above a key in a file of ``conf`` is its meaning; the comment that a file begins with is
that of the option.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Any

import yaml
from pydantic import BaseModel

from unionsnn.base.errors import RequestError
from unionsnn.base.words import nearest
from unionsnn.config.compose import config_folder, first_groups
from unionsnn.config.schema import Config
from unionsnn.config.sections import allowed_words
from unionsnn.tracking.tracker import trackers

SEVERAL_SECTIONS = ("experiment", "grid")
"""Groups whose options set keys of others, and have none of their own."""

BY_OPTION = "by option"
"""What stands for the default of a key that the options of its group set to several values."""


@dataclass(frozen=True)
class Key:
    """A key of the configuration.

    Args:
        name: As it is typed, such as ``optimizer.lr``.
        kind: Its type and the allowed values, in words.
        default: Its value if it is not given, as written in the file; `BY_OPTION` if that differs
            between the options that have it, of which none is chosen by itself.
        meaning: What it is for.
        options: The options of its group that have it; empty for all.
    """

    name: str
    kind: str
    default: str
    meaning: str
    options: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return plain types."""
        return {**asdict(self), "options": list(self.options)}


@dataclass(frozen=True)
class Group:
    """A group of options, of which a request chooses one.

    Args:
        name: Its name.
        default: The option that is chosen if none is given; empty for none.
        options: What each option is, by its name.
    """

    name: str
    default: str
    options: Mapping[str, str]


@dataclass(frozen=True)
class _Entry:
    """A key in a file: its value as written, and the comment above."""

    value: str
    comment: str = ""


def groups() -> list[Group]:
    """Return the groups of options, in the order in which a request chooses them."""
    chosen = _defaults("train")
    # Which the model brings along.
    defaults = {**chosen, "gate": gate_of(str(chosen["model"]))}
    names = [*chosen, *sorted(p.name for p in config_folder().iterdir() if p.is_dir())]
    return [
        Group(name, defaults.get(name) or "", _options(name))
        for name in dict.fromkeys(names)
        if (config_folder() / name).is_dir()
    ]


def keys_of(group: str, option: str | None = None) -> list[Key]:
    """Return the keys of a group, or of one of its options; or a single key, or those below it.

    Args:
        group: Name of a group or key; empty for keys outside of groups.
        option: Name of an option; None for all of them.

    Raises:
        RequestError: There is no such group or option.
    """
    if not group:
        schemas = _inside(Config)
        return [
            Key(
                name,
                allowed_words(schemas[name], schemas[name]["$defs"]),
                entry.value,
                entry.comment,
            )
            for name, entry in _own_keys().items()
        ]
    known = {each.name: each for each in groups() if each.name not in SEVERAL_SECTIONS}
    section = group.partition(".")[0]
    if group not in known and option is None:
        every = keys_of(section) if section in known else keys_of("")
        if below := [k for k in every if f"{k.name}.".startswith(f"{group}.")]:
            return below
        if section in known:
            raise RequestError(
                f"The key {group!r} does not exist.{nearest(group, (k.name for k in every))} "
                f"unionsnn config {section} shows the keys there.",
                code="config.unknown_key",
            )
    if group not in known:
        raise RequestError(
            f"{group!r} is no group of keys; allowed are {', '.join(known)}."
            f"{nearest(group, known)}",
            code="config.unknown_group",
        )
    options = known[group].options
    if option is not None and option not in options:
        raise RequestError(
            f"{group}={option} is unknown; allowed are {', '.join(options)}."
            f"{nearest(option, options)}",
            code="config.unknown_option",
        )
    first = known[group].default
    chosen = [option] if option else [first, *(o for o in options if o != first)]
    entries = {name: _entries(group, name) for name in chosen if name in options}
    having: dict[str, list[str]] = {}
    for name, found in entries.items():
        for key in found:
            having.setdefault(key, []).append(name)
    made = []
    for key, names in having.items():
        found = entries[names[0]]
        schema = _properties(group, found).get(key, {})
        # What the option says, else the class, else another option.
        said = found[key].comment or schema.get("description") or _argument(group, found, key)
        said = said or next((entries[n][key].comment for n in names if entries[n][key].comment), "")
        value = found[key].value
        kind = allowed_words(schema, schema.get("$defs", {})) or _kind_of(value)
        # Of options that are not chosen unless asked for, none is the default.
        if first not in names and len({entries[n][key].value for n in names}) > 1:
            value = BY_OPTION
        few = () if len(names) == len(entries) else tuple(sorted(names))
        made.append(Key(f"{group}.{key}", kind, value, said, few))
    return made


def _argument(group: str, entries: Mapping[str, _Entry], key: str) -> str:
    """Return what the docstring of an option's class says about a key."""
    texts = (_arguments(kind).get(key, "") for kind in _classes(group, entries))
    return next(filter(None, texts), "")


# -- files ---------------------------------------------------------------------------------


@cache
def _read(path: Path) -> tuple[str, dict[str, _Entry], list[Any]]:
    """Return the title of a file, its keys, and its list of defaults."""
    text = path.read_text(encoding="utf-8")
    lines = [line.strip() for line in text.splitlines()]
    head = next((i for i, line in enumerate(lines) if not line.startswith("#")), len(lines))
    title = _joined(lines[:head])
    entries: dict[str, _Entry] = {}
    root = yaml.compose(text, Loader=yaml.SafeLoader)

    def walk(node: yaml.MappingNode, prefix: str) -> None:
        for key, value in node.value:
            if prefix + key.value == "defaults":
                continue
            if isinstance(value, yaml.MappingNode) and not value.flow_style and value.value:
                walk(value, f"{prefix}{key.value}.")
                continue
            end = begin = key.start_mark.line
            while begin > head and lines[begin - 1].startswith("#"):
                begin -= 1
            written = text[value.start_mark.index : value.end_mark.index].strip()
            entries[prefix + key.value] = _Entry(written, _joined(lines[begin:end]))

    if isinstance(root, yaml.MappingNode):
        walk(root, "")
    return title, entries, list((yaml.safe_load(text) or {}).get("defaults", []))


def _joined(comments: list[str]) -> str:
    kept = [line.lstrip("#").strip() for line in comments if "@package" not in line]
    return " ".join(line for line in kept if line)


def _file(group: str, option: str) -> Path:
    return config_folder() / group / f"{option}.yaml"


def _options(group: str) -> dict[str, str]:
    folder = config_folder() / group
    found = sorted(folder.rglob("*.yaml"))
    names = [p.relative_to(folder).with_suffix("").as_posix() for p in found]
    return {n: _read(p)[0] for n, p in zip(names, found, strict=True) if not n.startswith("base/")}


def _defaults(option: str) -> dict[str, str | None]:
    """Return the groups that the file of all requests chooses from, with the option it chooses."""
    chosen: dict[str, str | None] = {}
    for entry in _read(config_folder() / f"{option}.yaml")[2]:
        if isinstance(entry, dict):
            chosen |= entry
    return chosen


def _of_files(group: str, option: str) -> dict[str, _Entry]:
    """Return the keys of an option, with those that it has from others."""
    _, own, defaults = _read(_file(group, option))
    made: dict[str, _Entry] = {}
    for entry in defaults:
        if isinstance(entry, str):
            # Relative to the file.
            name = str(PurePosixPath(option).parent / entry.partition("@")[0])
            if name != "_self_":
                made |= _of_files(group, name)
            continue
        for word, chosen in entry.items():
            place = re.fullmatch(r"/(\w+)@(\w+)", word)
            # Of another group, inside this one.
            if place and place[2] != "_global_":
                inner = _of_files(place[1], chosen)
                made |= {f"{place[2]}.{key}": value for key, value in inner.items()}
    for key, value in own.items():
        before = made.get(key)
        comment = value.comment or (before.comment if before else "")
        made[key] = replace(value, comment=comment)
    return made


def _entries(group: str, option: str) -> dict[str, _Entry]:
    """Return the keys of an option, with those that each request has in its group."""
    made = _of_files(group, option)
    for key, value in _read(config_folder() / "train.yaml")[1].items():
        if key.startswith(f"{group}."):
            made.setdefault(key.removeprefix(f"{group}."), value)
    return made


def content_of(group: str, option: str) -> dict[str, Any]:
    """Return the keys of an option with their values, as a request that chooses it gets them."""
    made: dict[str, Any] = {}
    for name, entry in _entries(group, option).items():
        *parents, last = name.split(".")
        section = made
        for part in parents:
            section = section.setdefault(part, {})
        section[last] = yaml.safe_load(entry.value)
    return made


def gate_of(model: str) -> str:
    """Return the option of the gate that a model brings along."""
    _, _, defaults = _read(_file("model", model))
    for entry in defaults:
        for word, chosen in entry.items() if isinstance(entry, dict) else ():
            if word.endswith("/gate@_global_.gate"):
                return str(chosen)
    (inherited,) = (e for e in defaults if isinstance(e, str) and "/" not in e and e != "_self_")
    return gate_of(inherited)


def _own_keys() -> dict[str, _Entry]:
    """Return the keys that belong to no group."""
    _, entries, _ = _read(config_folder() / "train.yaml")
    return {k: v for k, v in entries.items() if k.partition(".")[0] not in first_groups()}


# -- schema --------------------------------------------------------------------------------


def _classes(group: str, entries: Mapping[str, _Entry]) -> Iterator[type[BaseModel]]:
    """Yield the classes that check the keys of an option: of the section, and its own."""
    section = Config.model_fields[group].annotation
    if group == "logger":
        section = trackers().get(entries["name"].value)
    if isinstance(section, type) and issubclass(section, BaseModel):
        yield section
    target = entries["_target_"].value if "_target_" in entries else ""
    # Those of formats need no torch, those of networks do.
    if target.startswith("unionsnn.data.sources."):
        module, _, name = target.rpartition(".")
        yield getattr(import_module(module), name)


def _properties(group: str, entries: Mapping[str, _Entry]) -> dict[str, Any]:
    """Return the schema of each key of an option, by its name."""
    made: dict[str, Any] = {}
    for kind in _classes(group, entries):
        made = {**_inside(kind), **made}
    return made


@cache
def _inside(kind: type[BaseModel]) -> dict[str, Any]:
    """Return the schema of each key of a section and of the sections in it."""
    whole = kind.model_json_schema(by_alias=True)
    defs = whole.get("$defs", {})
    made: dict[str, Any] = {}
    for key, schema in whole.get("properties", {}).items():
        made[key] = {**schema, "$defs": defs}
        for each in (schema, *schema.get("anyOf", ())):
            inner = defs.get(each.get("$ref", "").rpartition("/")[2], {})
            for part, found in inner.get("properties", {}).items():
                made[f"{key}.{part}"] = {**found, "$defs": defs}
    return made


def _arguments(kind: type) -> dict[str, str]:
    """Return what the docstrings of a class and its bases say about their arguments."""
    made: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        text = inspect.cleandoc(each.__dict__.get("__doc__") or "")
        _, _, rest = text.partition("Args:\n")
        found = re.findall(
            r"^    (\w+): (.+(?:\n {8,}.+)*)", rest.partition("\n\n")[0], re.MULTILINE
        )
        made |= {name: " ".join(words.split()) for name, words in found}
    return made


def _kind_of(value: str) -> str:
    """Say of which type a value is that has no schema, such as an argument of a network."""
    kinds = {bool: "true, false", int: "whole number", float: "number", list: "list"}
    plain = yaml.safe_load(value) if value and "$" not in value else value
    return "number or null" if plain is None else kinds.get(type(plain), "text")
