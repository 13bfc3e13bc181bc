"""The tables of the pages, made from the records in `benchmarks/records`.

    python benchmarks/pages.py [--runs DIR] [--compose]      # make results ARGS="--runs DIR"

Rewrites what stands between `<!-- records: NAME -->` and `<!-- end of records -->` in `PAGES`; the
text around it is written by hand. Which record belongs to a row follows from the commands of
`runs.py`: each is composed, and the hash of a configuration is that of its record. The hashes are
kept in `records/commands.json` and made anew for commands that have changed, with `--compose` for
all. A configuration without a finished record is shown as not run; a damaged record, or two of one
configuration, end the command before a page is written. With `--runs`, finished records
of a folder of runs are copied first.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from leaderboard import CONTROL_WORDS, described, devices, pairs_table, read_pairs, revisions, told
from runs import (
    COMMANDS,
    CONTROLLED,
    CONTROLS,
    GOALS,
    HELPS,
    PAIRED,
    RECORDS,
    WANTED,
    helps_words,
    keep_records,
)
from unionsnn.base.errors import RequestError, UnionsnnError
from unionsnn.base.files import write_json
from unionsnn.config.compose import compose_config
from unionsnn.config.grid import flatten
from unionsnn.config.identity import config_hash
from unionsnn.config.schema import metric_mode
from unionsnn.reports.claims import claims_report, from_records
from unionsnn.reports.collection import StoredRecord, collect
from unionsnn.reports.formatting import difference_text, interval_text, is_percent, spread_text
from unionsnn.reports.paper import paper_table
from unionsnn.reports.reproduction import Cell, Outcome, plan_table
from unionsnn.reports.table import Mark, Table, markdown, numbers, words
from unionsnn.reports.views.reproduction import reproduction_report
from unionsnn.runs.comparison import Candidate, Difference, compare_records, refuse_incomparable
from unionsnn.training.records import Result

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "docs/results.md", "docs/what_helps.md")
INDEX = RECORDS / "commands.json"
NOT_RUN = "not run"

_MARKED = re.compile(
    r"(?P<begin><!-- records: (?P<name>.+?) -->\n).*?(?P<end><!-- end of records -->)", re.DOTALL
)


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


def asked(known: Mapping[str, Any]) -> dict[str, Any]:
    """Return each command and what it trains, composing those that are not known so.

    Args:
        known: What an earlier call returned.
    """
    found = {}
    for name, command in COMMANDS.items():
        if known.get(name, {}).get("command") == command:
            found[name] = known[name]
        else:
            found[name] = {"command": command, "trains": [asdict(e) for e in _asked(command)]}
    return found


def _asked(command: str) -> Iterator[Asked]:
    kind, *given = shlex.split(command)
    own, common = _parted(given)
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


def _parted(given: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Return what stands before and after the dashes."""
    place = given.index("--") if "--" in given else len(given)
    return given[:place], given[place + 1 :]


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
class Book:
    """The records, and the commands that ask for them; its methods make the tables.

    Args:
        records: The records.
        commands: What each command trains.
        folder: Where the records of BREC are.
    """

    records: Sequence[StoredRecord]
    commands: Mapping[str, Sequence[Asked]]
    folder: Path = RECORDS
    of: dict[str, StoredRecord] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        kept = {e.record.config_hash: e for e in self.records if not e.record.missing}
        object.__setattr__(self, "of", kept)

    @classmethod
    def read(cls) -> Book:
        """Read the kept records and the commands as last composed.

        Raises:
            RequestError: A record is damaged, or two are of one configuration; names the files.
        """
        records, faults = collect([RECORDS])
        if faults := [*faults, *contradictions(records)]:
            raise RequestError(*faults)
        return cls(records, read_index())

    def record(self, each: Asked) -> Result | None:
        """Return the finished record of a configuration."""
        stored = self.of.get(each.hash)
        return stored.record if stored else None

    def difference(self, first: Asked, other: Asked) -> Difference | None:
        """Return a configuration minus another, paired over their repetitions."""
        if first.hash not in self.of or other.hash not in self.of or first is other:
            return None
        stored = (self.of[each.hash] for each in (first, other))
        both = [Candidate(str(e.folder), e.folder, record=e.record) for e in stored]
        refuse_incomparable(both)
        return compare_records(both).differences[0]

    def kept(self, plain: Asked, real: Asked, control: Asked) -> str | None:
        """Say which part of the gain of `real` over `plain` a control keeps; None of no gain."""
        gain, left = (self.difference(plain, each) for each in (real, control))
        if gain is None or left is None or _shown(self._report(real), gain) != "better":
            return None
        if _shown(self._report(control), left) == "worse":
            return "none, worse"
        share = left.paired.mean / gain.paired.mean
        return f"{100 * share:.0f} %" if share > 0 else "none"

    def _report(self, each: Asked) -> str:
        return self.of[each.hash].record.protocol.report

    def _waiting(self, *names: str) -> bool:
        """Whether nothing of commands is run."""
        return not any(self.record(each) for name in names for each in self.commands[name])

    # Tables of results.

    def compared(self, *names: str, paired: bool = True) -> str:
        """Return the configurations of commands, each with its difference to the command's first.

        Args:
            names: Names of `COMMANDS`.
            paired: Whether to show differences.
        """
        rows: list[list[Any]] = []
        marks: dict[tuple[int, int], Mark] = {}
        shows: set[str] = set()
        if self._waiting(*names):
            return f"Not run:\n\n{_commands(*names)}"
        for name in names:
            entries = self.commands[name]
            for each in entries:
                row, shown = self._row(entries[0], each, paired=paired)
                shows.add(shown)
                if shown == "better":
                    marks[len(rows), 2 if len(names) == 1 else 3] = "best"
                rows.append(row if len(names) == 1 else [name, *row])
        first = [] if len(names) == 1 else words("comparison")
        baselines = {self.commands[name][0].text for name in names}
        against = baselines.pop() if len(baselines) == 1 else "the first"
        columns = [
            *first,
            *words("configuration"),
            *numbers("parameters", "mean ± std", "95 % interval", form=str),
            *(numbers(f"against {against}, paired", form=str) if paired else ()),
            *numbers("n", form=str),
            *numbers("hours", form="{:.2f}".format),
            *words("revision"),
        ]
        notes = [*self._notes(each for name in names for each in self.commands[name])]
        for name in names:
            notes += self._controls(self.commands[name])
        if marks:
            notes.append("bold: better than the first of its comparison, 0 outside the interval")
        if "worse" in shows:
            notes.append("worse: than the first of its comparison, 0 outside the interval")
        return f"{markdown(Table('', columns, rows, notes, marks))}\n{_commands(*names)}"

    def _row(self, first: Asked, each: Asked, *, paired: bool) -> tuple[list[Any], str]:
        record = self.record(each)
        if record is None:
            return [each.text, None, NOT_RUN, *[None] * (5 if paired else 4)], ""
        report, result = record.protocol.report, record.summary
        difference = self.difference(first, each) if paired else None
        row = [
            each.text,
            _parameters([record]),
            spread_text(report, result.mean, result.std),
            interval_text(report, result.interval),
            *([difference and difference_cell(report, difference)] if paired else ()),
            len(record.repetitions),
            record.seconds / 3600,
            revisions([record]),
        ]
        return row, "" if difference is None else _shown(report, difference)

    def _notes(self, entries: Iterable[Asked]) -> Iterator[str]:
        """Say once what results share: metric, protocol, split, seed."""
        found: dict[str, list[str]] = {}
        done = [r for each in entries if (r := self.record(each)) is not None]
        for record in done:
            found.setdefault(_protocol(record), []).append(record.data)
        for text, data in found.items():
            yield f"{', '.join(dict.fromkeys(data))}: {text}"
        if found:
            yield f"n: number of repetitions; hours: of training by the clock, on {devices(done)}"

    def _controls(self, entries: Sequence[Asked]) -> Iterator[str]:
        """Say what controls keep of a gain, and by how much the real values are ahead of them."""
        by_words = {each.words: each for each in entries}
        for each in entries:
            words_, _, control = each.words.partition(" coefficient.control=")
            if not control:
                continue
            real = by_words[words_]
            kept, ahead = self.kept(entries[0], real, each), self.difference(each, real)
            if kept is not None and ahead is not None:
                if kept.endswith("%"):
                    gain, left = (self.difference(entries[0], e) for e in (real, each))
                    assert gain is not None
                    assert left is not None
                    pairs = zip(left.paired.values, gain.paired.values, strict=True)
                    shares = [100 * own / whole if whole else 0.0 for own, whole in pairs]
                    kept += f", by repetition {min(shares):.0f} to {max(shares):.0f} %"
                yield (
                    f"{real.text}, {CONTROL_WORDS[control]}: gain kept: {kept}; real against "
                    f"shuffled {difference_cell(self._report(each), ahead)}"
                )

    def goals(self) -> str:
        """Return whether the errors wanted on ZINC are reached."""
        rows = []
        for name, (wanted, goal) in GOALS.items():
            each = next(e for e in self.commands[name] if e.words == WANTED)
            record = self.record(each)
            row: list[Any] = [name, each.text, wanted, goal]
            if record is None:
                rows.append([*row, NOT_RUN, None, None])
                continue
            result, report = record.summary, record.protocol.report
            text = spread_text(report, result.mean, result.std)
            rows.append([*row, text, *(_reached(result.mean, most) for most in (wanted, goal))])
        columns = [
            *words("comparison", "configuration"),
            *numbers("wanted, at most", "goal, at most", form="{:.3f}".format),
            *numbers("test error", form=str),
            *words("wanted error", "goal"),
        ]
        return markdown(Table("", columns, rows, ["judged by the mean over seeds"]))

    def helps(self, name: str) -> str:
        """Return what each feature of edges gains over none, and what its controls do.

        Args:
            name: A name of `COMMANDS` made by `helps_words`.
        """
        by_words = {each.words: each for each in self.commands[name]}
        gin = by_words["model=gin"]

        def cell(words_: str) -> str | None:
            each = by_words.get(words_)
            record = self.record(each) if each else None
            if each is None or record is None:
                return NOT_RUN if each else None
            report, result = record.protocol.report, record.summary
            text = spread_text(report, result.mean, result.std)
            difference = self.difference(gin, each)
            return text + (f"; {difference_cell(report, difference)}" if difference else "")

        rows = [["GIN, nothing of the structure", cell("model=gin"), None, None]]
        for feature in HELPS:
            controls = [helps_words(feature, control) for control in CONTROLS]
            rows.append([feature, *map(cell, (helps_words(feature), *controls))])
        columns = [
            *words("an edge tells"),
            *numbers("real", "shuffled within each graph", "shuffled over all graphs"),
        ]
        done = [r for each in self.commands[name] if (r := self.record(each)) is not None]
        notes = [*self._notes(self.commands[name])]
        if done:
            notes[-1] = (
                f"{_parameters(done)} parameters; {len(done)} of {len(by_words)} runs; "
                f"{_hours(done)}; "
                f"revision {revisions(done)}"
            )
            notes.append("after the semicolon: difference to GIN, paired, with 95 % interval")
        notes.append(f"–: not asked; shuffled are {', '.join(CONTROLLED)}")
        table = markdown(Table("", columns, rows, notes))
        return f"{table}\n{self._contrasts(by_words)}{_commands(name)}"

    def _contrasts(self, by_words: Mapping[str, Asked]) -> str:
        """Return the features against each other, and the real ones against their controls."""
        pairs = [(f"{a} against {b}", helps_words(b), helps_words(a)) for a, b in PAIRED]
        for feature in CONTROLLED:
            for control in CONTROLS:
                against = f"{feature}: real against {CONTROL_WORDS[control.partition('=')[2]]}"
                pairs.append((against, helps_words(feature, control), helps_words(feature)))
        rows = []
        for text, *both in pairs:
            first, other = (by_words.get(each) for each in both)
            if first is None or other is None or not {first.hash, other.hash} <= {*self.of}:
                continue
            report, difference = self._report(first), self.difference(first, other)
            assert difference is not None
            shown = difference_cell(report, difference).removesuffix(", worse")
            rows.append([text, shown, _shown(report, difference) or "no difference shown"])
        if not rows:
            return ""
        columns = [*words("paired"), *numbers("difference, 95 % interval"), *words("it is")]
        notes = [
            "no difference shown: 0 is inside the interval, whose ends say what could have been "
            "missed; intervals are not corrected for their number: one in twenty excludes 0 by "
            "chance"
        ]
        return f"{markdown(Table('', columns, rows, notes))}\n"

    def across_sets(self, prefix: str) -> str:
        """Return configurations × data sets, with corrected intervals.

        Args:
            prefix: Commands whose names begin so, which have the same configurations.
        """
        names = [name for name in self.commands if name.startswith(prefix)]
        if self._waiting(*names):
            return f"Not run:\n\n{_commands(*names)}"
        sets = [self.commands[name][0].data for name in names]
        rows = []
        for place, first in enumerate(self.commands[names[0]]):
            row = [first.text]
            for name in names:
                record = self.record(self.commands[name][place])
                if record is None:
                    row.append(NOT_RUN)
                    continue
                report, result = record.protocol.report, record.summary
                spread = spread_text(report, result.mean, result.std)
                row.append(f"{spread} ({interval_text(report, result.interval)})")
            rows.append(row)
        entries = [each for name in names for each in self.commands[name]]
        done = [r for each in entries if (r := self.record(each)) is not None]
        notes = [*self._notes(entries)]
        if done:
            notes[-1] = (
                f"in brackets the 95 % interval; {_parameters(done)} parameters; "
                f"{_hours(done)}; "
                f"revision {revisions(done)}"
            )
        table = Table("", [*words("model"), *numbers(*sets)], rows, notes)
        return f"{markdown(table)}\n{_commands(*names)}"

    # The paper.

    def paper(self) -> str:
        """Return the paper's tables next to ours, with ≠ where its value is outside our interval.

        Of tables of which nothing is run, only the command.
        """
        parts, waiting = [], []
        for name, command in COMMANDS.items():
            if not command.startswith("reproduce"):
                continue
            table = paper_table(shlex.split(command)[1])
            values = {(v.model, v.dataset): v for v in table.values}
            outcomes = [
                Outcome(Cell(values[each.row], None, differs=each.differs), self.record(each))
                for each in self.commands[name]
                if each.row is not None
            ]
            sets = {o.cell.paper.dataset for o in outcomes if o.record is not None}
            if not sets:
                waiting.append(name)
                continue
            shown = [o for o in outcomes if o.cell.paper.dataset in sets]
            done = [o.record for o in shown if o.record is not None]
            facts = f"{_hours(done)}; revision {revisions(done)}; –: not run"
            made = [
                markdown(replace(each, notes=[*each.notes, facts]))
                for each in reproduction_report(shown).tables
            ]
            parts.append("\n".join([*made, _commands(name)]))
        if waiting:
            parts.append(f"Not run:\n\n{_commands(*waiting)}")
        return "\n".join(parts)

    def claims(self) -> str:
        """Return each claim of the paper: holds, fails or not run."""
        (table,) = claims_report(from_records(self.records)).tables
        shell = "```sh\nunionsnn report --claims benchmarks/records\n```\n"
        return f"{table.title}.\n\n{markdown(replace(table, title=''))}\n{shell}"

    def pairs(self) -> str:
        """Return the pairs of BREC that networks tell apart."""
        table = pairs_table(self.folder)
        return NOT_RUN if table is None else markdown(replace(table, title=""))

    # README.

    def _all_pairs(self, model: str, **keys: Any) -> dict[str, Any]:
        """Return the record of all pairs of BREC with keys of the configuration."""
        wanted = keys | {"model.name": model, "coefficient.control": "none"}
        for each in read_pairs(self.folder):
            config = dict(flatten(each["config"]))
            if len(each["pairs"]) == 400 and wanted.items() <= config.items():
                return each
        raise RequestError(f"README.md has a row of BREC, which has no record of {model} {keys}.")

    def readme(self) -> str:
        """Return the README's table.

        Raises:
            RequestError: A row has no record of GIN or UnionGIN.
        """
        rows, facts = [], []
        for what, reads, name, wanted in README_ROWS:
            by_words = {each.words: each for each in self.commands[name]}
            entries = [by_words[word] if word else None for word in wanted]
            if not all(each and self.record(each) for each in entries[:2]):
                raise RequestError(
                    f"README.md has a row of {name!r}, which has no record of {wanted[0]} or of "
                    f"{wanted[1]}; run them, or change README_ROWS."
                )
            done = [r for each in entries if each and (r := self.record(each)) is not None]
            cells = []
            for word, each in zip(wanted, entries, strict=True):
                record = self.record(each) if each else None
                if record is None:
                    cells.append(NOT_RUN if word else "–")
                    continue
                report, result = record.protocol.report, record.summary
                cells.append(_short(report, result.mean, result.std))
            gain = self.difference(*entries[:2])
            if gain and _shown(done[0].protocol.report, gain) == "better":
                cells[1] = f"**{cells[1]}**"
            plain, union, *controls = entries
            for place, each in enumerate(controls, 2):
                if plain and union and each and (kept := self.kept(plain, union, each)):
                    cells[place] += f" ({kept})"
            rows.append([f"{what}, {_runs(done[0])}", reads, *cells])
            own = sum(r.seconds for r in done) / 3600
            facts.append(
                f"{what}: {_protocol(done[0])}; {_parameters(done)} parameters; revision "
                f"{revisions(done)}; {own:.2f} hours of what is shown; `unionsnn {COMMANDS[name]}`"
            )
        plain, union = (self._all_pairs("gin"), self._all_pairs("union_gin", **_BREC))
        what = "BREC, of 400 pairs told apart by training"
        reads = "a_vu and marked spectrum at radii 1 and 2"
        rows.append([what, reads, str(told(plain)), str(told(union)), "–", "–"])
        revised = dict.fromkeys(
            e["git_revision"] for r in (plain, union) for e in r["environments"]
        )
        seconds = sum(pair["seconds"] for each in (plain, union) for pair in each["pairs"])
        facts.append(
            f"{what}: a network for each pair, Hotelling's paired T²; all 400 pairs; seed 0; "
            f"{plain['parameters']:,} to {union['parameters']:,} parameters; revision "
            f"{', '.join(revised)}; {seconds / 3600:.2f} hours; `unionsnn expressivity brec "
            "--trained model=union_gin gate.features=[raw,marked] coefficient.radius=[1,2]`, "
            "and `model=gin`"
        )
        head = "| on the test part | read of each edge | GIN | UnionGIN | "
        head += "shuffled within each graph (gain kept) | shuffled over all graphs (gain kept) |"
        lines = [head, f"|{'---|' * 6}"]
        lines += [f"| {' | '.join(row)} |" for row in rows]
        numbered = [f"{i}. {fact}" for i, fact in enumerate(facts, 1)]
        numbered += [
            "",
            "Bold: better than GIN, 0 outside the 95 % interval of the paired difference. In "
            "brackets: the part of that difference which a control keeps; none, worse: it is "
            "worse than GIN, 0 outside that interval. –: not asked.",
        ]
        summary = "Protocol, split, seeds, parameters, revision, hours and command of each row"
        lines += ["", f"<details><summary>{summary}</summary>", "", *numbered, "", "</details>"]
        return "\n".join(lines) + "\n"


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


