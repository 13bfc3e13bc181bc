"""Trackers' runs of trainings; a failing tracker never stops a training."""

from __future__ import annotations

import os
import secrets
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Callback

from unionsnn.base.environment import environment
from unionsnn.base.secrets import masked
from unionsnn.config.identity import config_hash
from unionsnn.config.schema import Config, ProtocolConfig, metric_mode
from unionsnn.tracking.tracker import RunDescription, Table, TrackedRun, Tracker
from unionsnn.training.callbacks import Curves
from unionsnn.training.devices import only_errors
from unionsnn.training.records import Repetition, Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def prepare_tracking(folder: Path) -> None:
    """Discard the records of trackers' failures in an earlier command."""
    for path in (folder / "tracking").glob("failure_*.txt"):
        path.unlink(missing_ok=True)


def track_results(
    config: Config, folder: Path, record: Result, finished: Mapping[int, Repetition]
) -> None:
    """Log a finished experiment as a separate run.

    It has the result, a table of the repetitions, and their learning curves in one plot.

    Args:
        config: The configuration.
        folder: The run folder.
        record: The merged record.
        finished: The records of the repetitions, by index.
    """
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
        curves = [finished[row.index].curves for row in rows]
        run.report(numbers, {"repetitions": table}, curves)


class GuardedRun:
    """A run of each tracker of a configuration; an error of one becomes one warning.

    After an error the experiment continues without the tracker, until the next command; the
    warning is one for all repetitions and workers.

    Args:
        config: The configuration; runs are started here for those trackers that keep any.
        folder: The experiment's run folder.
        kind: ``repetition``, ``results``, ``trial`` or ``sweep``.
        index: Index of the repetition or trial.
        axis: Unit of the steps of the history.
        label: Name of a trial: its parameters.
        content: What is logged beside the configuration.
    """

    def __init__(
        self,
        config: Config,
        folder: Path,
        kind: str,
        index: int | None = None,
        axis: str = "epoch",
        *,
        label: str | None = None,
        content: Mapping[str, Any] | None = None,
    ) -> None:
        key, data, model = config_hash(config), config.data.name, config.model.name
        part = kind if index is None else f"{index:02d}"
        parts = [data, model, *_place(config.protocol, kind, index)]
        keys = ("train_loss", "val_loss", f"val_{config.data.metric}")
        self.description = RunDescription(
            # Unique even if a stopped run is resumed.
            run_id=f"{key}-{part}-{secrets.token_hex(6)}",
            name=label or "/".join(parts),
            group=f"{data}/{model}/{folder.name}",
            kind=kind,
            content={
                **config.to_dict(),
                **({} if index is None else {kind: index}),
                **(content or {}),
                "config_hash": key,
                "environment": environment(),
            },
            folder=folder / "tracking",
            axis=axis,
            # The one number that a sweep chooses by is that logged last.
            summaries={}
            if kind == "sweep"
            else {each: metric_mode(each) if axis == "epoch" else "mean" for each in keys},
        )
        self._runs = [
            _Guarded(tracker, self.description)
            for tracker in config.logger.parts
            if tracker.keeps_runs
        ]

    def __enter__(self) -> Self:
        """Return the run."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """End the run, as failed on an exception, unless it has already ended."""
        self.finish(failed=kind is not None)

    @property
    def active(self) -> bool:
        """Whether any tracker is listening."""
        return any(each.run is not None for each in self._runs)

    def call(self, action: Callable[[TrackedRun], None]) -> None:
        """Apply an action to each tracker's run, as far as there is one."""
        for each in self._runs:
            each.call(action)

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Log a row of the history."""
        self.call(lambda run: run.log(values, step))

    def report(
        self,
        values: Mapping[str, Any],
        tables: Mapping[str, Table] | None = None,
        curves: Sequence[Sequence[Mapping[str, float]]] = (),
    ) -> None:
        """Log final values, tables and a plot of learning curves.

        Args:
            values: The values by name.
            tables: The tables by name.
            curves: For each training, the metrics of its epochs.
        """
        path = self.description.folder / "plots" / self.description.run_id / "learning_curves.png"

        def report(run: TrackedRun) -> None:
            if curves and not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                draw_curves(curves).savefig(path, dpi=120)
            run.report(values, tables or {}, path if curves else None)

        self.call(report)

    def finish(self, *, failed: bool) -> None:
        """End the run."""
        for each in self._runs:
            each.finish(failed=failed)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the trackers' runs, for another process."""
        return {**self.__dict__, "_runs": []}


def parameters_text(point: Mapping[str, Any]) -> str:
    """Return the parameters of a candidate as one reads them: ``lr=0.01, hidden=64``."""

    def short(key: str) -> str:
        return key.rpartition(".")[2].removeprefix("num_").removesuffix("_channels")

    names = Counter(map(short, point))
    return ", ".join(
        f"{short(key) if names[short(key)] == 1 else key}="
        f"{f'{value:.4g}' if isinstance(value, float) else value}"
        for key, value in point.items()
    )


def _place(protocol: ProtocolConfig, kind: str, index: int | None) -> list[str]:
    """Return the part of a run's name that says which it is; counted from 1, as for people."""
    if kind == "repetition" and index is not None:
        if protocol.num_repetitions == 1:
            return []
        return [f"{'fold' if protocol.is_cross_validation else 'repetition'} {index + 1}"]
    return [kind if index is None else f"{kind} {index}"]


