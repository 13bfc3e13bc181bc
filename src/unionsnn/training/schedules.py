"""Learning-rate schedules as callbacks, which resume exactly."""

from __future__ import annotations

import math
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import Callback
from torch.optim.lr_scheduler import ReduceLROnPlateau

from unionsnn.config.schema import Config


class PlateauSchedule(Callback):
    """Multiply the learning rate by a factor when the validation loss stops improving.

    Lightning steps such a schedule after the callbacks that save a checkpoint, so a resumed
    training would miss an epoch. This callback must come before those that save.

    Args:
        factor: The factor.
        patience: Epochs without improvement.
    """

    def __init__(self, factor: float, patience: int) -> None:
        self.factor = factor
        self.patience = patience
        self._schedule: ReduceLROnPlateau | None = None
        self._resumed: dict[str, Any] | None = None

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Attach to the optimiser, resuming from a checkpoint's state."""
        self._schedule = ReduceLROnPlateau(
            trainer.optimizers[0], factor=self.factor, patience=self.patience
        )
        if self._resumed is not None:
            self._schedule.load_state_dict(self._resumed)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Check the epoch's validation loss."""
        assert self._schedule is not None
        self._schedule.step(float(trainer.callback_metrics["val_loss"]))

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint; the optimiser stores the rate itself."""
        return {} if self._schedule is None else self._schedule.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Resume from a checkpoint."""
        self._resumed = state_dict


class CosineSchedule(Callback):
    r"""Increase the learning rate linearly, then decrease it along a cosine.

    .. math::
        \eta_e = \eta \frac{e + 1}{w + 1} \;(e < w), \qquad
        \eta_e = \frac{\eta}{2} \left(1 + \cos \pi \frac{e - w}{E - w}\right) \;(e \ge w)

    Equation 5 of "SGDR: Stochastic Gradient Descent with Warm Restarts" (Loshchilov and Hutter,
    ICLR 2017), without restarts; e counts epochs from 0.

    Args:
        lr: The largest rate.
        warmup: Number w of warm-up epochs.
        max_epochs: Total number E of epochs.
    """

    def __init__(self, lr: float, warmup: int, max_epochs: int) -> None:
        self.lr = lr
        self.warmup = warmup
        self.max_epochs = max_epochs

    def rate(self, epoch: int) -> float:
        """Return the learning rate of an epoch."""
        if epoch < self.warmup:
            return self.lr * (epoch + 1) / (self.warmup + 1)
        done = (epoch - self.warmup) / (self.max_epochs - self.warmup)
        return self.lr * (1 + math.cos(math.pi * done)) / 2

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Set the epoch's rate."""
        for group in trainer.optimizers[0].param_groups:
            group["lr"] = self.rate(trainer.current_epoch)


class OneCycleSchedule(Callback):
    r"""Increase the learning rate along a cosine, then decrease it along another one, step by step.

    .. math::
        \eta_s = \frac{a + b}{2} + \frac{a - b}{2} \cos \pi t

    with a = lr / div_factor, b = lr and t = s / u for a step s up to u = pct_start S - 1 of S steps
    in all, then a = lr, b = lr / div_factor / final_div_factor and t = (s - u) / (S - 1 - u): the
    policy of "Super-Convergence" (Smith and Topin, 2018) as torch's OneCycleLR, whose momentum this
    one leaves alone. A step is one of the optimiser, whatever the number of batches in it.

    Args:
        lr: The largest rate b.
        pct_start: Share of the steps in which the rate grows.
        div_factor: Largest rate by the first one.
        final_div_factor: First rate by the last one.
    """

    def __init__(
        self, lr: float, pct_start: float, div_factor: float, final_div_factor: float
    ) -> None:
        self.lr = lr
        self.pct_start = pct_start
        self.first = lr / div_factor
        self.last = self.first / final_div_factor

    def rate(self, step: int, steps: int) -> float:
        """Return the learning rate of a step."""
        top = max(self.pct_start * steps - 1, 0)
        if step < top:
            start, end, done = self.first, self.lr, step / top
        else:
            start, end, done = self.lr, self.last, (step - top) / max(steps - 1 - top, 1)
        return (start + end) / 2 + (start - end) / 2 * math.cos(math.pi * min(done, 1))

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Set the step's rate."""
        rate = self.rate(trainer.global_step, int(trainer.estimated_stepping_batches))
        for group in trainer.optimizers[0].param_groups:
            group["lr"] = rate


def schedule_callbacks(config: Config) -> list[Callback]:
    """Return the callbacks of the learning-rate schedule; none if the rate is constant."""
    section = config.optimizer
    if section.schedule == "plateau":
        assert section.factor is not None
        assert section.patience is not None
        return [PlateauSchedule(section.factor, section.patience)]
    if section.schedule == "cosine":
        assert section.warmup is not None
        max_epochs = config.trainer.max_epochs
        return [CosineSchedule(section.lr, section.warmup, max_epochs)]
    if section.schedule == "onecycle":
        assert section.pct_start is not None
        assert section.div_factor is not None
        assert section.final_div_factor is not None
        ends = section.div_factor, section.final_div_factor
        return [OneCycleSchedule(section.lr, section.pct_start, *ends)]
    return []
