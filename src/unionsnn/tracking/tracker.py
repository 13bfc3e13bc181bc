"""Base class of trackers: a section of the configuration that can start runs.

A new tracker is a subclass of `Tracker` in a module of this package and a file of its options in
``conf/logger``. Third-party packages of a tracker are imported when a run starts, so that requests
are checked without them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict

from unionsnn.base.errors import RequestError

Table = tuple[Sequence[str], Sequence[Sequence[Any]]]
"""Names of the columns, and the rows."""

START_SECONDS = 60
"""Seconds that a tracker may take to start a run."""

FINISH_SECONDS = 60
"""Seconds that the last upload of a run may take."""

REQUEST_SECONDS = 10
"""Seconds that a tracker's server may take to answer a request."""

RETRIES = 2
"""Number of retries of a request."""


@dataclass(frozen=True)
class RunDescription:
    """Description of a run for a tracker.

    Args:
        run_id: Unique id, even among runs of the same repetition.
        name: Name for display.
        group: Group shared by all runs of an experiment or study.
        kind: ``repetition``, ``results`` of the whole experiment, or ``trial`` of a study.
        content: Configuration, versions and platform.
        folder: Folder for the tracker's files.
        axis: Unit of the steps of its history.
    """

    run_id: str
    name: str
    group: str
    kind: str
    content: Mapping[str, Any]
    folder: Path
    axis: str = "epoch"


class TrackedRun(ABC):
    """A started run; callers handle its errors."""

    @abstractmethod
    def log(self, values: Mapping[str, float], step: int) -> None:
        """Log a row of the history: an epoch's metrics."""

    @abstractmethod
    def report(
        self, values: Mapping[str, Any], tables: Mapping[str, Table], plot: Path | None = None
    ) -> None:
        """Log final values, tables and a plot as a PNG file."""

    @abstractmethod
    def finish(self, *, failed: bool) -> None:
        """End the run with its status."""


class Tracker(BaseModel):
    """A tracker and its options; the fields of a subclass are the keys of ``logger``.

    Attributes:
        title: Name in messages.
        package: Required package; None for none.
        keeps_runs: Whether `start` starts a run.
        keeps_csv: Whether the metrics of each epoch are written to the run folder as CSV.
        talkative: Names of loggers to limit to errors while the tracker works.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    title: ClassVar[str] = ""
    package: ClassVar[str | None] = None
    keeps_runs: ClassVar[bool] = True
    keeps_csv: ClassVar[bool] = True
    talkative: ClassVar[tuple[str, ...]] = ()

    name: str

    def check(self) -> None:
        """Refuse a tracker that cannot start, before any work.

        Raises:
            RequestError: it cannot start; says what to type.
        """
        if self.package is not None and find_spec(self.package) is None:
            raise RequestError(
                f"logger={self.name} needs the package {self.package}, which is not installed; "
                f"type pip install 'unionsnn[{self.name}]', or logger=csv.",
                code="logger.not_installed",
            )

    def variables(self, folder: Path) -> dict[str, str]:
        """Return environment variables for the tracker, used unless the user has set them.

        Args:
            folder: Folder for the tracker's files.
        """
        return {}

    def in_group(self, group: str) -> Self:
        """Return this tracker with a group for its runs, unless it has one or has no groups."""
        if getattr(self, "group", group) is not None:
            return self
        return self.model_copy(update={"group": group})

    def start(self, run: RunDescription) -> TrackedRun:
        """Start a run."""
        raise NotImplementedError


def trackers() -> dict[str, type[Tracker]]:
    """Return the trackers of this package's modules by name."""
    for module in iter_modules([str(Path(__file__).parent)]):
        import_module(f"{__package__}.{module.name}")
    kinds = {kind.model_fields["name"].default: kind for kind in Tracker.__subclasses__()}
    return dict(sorted(kinds.items()))


def tracker_of(section: object) -> object:
    """Make the tracker of the section ``logger``; null keeps an option's default.

    Raises:
        RequestError: if there is no such tracker, or it lacks one of the options.
    """
    if not isinstance(section, Mapping) or "name" not in section:
        return section
    kinds = trackers()
    name = section["name"]
    if name not in kinds:
        raise RequestError(
            f"logger.name is {name!r}; allowed are {', '.join(kinds)}.",
            code="logger.unknown",
        )
    given = {key: value for key, value in section.items() if value is not None}
    faults = []
    for key in given.keys() - kinds[name].model_fields.keys():
        owners = [f"logger={other}" for other, kind in kinds.items() if key in kind.model_fields]
        if owners:
            faults.append(
                f"logger.{key} has no effect on logger={name}; type {' or '.join(owners)}, or "
                "leave it out."
            )
    if faults:
        raise RequestError(*sorted(faults), code="config.no_effect")
    return kinds[name].model_validate(given)
