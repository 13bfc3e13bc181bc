"""Trackers: the runs of an experiment's repetitions; one that fails never stops a training."""

from __future__ import annotations

import logging
import os
import secrets
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytorch_lightning as pl
from pytorch_lightning.callbacks import Callback
from pytorch_lightning.utilities import rank_zero_only

from unionsnn.base.environment import environment
from unionsnn.base.errors import RequestError
from unionsnn.config.identity import config_hash
from unionsnn.config.schema import Config
from unionsnn.training.callbacks import Curves
from unionsnn.training.tracking.tracked_runs import (
    REQUEST_SECONDS,
    RETRIES,
    MLflowRun,
    RunDescription,
    Table,
    TensorBoardRun,
    TrackedRun,
    WandbRun,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TRACKERS: Mapping[str, tuple[str, Callable[[RunDescription], TrackedRun]]] = {
    "wandb": ("W&B", WandbRun),
    "tensorboard": ("TensorBoard", TensorBoardRun),
    "mlflow": ("MLflow", MLflowRun),
}
"""What a tracker is called, and its runs; `csv` and `none` need no run."""


def check_tracker(config: Config) -> None:
    """Refuse a tracker that cannot start, before any work.

    Raises:
        RequestError: with what to type.
    """
    name = config.logger.name
    if name in TRACKERS and find_spec(name) is None:
        raise RequestError(
            f"logger={name} needs the package {name}, which is not installed; type pip install "
            f"'unionsnn[{name}]', or logger=csv."
        )
    if config.logger.mode == "online" and not _has_key():
        raise RequestError(
            "logger.mode is 'online', but W&B has no key; type wandb login, set WANDB_API_KEY, "
            "or leave logger.mode out: `wandb sync` uploads the runs later."
        )


def _has_key() -> bool:
    """Whether W&B would find a key: it asks for one on a terminal, in the midst of a training."""
    from requests.utils import get_netrc_auth

    if os.environ.get("WANDB_API_KEY") or os.environ.get("WANDB_IDENTITY_TOKEN_FILE"):
        return True
    host = os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")
    return get_netrc_auth(host) is not None


def prepare_tracking(folder: Path) -> None:
    """Forget that a tracker failed in an earlier command."""
    _failure(folder).unlink(missing_ok=True)


@contextmanager
def tracked(config: Config, index: int, folder: Path, curves: Curves) -> Iterator[Tracking]:
    """Track a repetition; whatever ends it early, also Ctrl-C, marks its run as failed.

    Args:
        config: The experiment's configuration.
        index: Of the repetition.
        folder: The experiment's run folder.
        curves: Has the metrics of the epochs.
    """
    with GuardedRun(folder, describe_run(config, folder, "repetition", index)) as run:
        yield Tracking(run, curves)


def track_results(config: Config, folder: Path, results: Mapping[str, Any]) -> None:
    """Give a finished experiment a run of its own: its result and a table of its repetitions."""
    if results["state"] != "finished":
        return
    numbers = {k: v for k, v in results["result"].items() if isinstance(v, int | float)}
    with GuardedRun(folder, describe_run(config, folder, "results")) as run:
        run.report(numbers, {"repetitions": repetitions_table(results)})


def repetitions_table(results: Mapping[str, Any]) -> Table:
    """Return index, metrics and what else tells the repetitions of a merged record apart."""
    rows = results["repetitions"]
    metrics = sorted({key for row in rows for key in row["metrics"]})
    others = ("best_epoch", "epochs", "seconds", "device")
    return ["index", *metrics, *others], [
        [row["index"], *(row["metrics"].get(key) for key in metrics), *(row[k] for k in others)]
        for row in rows
    ]


def describe_run(
    config: Config,
    folder: Path,
    kind: str,
    index: int | None = None,
    axis: str = "epoch",
) -> RunDescription:
    """Name a run; no two have the same id, also where one goes on that was stopped."""
    key, data, model = config_hash(config), config.data.name, config.model.name
    part = "" if index is None else f"{index:02d}-"
    return RunDescription(
        run_id=f"{key}-{part or 'results-'}{secrets.token_hex(6)}",
        name=f"{data} {model} {kind}{'' if index is None else f' {index}'}",
        group=config.logger.group or f"{data}/{model}/{folder.name}",
        kind=kind,
        content={
            **config.to_dict(),
            **({} if index is None else {kind: index}),
            "config_hash": key,
            "environment": environment(),
        },
        folder=folder / "tracking",
        options=config.logger.to_dict(),
        axis=axis,
    )


class GuardedRun:
    """A tracker's run whose errors are one warning, however many repetitions and workers there are.

    After an error the experiment goes on without the tracker, until the next command.

    Args:
        folder: The experiment's run folder.
        description: The run; it is started here, if the configuration names a tracker.
    """

    def __init__(self, folder: Path, description: RunDescription) -> None:
        self.description = description
        self.failure = _failure(folder)
        self.tracker, make = TRACKERS.get(description.options["name"], ("", None))
        self._run: TrackedRun | None = None
        # A forked process must not write to its parent's run.
        self._process = os.getpid()
        if make is None or getattr(rank_zero_only, "rank", 0) != 0 or self.failure.exists():
            return
        self._guard(lambda: self._start(make))

    def __enter__(self) -> Self:
        """Hold the run."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """End the run, as failed if an exception passes; one that has ended stays as it is."""
        self.finish(failed=kind is not None)

    def _start(self, make: Callable[[RunDescription], TrackedRun]) -> None:
        self.description.folder.mkdir(parents=True, exist_ok=True)
        self._run = make(self.description)

    def call(self, action: Callable[[TrackedRun], None]) -> None:
        """Do something with the run, if there is one."""
        run = self._run
        if run is not None and os.getpid() == self._process:
            self._guard(lambda: action(run))

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Add a row of the history."""
        self.call(lambda run: run.log(values, step))

    def report(self, values: Mapping[str, Any], tables: Mapping[str, Table] | None = None) -> None:
        """Add final values and tables."""
        self.call(lambda run: run.report(values, tables or {}))

    def finish(self, *, failed: bool) -> None:
        """End the run; nothing can be added to it any more."""
        self.call(lambda run: run.finish(failed=failed))
        self._run = None

    def _guard(self, action: Callable[[], None]) -> None:
        try:
            with _process_as_it_was(self.description.folder):
                action()
        except Exception as error:  # Whatever a tracker and its transport may raise.
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        run, self._run = self._run, None
        if run is not None:
            with suppress(Exception), _process_as_it_was(self.description.folder):
                run.finish(failed=True)
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        try:
            self.failure.parent.mkdir(parents=True, exist_ok=True)
            with self.failure.open("x") as file:
                file.write(f"{reason}\n")
        except FileExistsError:
            return  # Another repetition has said so.
        except OSError:
            pass
        warnings.warn(
            f"{self.tracker} failed ({reason}); training goes on without it, and the run folder's "
            "results.json will hold all results.",
            # The caller is Lightning, whose warnings are hidden.
            stacklevel=1,
        )

    def __getstate__(self) -> dict[str, Any]:
        """What another process gets: no run."""
        return {**self.__dict__, "_run": None}


class Tracking(Callback):
    """Pass the epochs of a training on to a tracker's run.

    Args:
        run: The run.
        curves: Has the metrics of the epochs; must come before this callback.
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
        """Log the epochs that the run has not had yet."""
        for epoch, row in enumerate(self.curves.history[self._logged :], self._logged):
            self.run.log(row, epoch)
            self._logged = epoch + 1

    def complete(self, metrics: Mapping[str, float], best_epoch: int | None) -> None:
        """Add final values, and the epochs as table and plot."""
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
    """File that says for all repetitions and workers that the tracker failed, and why."""
    return folder / "tracking" / "failure.txt"


@contextmanager
def _process_as_it_was(folder: Path) -> Iterator[None]:
    """Give trackers what they read from the environment, and undo what they do to the process."""
    before = dict(os.environ)
    exit_process, hook = sys.exit, sys.excepthook
    noisy = logging.getLogger("mlflow"), logging.getLogger("alembic")
    levels = [each.level for each in noisy]
    own = {
        # Otherwise the user's home folder has files of every run.
        "WANDB_DATA_DIR": str(folder / "wandb" / "data"),
        "WANDB_CACHE_DIR": str(folder / "wandb" / "cache"),
        "MLFLOW_HTTP_REQUEST_TIMEOUT": str(REQUEST_SECONDS),
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": str(RETRIES),
    }
    for name, value in own.items():
        os.environ.setdefault(name, value)
    for each in noisy:
        each.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for each, level in zip(noisy, levels, strict=True):
            each.setLevel(level)
        sys.exit, sys.excepthook = exit_process, hook
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)
