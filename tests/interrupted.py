"""Trainings that are interrupted and leave a resume point."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from unionsnn.config.schema import Config
from unionsnn.runs.experiment import run_experiment
from unionsnn.training import callbacks, repetition
from unionsnn.training.callbacks import ResumePoint


class StopHereError(Exception):
    """Raised in mid-training."""


def every_epoch(patch: pytest.MonkeyPatch) -> None:
    """Let each epoch end with a resume point."""
    point = functools.partial(ResumePoint, interval=0.0, costs=0.0)
    patch.setattr(repetition, "ResumePoint", point)


def run_until(epoch: int, config: Config, patch: pytest.MonkeyPatch) -> None:
    """Train until the end of an epoch, which is interrupted after a resume point of the last."""
    every_epoch(patch)
    original = callbacks.Curves.on_train_epoch_end

    def stop(self: Any, trainer: Any, module: Any) -> None:
        if trainer.current_epoch == epoch:
            raise StopHereError
        original(self, trainer, module)

    with patch.context() as inner:
        inner.setattr(callbacks.Curves, "on_train_epoch_end", stop)
        with pytest.raises(StopHereError):
            run_experiment(config)
