"""An optimiser and callbacks of a user's own, for the keys that name a class."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from pytorch_lightning.callbacks import Callback
from torch.optim import Optimizer


class SignDescent(Optimizer):
    """Steps along the sign of an average of gradients, as Lion does."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        weight_decay: float = 0.0,
        beta: float = 0.9,
        extra: float | None = None,
    ) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "beta": beta})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                before = state.get("mean", torch.zeros_like(p))
                state["mean"] = group["beta"] * before + (1 - group["beta"]) * p.grad
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.sub_(group["lr"] * state["mean"].sign())
        return loss


class NoDecay(Optimizer):
    """Has no weight decay."""

    def __init__(self, params: Iterable[Any], lr: float) -> None:
        super().__init__(params, {"lr": lr})


class Failing(Callback):
    """Fails in the first epoch."""

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        raise KeyError("val_mine")


class FailingDescent(NoDecay):
    """Fails in the first step, after it has called the network."""

    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        if closure is not None:
            closure()
        raise ValueError("no step")


class Shrink(Callback):
    """Scales all weights at the end of an epoch, which changes a result."""

    def __init__(self, factor: float = 0.5) -> None:
        self.factor = factor

    @torch.no_grad()
    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        for p in pl_module.parameters():
            p.mul_(self.factor)
