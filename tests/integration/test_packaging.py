"""The wheel, installed outside the checkout."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tu_files import write_tu

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from this checkout."""
    out = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (path,) = out.glob("*.whl")
    return path


def test_wheel_holds_configuration_studies_and_type_marker(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    shipped = {
        f"unionsnn/{path.relative_to(ROOT)}"
        for folder in ("conf", "sweeps")
        for path in (ROOT / folder).rglob("*.yaml")
    }
    assert shipped <= names
    assert "unionsnn/py.typed" in names
    assert not any(name.startswith(("tests", "benchmarks")) for name in names)


def test_the_long_description_has_no_link_that_the_package_index_cannot_follow(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
    text = archive.read(name).decode()
    assert "| BREC, of 400 pairs" in text
    assert re.findall(r"\]\((?!https?://).*?\)", text) == []
    assert "structural coefficient: the sum" not in text


def test_wheel_trains_the_default_outside_the_checkout(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    work = tmp_path / "work"
    work.mkdir()
    code = (
        "import sys\n"
        "sys.path.insert(0, sys.argv.pop(1))\n"
        "import unionsnn\n"
        "print(unionsnn.__file__, file=sys.stderr)\n"
        "from unionsnn.cli import main\n"
        "main()\n"
    )
    arguments = ["train", "trainer.max_epochs=1", "data.num_train=64", "trainer.accelerator=cpu"]
    # -I -S: neither the checkout's editable install nor the working folder is on the path.
    packages = sysconfig.get_paths()["purelib"]
    preamble = f"import sys; sys.path.append({packages!r})\n"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", preamble + code, str(site), *arguments],
        cwd=work,
        env={**os.environ, "UNIONSNN_DATA": str(tmp_path / "data")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert str(site) in done.stderr
    assert "test_accuracy" in done.stdout
    assert len(list((work / "runs").rglob("results.json"))) == 1


def closure(*requirements: str) -> dict[str, Distribution]:
    """Return the installed distributions that requirements lead to, by their names."""
    found: dict[str, Distribution] = {}
    waiting = [(Requirement(each), "") for each in requirements]
    seen = set()
    while waiting:
        requirement, extra = waiting.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        for wanted in ("", *requirement.extras):
            if (requirement.name, wanted) in seen:
                continue
            seen.add((requirement.name, wanted))
            try:
                made = distribution(requirement.name)
            except PackageNotFoundError:
                continue
            found[requirement.name.lower()] = made
            waiting += [(Requirement(line), wanted) for line in made.requires or ()]
    return found


@pytest.mark.slow
def test_the_wheel_alone_runs_the_library_example(wheel: Path, tmp_path: Path) -> None:
    """A virtual environment with torch, PyG, numpy, scipy and numba, and what these need."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    (site,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        lines = archive.read(name).decode().splitlines()
    needed = [each.removeprefix("Requires-Dist: ") for each in lines if "Requires-Dist" in each]
    for each in closure(*(line for line in needed if "extra ==" not in line)).values():
        tops = {file.parts[0] for file in each.files or () if file.parts[0] != ".."}
        for top in tops:
            place = Path(str(each.locate_file(top)))
            if place.exists() and not (site / top).exists():
                (site / top).symlink_to(place)
    for absent in ("click", "hydra", "pytorch_lightning", "optuna", "wandb", "matplotlib"):
        assert not (site / absent).exists()
    pip = [python, "-m", "pip", "install", "--quiet", "--no-index", wheel]
    done = subprocess.run(pip, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    write_tu(tmp_path, "MUTAG", 60)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/own_model.md").read_text(), re.DOTALL)
    (example,) = (block for block in blocks if "test graphs" in block)
    url = f"file://{tmp_path}/TUDataset"
    head = f"from torch_geometric.datasets import TUDataset\nTUDataset.url = {url!r}\n"
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    ran = subprocess.run(
        [python, "-c", head + example], cwd=tmp_path, env=clean, capture_output=True, text=True
    )
    assert ran.stdout.endswith("of 12 test graphs\n"), ran.stderr
    command = subprocess.run(
        [python.with_name("unionsnn"), "train"], cwd=tmp_path, capture_output=True, text=True
    )
    assert command.returncode == 2
    assert command.stderr.endswith("[install.extra]\n")
