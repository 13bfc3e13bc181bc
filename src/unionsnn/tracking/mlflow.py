"""MLflow."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from unionsnn.tracking.tracker import (
    REQUEST_SECONDS,
    RETRIES,
    START_SECONDS,
    RunDescription,
    Table,
    TrackedRun,
    Tracker,
)


class MLflow(Tracker):
    """MLflow, in a database in the run folder or on the server of ``uri``."""

    title: ClassVar[str] = "MLflow"
    package: ClassVar[str | None] = "mlflow"
    talkative: ClassVar[tuple[str, ...]] = ("mlflow", "alembic")

    name: Literal["mlflow"] = "mlflow"
    project: Annotated[str, Field(min_length=1)] = "unionsnn"
    group: str | None = Field(None, exclude_if=lambda value: value is None)
    tags: list[str] = Field(default_factory=list)
    uri: str | None = Field(None, exclude_if=lambda value: value is None)

    def variables(self, folder: Path) -> dict[str, str]:
        """Return timeout and retries of requests to a server."""
        return {
            "MLFLOW_HTTP_REQUEST_TIMEOUT": str(REQUEST_SECONDS),
            "MLFLOW_HTTP_REQUEST_MAX_RETRIES": str(RETRIES),
        }

    def start(self, run: RunDescription) -> TrackedRun:
        """Start a run in the experiment named after the project."""
        return MLflowRun(self, run)


class MLflowRun(TrackedRun):
    """A run of MLflow.

    Lightning's logger sets the tracking server for the whole process; this one has its own client.
    """

    # Limits of a server for one request and one value.
    _PARAMETERS, _CHARACTERS = 100, 500

    def __init__(self, options: MLflow, run: RunDescription) -> None:
        from filelock import FileLock
        from mlflow.entities import Param
        from mlflow.tracking import MlflowClient

        uri, artifacts = options.uri, None
        if uri is None:
            uri = f"sqlite:///{run.folder.absolute() / 'mlflow.db'}"
            artifacts = (run.folder.absolute() / "mlflow").as_uri()
        # Otherwise processes that start together would each create the database and the experiment.
        with FileLock(run.folder / ".mlflow.lock", timeout=START_SECONDS):
            self._client = MlflowClient(uri)
            experiment = self._client.get_experiment_by_name(options.project)
            identifier = (
                self._client.create_experiment(options.project, artifacts)
                if experiment is None
                else experiment.experiment_id
            )
        labels = {"group": options.group or run.group, "kind": run.kind, "run_id": run.run_id}
        labels |= dict.fromkeys(options.tags, "true")
        started = self._client.create_run(identifier, tags=labels, run_name=run.name)
        self._id = started.info.run_id
        parameters = [
            Param(key, str(value)[: self._CHARACTERS]) for key, value in _flat(run.content).items()
        ]
        for first in range(0, len(parameters), self._PARAMETERS):
            part = parameters[first : first + self._PARAMETERS]
            self._client.log_batch(self._id, params=part)

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Log the metrics at a step."""
        for key, value in values.items():
            self._client.log_metric(self._id, key, value, step=step)

    def report(
        self, values: Mapping[str, Any], tables: Mapping[str, Table], plot: Path | None = None
    ) -> None:
        """Log final values as metrics, tables and the plot as artifacts."""
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
        """End the run with the status FAILED or FINISHED."""
        self._client.set_terminated(self._id, "FAILED" if failed else "FINISHED")


def _flat(content: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in content.items():
        inside = isinstance(value, Mapping) and value
        flat |= _flat(value, f"{prefix}{key}.") if inside else {f"{prefix}{key}": value}
    return flat
