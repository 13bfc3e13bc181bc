"""Lightning's loop over the batches of an epoch, without the hooks that nobody has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Callback
from pytorch_lightning.loops.evaluation_loop import _EvaluationLoop
from pytorch_lightning.loops.fetchers import _DataFetcher
from pytorch_lightning.loops.training_epoch_loop import _TrainingEpochLoop
from pytorch_lightning.plugins.precision import Precision
from pytorch_lightning.strategies import SingleDeviceStrategy
from pytorch_lightning.utilities.exceptions import SIGTERMException
from torch import Tensor

from unionsnn.base.errors import Fault, RequestError

_TRAINING = (
    *("on_train_batch_start", "on_before_zero_grad", "on_before_backward", "on_after_backward"),
    *("on_before_optimizer_step", "on_train_batch_end"),
)
_VALIDATION = ("on_validation_batch_start", "on_validation_batch_end")
# What else a module may do with a batch.
_OF_MODULE = (
    *("on_before_batch_transfer", "transfer_batch_to_device", "on_after_batch_transfer"),
    *("backward", "optimizer_step", "optimizer_zero_grad"),
    *("configure_gradient_clipping", "clip_gradients"),
)


class EpochLoop(_TrainingEpochLoop):
    """Take the steps of an epoch as Lightning does, without what does nothing in them.

    Lightning calls some thirty hooks a step, of the module and of each callback, which takes a
    tenth of a small network's step on a CPU. Here those alone are called that a callback of this
    package has. Where more may be asked for, the step is Lightning's: a callback of somebody else
    that has a hook of a batch, several processes, accumulated gradients, another precision, a
    logger of Lightning's, the first step after a resume. Progress is counted in both,
    so that checkpoints are the same.

    Args:
        trainer: The trainer whose loop over batches it is to replace.
    """

    def __init__(self, trainer: pl.Trainer) -> None:
        replaced = trainer.fit_loop.epoch_loop
        super().__init__(trainer, replaced.min_steps, replaced.max_steps)
        former = self.val_loop
        self.val_loop = _ValidationLoop(
            trainer,
            former._trainer_fn,
            former._stage,
            verbose=former.verbose,
            inference_mode=former.inference_mode,
        )
        self._hooks: _Hooks | None = None

    def on_run_start(self, data_fetcher: _DataFetcher) -> None:
        """Find out who has hooks; an epoch may change them."""
        super().on_run_start(data_fetcher)
        trainer = self.trainer
        plain = trainer.accumulate_grad_batches == 1 and not trainer.lr_scheduler_configs
        self._hooks = _Hooks.of(trainer, _TRAINING) if plain else None

    def advance(self, data_fetcher: _DataFetcher) -> None:
        """Train on a batch."""
        hooks = self._hooks
        if hooks is None or self.restarting:
            super().advance(data_fetcher)
            return
        trainer, task, progress = self.trainer, self.trainer.lightning_module, self.batch_progress
        optimizer = trainer.optimizers[0]
        counts = self.automatic_optimization.optim_progress.optimizer
        self.val_loop.restarting = False
        batch, _, _ = next(data_fetcher)
        number = self.batch_idx + 1
        progress.is_last_batch = data_fetcher.done
        batch = hooks.moved(batch)
        progress.increment_ready()
        trainer._logger_connector.on_batch_start(batch)
        hooks.call("on_train_batch_start", batch, number)
        progress.increment_started()
        kept: list[Tensor] = []

        def closure() -> Tensor:
            with torch.enable_grad():
                task._current_fx_name = "training_step"
                loss: Tensor = task.training_step(batch, number)
                task._current_fx_name = None
                counts.zero_grad.increment_ready()
                hooks.call("on_before_zero_grad", optimizer)
                counts.zero_grad.increment_started()
                optimizer.zero_grad()
                counts.zero_grad.increment_completed()
                hooks.call("on_before_backward", loss)
                torch.autograd.backward(loss)
                hooks.call("on_after_backward")
                hooks.call("on_before_optimizer_step", optimizer)
                if trainer.gradient_clip_val is not None:
                    trainer.precision_plugin._clip_gradients(
                        task,
                        optimizer,
                        trainer.gradient_clip_val,
                        gradient_clip_algorithm=trainer.gradient_clip_algorithm,
                    )
                kept[:] = [loss.detach()]
            return kept[0]

        counts.step.increment_ready()
        optimizer.step(closure)
        if not kept:
            raise RequestError(
                Fault(
                    f"{type(optimizer).__name__} takes a step without its closure, which computes "
                    "the loss; step(closure) must call it",
                    "optimizer.closure",
                )
            )
        counts.step.increment_completed()
        progress.increment_processed()
        hooks.call("on_train_batch_end", {"loss": kept[0]}, batch, number)
        if self._num_ready_batches_reached():
            trainer._logger_connector.on_batch_end()
        progress.increment_completed()


class _ValidationLoop(_EvaluationLoop):
    """Validate between epochs, likewise."""

    _hooks: _Hooks | None = None

    def on_run_start(self) -> None:
        """Find out who has hooks."""
        super().on_run_start()
        plain = self.num_dataloaders == 1 and not self.trainer.sanity_checking
        self._hooks = _Hooks.of(self.trainer, _VALIDATION) if plain else None

    def _evaluation_step(
        self, batch: Any, batch_idx: int, dataloader_idx: int, dataloader_iter: Any
    ) -> None:
        hooks = self._hooks
        if hooks is None:
            super()._evaluation_step(batch, batch_idx, dataloader_idx, dataloader_iter)
            return
        trainer, task, progress = self.trainer, self.trainer.lightning_module, self.batch_progress
        batch = hooks.moved(batch)
        progress.increment_ready()
        trainer._logger_connector.on_batch_start(batch)
        hooks.call("on_validation_batch_start", batch, batch_idx)
        progress.increment_started()
        output = task.validation_step(batch, batch_idx)
        progress.increment_processed()
        hooks.call("on_validation_batch_end", output, batch, batch_idx)
        progress.increment_completed()
        self._has_run = True
        self._seen_batches_per_dataloader[dataloader_idx] += 1
        if not progress.is_last_batch and trainer.received_sigterm:
            raise SIGTERMException


class _Hooks:
    """The hooks of a batch that callbacks have.

    Args:
        trainer: Its callbacks are asked.
        names: The hooks.
    """

    def __init__(self, trainer: Any, names: tuple[str, ...]) -> None:
        self.trainer = trainer
        self.elsewhere = trainer.strategy.root_device.type != "cpu"
        self.had: dict[str, list[Callable[..., object]]] = {
            name: [getattr(each, name) for each in trainer.callbacks if _has(each, Callback, name)]
            for name in names
        }

    @classmethod
    def of(cls, trainer: Any, names: tuple[str, ...]) -> _Hooks | None:
        """Return them; None if a batch must be left to Lightning."""
        task = trainer.lightning_module
        steps = (
            type(trainer.strategy) is SingleDeviceStrategy
            and type(trainer.precision_plugin) is Precision
            and not trainer.loggers
            and task.automatic_optimization
            and not any(
                _has(task, pl.LightningModule, name)
                for name in (*_TRAINING, *_VALIDATION, *_OF_MODULE)
            )
        )
        ours = all(
            type(each).__module__.startswith("unionsnn.")
            for each in trainer.callbacks
            if any(_has(each, Callback, name) for name in names)
        )
        return cls(trainer, names) if steps and ours else None

    def call(self, name: str, *args: Any) -> None:
        """Call a hook of those who have it."""
        for hook in self.had[name]:
            hook(self.trainer, self.trainer.lightning_module, *args)

    def moved(self, batch: Any) -> Any:
        """Return a batch on the device of the training."""
        return self.trainer.strategy.batch_to_device(batch) if self.elsewhere else batch


def _has(owner: object, base: type, name: str) -> bool:
    """Return whether a callback or module has a hook of its own, be it of its class or not."""
    return getattr(getattr(owner, name), "__func__", None) is not getattr(base, name)
