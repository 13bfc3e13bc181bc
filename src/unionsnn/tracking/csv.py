"""Metrics of each epoch as CSV, which training writes itself."""

from __future__ import annotations

from typing import ClassVar, Literal

from unionsnn.tracking.tracker import Tracker


class Csv(Tracker):
    """Only the run folder's ``logs/NN/metrics.csv``, without tracked runs."""

    keeps_runs: ClassVar[bool] = False

    name: Literal["csv"] = "csv"
