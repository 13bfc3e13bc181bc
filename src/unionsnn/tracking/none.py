"""No tracker."""

from __future__ import annotations

from typing import ClassVar, Literal

from unionsnn.tracking.tracker import Tracker


class NoTracker(Tracker):
    """Only the records, not even a CSV file."""

    keeps_runs: ClassVar[bool] = False
    keeps_csv: ClassVar[bool] = False

    name: Literal["none"] = "none"
