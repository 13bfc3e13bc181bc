"""One of the trainings that take their steps together: optimiser, order, callbacks, record."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, cast

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Callback
from pytorch_lightning.trainer.states import TrainerFn, TrainerState
from torch import Tensor, nn, optim

from unionsnn.base.display import stage
from unionsnn.config.identity import config_hash
from unionsnn.config.targets import code_digests
from unionsnn.data.batching import BatchLoader
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.models.stacked import StackedNetwork
from unionsnn.training.build import build_task, count_parameters, fit_gates
from unionsnn.training.callbacks import (
    BestWeights,
    Curves,
    EpochPredictions,
    StopOnNonFinite,
    TestPredictions,
)
from unionsnn.training.checkpoints import save_checkpoint
from unionsnn.training.memory import memory_errors
from unionsnn.training.records import Repetition
from unionsnn.training.repetition import (
    Training,
    evaluate,
    make_trainer,
    prepare,
    record_of,
    stop_callbacks,
)
from unionsnn.training.schedules import schedule_callbacks
from unionsnn.training.tasks import Task
from unionsnn.training.tracking import GuardedRun, Tracking

# Optimisers that treat each weight by itself, so that all of a network may be one parameter.
_BY_WEIGHT = (
    *(optim.Adam, optim.AdamW, optim.SGD, optim.NAdam, optim.RAdam, optim.Adamax),
    *(optim.Adagrad, optim.Adadelta, optim.RMSprop, optim.Rprop),
)


class Member:
    """A training among those in one step: its task, optimiser, order and callbacks.

    To callbacks it is the trainer, of which it has what those below read.

    Args:
        training: The training.
        data: Its data module.
        device: Where it is trained.
        test: Whether to test, which a search must not do before selecting.
    """

    val_check_interval = 1.0
    check_val_every_n_epoch = 1
    fast_dev_run = sanity_checking = False
    world_size = 1

    def __init__(
        self, training: Training, data: GraphDataModule, device: torch.device, *, test: bool
    ) -> None:
        config, protocol = training.config, training.config.protocol
        self.training = training
        self.test = test
        self.key = f"{config_hash(config)}-{training.name}"
        model_seed, self.order = prepare(training, data)
        torch.manual_seed(model_seed)
        self.task: Task = build_task(config, data)
        fit_gates(self.task.model, data)
        # What dropout draws from: on a CPU, the masks of a network that is trained alone.
        self.dropout = torch.Generator(device)
        if device.type == "cpu":
            self.dropout.set_state(torch.get_rng_state())
        else:
            self.dropout.manual_seed(model_seed)
        csv = training.folder / "logs" / training.name / "metrics.csv"
        self.curves = Curves(csv if config.logger.keeps_csv else None)
        self.run = GuardedRun(
            config,
            training.folder,
            "repetition",
            training.index,
            content={"parameters": count_parameters(self.task.model)}
            | ({} if training.cell is None else {"cell": training.cell}),
        )
        self.tracking = Tracking(self.run, self.curves)
        self.best = BestWeights(protocol.select_on) if protocol.select_on else None
        self.callbacks: list[Callback] = [StopOnNonFinite(), self.curves, self.tracking]
        self.callbacks += [self.best] if self.best else []
        self.callbacks += [*stop_callbacks(protocol), *schedule_callbacks(config)]
        self.loaders = {
            "train": cast(BatchLoader, data.train_dataloader()),
            "val": cast(BatchLoader, data.val_dataloader()),
        }
        if protocol.keeps_test_curve:
            self.loaders["test"] = cast(BatchLoader, data.test_dataloader())
            epochs = config.trainer.max_epochs
            self.callbacks.append(EpochPredictions(training.predictions, epochs))
        predictions = [TestPredictions(training.predictions)] if self.best and test else []
        self.trainer = make_trainer(config, predictions)
        self.trainer.strategy.precision_plugin.convert_module(self.task)
        self.task.to(device)
        self.strategy = self.trainer.strategy
        self.max_epochs = config.trainer.max_epochs
        self.num_training_batches = len(self.loaders["train"])
        self.estimated_stepping_batches = self.max_epochs * self.num_training_batches
        self.state = TrainerState(fn=TrainerFn.FITTING)
        self.callback_metrics: dict[str, Tensor] = {}
        self.current_epoch = self.global_step = 0
        self.should_stop = self.is_last_batch = False
        self.seconds = 0.0
        # One parameter, if that is the same to the optimiser; otherwise those of the task.
        self.weights: nn.Module = self.task
        # `build_task` gives the class of the optimiser first.
        by_weight = cast(Any, self.task.optimizer).args[0] in _BY_WEIGHT
        if by_weight and config.optimizer.weight_decay_on == "all":
            self.weights = nn.Module()
            self.weights.flat = nn.Parameter(torch.zeros(0, device=device))
        self.optimizers: list[optim.Optimizer] = []

    def share(self, stack: StackedNetwork, place: int) -> None:
        """Train a row of the weights of a stack from now on."""
        if self.weights is not self.task:
            self.weights.flat.data = stack.flat.data[place]
        if not self.optimizers:
            assert self.task.optimizer is not None
            self.optimizers = [self.task.optimizer(self.weights)]

    def call(self, hook: str, *args: Any) -> None:
        """Call a hook of each callback that has its own."""
        for callback in self.callbacks:
            if getattr(type(callback), hook) is not getattr(Callback, hook):
                getattr(callback, hook)(self, self.task, *args)

    def step(self, stack: StackedNetwork, gradient: Tensor, place: int) -> None:
        """Take a step along its row of a gradient."""
        section = self.training.config.trainer
        parameters = [*self.weights.parameters()]
        each = self.weights is self.task
        parts = stack.gradients(gradient, place) if each else [gradient[place]]
        for parameter, part in zip(parameters, parts, strict=True):
            parameter.grad = part
        if self.is_last_batch and self.run.active:
            self.tracking.on_before_optimizer_step(
                cast(pl.Trainer, self),
                cast(pl.LightningModule, self.weights),
                self.optimizers[0],
            )
        limit = section.gradient_clip_val
        if limit is not None and section.gradient_clip_algorithm == "value":
            nn.utils.clip_grad_value_(parameters, limit)
        elif limit is not None:
            nn.utils.clip_grad_norm_(parameters, limit)
        self.optimizers[0].step()
        self.global_step += 1

    def state_dict(self) -> dict[str, Any]:
        """Return what it goes on from."""
        return {
            "epoch": self.current_epoch,
            "steps": self.global_step,
            "stopped": self.should_stop,
            "seconds": self.seconds,
            "task": self.task.state_dict(),
            "optimizer": self.optimizers[0].state_dict(),
            "callbacks": {each.state_key: each.state_dict() for each in self.callbacks},
            "order": self.order.get_state(),
            "dropout": self.dropout.get_state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state; the stack is made."""
        self.current_epoch, self.global_step = state["epoch"], state["steps"]
        self.should_stop, self.seconds = state["stopped"], state["seconds"]
        self.task.load_state_dict(state["task"])
        self.optimizers[0].load_state_dict(state["optimizer"])
        for each in self.callbacks:
            if (kept := state["callbacks"].get(each.state_key)) is not None:
                each.load_state_dict(kept)
        self.order.set_state(state["order"])
        self.dropout.set_state(state["dropout"])

    def finish(self, data: GraphDataModule) -> Repetition:
        """Select, test once if at all, and return the record."""
        begun = time.perf_counter()
        config, training = self.training.config, self.training
        self.call("on_train_end")
        self.call("on_fit_end")
        data.split = training.split
        metrics = dict(self.curves.history[-1])
        with memory_errors(self.task.model, data), stage("evaluating the best epoch"):
            if self.best:
                metrics = evaluate(self.trainer, self.task, data, test=self.test)
        kept = training.cell is not None or config.trainer.keep_checkpoints
        if kept:
            save_checkpoint(training.checkpoint, self.task.cpu(), config, data)
        best_epoch = self.best.best_epoch if self.best else None
        self.tracking.complete(metrics, best_epoch, training.checkpoint if kept else None)
        self.run.finish(failed=False)
        return record_of(
            training,
            data,
            self.task,
            self.trainer,
            metrics=metrics,
            code=code_digests(config) or None,
            together=True,
            best_epoch=best_epoch,
            curves=self.curves.history,
            seconds=self.seconds + time.perf_counter() - begun,
        )
