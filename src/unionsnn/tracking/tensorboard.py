"""TensorBoard."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from unionsnn.tracking.tracker import LoggerRun, RunDescription, Table, Tracker


class TensorBoard(Tracker):
    """Event files in the run folder."""

    title: ClassVar[str] = "TensorBoard"
    package: ClassVar[str | None] = "tensorboard"

    name: Literal["tensorboard"] = "tensorboard"

    def start(self, run: RunDescription) -> TensorBoardRun:
        """Start a folder of event files."""
        return TensorBoardRun(run)


class TensorBoardRun(LoggerRun):
    """A folder of event files."""

    def __init__(self, run: RunDescription) -> None:
        from pytorch_lightning.loggers import TensorBoardLogger

        logger = TensorBoardLogger(
            run.folder, name="tensorboard", version=run.run_id, default_hp_metric=False
        )
        super().__init__(logger)
        self._writer = logger.experiment
        self._content = run.flat()
        self._curves: set[str] = set()
        self._writer.add_text("run", f"{run.group}: {run.name}")
        self._writer.add_text("config", _markdown(["key", "value"], self._content.items()))

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Log a scalar for each metric."""
        self._curves |= values.keys()
        super().log(values, step)

    def report(
        self, values: Mapping[str, Any], tables: Mapping[str, Table], plot: Path | None = None
    ) -> None:
        """Log final values as text and, beside the configuration, as columns of HParams.

        As scalars they would be charts of one point.
        """
        from matplotlib.image import imread
        from torch.utils.tensorboard.summary import hparams

        content = {**self._content, **values}
        columns = {k: v if isinstance(v, int | float) else str(v) for k, v in content.items()}
        # HParams shows the last point of these scalars.
        points = dict.fromkeys(sorted(self._curves), 0.0)
        for each in hparams(columns, points):  # type: ignore[no-untyped-call]
            self._writer.file_writer.add_summary(each)
        self._writer.add_text("result", _markdown(["", "value"], values.items()))
        for name, (heads, rows) in tables.items():
            self._writer.add_text(name, _markdown(heads, rows))
        if plot is not None:
            self._writer.add_image(plot.stem, imread(plot), dataformats="HWC")

    def finish(self, *, failed: bool) -> None:
        """Log the status as text: TensorBoard has no status of runs."""
        self._writer.add_text("status", "failed" if failed else "finished")
        super().finish(failed=failed)


def _markdown(columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    heads = list(columns)
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"|{'|'.join(map(str, line))}|" for line in lines)