def _reached(mean: float, most: float) -> str:
    return "reached" if mean <= most else f"missed by {mean - most:.4f}"


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
    if _shown(report, difference) == "worse":
        text += ", worse"
    return text.replace("-", "−")


def _shown(report: str, difference: Difference) -> str:
    """Return better or worse where 0 is outside the interval, else nothing."""
    low, high = difference.paired.interval or (0.0, 0.0)
    if low <= 0 <= high:
        return ""
    return "better" if (high < 0) == (metric_mode(report) == "min") else "worse"


def _short(report: str, mean: float, std: float | None) -> str:
    scale, digits = (100, 2) if is_percent(report) else (1, 3)
    text = f"{scale * mean:.{digits}f}"
    return text if std is None else f"{text} ± {scale * std:.{digits}f}"


def _runs(record: Result) -> str:
    count, what = (
        len(record.repetitions),
        "folds" if record.config["protocol"]["folds"] else "seeds",
    )
    return "1 run" if count == 1 else f"{count} {what}"


def _protocol(record: Result) -> str:
    protocol = record.protocol
    return (
        f"{protocol.report}; {protocol.name}, {protocol.selection}; split "
        f"{str(protocol.split_hash)[:12]} of {record.dataset}; {_runs(record)}, seed "
        f"{protocol.seed}"
    )


