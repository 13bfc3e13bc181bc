"""The core without its extras: the library runs, the command says what to install."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tu_files import write_tu
from unionsnn.base.extras import EXTRAS, missing_extra

ROOT = Path(__file__).parents[2]
# What torch and PyG need themselves.
COMMON = {"jinja2", "networkx", "requests"}
PROGRAM = """
import re, sys
BLOCKED = set(sys.argv.pop(1).split(","))
from importlib.machinery import PathFinder
class Present(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition(".")[0] not in BLOCKED:
            return super().find_spec(name, path, target)
sys.meta_path[sys.meta_path.index(PathFinder)] = Present
page, url = sys.argv[1:]
from torch_geometric.datasets import TUDataset
TUDataset.url = url
blocks = re.findall(r"```python\\n(.*?)```", open(page).read(), re.DOTALL)
(example,) = (block for block in blocks if "test graphs" in block)
exec(compile(example, page, "exec"), {"__name__": "readme"})
import importlib, pkgutil
for package in ("unionsnn.models", "unionsnn.nn", "unionsnn.coefficients.kernels"):
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        importlib.import_module(f"{package}.{module.name}")
from unionsnn.cli import main
sys.argv = ["unionsnn", "train"]
main()
"""


def distributions(extra: str) -> set[str]:
    """Distributions that an extra names, and those of the extras that it names."""
    found: set[str] = set()
    for line in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ][extra]:
        name, _, rest = line.partition("[")
        if name == "unionsnn":
            found |= {each for inner in rest.strip("]").split(",") for each in distributions(inner)}
        else:
            found.add(name.split(">")[0])
    return found


def test_the_core_runs_the_library_example_and_the_command_names_the_extra(tmp_path: Path) -> None:
    write_tu(tmp_path, "MUTAG", 60)
    blocked = {module for modules in EXTRAS.values() for module in modules} - COMMON
    done = subprocess.run(
        [
            *(sys.executable, "-c", PROGRAM, ",".join(sorted(blocked))),
            *(ROOT / "docs/own_model.md", f"file://{tmp_path}/TUDataset"),
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2, done.stderr
    assert done.stdout.endswith("of 12 test graphs\n")
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert "pip install 'unionsnn[bench]'" in line
    assert line.endswith("[install.extra]")


@pytest.mark.parametrize("extra", EXTRAS)
def test_each_module_comes_with_its_extra(extra: str) -> None:
    owners = packages_distributions()
    given = {name.lower() for name in distributions(extra)}
    for module in EXTRAS[extra]:
        if module in owners:
            assert {name.lower() for name in owners[module]} & given or (
                module == "mlflow" and "mlflow-skinny" in given
            ), module
    assert distributions(extra) <= distributions("dev")
    error = missing_extra(ModuleNotFoundError("absent", name=f"{EXTRAS[extra][0]}.inner"))
    assert error is not None
    assert error.codes == ["install.extra"]
    assert f"unionsnn[{extra}]" in str(error)


def test_a_module_of_no_extra_is_another_error() -> None:
    assert missing_extra(ModuleNotFoundError("absent", name="net")) is None
