"""Commands that tell what there is: networks, and keys of the configuration."""

from __future__ import annotations

from collections.abc import Iterable

import click

from unionsnn.cli.common import Completed, Options, echo_json, examples, json_option


def _models() -> Iterable[str]:
    from unionsnn.config.keys import groups

    return next(each.options for each in groups() if each.name == "model")


def _groups() -> Iterable[str]:
    from unionsnn.config.keys import groups

    return [each.name for each in groups()]


@click.command(epilog=examples("unionsnn models", "unionsnn models gin union_gin"))
@click.argument("names", nargs=-1, type=Completed("name", _models), metavar="[NAME ...]")
@json_option()
@click.pass_obj
def models(options: Options, names: tuple[str, ...], as_json: bool) -> None:
    """List the networks, or show some with their keys.

    A row has the parameters at the defaults, the gate, whether features of edges are read, whether
    the memory of a batch is estimated, whether the network can be exported, and its paper.
    """
    from unionsnn.base.display import display, stage
    from unionsnn.config.keys import keys_of
    from unionsnn.reports.table import show
    from unionsnn.reports.views.keys import network_tables, networks_table
    from unionsnn.runs.networks import networks

    with display(options.progress(as_json=as_json)), stage("making networks"):
        facts = networks(names or None)
    keys = {each.name: keys_of("model", each.name) for each in facts} if names else {}
    if as_json:
        echo_json(
            [
                {**f.to_json(), **({"keys": [k.to_json() for k in keys[f.name]]} if names else {})}
                for f in facts
            ]
        )
    elif names:
        show([table for each in facts for table in network_tables(each, keys[each.name])])
    else:
        show([networks_table(facts)])


@click.command(
    epilog=examples(
        "unionsnn config", "unionsnn config optimizer", "unionsnn config data=folder --json"
    )
)
@click.argument("group", required=False, type=Completed("group", _groups), metavar="[GROUP|KEY]")
@json_option()
def config(group: str | None, as_json: bool) -> None:
    """Show the keys of the configuration: default, type, allowed values and meaning.

    GROUP is a group of keys, such as protocol, or one of its options, such as data=folder; KEY is
    one of them, such as optimizer.lr. Without it, the groups and their options are listed, and the
    keys outside of groups.
    """
    from unionsnn.config.keys import SEVERAL_SECTIONS, groups, keys_of
    from unionsnn.reports.table import show
    from unionsnn.reports.views.keys import groups_tables, keys_table, options_table

    if group in SEVERAL_SECTIONS:
        of_all = next(each for each in groups() if each.name == group)
        if as_json:
            echo_json({"name": group, "default": None, "options": dict(of_all.options)})
        else:
            show([options_table(of_all)])
        return
    if group:
        name, _, option = group.partition("=")
        keys = keys_of(name, option or None)
        if as_json:
            echo_json([each.to_json() for each in keys])
        else:
            show([keys_table(f"Keys of {group}", keys)])
        return
    found, own = groups(), keys_of("")
    if as_json:
        echo_json(
            {
                "groups": [
                    {"name": g.name, "default": g.default or None, "options": dict(g.options)}
                    for g in found
                ],
                "keys": [each.to_json() for each in own],
            }
        )
    else:
        show(groups_tables(found, own))