def _hours(records: Sequence[Result]) -> str:
    return f"{sum(r.seconds for r in records) / 3600:.2f} hours by the clock on {devices(records)}"


def _parameters(records: Iterable[Result]) -> str:
    counts = sorted({r.parameters for r in records if isinstance(r.parameters, int)})
    ends = counts if len(counts) < 2 else [counts[0], counts[-1]]
    return " to ".join(f"{count:,}" for count in ends) or "differing"


def _commands(*names: str) -> str:
    lines = "\n".join(f"unionsnn {COMMANDS[name].removesuffix(' --')}" for name in names)
    return f"```sh\n{lines}\n```\n"


_BREC = {"gate.features": ["raw", "marked"], "coefficient.radius": [1, 2]}
"""The network of the README's row of BREC."""

_UNION = "model=union_gin"
_BONDS = "data.edge_features=labels"
_COLUMNS = (
    "as [edge features](docs/edge_features.md): the default gate's, numbers of 3- to 8-cycles, "
    "distances, two spectra"
)
README_ROWS = (
    (
        "ZINC-10k, mean absolute error, at most 100,000 parameters, 30 epochs",
        "default gate",
        "zinc10k GIN",
        ("model=gin", _UNION, *(f"{_UNION} {control}" for control in CONTROLS)),
    ),
    (
        "the same with bond types (GIN is GINE), cosine schedule",
        _COLUMNS,
        "zinc10k bonds",
        (
            f"model=gin {_BONDS}",
            *(
                f"{_UNION} gate=all_columns {_BONDS}{control}"
                for control in ("", *(f" {each}" for each in CONTROLS))
            ),
        ),
    ),
    (
        "the same with bond types, 200 epochs, one cycle of the learning rate",
        "the same",
        "zinc10k 100,000",
        (
            f"model=gin {_BONDS}",
            *(
                f"{_UNION} gate=all_columns {_BONDS}{control}"
                for control in ("", *(f" {each}" for each in CONTROLS))
            ),
        ),
    ),
    (
        "the same",
        "default gate",
        "zinc10k 100,000",
        (f"model=gin {_BONDS}", f"{_UNION} {_BONDS}", "", ""),
    ),
    (
        "does a graph have a 4-cycle? accuracy in %, matched degrees",
        "default gate",
        "4-cycles",
        ("model=gin", _UNION, "", ""),
    ),
)
"""What a row is of, what its edges tell, its command, and there GIN, UnionGIN and the controls."""

