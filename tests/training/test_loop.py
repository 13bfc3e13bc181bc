"""Our loop over batches: Lightning's steps to the last bit, and its own where it is needed."""

from __future__ import annotations

from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Callback
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

from graphs import random_graphs
from unionsnn.base.errors import RequestError
from unionsnn.models.gin import GIN
from unionsnn.training.averaging import WeightAverage
from unionsnn.training.loop import EpochLoop, _Hooks
from unionsnn.training.schedules import OneCycleSchedule
from unionsnn.training.tasks import GraphClassification


class Seen(Callback):
    """A user's callback: notes the hooks of a step and its loss."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def on_before_backward(self, trainer: Any, pl_module: Any, loss: torch.Tensor) -> None:
        self.calls.append(f"loss {float(loss.detach())}")

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        pl_module.log("steps", float(trainer.global_step))
        self.calls.append(f"step {trainer.global_step}")


class OfTheTask(Callback):
    """Gives the task hooks of its own when training starts."""

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        def halve() -> None:
            for parameter in pl_module.parameters():
                parameter.grad *= 0.5

        pl_module.on_after_backward = halve


class WithoutClosure(torch.optim.SGD):
    def step(self, closure: Any = None) -> Any:
        return super().step()


class OfValidation(Callback):
    def on_validation_batch_end(self, *_: Any, **__: Any) -> None:
        pass


def graphs() -> list[Data]:
    return random_graphs(11, torch.Generator().manual_seed(1))


def fitted(own: bool, callbacks: list[Callback], **options: Any) -> tuple[pl.Trainer, Any]:
    """Train three epochs of three batches; return trainer and task."""
    torch.manual_seed(0)
    model = GIN(in_channels=3, out_channels=2, hidden_channels=8, num_layers=2, dropout=0.5)
    task = GraphClassification(model, lr=0.01)
    trainer = pl.Trainer(
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        log_every_n_steps=1,
        callbacks=callbacks,
        **{"max_epochs": 3, **options},
    )
    if own:
        trainer.fit_loop.epoch_loop = EpochLoop(trainer)
    loaders = [DataLoader(graphs(), batch_size=4) for _ in range(2)]
    trainer.fit(task, *loaders)
    return trainer, task


def everything(trainer: pl.Trainer, task: GraphClassification) -> dict[str, Any]:
    """Return what a checkpoint and the callbacks see."""
    return {
        "weights": {name: each.tolist() for name, each in task.state_dict().items()},
        "optimizer": str(trainer.optimizers[0].state_dict()),
        "progress": trainer.fit_loop.state_dict(),
        "metrics": {name: float(value) for name, value in trainer.callback_metrics.items()},
        "steps": trainer.global_step,
    }


OPTIONS: dict[str, tuple[Any, dict[str, Any]]] = {
    "plain": (list, {}),
    "clipped": (list, {"gradient_clip_val": 0.1}),
    "clipped by value": (
        list,
        {"gradient_clip_val": 0.01, "gradient_clip_algorithm": "value"},
    ),
    "few batches": (list, {"limit_train_batches": 2, "limit_val_batches": 1}),
    "accumulated": (list, {"accumulate_grad_batches": 2}),
    "often validated": (list, {"val_check_interval": 1}),
    "averaged": (lambda: [WeightAverage(0.9)], {}),
    "scheduled": (lambda: [OneCycleSchedule(0.01, 0.3, 25.0, 1e4)], {}),
    "a user's": (lambda: [Seen(), OfValidation()], {}),
    "set on the task": (lambda: [OfTheTask()], {}),
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_it_equals_lightnings_to_the_last_bit(options: tuple[Any, dict[str, Any]]) -> None:
    make, further = options
    lists = make(), make()
    one, two = (
        fitted(own, callbacks, **further)
        for own, callbacks in zip((False, True), lists, strict=True)
    )
    assert everything(*one) == everything(*two)
    noted = [[each.calls for each in callbacks if isinstance(each, Seen)] for callbacks in lists]
    assert noted[0] == noted[1]


@pytest.mark.parametrize(
    ("options", "own"),
    [
        ({}, True),
        ({"callbacks": [OneCycleSchedule(0.01, 0.3, 25.0, 1e4)]}, True),
        ({"callbacks": [Seen()]}, False),
        ({"precision": "64-true"}, False),
        ({"callbacks": [OfTheTask()]}, False),
    ],
)
def test_a_step_is_left_to_lightning_where_more_may_be_asked(
    options: dict[str, Any], own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[bool] = []
    of = _Hooks.of.__func__  # type: ignore[attr-defined]

    def noted(cls: type[_Hooks], *given: Any) -> _Hooks | None:
        hooks: _Hooks | None = of(cls, *given)
        found.append(hooks is not None)
        return hooks

    monkeypatch.setattr(_Hooks, "of", classmethod(noted))
    fitted(True, **{"callbacks": [], "max_epochs": 1, **options})
    assert found[0] == own


def test_an_optimizer_must_call_its_closure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        GraphClassification,
        "configure_optimizers",
        lambda task: WithoutClosure(task.parameters(), lr=0.01),
    )
    with pytest.raises(RequestError, match="WithoutClosure takes a step without its closure"):
        fitted(True, [])
