"""The wheel, installed outside the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

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
