"""MLflow."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import yaml
from pydantic import Field

from unionsnn.tracking.tracker import (
    REQUEST_SECONDS,
    RETRIES,
    START_SECONDS,
    LoggerRun,
    RunDescription,
    Table,
    Tracker,
)


class MLflow(Tracker):
    """MLflow, in a database in the run folder or on the server of ``uri``."""

    title: ClassVar[str] = "MLflow"
    package: ClassVar[str | None] = "mlflow"
    talkative: ClassVar[tuple[str, ...]] = ("mlflow", "alembic", "pytorch_lightning")

    name: Literal["mlflow"] = "mlflow"
    project: Annotated[str, Field(min_length=1)] = "unionsnn"
    group: str | None = Field(None, exclude_if=lambda value: value is None)
    tags: list[str] = Field(default_factory=list)
    uri: str | None = Field(None, exclude_if=lambda value: value is None)
    log_model: bool = Field(False, exclude_if=lambda value: not value)

    def variables(self, run: RunDescription) -> dict[str, str | None]:
        """Return timeout and retries of requests to a server."""
        return {
            "MLFLOW_HTTP_REQUEST_TIMEOUT": str(REQUEST_SECONDS),
            "MLFLOW_HTTP_REQUEST_MAX_RETRIES": str(RETRIES),
        }

    def start(self, run: RunDescription) -> MLflowRun:
        """Start a run in the experiment named after the project."""
        return MLflowRun(self, run)


class MLflowRun(LoggerRun):
    """A run of MLflow."""

    def __init__(self, options: MLflow, run: RunDescription) -> None:
        import mlflow
        from filelock import FileLock
        from pytorch_lightning.loggers import MLFlowLogger

        uri, artifacts = options.uri, None
        if uri is None:
            uri = f"sqlite:///{run.folder.absolute() / 'mlflow.db'}"
            artifacts = (run.folder.absolute() / "mlflow").as_uri()
        labels = {"group": options.group or run.group, "kind": run.kind, "run_id": run.run_id}
        logger = MLFlowLogger(
            experiment_name=options.project,
            run_name=run.name,
            tracking_uri=uri,
            tags=labels | dict.fromkeys(options.tags, "true"),
            artifact_location=artifacts,
        )
        super().__init__(logger)
        before = mlflow.get_tracking_uri() if mlflow.is_tracking_uri_set() else None
        try:
            # Processes that start together would each create the database and the experiment.
            with FileLock(run.folder / ".mlflow.lock", timeout=START_SECONDS):
                self._client, self._id = logger.experiment, logger.run_id
        finally:
            # Lightning's logger sets it for the whole process.
            mlflow.set_tracking_uri(before)
        self._log_model = options.log_model
        logger.log_hyperparams(run.flat())
        self._client.log_text(self._id, yaml.safe_dump(dict(run.content)), "config.yaml")

    def report(
        self, values: Mapping[str, Any], tables: Mapping[str, Table], plot: Path | None = None
    ) -> None:
        """Log final values as metrics, tables and the plot as artifacts."""
        super().report(values, tables, plot)
        for name, (columns, rows) in tables.items():
            text = io.StringIO()
            csv.writer(text).writerows([columns, *rows])
            self._client.log_text(self._id, text.getvalue(), f"{name}.csv")
        if plot is not None:
            self._client.log_artifact(self._id, str(plot))

    def save_model(self, checkpoint: Path) -> None:
        """Log the checkpoint as an artifact."""
        if self._log_model:
            self._client.log_artifact(self._id, str(checkpoint), "model")