BLOCKS: dict[str, Callable[[Book], str]] = {
    "readme": Book.readme,
    "zinc": lambda b: b.compared("zinc10k GIN", "zinc10k GCN", "zinc10k GatedGCN"),
    "zinc, bonds": lambda b: b.compared("zinc10k bonds"),
    "zinc, full length": lambda b: b.compared(
        "zinc10k 100,000", "zinc10k 100,000 without bonds", "zinc10k 500,000"
    ),
    "zinc, goals": Book.goals,
    "transformers": lambda b: b.compared("zinc10k GPS", "zinc10k Graphormer"),
    "transformers, full length": lambda b: b.compared("zinc10k GPS with bonds"),
    "tu": lambda b: b.compared("MUTAG", "PROTEINS", "ENZYMES"),
    "tu, nested": lambda b: b.across_sets("nested: "),
    "baselines": lambda b: b.compared("MUTAG baselines", "ENZYMES baselines", paired=False),
    "cycles": lambda b: b.compared("4-cycles", "6-cycles"),
    "ogb": lambda b: b.compared("molbbbp with bonds", "molhiv with bonds"),
    "cora": lambda b: b.compared("Cora"),
    "short": lambda b: b.compared(
        "molbbbp", "Photo", "PROTEINS GCN", "PROTEINS SAGE", "ENZYMES SAGE"
    ),
    "brec": Book.pairs,
    "paper": Book.paper,
    "claims": Book.claims,
    **{
        name: lambda b, name=name: b.helps(name)
        for name in COMMANDS
        if name.startswith("what helps")
    },
}
"""Tables by the names of their markers."""


