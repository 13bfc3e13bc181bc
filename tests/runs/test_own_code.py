"""Code of the user's own: named by a request, judged before it is called, never by a dry run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from commands import printed_codes
from unionsnn.base.errors import DataError, RequestError
from unionsnn.cli.app import command_line
from unionsnn.config.compose import compose_config
from unionsnn.config.targets import own_code
from unionsnn.data.sources.pyg import make_dataset
from unionsnn.runs.dry_run import describe

SMALL = ["model.hidden_channels=4", "model.num_layers=1", "trainer.accelerator=cpu"]


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module that notes down what is called."""
    (tmp_path / "own_code_of_test.py").write_text(
        "import os, pathlib\n"
        "from shutil import rmtree\n"
        "from unionsnn.models.gin import GIN\n"
        "called = []\n"
        "def make(count=6):\n"
        "    from own_datasets import Graphs\n"
        "    called.append('make')\n"
        "    return Graphs(count)\n"
        "class NoSet:\n"
        "    def __init__(self): called.append('NoSet')\n"
        "class Net(GIN):\n"
        "    def __init__(self, *a, **k):\n"
        "        called.append('Net')\n"
        "        super().__init__(*a, **k)\n"
        "number = 3\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "own_code_of_test", raising=False)
    return "own_code_of_test"


@pytest.mark.parametrize(
    "path",
    [
        "os.system",
        "subprocess.run",
        "shutil.rmtree",
        "builtins.eval",
        "collections.OrderedDict",
        "antigravity.fly_to_mars",
        "torch.load",
        "torch.hub.load",
        "torch.nn.Linear",
        "torch.Tensor.tolist",
        "unionsnn.base.files.set_aside",
        "numpy.load",
        "own_code_of_test.rmtree",
        "own_code_of_test.NoSet",
        "own_code_of_test.number",
        "own_code_of_test.os.system",
        "own_code_of_test.pathlib",
    ],
)
def test_what_is_no_data_set_is_not_called(own: str, path: str, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    known = "antigravity" in sys.modules
    with pytest.raises(DataError) as caught:
        make_dataset(path, {"path": str(kept)} if path.endswith("rmtree") else {}, tmp_path)
    assert caught.value.codes[0] in ("data.dataset", "target.import")
    assert kept.is_dir()
    assert ("antigravity" in sys.modules) is known
    assert not getattr(sys.modules.get(own), "called", [])


def test_a_function_of_the_users_own_is_called(own: str, tmp_path: Path) -> None:
    assert len(make_dataset(f"{own}.make", {"count": 4}, tmp_path)) == 4


@pytest.mark.parametrize(
    "words",
    [
        ["data=pyg", "data.name=mine", "data.dataset=own_code_of_test.make"],
        ["model=gin", "model._target_=own_code_of_test.Net"],
        ["data._target_=own_code_of_test.Source"],
    ],
)
def test_a_dry_run_imports_and_calls_nothing_of_the_users(
    own: str, tmp_path: Path, words: list[str]
) -> None:
    config = compose_config([*words, *SMALL, f"paths.data={tmp_path}"])
    with pytest.raises(RequestError, match=own) as caught:
        describe(config)
    assert caught.value.codes == ["dry_run.own_code"]
    assert own not in sys.modules


def test_a_trusted_dry_run_times_the_users_own(own: str, tmp_path: Path) -> None:
    words = ["data.num_train=16", "data.num_validation=8", "data.num_test=8", *SMALL]
    words += ["model=gin", f"model._target_={own}.Net", f"paths.data={tmp_path}"]
    for flags, status in (([], 2), (["--trust", "--json"], 0)):
        done = CliRunner().invoke(command_line, ["train", "--dry-run", *flags, *words])
        assert done.exit_code == status, done.output
        assert printed_codes(done.stderr) == (["dry_run.own_code"] if status else [])
    assert "Net" in sys.modules[own].called


@pytest.mark.parametrize("name", ["pcqm_contact", "peptides_func", "peptides_struct", "qm9"])
def test_shipped_sets_name_no_code_of_the_users(name: str) -> None:
    assert own_code(compose_config([f"data={name}"])) == []


def test_of_pyg_only_data_sets_are_trusted() -> None:
    words = ["data=pyg", "data.name=mine"]
    named = "torch_geometric.datasets.lrgb.os.getcwd"
    assert own_code(compose_config([*words, f"data.dataset={named}"])) == [f"data.dataset={named}"]
    assert own_code(compose_config([*words, "data.dataset=torch_geometric.datasets.ZINC"])) == []
