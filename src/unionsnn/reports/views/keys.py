"""The shipped networks, and the keys of the configuration, for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from unionsnn.config.keys import Group, Key
from unionsnn.reports.table import Table, key_value_table, numbers, words

if TYPE_CHECKING:
    from unionsnn.runs.networks import NetworkFacts

_FEW = 4


def networks_table(facts: Sequence[NetworkFacts]) -> Table:
    """Return a row for each network."""
    rows = [
        [
            each.name,
            each.parameters,
            each.gate,
            _yes(each.edge_features),
            _yes(each.memory),
            _yes(each.exports),
            each.title,
        ]
        for each in facts
    ]
    columns = [
        *words("model"),
        *numbers("parameters"),
        *words("gate", "edges", "memory", "export", "what it is"),
    ]
    notes = [
        "parameters: at the defaults, with one node feature and one output",
        "edges: whether it reads features of edges; memory: whether it estimates that of a batch; "
        "export: whether unionsnn export can write it",
        "unionsnn models NAME shows one with its keys; model=NAME chooses it",
    ]
    return Table(f"{len(facts)} networks", columns, rows, notes)


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def network_tables(facts: NetworkFacts, keys: Sequence[Key]) -> list[Table]:
    """Return what a network is, and its keys."""
    rows = [
        ("what it is", facts.title),
        ("class", facts.kind),
        ("parameters", f"{facts.parameters:,} with one node feature and one output"),
        ("gate", facts.gate or "none"),
        ("features of edges", "are read" if facts.edge_features else "are not read"),
        ("memory of a batch", "is estimated" if facts.memory else "is not estimated"),
        ("export", "yes" if facts.exports else f"no: {facts.reason}"),
        ("to train it", f"unionsnn train model={facts.name} data=mutag"),
    ]
    # Those that are said above.
    said = ("model.name", "model._target_")
    others = [each for each in keys if each.name not in said]
    return [key_value_table(facts.name, rows), keys_table(f"Keys of model={facts.name}", others)]


def groups_tables(groups: Sequence[Group], own: Sequence[Key]) -> list[Table]:
    """Return the groups of options, and the keys that belong to none."""
    rows = [
        [each.name, each.default or "–", ", ".join(o for o in each.options if o != each.default)]
        for each in groups
    ]
    notes = ["GROUP=OPTION chooses an option: data=mutag; unionsnn config GROUP shows its keys"]
    return [
        Table("Groups", words("group", "default", "other options"), rows, notes),
        keys_table("Keys outside of groups", own),
    ]


def options_table(group: Group) -> Table:
    """Return a row for each option of a group."""
    notes = [f"{group.name}=OPTION chooses one"]
    rows = [[name, meaning] for name, meaning in group.options.items()]
    return Table(f"Options of {group.name}", words("option", "what it is"), rows, notes)


def keys_table(title: str, keys: Sequence[Key]) -> Table:
    """Return a row for each key."""
    rows = []
    for each in keys:
        meaning = each.meaning
        if each.options:
            few = ", ".join(each.options[:_FEW])
            more = len(each.options) - _FEW
            meaning += f" [{few}{f' and {more} more' if more > 0 else ''}]"
        rows.append([each.name, each.default, each.kind, meaning])
    columns = words("key", "default", "values", "meaning")
    notes = []
    if any(each.options for each in keys):
        notes = ["in brackets: the options that have the key, if not all"]
    return Table(title, columns, rows, notes)
