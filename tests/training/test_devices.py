"""Precision and determinism: end to end, and gone afterwards."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from unionsnn.base.errors import NotDeterministicError, RequestError
from unionsnn.config.identity import config_hash
from unionsnn.nn.batch import GraphBatch
from unionsnn.runs.experiment import run_experiment
from unionsnn.runs.run_folder import RunFolder
from unionsnn.training.checkpoints import load_checkpoint
from unionsnn.training.devices import check_accelerator, deterministic
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