class _Guarded:
    """The run of one tracker, whose errors become one warning.

    Args:
        tracker: The tracker.
        description: What to start, at once.

    Attributes:
        run: The started run; None before, after a failure, and when it has ended.
    """

    def __init__(self, tracker: Tracker, description: RunDescription) -> None:
        self.tracker = tracker
        self.description = description
        self.run: TrackedRun | None = None
        # Records, for all repetitions and workers, why the tracker failed.
        self._failure = description.folder / f"failure_{tracker.name}.txt"
        # A forked process must not write to its parent's run.
        self._process = os.getpid()
        if not self._failure.exists():
            self._guard(self._start)

    def _start(self) -> None:
        self.description.folder.mkdir(parents=True, exist_ok=True)
        self.run = self.tracker.start(self.description)

    def call(self, action: Callable[[TrackedRun], None]) -> None:
        """Apply an action to the run, if there is one."""
        run = self.run
        if run is not None and os.getpid() == self._process:
            self._guard(lambda: action(run))

    def finish(self, *, failed: bool) -> None:
        """End the run."""
        self.call(lambda run: run.finish(failed=failed))
        self.run = None

    def _guard(self, action: Callable[[], None]) -> None:
        try:
            with self._surroundings():
                action()
        except Exception as error:  # A tracker and its transport may raise anything.
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        run, self.run = self.run, None
        if run is not None:
            with suppress(Exception), self._surroundings():
                run.finish(failed=True)
        reason = masked(" ".join(f"{type(error).__name__}: {error}".split()))
        try:
            self._failure.parent.mkdir(parents=True, exist_ok=True)
            with self._failure.open("x") as file:
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
        for name, value in self.tracker.variables(self.description).items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ.setdefault(name, value)
        try:
            with only_errors(self.tracker.talkative):
                yield
        finally:
            sys.exit, sys.excepthook = exit_process, hook
            for name in os.environ.keys() - before.keys():
                del os.environ[name]
            os.environ.update(before)


class Tracking(Callback):
    """Pass the epochs of a training to its run of each tracker.

    Beside the metrics, trackers get ``lr``, the learning rate of the epoch's last step;
    ``gradient_norm``, the gradient's L2 norm at that step, before clipping; and ``epoch_seconds``,
    with validation. Nothing is measured, and no device waited for, in other steps.

    Args:
        run: The run.
        curves: Holds the metrics of the epochs; must come before this callback.
    """

    def __init__(self, run: GuardedRun, curves: Curves) -> None:
        self.run = run
        self.curves = curves
        self.measured: dict[int, dict[str, float]] = {}
        self._logged = 0
        self._began = 0.0
        self._last_step: tuple[float, torch.Tensor] | None = None

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Log the epochs before the resume point."""
        self._log_epochs()

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Start the clock."""
        self._began = time.perf_counter()

    def on_before_optimizer_step(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        optimizer: torch.optim.Optimizer,
    ) -> None:
        """Measure the last step of the epoch; the norm is read later, with the metrics."""
        if self.run.active and trainer.is_last_batch:
            gradients = [p.grad for p in pl_module.parameters() if p.grad is not None]
            norm = torch.nn.utils.get_total_norm(gradients)
            self._last_step = float(optimizer.param_groups[0]["lr"]), norm

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Log the epoch."""
        if self.run.active:
            row = {"epoch_seconds": time.perf_counter() - self._began}
            if self._last_step is not None:
                lr, norm = self._last_step
                row |= {"lr": lr, "gradient_norm": float(norm)}
            self.measured[trainer.current_epoch] = row
        self._log_epochs()

    def _log_epochs(self) -> None:
        """Log the epochs that have not been logged yet."""
        for epoch, row in enumerate(self.curves.history[self._logged :], self._logged):
            self.run.log({**row, **self.measured.get(epoch, {})}, epoch)
            self._logged = epoch + 1

    def complete(
        self, metrics: Mapping[str, float], best_epoch: int | None, checkpoint: Path | None
    ) -> None:
        """Log what has come out.

        Args:
            metrics: Metrics of the selected weights.
            best_epoch: Their epoch.
            checkpoint: Their file, if there is one.
        """
        self._log_epochs()
        history = self.curves.history
        columns = list(history[0])
        rows = [[epoch, *(row.get(key) for key in columns)] for epoch, row in enumerate(history)]
        values = {**metrics, "best_epoch": best_epoch, "epochs": len(history)}
        self.run.report(
            {f"final/{key}": value for key, value in values.items()},
            {"curves": (["epoch", *columns], rows)},
            [history],
        )
        if checkpoint is not None:
            self.run.call(lambda run: run.save_model(checkpoint))

    def state_dict(self) -> dict[str, Any]:
        """Return what a resumed training logs of the epochs before."""
        return {"measured": self.measured}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Resume from a checkpoint."""
        self.measured = state_dict["measured"]


def draw_curves(histories: Sequence[Sequence[Mapping[str, float]]]) -> Figure:
    """Draw losses and metrics by epoch, of several trainings above one another.

    Args:
        histories: For each training, the metrics of its epochs.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 2.6), layout="constrained")
    alpha = 1.0 if len(histories) == 1 else 0.5
    for axes, is_loss in zip(figure.subplots(1, 2), (True, False), strict=True):
        keys = [key for key in histories[0][0] if key.endswith("_loss") == is_loss]
        for number, key in enumerate(keys):
            for place, history in enumerate(histories):
                label = key if place == 0 else None
                values = [row.get(key) for row in history]
                # A line of one point cannot be seen.
                marker = "o" if len(values) == 1 else None
                axes.plot(values, label=label, color=f"C{number}", alpha=alpha, marker=marker)
        axes.set_xlabel("epoch")
        axes.legend(frameon=False, fontsize=8)
    return figure
