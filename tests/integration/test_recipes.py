"""The recipes of the documentation, followed to the letter in a copy of the source tree.

A recipe is a page of docs/ whose code blocks are followed in their order. The paragraph right
before a block says what the block is:

- the first path in backticks: the block is that file, which must be new;
- "in `NAME` of `PATH`": the block is put at the end of the literal that NAME is in that Python
  file;
- "among the imports of `PATH`": the block is put after the imports of that Python file;
- blocks of language sh are commands: ``unionsnn ...``, ``make train`` and ``make test``, with
  variables of the environment before them;
- blocks without a language only show something.

Any other block fails the test. A new recipe is a row in RECIPES.
"""

from __future__ import annotations

import ast
import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COPIED = ("src", "conf", "sweeps", "tests", "docs", "pyproject.toml")

BLOCK = re.compile(
    r"(?P<text>(?:^.+\n)*)\n*^```(?P<language>\w*)\n(?P<body>(?:.*\n)*?)^```$", re.MULTILINE
)
FRAGMENT = re.compile(r"in `(?P<name>\w+)` of `(?P<path>[\w./-]+)`")
IMPORTS = re.compile(r"among the imports of `(?P<path>[\w./-]+)`")
FILE = re.compile(r"`(?P<path>[\w.-]+(?:/[\w.-]+)*\.\w+)`")

SMALL = (
    "trainer.max_epochs=1",
    "trainer.accelerator=cpu",
    "trainer.progress=none",
    "model.hidden_channels=8",
    "model.num_layers=2",
)


@dataclass(frozen=True)
class Recipe:
    """What a page takes for granted.

    Attributes:
        small: Overrides that make its training commands short, beside SMALL.
        prepare: Makes what the reader is supposed to have, in the folder given. Its folder
            `mirror` stands for the addresses that data come from.
        addresses: Classes of PyG that download by themselves, and where in the folder they find
            their files instead.
    """

    small: tuple[str, ...] = ()
    prepare: Callable[[Path], object] = lambda folder: None
    addresses: Mapping[str, str] = field(default_factory=dict)


def graphs_of_ones_own(folder: Path) -> None:
    # Not at the top: a process that follows a recipe must not have read what the recipe changes.
    from data_files import write_amazon
    from fabricated import write_folder
    from tu_files import write_tu

    write_folder(folder / "my_graphs")
    write_tu(folder / "mirror", "BZR", 60, attributes=2)
    # Coauthor has files of the same format as Amazon.
    amazon = write_amazon(folder / "mirror", "cs")
    amazon.rename(folder / "mirror" / "ms_academic_cs.npz")


def a_graph_of_ones_own(folder: Path) -> None:
    (folder / "my_graph.csv").write_text("a,b\nb,c\nc,a\nc,d\n")


RECIPES = {
    "add_a_descriptor.md": Recipe(prepare=a_graph_of_ones_own),
    "add_an_encoding.md": Recipe(prepare=a_graph_of_ones_own),
    "add_a_dataset.md": Recipe(
        prepare=graphs_of_ones_own,
        addresses={"TUDataset": "mirror/TUDataset", "Coauthor": "mirror"},
    ),
    "add_a_model.md": Recipe(
        small=("data.num_train=16", "data.num_validation=8", "data.num_test=8")
    ),
    "add_a_sweep.md": Recipe(),
    "add_a_table.md": Recipe(),
    "add_a_tracker.md": Recipe(
        small=("data.num_train=16", "data.num_validation=8", "data.num_test=8")
    ),
    "own_model_cli.md": Recipe(),
}


def add_file(path: Path, body: str) -> None:
    assert not path.exists(), f"{path} is there already"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(body)


def add_fragment(path: Path, name: str, body: str) -> None:
    """Put lines before the closing bracket of a module's literal."""
    text = path.read_text()
    (literal,) = (
        node.value
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name) and target.id == name
    )
    lines = text.splitlines(keepends=True)
    assert literal.end_lineno is not None
    lines.insert(literal.end_lineno - 1, body)
    path.write_text("".join(lines))


def add_imports(path: Path, body: str) -> None:
    text = path.read_text()
    nodes = [node for node in ast.parse(text).body if isinstance(node, ast.Import | ast.ImportFrom)]
    lines = text.splitlines(keepends=True)
    lines.insert(nodes[-1].end_lineno or 0, body)
    path.write_text("".join(lines))


def run_command(words: list[str], small: tuple[str, ...]) -> None:
    """Run a command in a fork: what is imported so far is there, what it imports is forgotten."""
    print("$", shlex.join(words), flush=True)
    process = os.fork()
    if process == 0:
        os._exit(status_of(words, small))
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    assert status == 0, f"{shlex.join(words)} ended with exit status {status}"


def status_of(words: list[str], small: tuple[str, ...]) -> int:
    from unionsnn.cli import main

    importlib.invalidate_caches()
    while "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        os.environ[name] = value
    if words[0] == "make":
        target, arguments = words[1], shlex.split(words[2].removeprefix("ARGS="))
    else:
        assert words[0] == "unionsnn", f"{words[0]}: only make and unionsnn can be followed"
        target, arguments = words[1], words[2:]
    if words[:2] == ["make", "test"]:
        status = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *arguments]))
    else:
        sys.argv = ["unionsnn", target, *arguments, *(small if target == "train" else ())]
        try:
            main()
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
    sys.stdout.flush()
    sys.stderr.flush()
    return status


def follow(name: str) -> None:
    """Follow a page in the current folder, a copy of the source tree."""
    import torch
    from torch_geometric import datasets

    import unionsnn.cli

    root = Path.cwd()
    assert Path(unionsnn.cli.__file__).is_relative_to(root)
    torch.set_num_threads(1)
    recipe = RECIPES[name]
    for data_set, folder in recipe.addresses.items():
        getattr(datasets, data_set).url = f"{(root / folder).as_uri()}/"
    page = (root / "docs" / name).read_text()
    blocks = list(BLOCK.finditer(page))
    assert page.count("```") == 2 * len(blocks)
    for block in blocks:
        text, body = block["text"], block["body"]
        if block["language"] == "sh":
            for line in body.replace("\\\n", " ").splitlines():
                if words := shlex.split(line, comments=True):
                    run_command(words, (*recipe.small, *SMALL))
        elif block["language"] and (place := FRAGMENT.search(text)):
            add_fragment(root / place["path"], place["name"], body)
        elif block["language"] and (place := IMPORTS.search(text)):
            add_imports(root / place["path"], body)
        elif block["language"]:
            file = FILE.search(text)
            assert file, f"the text does not say which file this is:\n{text}\n{body}"
            add_file(root / file["path"], body)


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_works_to_the_letter(name: str, tmp_path: Path) -> None:
    for entry in COPIED:
        if (ROOT / entry).is_dir():
            # With what is compiled, but for files that are being written.
            unfinished = shutil.ignore_patterns("*.tmp.*", "*.pyc.*")
            shutil.copytree(ROOT / entry, tmp_path / entry, ignore=unfinished)
        else:
            shutil.copy(ROOT / entry, tmp_path / entry)
    RECIPES[name].prepare(tmp_path)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    environment |= {
        "PYTHONPATH": os.pathsep.join(str(tmp_path / entry) for entry in ("src", "tests")),
        "UNIONSNN_DATA": str(tmp_path / "data"),
        "UNIONSNN_MIRROR": str(tmp_path / "mirror"),
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [sys.executable, tmp_path / "tests" / "integration" / Path(__file__).name, name],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout


if __name__ == "__main__":
    follow(sys.argv[1])
