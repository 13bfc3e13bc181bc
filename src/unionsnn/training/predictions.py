"""What the selected network predicts for the test part, kept for reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
from numpy.typing import NDArray
from pytorch_lightning.callbacks import Callback

from unionsnn.data.arrays import atomic_write


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
