"""From a configuration to classes: what may be named, and what their arguments are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from unionsnn.base.errors import RequestError
from unionsnn.config.compose import compose_config
from unionsnn.runs.run_folder import RunFolder
from unionsnn.training.build import build_data, build_model

Maker = Callable[..., dict[str, Any]]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("os.system", r"it must be a subclass of .*GraphDataModule"),
        ("torch.nn.Linear", r"it must be a subclass of .*GraphDataModule"),
        ("my_package.Mine", r"cannot be imported .*looked for in"),
        ("unionsnn.data.sources.tu.Absent", r"cannot be imported .*Absent"),
        ("nodots", r"dotted path"),
    ],
)
def test_a_target_that_is_not_of_its_kind_is_refused(
    tiny: Maker, target: str, message: str
) -> None:
    with pytest.raises(RequestError, match=r"data\._target_ is .*" + message):
        build_data(tiny(f"data._target_={target}"))


def test_a_model_s_target_is_a_module(tiny: Maker) -> None:
    config = tiny("model._target_=os.system")
    with pytest.raises(RequestError, match=r"model\._target_ is 'os\.system'.*nn.*Module"):
        build_model(config, 3, 2)


def test_a_module_that_fails_on_import_is_refused(
    tiny: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_module.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(RequestError, match="ZeroDivisionError"):
        build_data(tiny("data._target_=broken_module.Mine"))


def test_a_data_class_that_refuses_its_arguments_is_a_wrong_request(
    tiny: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_module.py").write_text(
        "from unionsnn.data.sources.cycles import Cycles\nclass Mine(Cycles):\n    pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(RequestError, match="foo") as caught:
        build_data(tiny("data._target_=own_module.Mine", "+data.foo=1"))
    assert caught.value.codes == ["config.unknown_key"]


def test_a_tilde_is_the_user_s_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    overrides = ['paths.output="~/runs"', 'paths.data="~/data"']
    config = compose_config(overrides)
    assert RunFolder.of(config).path.is_relative_to(tmp_path / "runs")
    assert build_data(config).root == tmp_path / "data"
    monkeypatch.setenv("UNIONSNN_DATA", "~/there")
    assert build_data(compose_config([])).root == tmp_path / "there"
