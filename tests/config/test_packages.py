"""Configurations of installed packages: found, named, and refused where they clash."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from unionsnn.base.errors import RequestError
from unionsnn.config.compose import completions, compose_config, config_folder, option_origin
from unionsnn.config.packages import package_folders
from unionsnn.config.targets import named_networks
from unionsnn.search.study_file import find_study, shipped

MODEL = """defaults:
  - gin

name: theirs
_target_: {package}.net.Net
"""
STUDY = """overrides: [data=mutag, model=theirs]
space: {optimizer.lr: "choice(0.1, 0.01)"}
objective: val_accuracy
sampler: {name: grid}
"""

Install = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Return a function that fabricates a distribution with files of configuration."""

    def made(name: str, files: dict[str, str], value: str | None = None) -> Path:
        site = tmp_path / name
        info = site / f"{name}-1.2.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
        entry = f"[unionsnn.configs]\n{name} = {value or f'{name}.conf'}\n"
        (info / "entry_points.txt").write_text(entry)
        (site / name).mkdir()
        # It must not be imported to be found.
        (site / name / "__init__.py").write_text("raise ImportError\n")
        for file, content in files.items():
            path = site / name / "conf" / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content.format(package=name) if "{package}" in content else content)
        monkeypatch.syspath_prepend(str(site))
        return site / name / "conf"

    return made


def test_models_and_studies_of_a_package_are_found_beside_the_shipped(install: Install) -> None:
    folder = install("theirpkg", {"model/theirs.yaml": MODEL, "sweeps/their_study.yaml": STUDY})
    config = compose_config(["model=theirs", "data=mutag"])
    assert (config.model.name, config.model.target) == ("theirs", "theirpkg.net.Net")
    assert config.model.num_layers == 4
    assert option_origin("model", "theirs") == "theirpkg 1.2"
    assert option_origin("model", "gin") == "unionsnn"
    assert option_origin("model", "mine") is None
    assert "model=theirs" in completions("model=th")
    assert "their_study" in shipped()
    assert find_study("their_study") == folder / "sweeps" / "their_study.yaml"
    with pytest.raises(RequestError, match=r"theirs \(theirpkg 1\.2\)"):
        compose_config(["model=their"])
    (package,) = package_folders(config_folder())
    assert named_networks(None, package.path) == {"theirpkg.net.Net"}


def test_a_name_that_another_has_is_refused(install: Install, tmp_path: Path) -> None:
    install("onepkg", {"model/theirs.yaml": MODEL})
    own = tmp_path / "own"
    (own / "model").mkdir(parents=True)
    (own / "model" / "theirs.yaml").write_text(MODEL)
    with pytest.raises(RequestError, match=r"of onepkg 1\.2") as caught:
        compose_config(["data=mutag"], own)
    assert caught.value.codes == ["config.shadowed"]
    install("twopkg", {"model/theirs.yaml": MODEL, "data/mutag.yaml": "name: mutag\n"})
    with pytest.raises(RequestError) as caught:
        compose_config(["data=mutag"])
    assert caught.value.codes == ["config.package"] * 2
    assert "unionsnn has, too" in str(caught.value)
    assert "onepkg 1.2 has, too" in str(caught.value)


def test_a_study_that_is_shipped_is_refused(install: Install) -> None:
    install("studypkg", {"sweeps/tu_grid.yaml": STUDY})
    with pytest.raises(RequestError, match=r"studypkg 1\.2 has the study tu_grid"):
        shipped()


def test_an_entry_point_that_leads_nowhere_is_named(install: Install) -> None:
    install("lostpkg", {}, value="lostpkg.no_folder")
    with pytest.raises(RequestError, match=r"lostpkg 1\.2 names 'lostpkg\.no_folder'") as caught:
        compose_config(["data=mutag"])
    assert caught.value.codes == ["config.package"]
