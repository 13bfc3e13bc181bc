"""Weights & Biases."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from unionsnn.base.errors import RequestError
from unionsnn.tracking.tracker import (
    FINISH_SECONDS,
    REQUEST_SECONDS,
    RETRIES,
    START_SECONDS,
    LoggerRun,
    RunDescription,
    Table,
    Tracker,
)

SWEEP_VARIABLE = "WANDB_SWEEP_ID"
"""Variable in which an agent of W&B names its sweep to the command that it starts."""

_AGENT = (SWEEP_VARIABLE, "WANDB_RUN_ID", "WANDB_SWEEP_PARAM_PATH")
"""Variables by which an agent tells the one run that it has asked for what to be."""


class Wandb(Tracker):
    """Weights & Biases, offline by default."""

    title: ClassVar[str] = "W&B"
    package: ClassVar[str | None] = "wandb"

    name: Literal["wandb"] = "wandb"
    project: Annotated[str, Field(min_length=1)] = "unionsnn"
    mode: Literal["offline", "online", "disabled"] = "offline"
    entity: str | None = Field(None, exclude_if=lambda value: value is None)
    group: str | None = Field(None, exclude_if=lambda value: value is None)
    tags: list[str] = Field(default_factory=list)
    log_model: bool = Field(False, exclude_if=lambda value: not value)

    def check(self) -> None:
        """Refuse to go online without a key, for which W&B would prompt during training."""
        super().check()
        if self.mode == "online" and not _has_key():
            raise RequestError(
                "logger.mode is 'online', but W&B has no key; type wandb login, set "
                "WANDB_API_KEY, or leave logger.mode out: `wandb sync` uploads the runs later.",
                code="logger.no_key",
            )

    def variables(self, run: RunDescription) -> dict[str, str | None]:
        """Return folders for data and caches, which otherwise end up in the user's home folder.

        What an agent has set is hidden from all runs but its own: they would share its id.
        """
        hidden: tuple[str, ...] = () if run.kind == "sweep" else _AGENT
        return {
            "WANDB_DATA_DIR": str(run.folder / "wandb" / "data"),
            "WANDB_CACHE_DIR": str(run.folder / "wandb" / "cache"),
            **dict.fromkeys(hidden),
        }

    def start(self, run: RunDescription) -> WandbRun:
        """Start a run with its files in the run folder."""
        return WandbRun(self, run)


def _has_key() -> bool:
    from requests.utils import get_netrc_auth

    if os.environ.get("WANDB_API_KEY") or os.environ.get("WANDB_IDENTITY_TOKEN_FILE"):
        return True
    host = os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")
    return get_netrc_auth(host) is not None


class WandbRun(LoggerRun):
    """A run of Weights & Biases.

    Lightning's logger would join any existing run of the process; it is given a run of its own.
    """

    def __init__(self, options: Wandb, run: RunDescription) -> None:
        import wandb
        from pytorch_lightning.loggers import WandbLogger

        settings = wandb.Settings(
            silent=True,
            console="off",
            # The record has the git revision; diffs of source code are not uploaded.
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
        place: dict[str, Any] = {}
        if run.kind != "sweep":
            # An agent has chosen them, by its variables.
            place = {"project": options.project, "entity": options.entity, "id": run.run_id}
        self._run = wandb.init(
            **place,
            mode=options.mode,
            dir=run.folder,
            name=run.name,
            group=options.group or run.group,
            job_type=run.kind,
            tags=options.tags,
            config=dict(run.content),
            settings=settings,
        )
        super().__init__(WandbLogger(experiment=self._run))
        self._axis = run.axis
        self._log_model = options.log_model
        self._run.define_metric("*", step_metric=self._axis)
        for key, summary in run.summaries.items():
            self._run.define_metric(key, step_metric=self._axis, summary=summary)

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Log a row of the history."""
        self.logger.log_metrics({self._axis: step, **values})

    def report(
        self, values: Mapping[str, Any], tables: Mapping[str, Table], plot: Path | None = None
    ) -> None:
        """Log tables and the plot as media, and final values in the summary."""
        import wandb

        media: dict[str, Any] = {
            name: wandb.Table(columns=list(columns), data=[list(row) for row in rows])
            for name, (columns, rows) in tables.items()
        }
        if plot is not None:
            media[plot.stem] = wandb.Image(str(plot))
        if media:
            self._run.log(media)
        self._run.summary.update(dict(values))

    def save_model(self, checkpoint: Path) -> None:
        """Log the checkpoint as an artifact, named as by Lightning."""
        if self._log_model:
            self._run.log_artifact(str(checkpoint), name=f"model-{self._run.id}", type="model")

    def finish(self, *, failed: bool) -> None:
        """End the run with exit code 0 or 1."""
        super().finish(failed=failed)
        self._run.finish(exit_code=int(failed))
