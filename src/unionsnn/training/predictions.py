"""What networks predict for the test part, kept for reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from numpy.typing import NDArray
from pytorch_lightning.callbacks import Callback

from unionsnn.base.files import atomic_write


class TestPredictions(Callback):
    """Keep outputs and targets of the test part, and write them when the test ends.

    Args:
        path: File to write, of the arrays ``output`` and ``target``, a row for each item.
    """

    # No test of pytest's, for all its name.
    __test__ = False

    def __init__(self, path: Path) -> None:
        self.path = path
        self._rows: list[tuple[NDArray[Any], NDArray[Any]]] = []

    def on_test_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Forget what an earlier test left."""
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
        """Add what the test step returned."""
        output, target = (outputs[name].detach().cpu().numpy() for name in ("output", "target"))
        self._rows.append((output, target))

    def on_test_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Write the file, all of it or nothing."""
        output, target = (np.concatenate(parts) for parts in zip(*self._rows, strict=True))
        atomic_write(
            self.path, lambda file: np.savez_compressed(file, output=output, target=target)
        )


class EpochPredictions(Callback):
    """Keep the test part's outputs of every epoch, for protocols that choose the epoch afterwards.

    The file holds the arrays ``outputs``, one block of rows an epoch, and ``target``. Nothing is
    kept where it would be larger than a bound, or where several processes share the test part.

    Args:
        path: File to write when training ends.
        max_epochs: Epochs that are expected.
        max_bytes: Size of all outputs, at the most.
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
        """Forget what a pass that was broken off left."""
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
        """Add what the step on a batch of the test part returned."""
        if dataloader_idx == 1 and self._fits:
            output, target = (outputs[name].detach() for name in ("output", "target"))
            self._rows.append((output.float().cpu(), target.cpu()))

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Close the epoch; give up where all of them would be too large."""
        if not self._rows:
            return
        output, target = (torch.cat(parts) for parts in zip(*self._rows, strict=True))
        self._epochs.append(output)
        self._target = target
        self._rows = []
        if trainer.world_size > 1 or output.nbytes * self.max_epochs > self.max_bytes:
            self._fits, self._epochs = False, []

    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Write the file, all of it or nothing."""
        if not self._epochs or self._target is None:
            return
        outputs, target = torch.stack(self._epochs).numpy(), self._target.numpy()
        atomic_write(
            self.path, lambda file: np.savez_compressed(file, outputs=outputs, target=target)
        )

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps of it."""
        return {"epochs": self._epochs, "target": self._target, "fits": self._fits}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self._epochs = state_dict["epochs"]
        self._target = state_dict["target"]
        self._fits = state_dict["fits"]
