"""Base class of trackers: a section of the configuration that can start runs.

A new tracker is a subclass of `Tracker` in a module of this package and a file of its options in
``conf/logger``. Lightning and third-party packages are imported when a run starts, so that requests
are checked without them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, SerializeAsAny, model_serializer

from unionsnn.base.errors import Fault, RequestError

if TYPE_CHECKING:
    from pytorch_lightning.loggers import Logger

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
        kind: ``repetition``, ``results`` of the whole experiment, ``trial`` of a study, or
            ``sweep`` for what an agent of W&B has asked for.
        content: Configuration, versions and platform.
        folder: Folder for the tracker's files.
        axis: Unit of the steps of its history.
        summaries: How to summarize a metric's history in one number: ``min``, ``max`` or ``mean``.
    """

    run_id: str
    name: str
    group: str
    kind: str
    content: Mapping[str, Any]
    folder: Path
    axis: str = "epoch"
    summaries: Mapping[str, str] = field(default_factory=dict)

    def flat(self) -> dict[str, Any]:
        """Return the content by dotted keys."""
        return dict(_flat(self.content))


def _flat(content: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in content.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


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

    def save_model(self, checkpoint: Path) -> None:
        """Keep the selected weights, if the tracker has the option ``log_model`` and it is set."""
        return


class LoggerRun(TrackedRun):
    """A run of one of Lightning's loggers.

    Args:
        logger: The logger.
    """

    def __init__(self, logger: Logger) -> None:
        self.logger = logger

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Log a row of the history."""
        self.logger.log_metrics(dict(values), step)

    def report(
        self, values: Mapping[str, Any], tables: Mapping[str, Table], plot: Path | None = None
    ) -> None:
        """Log final values that are numbers."""
        self.logger.log_metrics(
            {key: value for key, value in values.items() if isinstance(value, int | float)}
        )

    def finish(self, *, failed: bool) -> None:
        """End the run with its status."""
        self.logger.finalize("failed" if failed else "success")


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

    @property
    def parts(self) -> tuple[Tracker, ...]:
        """The trackers of which this one consists."""
        return (self,)

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

    def variables(self, run: RunDescription) -> dict[str, str | None]:
        """Return environment variables for the tracker, used unless the user has set them.

        Args:
            run: The run that they are for.

        Returns:
            Their values; None for a variable of the user's that the tracker must not see.
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


class SeveralTrackers(Tracker):
    """Several trackers at once, each with those of the options that are its own."""

    name: str = "several"
    each: tuple[SerializeAsAny[Tracker], ...]

    @property
    def parts(self) -> tuple[Tracker, ...]:
        """The trackers."""
        return self.each

    def check(self) -> None:
        """Refuse what one of them refuses."""
        for tracker in self.each:
            tracker.check()

    def in_group(self, group: str) -> Self:
        """Return these trackers with a group for their runs."""
        return self.model_copy(update={"each": tuple(t.in_group(group) for t in self.each)})

    @model_serializer
    def _as_given(self) -> dict[str, Any]:
        merged: dict[str, Any] = {"name": [tracker.name for tracker in self.each]}
        for tracker in self.each:
            merged |= {k: v for k, v in tracker.model_dump().items() if k != "name"}
        return merged


def trackers() -> dict[str, type[Tracker]]:
    """Return the trackers of this package's modules by name."""
    for module in iter_modules([str(Path(__file__).parent)]):
        import_module(f"{__package__}.{module.name}")
    kinds = {
        kind.model_fields["name"].default: kind
        for kind in Tracker.__subclasses__()
        if kind is not SeveralTrackers
    }
    return dict(sorted(kinds.items()))


def tracker_of(section: object) -> object:
    """Make the tracker of the section ``logger``; null keeps an option's default.

    A list of names makes several trackers, each of which takes the options that it has.

    Raises:
        RequestError: if there is no such tracker, if none of those named has one of the options, or
            if they do not go together.
    """
    if not isinstance(section, Mapping) or "name" not in section:
        return section
    kinds = trackers()
    names = section["name"] if isinstance(section["name"], list | tuple) else [section["name"]]
    if unknown := [name for name in names if name not in kinds]:
        raise RequestError(
            f"logger.name is {unknown[0]!r}; allowed are {', '.join(kinds)}.",
            code="logger.unknown",
        )
    if not names or len(set(names)) < len(names) or ("none" in names and len(names) > 1):
        raise RequestError(
            f"logger=[{','.join(names)}]: name each tracker once, and none by itself, as in "
            "logger=[csv,wandb] or logger=none.",
            code="logger.several",
        )
    given = {key: value for key, value in section.items() if value is not None and key != "name"}
    faults = []
    for key in sorted(given):
        owners = [f"logger={name}" for name, kind in kinds.items() if key in kind.model_fields]
        if owners and not any(key in kinds[name].model_fields for name in names):
            asked = names[0] if len(names) == 1 else f"[{','.join(names)}]"
            faults.append(
                Fault(
                    f"logger.{key} has no effect on logger={asked}; type {' or '.join(owners)}, or "
                    "leave it out.",
                    "config.no_effect",
                )
            )
    if faults:
        raise RequestError(*faults)
    # What no tracker knows is refused by each of them.
    known = {key for kind in kinds.values() for key in kind.model_fields}
    made = [
        kinds[name].model_validate(
            {"name": name}
            | {k: v for k, v in given.items() if k in kinds[name].model_fields or k not in known}
        )
        for name in names
    ]
    return made[0] if len(made) == 1 else SeveralTrackers(each=tuple(made))
