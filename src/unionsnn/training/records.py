"""What is recorded: a repetition, and an experiment as the merge of its repetitions."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from unionsnn.base.errors import DamagedFileError
from unionsnn.base.files import read_json
from unionsnn.base.frames import frame
from unionsnn.config.identity import config_hash
from unionsnn.config.schema import METRICS, TASK_METRICS, Config, MetricKind
from unionsnn.config.sections import sentences
from unionsnn.training.statistics import Summary

Record = TypeVar("Record")
Stored = TypeVar("Stored", "Repetition", "Result")

# Sums in single precision may exceed a bound by this.
_ROUNDING = 1e-5


def _in_range(metrics: dict[str, float]) -> dict[str, float]:
    for key, value in metrics.items():
        kind = METRICS.get(key.rpartition("_")[2], MetricKind("min"))
        if not (math.isfinite(value) and kind.low - _ROUNDING <= value <= kind.high + _ROUNDING):
            raise DamagedFileError(f"{key} is {value}; it lies from {kind.low:g} to {kind.high:g}.")
    return metrics


def _of_each_part(sizes: Mapping[str, int]) -> Mapping[str, int]:
    if list(sizes) != ["train", "validation", "test"]:
        raise DamagedFileError(f"sizes has {', '.join(sizes)}, not train, validation and test.")
    return sizes


def _with_its_selection(grid: dict[str, Any]) -> dict[str, Any]:
    cells = grid.get("cells")
    whole = isinstance(cells, list) and all(
        isinstance(cell, dict) and isinstance(cell.get("cell"), dict) for cell in cells
    )
    on, selected = grid.get("on"), grid.get("selected")
    chosen = [cell for cell in cells or () if cell["cell"] == selected] if whole else []
    if not (isinstance(on, str) and chosen and isinstance(chosen[0].get(on), float)):
        raise DamagedFileError("grid does not hold the cells and the selected one.")
    for cell in cells or ():
        if isinstance(cell.get(on), float):
            _in_range({on: cell[on]})
        if not isinstance(cell.get("failed", ""), str):
            raise DamagedFileError("grid holds a cell whose failure is not text.")
    return grid


def _with_its_sections(config: dict[str, Any]) -> dict[str, Any]:
    texts = {"coefficient": ("substructure", "descriptor")}
    for name in ("data", "model", "gate", "coefficient", "protocol"):
        section = config.get(name)
        if not isinstance(section, dict):
            raise DamagedFileError(f"its configuration has no section {name}.")
        for key in texts.get(name, ()):
            if not isinstance(section.get(key), str):
                raise DamagedFileError(f"{name}.{key} of its configuration is not text.")
    # A missing key is as wrong as a value of another type.
    encoding = config["coefficient"].get("encoding", 0)
    if not (encoding is None or isinstance(encoding, str)):
        raise DamagedFileError("coefficient.encoding of its configuration is not text.")
    radius = config["coefficient"].get("radius", "")
    if not (radius is None or isinstance(radius, list)):
        raise DamagedFileError("coefficient.radius of its configuration is not a list.")
    budget = config["model"].get("parameter_budget")
    if not (budget is None or type(budget) is int):
        raise DamagedFileError("model.parameter_budget of its configuration is not an integer.")
    return config


Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Seed = Annotated[list[Count], Field(min_length=2, max_length=2)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Metrics = Annotated[dict[str, float], AfterValidator(_in_range)]
Sizes = Annotated[Mapping[str, Positive], AfterValidator(_of_each_part)]
Grid = Annotated[dict[str, Any], AfterValidator(_with_its_selection)]


@dataclass(frozen=True)
class Bins:
    """Histogram of a column of coefficients, in bins of equal width.

    Args:
        low: Where the first bin starts.
        high: Where the last bin ends.
        counts: Edges in each bin.
    """

    low: Finite
    high: Finite
    counts: Annotated[list[Count], Field(min_length=1)]


@dataclass(frozen=True, kw_only=True)
class Repetition:
    """Record of one repetition, trained, selected and tested once.

    Args:
        index: Its index.
        seed: Seed of the experiment and the index.
        split_hash: Hash of its split.
        sizes: Items of each part of the split.
        metrics: Metrics of the selected epoch.
        best_epoch: The selected epoch; None if the last one is kept.
        epochs: Epochs trained.
        curves: Metrics of each epoch.
        dataset: Name and hash of the data.
        coefficient: Coefficient that the gates read; None if there is no gate.
        coefficient_histogram: Its distribution in training.
        encodings: Encodings that the network reads.
        layer_coefficient: Coefficient that the network's own layers read.
        parameters: Trainable parameters.
        hidden_channels: Hidden width.
        device: Devices that trained.
        seconds: Wall-clock time.
        versions: Versions of Python and of packages.
        platform: Operating system.
        git_revision: Revision of a source checkout.
        other_evaluations: Test metrics with other seeds, of networks that are random in evaluation.
        grid: Results of the cells of a grid, and the selected one.
        code: SHA-256 of the user's own files, by the class or module; see `code_digests`.
        together: True if it was trained in one step with others; see `train_together`.
        config_hash: Hash of the configuration; of a cell of a grid, of the cell's.
    """

    index: Count
    seed: Seed
    split_hash: str
    sizes: Sizes
    metrics: Metrics
    best_epoch: Count | None
    epochs: Positive
    curves: list[Metrics]
    dataset: str
    # What a version did not write yet is None.
    coefficient: dict[str, Any] | None = None
    coefficient_histogram: dict[str, Bins] | None = None
    encodings: dict[str, Any] | None = None
    layer_coefficient: dict[str, Any] | None = None
    parameters: Count
    hidden_channels: Positive | None = None
    device: str
    seconds: Seconds
    versions: dict[str, str]
    platform: str | None = None
    git_revision: str | None = None
    other_evaluations: list[Metrics] | None = None
    grid: Grid | None = None
    code: dict[str, str] | None = None
    together: bool | None = None
    config_hash: str | None = None

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Repetition:
        """Read and check a record.

        Raises:
            DamagedFileError: The content is not what a repetition records; says why.
        """
        record = _read(cls, content)
        if len(record.curves) != record.epochs or (record.best_epoch or 0) >= record.epochs:
            raise DamagedFileError(
                f"it has {record.epochs} epochs, curves of {len(record.curves)} and the best "
                f"epoch {record.best_epoch}, which cannot all be right."
            )
        if record.seed[1] != record.index:
            raise DamagedFileError(
                f"its seed {record.seed} is not that of repetition {record.index}."
            )
        return record

    def refuse_another(self, config: Config) -> None:
        """Compare it with a configuration; of a record of an earlier version, only the seed.

        Raises:
            DamagedFileError: It is the record of another experiment.
        """
        if self.seed[0] != config.seed:
            raise DamagedFileError(f"it is the record of seed {self.seed[0]}")
        own = config_hash(config)
        if self.config_hash not in (None, own):
            raise DamagedFileError(
                f"it is the record of the configuration {self.config_hash}, not of {own}"
            )

    def to_json(self) -> dict[str, Any]:
        """Return plain types, as written to a file."""
        absent = ("other_evaluations", "grid", "code", "together", "config_hash")
        return _without_absent(asdict(self), *absent)


@dataclass(frozen=True)
class Row:
    """What the merged record keeps of a repetition; the fields of `Repetition`.

    They are listed again because a subclass would write them in another order, and files keep it.

    Args:
        digests: SHA-256 of each of its files, by their paths in the run folder.
    """

    index: Count
    seed: Seed
    split_hash: str
    sizes: Sizes
    metrics: Metrics
    best_epoch: Count | None
    epochs: Positive
    device: str
    seconds: Seconds
    other_evaluations: list[Metrics] | None = None
    grid: Grid | None = None
    code: dict[str, str] | None = None
    together: bool | None = None
    digests: dict[str, str] | None = None

    @classmethod
    def of(cls, repetition: Repetition, digests: dict[str, str]) -> Row:
        """Return the row of a repetition."""
        names = [each.name for each in fields(cls) if each.name != "digests"]
        return cls(**{name: getattr(repetition, name) for name in names}, digests=digests)


@dataclass(frozen=True)
class RecordedProtocol:
    """The protocol of a merged record.

    Args:
        name: Its name.
        repetitions: How many repetitions it has.
        selection: How the epoch is selected, in words.
        select_on: Metric that selects the epoch.
        stop_on: Metric of early stopping.
        report: The reported metric.
        seed: The experiment's seed.
        split_hash: Hash of all splits.
    """

    name: str
    repetitions: Positive
    selection: str
    select_on: str | None
    stop_on: str | None
    report: str
    seed: Count
    split_hash: str | None


@dataclass(frozen=True)
class RecordedFailure:
    """How a repetition failed.

    Args:
        index: The repetition.
        kind: Class of the error.
        reason: Its message.
    """

    index: Count
    kind: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Result:
    """The merged record of an experiment.

    Args:
        format: Version of the record.
        state: ``finished`` or ``incomplete``.
        missing: Repetitions that are not finished.
        failed: Why those that failed did.
        data: Name of the data set.
        task: Its task.
        model: Name of the model.
        gate: Preset of the gate.
        control: Control of the coefficient.
        protocol: The protocol.
        result: The reported metric over repetitions; None without a finished one.
        seconds: Seconds of all repetitions.
        dataset: Name and hash of the data, as all that follows: a list if repetitions differ.
        coefficient: Coefficient that the gates read.
        layer_coefficient: Coefficient that the network's own layers read.
        parameters: Trainable parameters.
        hidden_channels: Hidden width.
        versions: Versions of Python and of packages.
        git_revision: Revision of a source checkout.
        repetitions: What is kept of each finished repetition.
        config: The configuration.
        config_hash: Its hash.
        study: The study that chose the configuration, if one did.
        digest: SHA-256 of all of this, as `sealed` writes it; None in records of earlier versions.
        folder: The run folder, if `unionsnn.train` returned the record; not written.
    """

    format: Literal[1]
    state: Literal["finished", "incomplete"]
    missing: list[Count]
    failed: list[RecordedFailure] = field(default_factory=list)
    data: str
    task: Literal[tuple(TASK_METRICS)]  # type: ignore[valid-type]
    model: str
    gate: str | None
    control: str
    protocol: RecordedProtocol
    result: Summary | None
    seconds: Seconds
    dataset: str | list[str] | None
    coefficient: dict[str, Any] | list[dict[str, Any] | None] | None
    layer_coefficient: dict[str, Any] | list[dict[str, Any] | None] | None
    parameters: Count | list[Count | None] | None
    hidden_channels: Positive | list[Positive | None] | None
    versions: dict[str, str] | list[dict[str, str]] | None
    git_revision: str | list[str | None] | None
    repetitions: list[Row]
    config: Annotated[dict[str, Any], AfterValidator(_with_its_sections)]
    config_hash: str
    study: dict[str, Any] | None = None
    digest: str | None = field(default=None, compare=False)
    folder: Path | None = field(default=None, compare=False)

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with a row for each finished repetition.

        Its columns: the repetition, its seed, metrics, epochs, seconds and sizes of the parts.
        """
        return frame(
            [
                {
                    "data": self.data,
                    "model": self.model,
                    "gate": self.gate,
                    "repetition": row.index,
                    "seed": row.seed[0],
                    **row.metrics,
                    "best_epoch": row.best_epoch,
                    "epochs": row.epochs,
                    "seconds": row.seconds,
                    **{f"{part}_size": size for part, size in row.sizes.items()},
                }
                for row in self.repetitions
            ]
        )

    @property
    def summary(self) -> Summary:
        """The reported metric, of a record with a finished repetition."""
        assert self.result is not None
        return self.result

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Result:
        """Read and check a record.

        Raises:
            DamagedFileError: The content is not what an experiment records; says why.
        """
        record = _read(cls, content)
        if "digest" in content and content != sealed(content):
            raise DamagedFileError("it is not what was written: its digest is of other content")
        done = [row.index for row in record.repetitions]
        count = record.protocol.repetitions
        whole = sorted([*done, *record.missing]) == list(range(count))
        if not whole or (record.state == "finished") != (not record.missing):
            raise DamagedFileError(
                f"it is {record.state} with the repetitions {done} of {count}; missing are "
                f"{record.missing}."
            )
        if (record.result is None) != (not done):
            raise DamagedFileError("its result does not fit its repetitions.")
        if record.result is not None:
            _check_summary(record.result, record)
        for row in record.repetitions:
            if row.seed != [record.protocol.seed, row.index] or (row.best_epoch or 0) >= row.epochs:
                raise DamagedFileError(f"the seed or epoch of repetition {row.index} is wrong.")
        return record

    def to_json(self) -> dict[str, Any]:
        """Return plain types with their digest, as written to a file."""
        content = asdict(self) | {"result": self.result and self.result.to_dict()}
        del content["folder"]
        content["repetitions"] = [
            _without_absent(row, "other_evaluations", "grid", "code", "together", "digests")
            for row in content["repetitions"]
        ]
        return sealed(_without_absent(content, "study"))