def rewritten(text: str, book: Book, blocks: Mapping[str, Callable[[Book], str]] = BLOCKS) -> str:
    """Return a page with the tables of `blocks` made anew.

    Raises:
        KeyError: A marker names no table.
    """

    def block(found: re.Match[str]) -> str:
        if found["name"] not in BLOCKS:
            raise KeyError(f"{found['name']} is no table; allowed are {', '.join(BLOCKS)}")
        if found["name"] not in blocks:
            return found[0]
        return f"{found['begin']}\n{blocks[found['name']](book)}\n{found['end']}"

    return _MARKED.sub(block, text)


def main() -> None:
    """Write the pages, or say which record is at fault."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=Path, help="folder above runs/, whose records are copied")
    parser.add_argument("--compose", action="store_true", help="compose unchanged commands, too")
    given = parser.parse_args()
    try:
        write_pages(given.runs, compose=given.compose)
    except UnionsnnError as error:
        sys.exit(f"no page is written: {error}")


def write_pages(runs: Path | None, *, compose: bool) -> None:
    """Copy finished records, if asked; write the pages.

    Raises:
        UnionsnnError: A record is damaged or missing; no page is written.
    """
    if runs is not None:
        print(f"records of {keep_records(runs):.1f} core-hours copied")
    known = json.loads(INDEX.read_text()) if INDEX.exists() and not compose else {}
    write_json(INDEX, asked(known))
    book = Book.read()
    pages = {name: rewritten((ROOT / name).read_text(), book) for name in PAGES}
    for name, new in pages.items():
        if (ROOT / name).read_text() != new:
            (ROOT / name).write_text(new)
            print(f"{name} is rewritten")
    for name, entries in book.commands.items():
        if count := sum(each.hash not in book.of for each in entries):
            print(f"{name}: {count} of {len(entries)} not run")


if __name__ == "__main__":
    main()
