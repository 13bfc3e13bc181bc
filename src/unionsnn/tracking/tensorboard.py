"""TensorBoard."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from unionsnn.tracking.tracker import RunDescription, Table, TrackedRun, Tracker


class TensorBoard(Tracker):
    """Event files in the run folder."""

    title: ClassVar[str] = "TensorBoard"
    package: ClassVar[str | None] = "tensorboard"

    name: Literal["tensorboard"] = "tensorboard"

    def start(self, run: RunDescription) -> TrackedRun:
        """Start a folder of event files."""
        return TensorBoardRun(run)


class TensorBoardRun(TrackedRun):
    """A folder of event files."""

    def __init__(self, run: RunDescription) -> None:
        from pytorch_lightning.loggers import TensorBoardLogger

        self._content = dict(run.content)
        self._logger = TensorBoardLogger(
            run.folder, name="tensorboard", version=run.run_id, default_hp_metric=False
        )
        self._logger.experiment.add_text("run", f"{run.group}: {run.name}")

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Log a scalar for each metric."""
        self._logger.log_metrics(dict(values), step=step)

    def report(
        self, values: Mapping[str, Any], tables: Mapping[str, Table], plot: Path | None = None
    ) -> None:
        """Log final values with the configuration, tables as text and the plot as image."""
        from matplotlib.image import imread

        numbers = {f"final/{k}": v for k, v in values.items() if isinstance(v, int | float)}
        self._logger.log_hyperparams(self._content, numbers)
        writer = self._logger.experiment
        for name, (columns, rows) in tables.items():
            lines = [columns, ["---"] * len(columns), *rows]
            writer.add_text(name, "\n".join(f"|{'|'.join(map(str, line))}|" for line in lines))
        if plot is not None:
            writer.add_image(plot.stem, imread(plot), dataformats="HWC")

    def finish(self, *, failed: bool) -> None:
        """Log the status as text: TensorBoard has no status of runs."""
        self._logger.experiment.add_text("status", "failed" if failed else "finished")
        self._logger.finalize("failed" if failed else "success")
