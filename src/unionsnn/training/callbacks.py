"""Callbacks: curves, best weights, predictions, resume points, progress."""

from __future__ import annotations

import csv
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from numpy.typing import NDArray
from pytorch_lightning.callbacks import Callback, Checkpoint

from unionsnn.base.display import Display, current_display
from unionsnn.base.errors import NonFiniteLossError
from unionsnn.base.files import atomic_write
from unionsnn.config.schema import metric_mode
from unionsnn.data.process_group import agreed, gathered, rank, world_size
from unionsnn.training.averaging import WeightAverage
from unionsnn.training.resume import SaveTimes


class StopOnNonFinite(Callback):
    """Stop with an error that names epoch and key when a logged value is not finite."""

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Check all values of the epoch."""
        for key, value in trainer.callback_metrics.items():
            if not math.isfinite(float(value)):
                raise NonFiniteLossError(
                    f"{key} is {float(value)} in epoch {trainer.current_epoch + 1}. Lower "
                    "optimizer.lr, or look for extreme values in the features."
                )


class Curves(Callback):
    """Keep each epoch's metrics in `history`, one dict per epoch.

    Args:
        path: CSV file with a row for each epoch, including those before a resume; None for no file.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.history: list[dict[str, float]] = []

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Start the file with exactly the epochs before the resume point."""
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text("")
            self._append(self.path, self.history)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Add the epoch's metrics."""
        self.history.append({k: float(v) for k, v in trainer.callback_metrics.items()})
        if self.path is not None:
            self._append(self.path, self.history[-1:])

    def _append(self, path: Path, rows: Sequence[Mapping[str, float]]) -> None:
        first = len(self.history) - len(rows)
        with path.open("a", newline="") as file:
            for epoch, row in enumerate(rows, first):
                writer = csv.DictWriter(file, ["epoch", *row])
                if epoch == 0:
                    writer.writeheader()
                writer.writerow({"epoch": epoch, **row})

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {"history": self.history}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Resume from a checkpoint."""
        self.history = state_dict["history"]


class BestWeights(Callback):
    """Keep the weights of the best epoch in memory and restore them after training.

    Args:
        monitor: Metric that selects; ties go to the first epoch.
        average: Averages the weights that the metric is of; None if there is no average.
    """

    def __init__(self, monitor: str, average: WeightAverage | None = None) -> None:
        self.monitor = monitor
        self.average = average
        self.best_epoch: int | None = None
        self.smaller_is_better = metric_mode(monitor) == "min"
        self.best_value = math.inf if self.smaller_is_better else -math.inf
        self._state: dict[str, torch.Tensor] = {}

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Copy the weights if the epoch is the best so far."""
        value = float(trainer.callback_metrics[self.monitor])
        better = value < self.best_value if self.smaller_is_better else value > self.best_value
        if better:
            self.best_epoch, self.best_value = trainer.current_epoch, value
            average = self.average
            state = pl_module.state_dict() if average is None else average.weights(pl_module)
            self._state = {k: v.detach().clone() for k, v in state.items()}

    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Restore the best weights."""
        if self._state:
            pl_module.load_state_dict(self._state)

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {"best_epoch": self.best_epoch, "best_value": self.best_value, "state": self._state}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Resume from a checkpoint."""
        self.best_epoch = state_dict["best_epoch"]
        self.best_value = state_dict["best_value"]
        self._state = state_dict["state"]


