"""Timing of coefficients and of training epochs."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Callback

from unionsnn.config.schema import Config
from unionsnn.data.sources.source import Progress
from unionsnn.training.build import build_data, build_task, check_request, fit_gates
from unionsnn.training.callbacks import StopOnNonFinite, shown_epochs
from unionsnn.training.devices import (
    check_accelerator,
    forked_generators,
    quiet_lightning,
    training_device,
)
from unionsnn.training.memory import memory_errors, require_memory
from unionsnn.training.protocols import draw_splits
from unionsnn.training.repetition import device_name, make_trainer


@dataclass(frozen=True)
class Cost:
    """What a preprocessing or a training epoch takes.

    Args:
        seconds: Its seconds; the mean over epochs.
        epochs: How many epochs were timed; None for preprocessing.
        device: The device that trained; None for preprocessing.
    """

    seconds: float
    epochs: int | None = None
    device: str | None = None


# A triangle with a tail, to compile the kernels before the timed call.
_WARM = ([[0, 1, 1, 2, 2, 0, 2, 3], [1, 0, 2, 1, 0, 2, 3, 2]], 4)


def timed_preprocessing(config: Config, progress: Progress | None = None) -> Cost:
    """Time the coefficient of a data set: all edges, radius 1, one thread, no cache.

    Args:
        config: A checked configuration, of which data and coefficient matter.
        progress: Called while data is read.

    Raises:
        DataError: The data set could not be obtained or is not what it should be.
    """
    arrays = build_data(config, progress).arrays
    edges, spec = arrays.edges(), replace(config.coefficient.spec(), radius=(1,))
    spec.compute(*_WARM, threads=1)
    begin = time.perf_counter()
    spec.compute(edges, arrays.num_nodes, threads=1)
    return Cost(time.perf_counter() - begin)


class EpochClock(Callback):
    """Record the seconds of each epoch, including validation."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._begin = 0.0

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Start the clock."""
        self._begin = time.perf_counter()

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Stop the clock when the device has finished."""
        if trainer.strategy.root_device.type == "cuda":
            torch.cuda.synchronize()
        self.seconds.append(time.perf_counter() - self._begin)


def timed_training(config: Config, progress: Progress | None = None) -> Cost:
    """Time an epoch of an experiment's first repetition; write only the data caches.

    Args:
        config: A checked configuration; ``trainer.max_epochs`` epochs are trained.
        progress: Called during long work on data.

    Returns:
        The mean over epochs without the first one, which includes lazy set-up, if there are
        several.

    Raises:
        RequestError: The request does not fit the data, the model or the machine.
        MemoryRanOutError: Memory ran out.
        NonFiniteLossError: Training diverges.
    """
    check_accelerator(config)
    check_request(config)
    torch.set_num_threads(config.trainer.threads)
    data = build_data(config, progress)
    data.split = draw_splits(config.protocol, data, config.seed)[0]
    data.apply_control(config.coefficient.control, np.random.default_rng(config.seed))
    data.generator = torch.Generator().manual_seed(config.seed)
    clock = EpochClock()
    with forked_generators(training_device(config.trainer.accelerator)), quiet_lightning():
        torch.manual_seed(config.seed)
        task = build_task(config, data)
        fit_gates(task.model, data)
        callbacks = [StopOnNonFinite(), clock, *shown_epochs("", config.protocol.select_on)]
        trainer = make_trainer(config, callbacks)
        data.device = trainer.strategy.root_device
        require_memory(task.model, data, data.device)
        with memory_errors(task.model, data):
            trainer.fit(task, data.train_dataloader(), data.val_dataloader())
    timed = clock.seconds[1:] or clock.seconds
    return Cost(sum(timed) / len(timed), len(timed), device_name(trainer))
