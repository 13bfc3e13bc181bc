"""Precision and determinism: end to end, and gone afterwards."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from unionsnn.base.errors import NotDeterministicError, RequestError
from unionsnn.config.identity import config_hash
from unionsnn.nn.batch import GraphBatch
from unionsnn.runs.experiment import run_experiment
from unionsnn.runs.run_folder import RunFolder
from unionsnn.training.callbacks import ResumePoint
from unionsnn.training.checkpoints import load_checkpoint
from unionsnn.training.devices import (
    check_accelerator,
    deterministic,
    forked_generators,
    named_device,
)
from unionsnn.training.tasks import Task

Maker = Callable[..., dict[str, Any]]


@pytest.mark.parametrize("model", ["union_gin", "union_gatedgcn", "gps", "unionormer"])
@pytest.mark.parametrize(
    ("precision", "kept"), [("64-true", torch.float64), ("bf16-mixed", torch.float32)]
)
def test_a_precision_trains_evaluates_and_is_kept(
    tiny: Maker, monkeypatch: pytest.MonkeyPatch, model: str, precision: str, kept: torch.dtype
) -> None:
    seen: set[torch.dtype] = set()
    original = Task.forward

    def noted(self: Task, batch: Any) -> torch.Tensor:
        with torch.no_grad():
            seen.add(self.model(GraphBatch.of(batch)).dtype)
        return original(self, batch)

    config = tiny(f"model={model}", f"trainer.precision={precision}")
    monkeypatch.setattr(Task, "forward", noted)
    record = run_experiment(config)
    assert seen == {torch.float64 if precision == "64-true" else torch.bfloat16}
    assert record.state == "finished"
    folder = RunFolder.of(config).path
    weights = load_checkpoint(folder / "checkpoints" / "00.ckpt").state_dict()
    assert {v.dtype for v in weights.values() if v.is_floating_point()} == {kept}
    predicted = np.load(folder / "predictions" / "00.npz")["output"]
    assert predicted.dtype == (np.float64 if kept == torch.float64 else np.float32)
    accuracy = record.repetitions[0].metrics["test_accuracy"]
    targets = np.load(folder / "predictions" / "00.npz")["target"]
    assert accuracy == pytest.approx((predicted.argmax(axis=1) == targets).mean())


def test_precisions_that_a_device_lacks_are_refused(
    tiny: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(RequestError, match=r"'16-mixed'.*bf16-mixed") as refused:
        check_accelerator(tiny("trainer.precision=16-mixed"))
    assert refused.value.codes == ["trainer.precision"]
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    config = tiny("trainer.precision=64-true").replace({"trainer.accelerator": "mps"})
    with pytest.raises(RequestError, match="'64-true'") as refused:
        check_accelerator(config)
    assert refused.value.codes == ["trainer.precision"]


def test_determinism_is_asked_for_inside_a_repetition_only(
    tiny: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    seen = set()
    original = Task.training_step

    def noted(self: Task, batch: Any, batch_idx: int) -> torch.Tensor:
        seen.add((
            torch.are_deterministic_algorithms_enabled(), os.environ.get("CUBLAS_WORKSPACE_CONFIG")
        ))  # fmt: skip
        return original(self, batch, batch_idx)

    monkeypatch.setattr(Task, "training_step", noted)
    run_experiment(tiny())
    assert seen == {(False, None)}
    seen.clear()
    run_experiment(tiny("trainer.deterministic=true"))
    assert seen == {(True, ":4096:8")}
    assert not torch.are_deterministic_algorithms_enabled()
    assert "CUBLAS_WORKSPACE_CONFIG" not in os.environ
    assert config_hash(tiny("trainer.deterministic=true")) != config_hash(tiny())


def test_what_is_not_deterministic_is_named_and_the_user_s_choice_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with (
            pytest.raises(NotDeterministicError, match="put_"),
            deterministic(True),
        ):
            torch.zeros(2).put_(torch.tensor([0]), torch.ones(1))
        assert torch.is_deterministic_algorithms_warn_only_enabled()
        assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":16:8"
    finally:
        torch.use_deterministic_algorithms(False)


def test_keys_that_change_nothing_leave_the_name_of_a_run_alone(tiny: Maker) -> None:
    plain = tiny().trainer
    assert not {"num_nodes", "sync_batchnorm", "deterministic"} & plain.to_dict().keys()
    assert config_hash(tiny("trainer=ddp")) == config_hash(tiny())


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> list[torch.Tensor]:
    """Let torch find two GPUs, and return the states of their generators."""
    states = [torch.tensor([10 + i], dtype=torch.uint8) for i in range(2)]

    def place(device: Any) -> int:
        return {"cuda": 0, "cuda:0": 0, "cuda:1": 1}.get(str(device), 0)

    def write(state: torch.Tensor, device: Any = "cuda") -> None:
        states[device if isinstance(device, int) else place(device)] = state.clone()

    def read(device: Any = "cuda") -> torch.Tensor:
        return states[device if isinstance(device, int) else place(device)].clone()

    for name, value in {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "device_count": lambda: 2,
        "current_device": lambda: 0,
        "get_rng_state": read,
        "set_rng_state": write,
        "manual_seed_all": lambda seed: None,
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)
    return states


def test_generators_of_gpus_are_restored(gpus: list[torch.Tensor]) -> None:
    before = torch.get_rng_state()
    with forked_generators():
        torch.rand(1)
        for i in range(2):
            torch.cuda.set_rng_state(torch.tensor([1], dtype=torch.uint8), i)
    assert [int(state) for state in gpus] == [10, 11]
    assert torch.equal(torch.get_rng_state(), before)


def test_a_resume_point_keeps_the_generator_of_the_gpu(
    gpus: list[torch.Tensor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = ResumePoint(tmp_path / "point.ckpt", torch.Generator())
    state = point.state_dict()
    assert int(state["cuda"]) == 10
    gpus[0] = torch.tensor([1], dtype=torch.uint8)
    point.load_state_dict(state)
    with torch.random.fork_rng(devices=[]):
        point.on_train_start(None, None)  # type: ignore[arg-type]
    assert int(gpus[0]) == 10
    # Without a GPU nothing is kept, and what a GPU left is no obstacle.
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    assert "cuda" not in point.state_dict()
    gpus[0] = torch.tensor([1], dtype=torch.uint8)
    point.load_state_dict(state)
    with torch.random.fork_rng(devices=[]):
        point.on_train_start(None, None)  # type: ignore[arg-type]
    assert int(gpus[0]) == 1


def test_a_named_device_is_there_or_refused(gpus: list[torch.Tensor]) -> None:
    named = {name: str(named_device(name)) for name in ("auto", "cpu", "cuda", "cuda:1")}
    assert named == {"auto": "cuda:0", "cpu": "cpu", "cuda": "cuda:0", "cuda:1": "cuda:1"}
    for name, code in {
        "cuda:2": "device.absent",
        "gpu": "device.name",
        "cuda:": "device.name",
        "": "device.name",
    }.items():
        with pytest.raises(RequestError) as refused:
            named_device(name)
        assert refused.value.codes == [code]


def test_no_gpu_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert named_device("auto") == torch.device("cpu")
    with pytest.raises(RequestError) as refused:
        named_device("cuda")
    assert refused.value.codes == ["device.absent"]
