"""What the frozen values are taken from: the only place here that names the product's internals.

A rebuilt product may need other calls; what they return may not change.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from fabricated import fabricate
from unionsnn.cli.app import command_line
from unionsnn.config.compose import compose_config, config_folder
from unionsnn.config.identity import config_hash
from unionsnn.data.splits import split_hash
from unionsnn.search.study import make_study
from unionsnn.search.study_file import shipped, sweeps_folder
from unionsnn.training.build import build_data
from unionsnn.training.protocols import draw_splits

WIDTH = 80


def options(group: str) -> list[str]:
    """Options of a group of the shipped configuration; folders named base hold parts of them."""
    folder = config_folder() / group
    found = (p.relative_to(folder).with_suffix("") for p in folder.rglob("*.yaml"))
    return sorted(path.as_posix() for path in found if path.parts[0] != "base")


def hash_of(overrides: Sequence[str]) -> str:
    return config_hash(compose_config(overrides))


def files_for(overrides: Sequence[str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Overrides that let an experiment read hand-made files below a folder."""
    return fabricate(compose_config(overrides).data.to_dict(), folder, monkeypatch)


def hash_of_splits(overrides: Sequence[str]) -> str:
    config = compose_config(overrides)
    return split_hash(draw_splits(config.protocol, build_data(config), config.seed))


def studies() -> list[str]:
    """Names of the shipped studies."""
    assert {path.stem for path in sweeps_folder().glob("*.yaml")} == set(shipped())
    return list(shipped())


def study_plan(name: str) -> dict[str, Any]:
    """What determines the trials of a shipped study, and the hashes of its experiment and trials.

    Points that the sampler draws are no part of a plan; its first trial is then that of the
    smallest values.
    """
    study = make_study(name)
    plan = study.plan
    first = {p.key: p.examples()[0] for p in study.space} | plan[0]
    definition = dict(study.definition)
    del definition["versions"], definition["experiment"], definition["trial"]
    return {
        "name": study.name,
        "folder": study.folder.as_posix(),
        "directions": study.directions,
        **definition,
        "base_hash": config_hash(study.base),
        "first_trial_hash": config_hash(study.config(first)),
        "final_hash": config_hash(study.config(first, "final")),
        "cells": [point for point in plan if point],
    }


def command(*words: str) -> Any:
    """Run a command that prints JSON, in this process."""
    done = CliRunner().invoke(command_line, ["-q", *words, "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


def commands() -> Iterator[tuple[str, click.Context]]:
    """Every command and sub-command, in the order in which help lists them."""
    yield from _below(command_line, "unionsnn")


def _below(
    made: click.Command, name: str, parent: click.Context | None = None
) -> Iterator[tuple[str, click.Context]]:
    settings = {**made.context_settings, "terminal_width": WIDTH, "max_content_width": WIDTH}
    context = click.Context(made, info_name=name, parent=parent, **settings)
    yield context.command_path, context
    if isinstance(made, click.Group):
        for inner in made.list_commands(context):
            found = made.get_command(context, inner)
            assert found is not None
            yield from _below(found, inner, context)


def help_text(context: click.Context) -> str:
    return context.get_help() + "\n"


def structure(context: click.Context) -> dict[str, Any]:
    """What a command takes, without a word of explanation."""
    made = context.command
    return {
        "hidden": made.hidden,
        "commands": made.list_commands(context) if isinstance(made, click.Group) else None,
        "parameters": [_parameter(each) for each in made.get_params(context)],
    }


def _parameter(each: click.Parameter) -> dict[str, Any]:
    about = each.to_info_dict()
    # The class of a type is an internal name, and the order of names that of a release of click.
    kind = {k: v for k, v in sorted(about["type"].items()) if k != "param_type"}
    flags = ("is_flag", "flag_value", "count", "hidden", "prompt")
    return {
        "parameter": about["param_type_name"],
        "opts": sorted(each.opts),
        "secondary_opts": each.secondary_opts,
        "type": kind,
        "required": each.required,
        "nargs": each.nargs,
        "multiple": each.multiple,
        "default": about["default"],
        "metavar": each.metavar,
        "envvar": each.envvar,
        **{flag: about[flag] for flag in flags if flag in about},
    }
