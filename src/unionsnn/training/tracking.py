"""Tracker runs of trainings; a failing tracker never stops a training."""

from __future__ import annotations

import logging
import os
import secrets
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytorch_lightning as pl
from pytorch_lightning.callbacks import Callback

from unionsnn.base.environment import environment
from unionsnn.base.secrets import masked
from unionsnn.config.identity import config_hash
from unionsnn.config.schema import Config
from unionsnn.tracking.tracker import RunDescription, Table, TrackedRun
from unionsnn.training.callbacks import Curves
from unionsnn.training.records import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def prepare_tracking(folder: Path) -> None:
    """Discard the record of a tracker's failure in an earlier command."""
    _failure(folder).unlink(missing_ok=True)


def track_results(config: Config, folder: Path, record: Result) -> None:
    """Log a finished experiment as a separate run: its result and a table of its repetitions."""
    if record.state != "finished" or record.result is None:
        return
    numbers = {k: v for k, v in record.result.to_dict().items() if isinstance(v, int | float)}
    rows = record.repetitions
    metrics = sorted({key for row in rows for key in row.metrics})
    others = ("best_epoch", "epochs", "seconds", "device")
    table: Table = (
        ["index", *metrics, *others],
        [
            [row.index, *map(row.metrics.get, metrics), *(getattr(row, key) for key in others)]
            for row in rows
        ],
    )
    with GuardedRun(config, folder, "results") as run:
        run.report(numbers, {"repetitions": table})


class GuardedRun:
    """A tracker's run whose errors become one warning for all repetitions and workers.

    After an error the experiment continues without the tracker, until the next command.

    Args:
        config: The configuration; the run is started here if its tracker keeps runs.
        folder: The experiment's run folder.
        kind: ``repetition``, ``results`` or ``trial``.
        index: Index of the repetition or trial.
        axis: Unit of the steps of the history.
    """

    def __init__(
        self,
        config: Config,
        folder: Path,
        kind: str,
        index: int | None = None,
        axis: str = "epoch",
    ) -> None:
        self.tracker = config.logger
        key, data, model = config_hash(config), config.data.name, config.model.name
        part = "results" if index is None else f"{index:02d}"
        self.description = RunDescription(
            # Unique even if a stopped run is resumed.
            run_id=f"{key}-{part}-{secrets.token_hex(6)}",
            name=f"{data} {model} {kind}{'' if index is None else f' {index}'}",
            group=f"{data}/{model}/{folder.name}",
            kind=kind,
            content={
                **config.to_dict(),
                **({} if index is None else {kind: index}),
                "config_hash": key,
                "environment": environment(),
            },
            folder=folder / "tracking",
            axis=axis,
        )
        self.failure = _failure(folder)
        self._run: TrackedRun | None = None
        # A forked process must not write to its parent's run.
        self._process = os.getpid()
        if self.tracker.keeps_runs and not self.failure.exists():
            self._guard(self._start)

    def __enter__(self) -> Self:
        """Return the run."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """End the run, as failed on an exception, unless it has already ended."""
        self.finish(failed=kind is not None)

    def _start(self) -> None:
        self.description.folder.mkdir(parents=True, exist_ok=True)
        self._run = self.tracker.start(self.description)

    def call(self, action: Callable[[TrackedRun], None]) -> None:
        """Apply an action to the run, if there is one."""
        run = self._run
        if run is not None and os.getpid() == self._process:
            self._guard(lambda: action(run))

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Log a row of the history."""
        self.call(lambda run: run.log(values, step))

    def report(self, values: Mapping[str, Any], tables: Mapping[str, Table] | None = None) -> None:
        """Log final values and tables."""
        self.call(lambda run: run.report(values, tables or {}))

    def finish(self, *, failed: bool) -> None:
        """End the run."""
        self.call(lambda run: run.finish(failed=failed))
        self._run = None

    def _guard(self, action: Callable[[], None]) -> None:
        try:
            with self._surroundings():
                action()
        except Exception as error:  # A tracker and its transport may raise anything.
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        run, self._run = self._run, None
        if run is not None:
            with suppress(Exception), self._surroundings():
                run.finish(failed=True)
        reason = masked(" ".join(f"{type(error).__name__}: {error}".split()))
        try:
            self.failure.parent.mkdir(parents=True, exist_ok=True)
            with self.failure.open("x") as file:
                file.write(f"{reason}\n")
        except FileExistsError:
            return  # Another repetition has warned.
        except OSError:
            pass
        warnings.warn(
            f"{self.tracker.title} failed ({reason}); training continues without it, and the run "
            "folder's results.json will hold all results.",
            # The caller is Lightning, whose warnings are filtered out.
            stacklevel=1,
        )

    @contextmanager
    def _surroundings(self) -> Iterator[None]:
        """Set the tracker's environment variables, and undo its changes to the process."""
        before = dict(os.environ)
        exit_process, hook = sys.exit, sys.excepthook
        talkative = [logging.getLogger(name) for name in self.tracker.talkative]
        levels = [each.level for each in talkative]
        for name, value in self.tracker.variables(self.description.folder).items():
            os.environ.setdefault(name, value)
        for each in talkative:
            each.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for each, level in zip(talkative, levels, strict=True):
                each.setLevel(level)
            sys.exit, sys.excepthook = exit_process, hook
            for name in os.environ.keys() - before.keys():
                del os.environ[name]
            os.environ.update(before)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the run, for another process."""
        return {**self.__dict__, "_run": None}


class Tracking(Callback):
    """Pass the epochs of a training to a tracker's run.

    Args:
        run: The run.
        curves: Holds the metrics of the epochs; must come before this callback.
    """

    def __init__(self, run: GuardedRun, curves: Curves) -> None:
        self.run = run
        self.curves = curves
        self._logged = 0

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Log the epochs before the resume point."""
        self._log_epochs()

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Log the epoch."""
        self._log_epochs()

    def _log_epochs(self) -> None:
        """Log the epochs that have not been logged yet."""
        for epoch, row in enumerate(self.curves.history[self._logged :], self._logged):
            self.run.log(row, epoch)
            self._logged = epoch + 1

    def complete(self, metrics: Mapping[str, float], best_epoch: int | None) -> None:
        """Log final values, and the epochs as table and plot."""
        self._log_epochs()
        history = self.curves.history
        columns = list(history[0])
        rows = [[epoch, *(row.get(key) for key in columns)] for epoch, row in enumerate(history)]
        plot = self.run.description.folder / "plots" / self.run.description.run_id

        def report(run: TrackedRun) -> None:
            plot.mkdir(parents=True, exist_ok=True)
            draw_history(history).savefig(plot / "learning_curves.png", dpi=120)
            values = {**metrics, "best_epoch": best_epoch, "epochs": len(history)}
            tables = {"curves": (["epoch", *columns], rows)}
            run.report(values, tables, plot / "learning_curves.png")

        self.run.call(report)


def draw_history(history: Sequence[Mapping[str, float]]) -> Figure:
    """Draw losses and metrics of one training by epoch."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 2.6), layout="constrained")
    for axes, is_loss in zip(figure.subplots(1, 2), (True, False), strict=True):
        for key in history[0]:
            if key.endswith("_loss") == is_loss:
                axes.plot([row[key] for row in history], label=key)
        axes.set_xlabel("epoch")
        axes.legend(frameon=False, fontsize=8)
    return figure


def _failure(folder: Path) -> Path:
    """Return the file that records, for all repetitions and workers, why the tracker failed."""
    return folder / "tracking" / "failure.txt"
