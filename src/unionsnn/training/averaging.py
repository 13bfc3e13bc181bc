"""Averages of weights over a training: they are validated, selected and tested."""

from __future__ import annotations

import itertools
from typing import Any, cast

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Callback
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from unionsnn.config.sections import TrainerConfig


class WeightAverage(Callback):
    r"""Keep an average of the weights, which takes their place wherever they are evaluated.

    With a decay d, after each step of the optimiser \(\bar w \leftarrow d \bar w + (1 - d) w\),
    from the weights after the first step on. Without, the mean over the weights at the end of each
    epoch from `first` on: stochastic weight averaging, equation 2 of "Averaging Weights Leads to
    Wider Optima and Better Generalization" (Izmailov et al., UAI 2018). Buffers, such as the
    running statistics of batch norm, are averaged as the weights are.

    Lightning's own callbacks validate other weights than they keep, or add an epoch. This one must
    come before those that broadcast buffers or save checkpoints.

    Args:
        decay: The decay; None for a mean.
        first: First epoch of the mean, from 0.
        lr: Learning rate from `first` on; None for that of the schedule.
    """

    def __init__(self, decay: float | None = None, first: int = 0, lr: float | None = None) -> None:
        self.decay = decay
        self.first = first
        self.lr = lr
        self._average: AveragedModel | None = None
        self._steps = 0
        self._swapped = False
        self._resumed: dict[str, Any] | None = None

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Copy the network before it holds what a pass leaves, which cannot be copied."""
        self._of(pl_module)

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Set the learning rate of the averaged epochs, over that of a schedule."""
        if self.lr is not None and trainer.current_epoch >= self.first:
            for group in trainer.optimizers[0].param_groups:
                group["lr"] = self.lr

    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        """Add the weights after a step, or at the end of an epoch, before it is validated."""
        average = self._of(pl_module)
        if self.decay is None:
            due = trainer.is_last_batch and trainer.current_epoch >= self.first
        else:
            # Gradients may be accumulated over several batches.
            due = trainer.global_step > self._steps
        if due:
            average.update_parameters(_network(pl_module))
            self._steps = trainer.global_step

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Put the average in the place of the weights, while training."""
        if trainer.state.fn == "fit" and self._of(pl_module).n_averaged > 0:
            self._swap(pl_module)
            self._swapped = True

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Put the weights back."""
        if self._swapped:
            self._swap(pl_module)
            self._swapped = False

    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Leave the average in the network."""
        average = self._of(pl_module)
        if average.n_averaged > 0:
            _network(pl_module).load_state_dict(average.module.state_dict())

    def weights(self, pl_module: pl.LightningModule) -> dict[str, torch.Tensor]:
        """Return what is evaluated: the module's state with the average of its network."""
        state: dict[str, torch.Tensor] = pl_module.state_dict()
        average = self._of(pl_module)
        if average.n_averaged == 0:
            return state
        return state | {f"model.{k}": v for k, v in average.module.state_dict().items()}

    def _of(self, pl_module: pl.LightningModule) -> AveragedModel:
        """Return the average, made when the network is on its device."""
        if self._average is None:
            how: Any = None
            if self.decay is not None:
                how = get_ema_multi_avg_fn(self.decay)  # type: ignore[no-untyped-call]
            self._average = AveragedModel(
                _network(pl_module), pl_module.device, multi_avg_fn=how, use_buffers=True
            )
            if self._resumed is not None:
                self._average.load_state_dict(self._resumed)
        return self._average

    @torch.no_grad()
    def _swap(self, pl_module: pl.LightningModule) -> None:
        both = (
            itertools.chain(each.parameters(), each.buffers())
            for each in (self._of(pl_module).module, _network(pl_module))
        )
        for kept, used in zip(*both, strict=True):
            before = used.clone()
            used.copy_(kept)
            kept.copy_(before)

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        if self._average is None:
            return {"average": self._resumed, "steps": self._steps}
        return {"average": self._average.state_dict(), "steps": self._steps}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Resume from a checkpoint."""
        self._resumed = state_dict["average"]
        self._steps = state_dict["steps"]


def _network(pl_module: pl.LightningModule) -> nn.Module:
    return cast(nn.Module, pl_module.model)


def weight_average(section: TrainerConfig) -> WeightAverage | None:
    """Return the callback that averages weights as the configuration says; None without."""
    if section.ema_decay is not None:
        return WeightAverage(section.ema_decay)
    if (first := section.first_averaged) is not None:
        return WeightAverage(first=first, lr=section.swa_lr)
    return None