class ResumePoint(Checkpoint):
    """Save the training every few seconds, so that it resumes after being stopped or killed.

    The states of the global random generators, on the CPU and the GPU, and of that of the order
    are included, and whether training has stopped early: what
    follows equals an uninterrupted run. As a `Checkpoint`, it comes after all other callbacks, also
    after early stopping, and so saves their state of the same epoch. The file stays until the
    repetition is recorded.

    Args:
        path: File of the checkpoint.
        generator: Draws the order of the training graphs.
        interval: As of `SaveTimes`.
        costs: As of `SaveTimes`.
        about: What is trained; it is saved, so that a point of another training is noticed.

    Attributes:
        seconds: Seconds of training, including those before the checkpoint.
    """

    def __init__(
        self,
        path: Path,
        generator: torch.Generator,
        interval: float = 2.0,
        costs: float = 50.0,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        self.about = dict(about or {})
        self.path = path
        self.generator = generator
        self.times = SaveTimes(path, interval, costs)
        self._global_state: torch.Tensor | None = None
        self._cuda_state: torch.Tensor | None = None
        self._started = time.perf_counter()
        self._seconds_before = 0.0

    @property
    def seconds(self) -> float:
        """Seconds since this callback was made, and those before the checkpoint."""
        return self._seconds_before + time.perf_counter() - self._started

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Restore the global generators after set-up has drawn from them."""
        self._restore_generators()

    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Restore the global generators if no epoch was left to train."""
        self._restore_generators()

    def _restore_generators(self) -> None:
        if self._global_state is not None:
            torch.set_rng_state(self._global_state)
            self._global_state = None
        # A training that goes on without a GPU has nothing to draw there.
        if self._cuda_state is not None and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            torch.cuda.set_rng_state(self._cuda_state)
        self._cuda_state = None

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Save if it is time; training continues if that is not possible."""
        # Processes that train together save together, timed by the first one.
        if agreed(self.times.due):
            self.times.save(lambda: self._save(trainer))

    def _save(self, trainer: pl.Trainer) -> None:
        try:
            trainer.save_checkpoint(self.path)
        except OSError:
            # Only the first process writes; the others wait for it.
            trainer.strategy.barrier()
            raise

    def on_save_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Add whether training stops after this epoch, which Lightning does not keep."""
        checkpoint["stopped"] = trainer.should_stop

    def on_load_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Stop where the training had stopped."""
        trainer.should_stop = checkpoint.get("stopped", False)

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        state: dict[str, Any] = {
            "global": torch.get_rng_state(),
            "order": self.generator.get_state(),
            "seconds": self.seconds,
            "about": self.about,
        }
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            # Of this process's device, which Lightning has made the current one.
            state["cuda"] = torch.cuda.get_rng_state()
        if world_size() > 1:
            state["processes"] = gathered(state["global"])
            state["cuda_processes"] = gathered(state.get("cuda"))
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Resume from a checkpoint; a process without a state in it keeps its own."""
        states = state_dict.get("processes", [state_dict["global"]])
        on_cuda = state_dict.get("cuda_processes", [state_dict.get("cuda")])
        self._global_state = states[rank()] if rank() < len(states) else None
        self._cuda_state = on_cuda[rank()] if rank() < len(on_cuda) else None
        self.generator.set_state(state_dict["order"])
        self._seconds_before = state_dict.get("seconds", 0.0)


class TestPredictions(Callback):
    """Keep outputs and targets of the test part, and write them when the test ends.

    Args:
        path: File to write, of the arrays ``output`` and ``target``, a row for each item.
    """

    # pytest would collect a class of this name.
    __test__ = False

    def __init__(self, path: Path) -> None:
        self.path = path
        self._rows: list[tuple[NDArray[Any], NDArray[Any]]] = []

    def on_test_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Discard the results of an earlier test."""
        self._rows = []

    def on_test_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Add the result of the test step."""
        output, target = (outputs[name].detach().cpu().numpy() for name in ("output", "target"))
        self._rows.append((output, target))

    def on_test_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Write the file atomically."""
        output, target = (np.concatenate(parts) for parts in zip(*self._rows, strict=True))
        atomic_write(
            self.path, lambda file: np.savez_compressed(file, output=output, target=target)
        )


class EpochPredictions(Callback):
    """Keep the test outputs of every epoch, for protocols that select the epoch afterwards.

    The file holds the arrays ``outputs``, one block of rows per epoch, and ``target``. Nothing is
    kept if it would be too large, or if several processes share the test part.

    Args:
        path: File to write when training ends.
        max_epochs: Expected number of epochs.
        max_bytes: Maximum size of all outputs.
    """

    def __init__(self, path: Path, max_epochs: int, max_bytes: int = 64 * 2**20) -> None:
        self.path = path
        self.max_epochs = max_epochs
        self.max_bytes = max_bytes
        self._rows: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._epochs: list[torch.Tensor] = []
        self._target: torch.Tensor | None = None
        self._fits = True

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Discard the results of an aborted pass."""
        self._rows = []

    def on_validation_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Add the result of a step on a test batch."""
        if dataloader_idx == 1 and self._fits:
            output, target = (outputs[name].detach() for name in ("output", "target"))
            self._rows.append((output.float().cpu(), target.cpu()))

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Close the epoch; give up if all of them would be too large."""
        if not self._rows:
            return
        output, target = (torch.cat(parts) for parts in zip(*self._rows, strict=True))
        self._epochs.append(output)
        self._target = target
        self._rows = []
        if trainer.world_size > 1 or output.nbytes * self.max_epochs > self.max_bytes:
            self._fits, self._epochs = False, []

    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Write the file atomically."""
        if not self._epochs or self._target is None:
            return
        outputs, target = torch.stack(self._epochs).numpy(), self._target.numpy()
        atomic_write(
            self.path, lambda file: np.savez_compressed(file, outputs=outputs, target=target)
        )

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {"epochs": self._epochs, "target": self._target, "fits": self._fits}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Resume from a checkpoint."""
        self._epochs = state_dict["epochs"]
        self._target = state_dict["target"]
        self._fits = state_dict["fits"]


class Epochs(Callback):
    """Tell how far a training is: its epochs, the last figures, and the best value.

    Args:
        tell: Called with the number of epochs done, of which a part counts, their maximum number,
            and the figures by name.
        monitor: Metric whose best value is told; val_loss if None.
    """

    def __init__(
        self, tell: Callable[[float, int, dict[str, float | str]], object], monitor: str | None
    ) -> None:
        self.tell = tell
        self.monitor = monitor or "val_loss"
        self._best: tuple[float, int] | None = None
        self._figures: dict[str, float | str] = {}

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Tell that training has started, or goes on."""
        self._best, self._figures = None, {}
        self.tell(trainer.current_epoch, trainer.max_epochs or 0, self._figures)

    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        """Tell the share of the epoch."""
        # Validation is the rest.
        part = batch_idx / max(1.0, trainer.num_training_batches)
        self.tell(trainer.current_epoch + part, trainer.max_epochs or 0, self._figures)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Tell the epoch's loss and metrics."""
        epoch, metrics = trainer.current_epoch + 1, trainer.callback_metrics
        keys = sorted(k for k in metrics if k == "train_loss" or k.startswith("val_"))
        figures = {key: float(metrics[key]) for key in keys}
        value = float(metrics[self.monitor])
        sign = 1 if metric_mode(self.monitor) == "min" else -1
        if self._best is None or sign * value < sign * self._best[0]:
            self._best = value, epoch
        best = f"{self._best[0]:.4f} (epoch {self._best[1]})"
        self._figures = {**figures, f"best {self.monitor}": best}
        self.tell(epoch, trainer.max_epochs or 0, self._figures)


def shown_epochs(label: str, monitor: str | None, inside: object = None) -> list[Callback]:
    """Return the callback that shows a training in the display that is open, if there is one.

    Args:
        label: What is trained; empty if it is all that is.
        monitor: As in `Epochs`.
        inside: Key of the row whose step the training is.
    """
    shown = current_display()
    if shown is None:
        return []
    return [ShownEpochs(shown, f"{label}: epoch" if label else "epoch", monitor, inside)]


class ShownEpochs(Epochs):
    """Show a training as a row of a display.

    Args:
        shown: The display.
        label: Label of the row.
        monitor: As in `Epochs`.
        inside: As in `shown_epochs`.
    """

    def __init__(
        self, shown: Display, label: str, monitor: str | None, inside: object = None
    ) -> None:
        super().__init__(self._show, monitor)
        self.shown = shown
        self.label = label
        self.inside = inside

    def _show(self, done: float, total: int, figures: dict[str, float | str]) -> None:
        self.shown.show(
            self, self.label, done, total, figures=figures, inside=self.inside, numbered=True
        )

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Remove the row."""
        self.shown.end(self)

    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        """Remove the row."""
        self.shown.end(self)
