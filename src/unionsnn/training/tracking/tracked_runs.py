"""One run of each tracker: W&B, TensorBoard, MLflow. Nothing here is guarded against a failure."""

from __future__ import annotations

import csv
import io
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Table = tuple[Sequence[str], Sequence[Sequence[Any]]]
"""Names of the columns, and the rows."""

START_SECONDS = 60
"""How long a tracker may take to start a run."""

FINISH_SECONDS = 60
"""How long the upload of what is left may take at a run's end."""

REQUEST_SECONDS = 10
"""How long a tracker's server may take to answer one request."""

RETRIES = 2
"""How often a request is made again."""


@dataclass(frozen=True)
class RunDescription:
    """What a run is called and belongs to.

    Args:
        run_id: Unique, also among runs of the same repetition.
        name: For people.
        group: The same for all runs of an experiment, or of a study.
        kind: ``repetition``, ``results`` for the experiment's own, or ``trial`` of a study.
        content: Configuration, versions and platform.
        folder: Where the tracker puts its files.
        options: The section ``logger`` of the configuration.
        axis: What the rows of its history count.
    """

    run_id: str
    name: str
    group: str
    kind: str
    content: Mapping[str, Any]
    folder: Path
    options: Mapping[str, Any]
    axis: str = "epoch"


class TrackedRun(ABC):
    """A run that has been started."""

    @abstractmethod
    def log(self, values: Mapping[str, float], step: int) -> None:
        """Add a row of the history: an epoch's metrics."""

    @abstractmethod
    def report(
        self, values: Mapping[str, Any], tables: Mapping[str, Table], plot: Path | None = None
    ) -> None:
        """Add final values, tables and a plot, a PNG file."""

    @abstractmethod
    def finish(self, *, failed: bool) -> None:
        """End the run and say how."""


class WandbRun(TrackedRun):
    """A run of Weights & Biases.

    Lightning's logger joins whatever run the process has, and sets variables of the environment;
    this one has a run of its own.
    """

    def __init__(self, run: RunDescription) -> None:
        import wandb

        options = run.options
        settings = wandb.Settings(
            silent=True,
            console="off",
            x_disable_stats=True,
            # The record has the revision; a diff of somebody's sources goes nowhere.
            disable_git=True,
            disable_code=True,
            reinit="create_new",
            init_timeout=START_SECONDS,
            finish_timeout=FINISH_SECONDS,
            finish_timeout_raises=True,
            x_graphql_timeout_seconds=REQUEST_SECONDS,
            x_graphql_retry_max=RETRIES,
            x_file_stream_timeout_seconds=REQUEST_SECONDS,
            x_file_stream_retry_max=RETRIES,
            x_file_transfer_timeout_seconds=REQUEST_SECONDS,
            x_file_transfer_retry_max=RETRIES,
        )
        self._run = wandb.init(
            project=options["project"],
            entity=options.get("entity"),
            mode=options["mode"],
            dir=run.folder,
            id=run.run_id,
            name=run.name,
            group=run.group,
            job_type=run.kind,
            tags=options.get("tags"),
            config=dict(run.content),
            settings=settings,
        )
        self._axis = run.axis
        self._run.define_metric("*", step_metric=self._axis)

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Add a row of the history."""
        self._run.log({self._axis: step, **values}, step=step)

    def report(
        self, values: Mapping[str, Any], tables: Mapping[str, Table], plot: Path | None = None
    ) -> None:
        """Add tables and the plot as media, and final values to the summary."""
        import wandb

        media: dict[str, Any] = {
            name: wandb.Table(columns=list(columns), data=[list(row) for row in rows])
            for name, (columns, rows) in tables.items()
        }
        if plot is not None:
            media[plot.stem] = wandb.Image(str(plot))
        self._run.log(media)
        self._run.summary.update(dict(values))

    def finish(self, *, failed: bool) -> None:
        """End with exit code 0 or 1."""
        self._run.finish(exit_code=int(failed))


class TensorBoardRun(TrackedRun):
    """A folder of event files of TensorBoard."""

    def __init__(self, run: RunDescription) -> None:
        from pytorch_lightning.loggers import TensorBoardLogger

        self._content = dict(run.content)
        self._logger = TensorBoardLogger(
            run.folder, name="tensorboard", version=run.run_id, default_hp_metric=False
        )
        self._logger.experiment.add_text("run", f"{run.group}: {run.name}")

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Add a scalar for each metric."""
        self._logger.log_metrics(dict(values), step=step)

    def report(
        self, values: Mapping[str, Any], tables: Mapping[str, Table], plot: Path | None = None
    ) -> None:
        """Add final numbers beside the configuration, tables as text and the plot as image."""
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
        """Note the status, for which TensorBoard has no place of its own, as text."""
        self._logger.experiment.add_text("status", "failed" if failed else "finished")
        self._logger.finalize("failed" if failed else "success")


class MLflowRun(TrackedRun):
    """A run of MLflow, in a database below the run folder or on the server of ``logger.uri``.

    Lightning's logger sets the tracking server of the whole process; this one has its own client.
    """

    # What a server takes in one request, and as one value.
    _PARAMETERS, _CHARACTERS = 100, 500

    def __init__(self, run: RunDescription) -> None:
        from filelock import FileLock
        from mlflow.entities import Param
        from mlflow.tracking import MlflowClient

        project, uri = run.options["project"], run.options.get("uri")
        artifacts = None
        if uri is None:
            uri = f"sqlite:///{run.folder.absolute() / 'mlflow.db'}"
            artifacts = (run.folder.absolute() / "mlflow").as_uri()
        # Processes that start together would each make the database and the experiment.
        with FileLock(run.folder / ".mlflow.lock", timeout=START_SECONDS):
            self._client = MlflowClient(uri)
            experiment = self._client.get_experiment_by_name(project)
            identifier = (
                self._client.create_experiment(project, artifacts)
                if experiment is None
                else experiment.experiment_id
            )
        labels = {"group": run.group, "kind": run.kind, "run_id": run.run_id}
        labels |= dict.fromkeys(run.options.get("tags") or (), "true")
        started = self._client.create_run(identifier, tags=labels, run_name=run.name)
        self._id = started.info.run_id
        parameters = [
            Param(key, str(value)[: self._CHARACTERS]) for key, value in _flat(run.content).items()
        ]
        for first in range(0, len(parameters), self._PARAMETERS):
            part = parameters[first : first + self._PARAMETERS]
            self._client.log_batch(self._id, params=part)

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Add the metrics at the step."""
        for key, value in values.items():
            self._client.log_metric(self._id, key, value, step=step)

    def report(
        self, values: Mapping[str, Any], tables: Mapping[str, Table], plot: Path | None = None
    ) -> None:
        """Add final numbers as metrics, tables and the plot as artifacts."""
        for key, value in values.items():
            if isinstance(value, int | float):
                self._client.log_metric(self._id, f"final/{key}", value)
        for name, (columns, rows) in tables.items():
            text = io.StringIO()
            csv.writer(text).writerows([columns, *rows])
            self._client.log_text(self._id, text.getvalue(), f"{name}.csv")
        if plot is not None:
            self._client.log_artifact(self._id, str(plot))

    def finish(self, *, failed: bool) -> None:
        """End with the status FAILED or FINISHED."""
        self._client.set_terminated(self._id, "FAILED" if failed else "FINISHED")


def _flat(content: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in content.items():
        inside = isinstance(value, Mapping) and value
        flat |= _flat(value, f"{prefix}{key}.") if inside else {f"{prefix}{key}": value}
    return flat
