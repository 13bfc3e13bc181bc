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
    RunDescription,
    Table,
    TrackedRun,
    Tracker,
)


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

    def check(self) -> None:
        """Refuse to go online without a key, for which W&B would prompt during training."""
        super().check()
        if self.mode == "online" and not _has_key():
            raise RequestError(
                "logger.mode is 'online', but W&B has no key; type wandb login, set "
                "WANDB_API_KEY, or leave logger.mode out: `wandb sync` uploads the runs later.",
                code="logger.no_key",
            )

    def variables(self, folder: Path) -> dict[str, str]:
        """Return folders for data and caches, which otherwise end up in the user's home folder."""
        return {
            "WANDB_DATA_DIR": str(folder / "wandb" / "data"),
            "WANDB_CACHE_DIR": str(folder / "wandb" / "cache"),
        }

    def start(self, run: RunDescription) -> TrackedRun:
        """Start a run with its files in the run folder."""
        return WandbRun(self, run)


def _has_key() -> bool:
    from requests.utils import get_netrc_auth

    if os.environ.get("WANDB_API_KEY") or os.environ.get("WANDB_IDENTITY_TOKEN_FILE"):
        return True
    host = os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")
    return get_netrc_auth(host) is not None


class WandbRun(TrackedRun):
    """A run of Weights & Biases.

    Lightning's logger joins any existing run of the process and sets environment variables; this
    one has its own run.
    """

    def __init__(self, options: Wandb, run: RunDescription) -> None:
        import wandb

        settings = wandb.Settings(
            silent=True,
            console="off",
            x_disable_stats=True,
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
        self._run = wandb.init(
            project=options.project,
            entity=options.entity,
            mode=options.mode,
            dir=run.folder,
            id=run.run_id,
            name=run.name,
            group=options.group or run.group,
            job_type=run.kind,
            tags=options.tags,
            config=dict(run.content),
            settings=settings,
        )
        self._axis = run.axis
        self._run.define_metric("*", step_metric=self._axis)

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Log a row of the history."""
        self._run.log({self._axis: step, **values}, step=step)

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
        self._run.log(media)
        self._run.summary.update(dict(values))

    def finish(self, *, failed: bool) -> None:
        """End the run with exit code 0 or 1."""
        self._run.finish(exit_code=int(failed))
