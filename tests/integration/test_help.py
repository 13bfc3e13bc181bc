"""Help: in sections, with examples that can be typed, and no sentence cut."""

from __future__ import annotations

import json
import re
import shlex

import pytest

from commands import Command
from freeze import product
from unionsnn.cli.app import SECTIONS, command_line
from unionsnn.config.compose import compose_config

COMMANDS = dict(product.commands())


def test_each_command_is_in_one_section() -> None:
    listed = [name for names in SECTIONS.values() for name in names]
    assert sorted(listed) == sorted(command_line.commands)


@pytest.mark.parametrize("path", COMMANDS)
def test_no_sentence_is_cut_and_lines_fit_a_terminal(path: str) -> None:
    text = product.help_text(COMMANDS[path])
    _, _, lists = text.partition("Options:")
    assert not re.findall(r"[a-z,]\.\.\.$", lists, re.MULTILINE)
    assert max(map(len, text.splitlines())) <= 88


@pytest.mark.parametrize("path", [p for p in COMMANDS if " cache" not in p])
def test_examples_are_commands_with_valid_overrides(path: str) -> None:
    if path.endswith(" info"):
        return
    _, _, text = product.help_text(COMMANDS[path]).partition("Examples:\n")
    lines = [shlex.split(line) for line in text.partition("\n\n")[0].splitlines()]
    assert lines
    for words in lines:
        assert words[0] == "unionsnn"
        if words[1] == "COMMAND":
            continue
        assert words[1] in command_line.commands
        overrides = [w for w in words[2:] if re.fullmatch(r"[a-z.]+=\S+", w) and "--" not in w]
        if words[1] in ("train", "compare", "precompute") and overrides:
            # The first of several models is enough.
            models = [w for w in overrides if w.startswith("model=")]
            compose_config([w for w in overrides if w not in models[1:]])


def test_the_networks_are_listed_with_their_facts(command: Command) -> None:
    rows = {row["name"]: row for row in json.loads(command("models", "--json").stdout)}
    assert rows["unionsnn"]["gate"] == "default"
    assert rows["gin"]["gate"] is None
    assert rows["gin"]["edge_features"]
    assert not rows["mewispool"]["edge_features"]
    assert rows["graphormer"]["memory"]
    assert not rows["gcn"]["memory"]
    assert all(row["parameters"] > 100 for row in rows.values())
    assert all(bool(row["reason"]) != row["exports"] for row in rows.values())
    shown = command("models", "gin")
    assert "How Powerful are Graph Neural Networks?" in shown.stdout
    assert "model.train_eps" in shown.stdout
    wrong = command("models", "gni")
    assert wrong.status == 2
    assert "Did you mean 'gin'?" in wrong.stderr


def test_the_keys_are_shown(command: Command) -> None:
    assert "protocol" in command("config").stdout
    assert "trainer.max_epochs" in command("config", "trainer").stdout
    keys = json.loads(command("config", "data=folder", "--json").stdout)
    assert {"data.path", "data.table"} <= {key["name"] for key in keys}
    assert command("config", "data=fodler").status == 2
