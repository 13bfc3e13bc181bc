"""Metrics of each epoch as CSV, which the training itself writes."""

from __future__ import annotations

from typing import ClassVar, Literal

from unionsnn.tracking.tracker import Tracker


class Csv(Tracker):
    """The run folder's ``logs/NN/metrics.csv`` and no runs anywhere else."""

    keeps_runs: ClassVar[bool] = False

    name: Literal["csv"] = "csv"