def read_record(kind: type[Stored], path: Path) -> Stored:
    """Read and check the file of a repetition, or the merged one of an experiment.

    Raises:
        OSError: It cannot be read.
        DamagedFileError: It is not what is recorded; says why.
    """
    content = read_json(path)
    if not isinstance(content, dict):
        raise DamagedFileError("it holds no JSON mapping")
    return kind.from_json(content)


def sealed(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return a merged record with the digest of all that it holds."""
    held = {k: v for k, v in content.items() if k != "digest"}
    text = json.dumps(held, sort_keys=True, separators=(",", ":"))
    return {**held, "digest": hashlib.sha256(text.encode()).hexdigest()}


def _check_summary(summary: Summary, record: Result) -> None:
    """Compare a summary with its values, and these with the repetitions.

    Raises:
        DamagedFileError: They do not agree.
    """
    report, values = record.protocol.report, summary.values
    for value in values:
        _in_range({report: value})
    bounds = summary.interval or ()
    agree = all(map(math.isfinite, (summary.mean, summary.std or 0.0, *bounds)))
    agree = agree and len(values) == len(record.repetitions)
    agree = agree and _close(summary.mean, float(np.mean(values)))
    if agree and len(values) > 1:
        agree = (
            summary.std is not None
            and summary.interval is not None
            and _close(summary.std, float(np.std(values, ddof=1)))
            and _close(sum(summary.interval) / 2, summary.mean)
            and summary.interval[0] <= summary.interval[1]
        )
    if agree and summary.epoch is None:
        found = [row.metrics.get(report, math.nan) for row in record.repetitions]
        agree = all(map(_close, values, found))
    if not agree:
        raise DamagedFileError(f"its result does not follow from its {report} values.")


def _close(one: float, two: float) -> bool:
    return math.isclose(one, two, rel_tol=1e-6, abs_tol=1e-9)


@cache
def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _read(kind: type[Record], content: Mapping[str, Any]) -> Record:
    try:
        # As JSON, in which a tuple is a list, while no type becomes another.
        adapter: TypeAdapter[Record] = _adapter(kind)  # type: ignore[arg-type]
        record = adapter.validate_json(json.dumps(content), strict=True)
    except ValidationError as error:
        raise DamagedFileError(*sentences(error.errors()[0])[:1]) from None
    return record


def _without_absent(content: dict[str, Any], *names: str) -> dict[str, Any]:
    return {k: v for k, v in content.items() if k not in names or v is not None}
