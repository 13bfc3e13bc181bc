"""What the README shows works as it stands."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from torch_geometric.datasets import TUDataset

from tu_files import write_tu
from unionsnn.cli.app import command_line
from unionsnn.config.compose import compose_config
from unionsnn.config.keys import SEVERAL_SECTIONS, groups, keys_of

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


# Commands of tables made from records are composed where these are made.
MADE = re.compile(r"<!-- records: .*?<!-- end of records -->", re.DOTALL)


def blocks(page: Path, language: str) -> list[str]:
    text = MADE.sub("", page.read_text())
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def test_the_library_examples_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tu(tmp_path, "MUTAG", 60)
    monkeypatch.setattr(TUDataset, "url", f"file://{tmp_path}/TUDataset")
    monkeypatch.chdir(tmp_path)
    (short,) = blocks(ROOT / "README.md", "python")
    names: dict[str, Any] = {"__name__": "readme"}
    exec(compile(short, "README.md", "exec"), names)
    assert names["h"].shape == (names["data"].num_nodes, 32)
    (loop,) = (b for b in blocks(ROOT / "docs/own_model.md", "python") if "test graphs" in b)
    exec(compile(loop, "own_model.md", "exec"), {"__name__": "own_model"})
    assert re.fullmatch(r"\d+ of 12 test graphs\n", capsys.readouterr().out)


def test_the_readme_is_one_screen_of_figures_and_links() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120


def train_commands() -> list[tuple[str, str]]:
    """Page and arguments of each ``unionsnn train`` and ``make train`` on a line of its own."""
    found = []
    # The pages that add something train what they have just made.
    for page in (page for page in PAGES if not page.name.startswith("add_a_")):
        for block in blocks(page, "sh"):
            for line in block.replace("\\\n", " ").splitlines():
                words = shlex.split(line, comments=True)
                if "train" in words[:2]:
                    rest = words[words.index("train") + 1 :]
                    arguments = [word.removeprefix("ARGS=") for word in rest]
                    found.append((page.name, " ".join(arguments)))
    return found


@pytest.mark.parametrize(("page", "arguments"), train_commands())
def test_every_train_command_composes(page: str, arguments: str) -> None:
    overrides = [word for word in arguments.split() if not word.startswith("-")]
    compose_config(overrides)


def test_commands_are_found() -> None:
    assert len(train_commands()) >= 5


def comparisons() -> list[list[str]]:
    """Words of each ``unionsnn compare``, those of the page about it first."""
    pages = [ROOT / "docs/compare.md", ROOT / "README.md", ROOT / "docs/results.md"]
    texts = [block for page in pages for block in blocks(page, "sh")]
    lines = "".join(texts).replace("\\\n", " ").splitlines()
    commands = [shlex.split(line, comments=True) for line in lines]
    return [command for command in commands if command[:2] == ["unionsnn", "compare"]]


def test_every_comparison_composes() -> None:
    for command in comparisons():
        dashes = command.index("--")
        for configuration in command[2:dashes]:
            compose_config([*configuration.split(), *command[dashes + 1 :]])


def test_the_first_comparison_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = comparisons()[0]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UNIONSNN_DATA", str(tmp_path / "data"))
    small = ["data.num_train=16", "data.num_validation=8", "data.num_test=8"]
    small += ["model.hidden_channels=4", "model.num_layers=1", "trainer.accelerator=cpu"]
    kept = [word for word in command[1:] if not word.startswith("trainer.max_epochs")]
    assert len(kept) == len(command) - 2
    done = CliRunner().invoke(
        command_line, ["-q", *kept, *small, "trainer.max_epochs=1"], catch_exceptions=False
    )
    assert done.exit_code == 0, done.stderr
    assert "against A" in done.stdout
    assert len(list(Path("runs").rglob("repetitions/*.json"))) == 9


def test_every_setting_for_those_who_come_from_elsewhere_exists() -> None:
    rows = re.findall(r"\n\|.*\|(.*)\|", (ROOT / "docs/coming_from.md").read_text())
    code = " ".join(part for row in rows for part in re.findall(r"`([^`]*=[^`]*)`", row))
    settings = re.findall(r"(?<!\S)([a-z_.]+)=(\S+)", code)
    options = {group.name: group.options for group in groups()}
    keys = {key.name for name in options if name not in SEVERAL_SECTIONS for key in keys_of(name)}
    assert len(settings) > 30
    for key, value in settings:
        assert value in options[key] if key in options else key in {*keys, "model._target_"}, key


def test_make_lists_its_targets() -> None:
    done = subprocess.run(["make", "-C", ROOT], capture_output=True, text=True, check=True)
    for target in ("install", "train", "test", "lint"):
        assert f"make {target} " in done.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)", page.read_text()):
        # What the site generates is there, and its links are checked, when it is built.
        if not link.startswith(("http://", "https://", "generated/")):
            assert (page.parent / link).exists(), link
