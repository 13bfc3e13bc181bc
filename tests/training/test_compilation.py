"""``trainer.compile``: the same training through torch.compile."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

from interrupted import run_until
from unionsnn.base.errors import RequestError
from unionsnn.config.compose import compose_config
from unionsnn.config.identity import config_hash
from unionsnn.config.schema import Config
from unionsnn.runs.experiment import run_experiment
from unionsnn.runs.run_folder import RunFolder
from unionsnn.training.compilation import compiler_settings
from unionsnn.training.devices import check_accelerator

Maker = Callable[..., Config]
WORDS = ["model=unionsnn", "model.num_layers=1", "model.dropout=0.3", "trainer.max_epochs=2"]


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Compile without generating code; the classes that were compiled."""
    names: list[str] = []
    compile_ = nn.Module.compile

    def cheap(self: nn.Module, **options: Any) -> None:
        names.append(type(self).__name__)
        compile_(self, backend="eager", **options)

    monkeypatch.setattr(nn.Module, "compile", cheap)
    torch._dynamo.reset()
    yield names
    torch._dynamo.reset()


def weights(config: Config) -> dict[str, torch.Tensor]:
    path = RunFolder.of(config).path / "checkpoints" / "00.ckpt"
    state: dict[str, torch.Tensor] = torch.load(path, weights_only=True)["state_dict"]
    return state


def test_a_compiled_training_resumes_and_has_the_numbers_of_the_plain_one(
    tiny: Maker, compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = tiny(*WORDS, run_dir="plain")
    config = tiny(*WORDS, "trainer.compile=true", run_dir="compiled")
    expected = run_experiment(plain)
    assert not compiled
    run_until(1, config, monkeypatch)
    record = run_experiment(config)
    assert compiled == ["UnionSNN", "UnionSNN"]
    assert record is not None
    assert expected is not None
    assert record.config["trainer"]["compile"] is True
    assert "compile" not in expected.config["trainer"]
    for name, value in expected.repetitions[0].metrics.items():
        assert record.repetitions[0].metrics[name] == pytest.approx(value, abs=1e-6)
    ours, theirs = weights(config), weights(plain)
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        torch.testing.assert_close(ours[name], value, rtol=0, atol=1e-6)


def test_without_effect_the_key_is_in_no_hash() -> None:
    plain = compose_config([])
    assert config_hash(compose_config(["trainer.compile=false"])) == config_hash(plain)
    assert config_hash(compose_config(["trainer.compile=true"])) != config_hash(plain)


def test_without_a_compiler_the_request_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    config = compose_config(["trainer.compile=true", "trainer.accelerator=cpu"])
    check_accelerator(config)
    monkeypatch.setenv("CXX", "no-such-compiler")
    import torch._inductor.config

    with torch._inductor.config.patch({"cpp.cxx": ("no-such-compiler",)}):
        with pytest.raises(RequestError, match=r"a C\+\+ compiler .* is missing") as caught:
            check_accelerator(config)
        assert caught.value.codes == ["trainer.compile"]
        check_accelerator(compose_config(["trainer.accelerator=cpu"]))


def test_what_the_compiler_cannot_do_is_said(tiny: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(graph: Any, inputs: Any) -> Any:
        raise NotImplementedError("no code for this graph")

    compile_ = nn.Module.compile
    monkeypatch.setattr(
        nn.Module, "compile", lambda self, **options: compile_(self, backend=broken, **options)
    )
    with pytest.raises(RequestError, match=r"torch.compile failed for UnionSNN.*compile=false"):
        run_experiment(tiny(*WORDS, "trainer.compile=true"))


def test_settings_of_the_compiler_are_restored() -> None:
    import torch._dynamo.config as settings

    before = settings.recompile_limit, settings.capture_dynamic_output_shape_ops
    with compiler_settings(wanted=True):
        assert settings.fail_on_recompile_limit_hit
    assert (settings.recompile_limit, settings.capture_dynamic_output_shape_ops) == before
    assert not settings.fail_on_recompile_limit_hit


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
def test_generated_code_trains_alike(tiny: Maker) -> None:
    torch._dynamo.reset()
    plain = run_experiment(tiny(*WORDS, run_dir="plain"))
    record = run_experiment(tiny(*WORDS, "trainer.compile=true", run_dir="compiled"))
    assert plain is not None
    assert record is not None
    for name, value in plain.repetitions[0].metrics.items():
        assert record.repetitions[0].metrics[name] == pytest.approx(value, abs=1e-4)
