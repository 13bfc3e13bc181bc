"""What a tracker is: a section of the configuration that can start runs.

A new tracker is a subclass of `Tracker` in a module of this package and a file of its options in
``conf/logger``. What a tracker needs beyond the standard library is imported when a run starts:
requests are checked without it.
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
"""How long a tracker may take to start a run."""

FINISH_SECONDS = 60
"""How long the last upload may take when a run ends."""

REQUEST_SECONDS = 10
"""How long a tracker's server may take to answer one request."""

RETRIES = 2
"""How often a request is repeated."""


@dataclass(frozen=True)
class RunDescription:
    """What a run is called and belongs to.

    Args:
        run_id: Unique, also among runs of the same repetition.
        name: For people.
        group: The same for all runs of an experiment, or of a study.
        kind: ``repetition``, ``results`` of the whole experiment, or ``trial`` of a study.
        content: Configuration, versions and platform.
        folder: Where the tracker puts its files.
        axis: What the rows of its history count.
    """

    run_id: str
    name: str
    group: str
    kind: str
    content: Mapping[str, Any]
    folder: Path
    axis: str = "epoch"


class TrackedRun(ABC):
    """A run that has been started; errors are the business of whoever calls it."""

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


class Tracker(BaseModel):
    """A tracker and its options; the fields of a subclass are the keys of ``logger``.

    Attributes:
        title: What messages call it.
        package: What must be installed; None for nothing.
        keeps_runs: Whether `start` starts a run.
        keeps_csv: Whether the run folder gets the metrics of each epoch as CSV.
        talkative: Names of loggers that are limited to errors while the tracker works.
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
            RequestError: with what to type.
        """
        if self.package is not None and find_spec(self.package) is None:
            raise RequestError(
                f"logger={self.name} needs the package {self.package}, which is not installed; "
                f"type pip install 'unionsnn[{self.name}]', or logger=csv.",
                code="logger.not_installed",
            )

    def variables(self, folder: Path) -> dict[str, str]:
        """Environment variables that the tracker reads, unless the user has set them.

        Args:
            folder: Where the tracker puts its files.
        """
        return {}

    def in_group(self, group: str) -> Self:
        """Return this tracker with a group for its runs, unless one was given or it knows none."""
        if getattr(self, "group", group) is not None:
            return self
        return self.model_copy(update={"group": group})

    def start(self, run: RunDescription) -> TrackedRun:
        """Start a run."""
        raise NotImplementedError


def trackers() -> dict[str, type[Tracker]]:
    """Return the trackers by name: those of the modules of this package."""
    for module in iter_modules([str(Path(__file__).parent)]):
        import_module(f"{__package__}.{module.name}")
    kinds = {kind.model_fields["name"].default: kind for kind in Tracker.__subclasses__()}
    return dict(sorted(kinds.items()))


def tracker_of(section: object) -> object:
    """Make the tracker that the section ``logger`` names; null keeps an option's default.

    Raises:
        RequestError: if there is no such tracker, or it does not have one of the options.
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
