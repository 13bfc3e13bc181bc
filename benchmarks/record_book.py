"""The records in `benchmarks/records`, by the commands of `runs.py` that ask for them.

Which record belongs to a command follows from its configurations: each is composed, and its hash is
that of its record. The hashes are kept in `records/commands.json`.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from leaderboard import described, devices
from runs import COMMANDS, RECORDS
from unionsnn.base.errors import RequestError
from unionsnn.config.compose import compose_config
from unionsnn.config.identity import config_hash
from unionsnn.config.schema import metric_mode
from unionsnn.reports.collection import StoredRecord, collect
from unionsnn.reports.formatting import difference_text, is_percent
from unionsnn.reports.reproduction import plan_table
from unionsnn.runs.comparison import Candidate, Difference, compare_records, refuse_incomparable
from unionsnn.training.records import Result

INDEX = RECORDS / "commands.json"
NOT_RUN = "not run"


@dataclass(frozen=True)
class Asked:
    """A configuration that a command trains.

    Args:
        words: What the command says of it.
        text: The configuration in a reader's words.
        data: Its data set.
        hash: Hash of the configuration.
        row: The row of the paper's table that it reproduces, and the paper's name of the data set.
        differs: Where it departs from the setting of that table.
    """

    words: str
    text: str
    data: str
    hash: str
    row: tuple[str, str] | None = None
    differs: tuple[str, ...] = ()


def index_of(known: Mapping[str, Any]) -> dict[str, Any]:
    """Return each command and what it trains, composing those that are not known so.

    Args:
        known: What an earlier call returned.
    """
    found = {}
    for name, command in COMMANDS.items():
        if known.get(name, {}).get("command") == command:
            found[name] = known[name]
        else:
            found[name] = {"command": command, "trains": [asdict(e) for e in _composed(command)]}
    return found


def _composed(command: str) -> Iterator[Asked]:
    kind, *given = shlex.split(command)
    place = given.index("--") if "--" in given else len(given)
    own, common = given[:place], given[place + 1 :]
    if kind == "reproduce":
        datasets, models = (
            own[own.index(option) + 1].split(",") if option in own else ()
            for option in ("--datasets", "--models")
        )
        grid = "--grid" in own
        for cell in plan_table(own[0], datasets=datasets, models=models, common=common, grid=grid):
            if (config := cell.config) is not None:
                row = (cell.paper.model, cell.paper.dataset)
                text = described(config.to_dict())
                yield Asked(cell.label, text, config.data.name, cell.key, row, cell.differs)
        return
    for each in own if kind == "compare" else [shlex.join(own)]:
        config = compose_config([*common, *shlex.split(each)])
        yield Asked(each, described(config.to_dict()), config.data.name, config_hash(config))


def read_index() -> dict[str, list[Asked]]:
    """Return what each command trains, as last composed."""
    found = {}
    for name, content in json.loads(INDEX.read_text()).items():
        found[name] = []
        for each in content["trains"]:
            row, differs = each["row"], tuple(each["differs"])
            kept = {**each, "row": None if row is None else tuple(row), "differs": differs}
            found[name].append(Asked(**kept))
    return found


@dataclass(frozen=True)
class Kept:
    """The part of a gain that a control keeps.

    Args:
        share: Gain of the control over that of the real values, of the means.
        by_repetition: The same of each repetition in which the real values gain.
        shown: What the control is shown to be against the network without coefficients: better,
            worse or nothing.
    """

    share: float
    by_repetition: tuple[float, ...]
    shown: str

    def __str__(self) -> str:
        if self.shown == "better":
            return f"{100 * self.share:.0f} %"
        return "none, worse" if self.shown else "none shown"


@dataclass(frozen=True)
class RecordBook:
    """Records, and the commands that ask for them.

    Args:
        records: The records.
        commands: What each command trains.
        folder: Where the records of BREC are.
    """

    records: Sequence[StoredRecord]
    commands: Mapping[str, Sequence[Asked]]
    folder: Path
    of: dict[str, StoredRecord] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        kept = {e.record.config_hash: e for e in self.records if not e.record.missing}
        object.__setattr__(self, "of", kept)

    @classmethod
    def read(cls) -> RecordBook:
        """Read the kept records and the commands as last composed.

        Raises:
            RequestError: A record is damaged, or two are of one configuration; names the files.
        """
        records, faults = collect([RECORDS])
        if faults := [*faults, *contradictions(records)]:
            raise RequestError(*faults)
        return cls(records, read_index(), RECORDS)

    def asked(self, name: str, words: str) -> Asked:
        """Return what a command trains by its own words.

        Raises:
            RequestError: The command does not train it.
        """
        for each in self.commands[name]:
            if each.words == words:
                return each
        raise RequestError(
            f"{name!r} in benchmarks/runs.py does not train {words!r}, which a table shows; "
            "change the one or the other."
        )

    def record(self, each: Asked) -> Result | None:
        """Return the finished record of a configuration."""
        stored = self.of.get(each.hash)
        return stored.record if stored else None

    def finished(self, *names: str) -> list[Result]:
        """Return the finished records of commands."""
        entries = [each for name in names for each in self.commands[name]]
        return [record for each in entries if (record := self.record(each)) is not None]

    def report(self, each: Asked) -> str:
        """Return the metric of a configuration.

        Raises:
            KeyError: It is not finished.
        """
        return self.of[each.hash].record.protocol.report

    def difference(self, first: Asked, other: Asked) -> Difference | None:
        """Return `other` minus `first`, paired over repetitions; None if one is not finished.

        Raises:
            RequestError: Their repetitions are not of the same splits and seeds.
        """
        if not {first.hash, other.hash} <= {*self.of} or first.hash == other.hash:
            return None
        stored = (self.of[each.hash] for each in (first, other))
        both = [Candidate(str(e.folder), e.folder, record=e.record) for e in stored]
        refuse_incomparable(both)
        return compare_records(both).differences[0]

    def kept(self, plain: Asked, real: Asked, control: Asked) -> Kept | None:
        """Return which part of the gain of `real` over `plain` a control keeps; None of no gain.

        Raises:
            RequestError: Their repetitions are not of the same splits and seeds.
        """
        gain, left = (self.difference(plain, each) for each in (real, control))
        if gain is None or left is None or verdict(self.report(real), gain) != "better":
            return None
        pairs = zip(left.paired.values, gain.paired.values, strict=True)
        mean = gain.paired.mean
        shares = tuple(own / whole for own, whole in pairs if whole * mean > 0)
        return Kept(left.paired.mean / mean, shares, verdict(self.report(control), left))


def contradictions(records: Sequence[StoredRecord]) -> list[str]:
    """Say of which records the hash is not that of the configuration, and which share one."""
    faults = []
    first: dict[str, Path] = {}
    for each in records:
        given, own = each.record.config_hash, config_hash(each.record.config)
        if given != own:
            faults.append(f"{each.folder}: config_hash is {given}, of its configuration {own}")
        elif first.setdefault(own, each.folder) != each.folder:
            faults.append(f"{first[own]} and {each.folder} are of one configuration; delete one")
    return faults


def verdict(report: str, difference: Difference) -> str:
    """Return better or worse where 0 is outside the interval, else nothing."""
    low, high = difference.paired.interval or (0.0, 0.0)
    if low <= 0 <= high:
        return ""
    return "better" if (high < 0) == (metric_mode(report) == "min") else "worse"


def difference_cell(report: str, difference: Difference) -> str:
    """Format a paired difference with its interval; of an error its share, too."""
    paired = difference.paired
    text = difference_text(report, paired.mean)
    if paired.interval is not None:
        scale, digits = (100, 2) if is_percent(report) else (1, 4)
        low, high = (f"{scale * bound:+.{digits}f}" for bound in paired.interval)
        text += f" ({low} to {high})"
    if metric_mode(report) == "min" and difference.relative is not None:
        text += f", {100 * difference.relative:+.1f} %"
    return text.replace("-", "−")


def marked_cell(report: str, difference: Difference) -> str:
    """Format a paired difference, and say where it is shown to be a loss."""
    mark = ", worse" if verdict(report, difference) == "worse" else ""
    return f"{difference_cell(report, difference)}{mark}"


def repetitions_text(record: Result) -> str:
    """Say how many folds or seeds a record has."""
    count = len(record.repetitions)
    what = "folds" if record.config["protocol"]["folds"] else "seeds"
    return "1 run" if count == 1 else f"{count} {what}"


def protocol_text(record: Result) -> str:
    """Say metric, protocol, split and seed."""
    protocol = record.protocol
    return (
        f"{protocol.report}; {protocol.name}, {protocol.selection}; split "
        f"{str(protocol.split_hash)[:12]} of {record.dataset}; {repetitions_text(record)}, seed "
        f"{protocol.seed}"
    )


def hours_text(records: Sequence[Result]) -> str:
    """Say how long trainings took, and on what."""
    return f"{sum(r.seconds for r in records) / 3600:.2f} hours by the clock on {devices(records)}"


def parameters_text(records: Iterable[Result]) -> str:
    """Say how many parameters networks have, from the fewest to the most."""
    counts = sorted({r.parameters for r in records if isinstance(r.parameters, int)})
    ends = counts if len(counts) < 2 else [counts[0], counts[-1]]
    return " to ".join(f"{count:,}" for count in ends) or "differing"


def commands_text(*names: str) -> str:
    """Return commands as they are typed."""
    lines = "\n".join(f"unionsnn {COMMANDS[name].removesuffix(' --')}" for name in names)
    return f"```sh\n{lines}\n```\n"
