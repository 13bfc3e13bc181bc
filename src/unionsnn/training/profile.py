"""Where the time of a training goes."""

from __future__ import annotations

import re
from typing import TypedDict

from pytorch_lightning.profilers import SimpleProfiler

# What Lightning calls the parts of its epochs.
_PARTS = {
    "gathering training batches": r"\[_TrainingEpochLoop\]\.train_dataloader_next",
    "moving batches to the device": r"\[Strategy\].*\.batch_to_device",
    "forward pass and loss": r"\[Strategy\].*\.training_step",
    "backward pass": r"\[Strategy\].*\.backward",
    "optimizer": r"\[LightningModule\].*\.optimizer_step",
    "gathering validation batches": r"\[_EvaluationLoop\]\.val_next",
    "validation": r"\[Strategy\].*\.validation_step",
    "callbacks": r"\[Callback\].*",
}
# A step of the optimiser calls them.
_INSIDE = ("forward pass and loss", "backward pass")


class Part(TypedDict):
    """A part of all epochs of a training."""

    part: str
    calls: int
    seconds: float


def parts_of_time(profiler: SimpleProfiler) -> list[Part]:
    """Return the parts of all epochs, of which none contains another, and the rest."""
    times = profiler.recorded_durations
    found: dict[str, Part] = {}
    for part, pattern in _PARTS.items():
        measured = [each for action, each in times.items() if re.fullmatch(pattern, action)]
        calls, seconds = sum(map(len, measured)), sum(map(sum, measured))
        found[part] = {"part": part, "calls": calls, "seconds": seconds}
    found["optimizer"]["seconds"] -= sum(found[each]["seconds"] for each in _INSIDE)
    epochs = times["run_training_epoch"]
    rest = sum(epochs) - sum(each["seconds"] for each in found.values())
    return [
        *found.values(),
        {"part": "the rest", "calls": len(epochs), "seconds": max(rest, 0.0)},
    ]
