"""Classes that `_target_` names: recorded by their first names, checked without torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from unionsnn.base.errors import RequestError
from unionsnn.config.compose import compose_config
from unionsnn.config.schema import Config
from unionsnn.config.targets import (
    _RECORDED_AS,
    changed_code,
    code_digests,
    current_target,
    recorded_target,
)
from unionsnn.data.sources.source import Source
from unionsnn.training.build import build_data, locate


@pytest.mark.parametrize("target", _RECORDED_AS)
def test_every_recorded_name_leads_to_a_source(target: str) -> None:
    assert current_target(recorded_target(target)) == target
    assert issubclass(locate(target, Source, "data._target_"), Source)


def test_a_configuration_is_recorded_by_its_first_name_and_read_by_either() -> None:
    config = compose_config(["data=mutag"])
    assert config.to_dict()["data"]["_target_"] == "unionsnn.data.datamodules.TUDataModule"
    assert Config.from_dict(config.to_dict()).data.target == "unionsnn.data.sources.tu.TU"
    named = compose_config(["data=mutag", "data._target_=unionsnn.data.sources.tu.TU"])
    assert named == config
    assert type(build_data(config).source).__name__ == "TU"


def test_shipped_sources_are_checked_without_torch() -> None:
    code = (
        "import sys\n"
        "from unionsnn.data import catalog\n"
        "from unionsnn.data.sources import folder, pyg\n"
        "from unionsnn.config.compose import compose_config\n"
        "compose_config(['data=mutag'])\n"
        "assert 'torch' not in sys.modules\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_key_that_the_source_does_not_take_is_refused() -> None:
    with pytest.raises(RequestError, match=r"data\.length"):
        compose_config(["data=mutag", "+data.length=4"])


def test_the_code_of_the_user_alone_is_digested() -> None:
    assert code_digests(compose_config(["data=mutag", "model=gin"])) == {}
    words = [
        "data=pyg",
        "data.dataset=own_datasets.Graphs",
        "model._target_=no_such_module.Network",
    ]
    digests = code_digests(compose_config(words))
    # The module of its graphs stands beside it.
    assert digests.keys() == {"graphs", "own_datasets.Graphs"}
    assert len(digests["own_datasets.Graphs"]) == 64


def test_modules_of_the_users_folder_that_own_code_imports_are_digested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        "own_package/__init__.py": "",
        "own_package/nets/__init__.py": "import json\n",
        "own_package/nets/net.py": "import torch\nfrom .. import layers\nfrom .deep import x\n",
        "own_package/nets/deep.py": "def f():\n    import own_helper.sums as s\n",
        "own_package/layers.py": "from own_package.nets import net\n",
        "own_package/unused.py": "",
        "own_helper/__init__.py": "from unionsnn import __version__\n",
        "own_helper/sums.py": "import (\n",
        "torch_of_mine.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    config = compose_config(["data=mutag", "model._target_=own_package.nets.net.Net"])
    before = code_digests(config)
    package = {"own_package", "own_package.nets", "own_package.nets.deep", "own_package.layers"}
    assert before.keys() == {
        "own_package.nets.net.Net",
        *package,
        "own_helper",
        "own_helper.sums",
    }
    assert changed_code(config, before) == []
    (tmp_path / "own_helper/sums.py").write_text("x = 1\n")
    (tmp_path / "own_package/unused.py").write_text("x = 1\n")
    assert changed_code(config, before) == ["own_helper.sums"]
    # A record of an earlier version has the classes alone.
    assert changed_code(config, {"own_package.nets.net.Net": "0"}) == ["own_package.nets.net.Net"]
    assert changed_code(config, None) == []
