"""The results in `benchmarks/records` as tables, a row for each record.

Usage: python benchmarks/leaderboard.py [FOLDER]

Each table has its protocol, split and seed, each row the number of repetitions, the parameters, the
revision and the hours of training; below are the commands. A command is printed only if it composes
to the configuration of the record, by its hash.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

from unionsnn.base.errors import RequestError
from unionsnn.config.compose import compose_config
from unionsnn.config.grid import flatten
from unionsnn.config.identity import config_hash
from unionsnn.config.schema import Config, metric_mode
from unionsnn.reports.collection import StoredRecord, collect
from unionsnn.reports.formatting import interval_text, spread_text
from unionsnn.reports.table import Table, markdown, numbers, words
from unionsnn.reports.views.records import by_dataset, labels
from unionsnn.training.records import Result

RECORDS = Path(__file__).parent / "records"

# What says how a run is made, not what it is.
_ASIDE = ("paths.", "run_dir", "force", "logger.", "data.mirror", "trainer.progress", "data.name")


def command_of(record: Result) -> str:
    """Return the command that trains a record's configuration; empty if none is found."""
    folders = {"paths": {**record.config["paths"], "output": "runs"}}
    wanted = Config.from_dict({**record.config, **folders})
    words_ = [f"data={record.data}", f"model={record.model}", f"protocol={record.protocol.name}"]
    if record.gate is not None:
        words_.append(f"gate={record.gate}")
    try:
        made = compose_config(words_)
    except RequestError:
        return ""
    known, target = dict(flatten(made.to_dict())), dict(flatten(wanted.to_dict()))
    for key in sorted({*known, *target}):
        value = target.get(key)
        if value != known.get(key) and not key.startswith(_ASIDE) and "_target_" not in key:
            text = (
                f"[{','.join(map(str, value))}]" if isinstance(value, list | tuple) else str(value)
            )
            words_.append(f"{key}={'null' if value is None else text}")
    try:
        again = compose_config(words_)
    except RequestError:
        return ""
    if config_hash(again) != config_hash(wanted):
        return ""
    return f"unionsnn train {shlex.join(words_)}"


def tables(records: list[StoredRecord]) -> Iterator[tuple[Table, list[str]]]:
    """Yield a table for each data set, metric, protocol and split, the best mean first.

    With it come the commands of its rows.
    """
    groups: dict[tuple[str, str, str, str], list[tuple[str, StoredRecord]]] = {}
    for group in by_dataset(records).values():
        for stored, label in zip(group, labels(group), strict=True):
            protocol = stored.record.protocol
            key = (
                stored.record.data,
                protocol.report,
                f"{protocol.name}, {protocol.selection}",
                str(protocol.split_hash)[:12],
            )
            groups.setdefault(key, []).append((label, stored))
    for (data, report, protocol, split), rows in groups.items():
        sign = 1 if metric_mode(report) == "min" else -1
        rows.sort(key=lambda row: sign * row[1].record.summary.mean)
        table = Table(
            f"{data}, {report}",
            [
                *words("model", "gate", "control"),
                *numbers(report, "95 % interval", form=str),
                *numbers("n", "parameters", form=str),
                *numbers("hours", form=lambda hours: f"{hours:.2f}"),
                *words("revision"),
            ],
            [_row(label, stored.record, report) for label, stored in rows],
            [
                f"protocol: {protocol}; split {split}; seed {rows[0][1].record.protocol.seed}",
                "n: number of repetitions; hours: of training, on one thread of a CPU",
            ],
        )
        yield table, [command_of(stored.record) for _, stored in rows]


def _row(label: str, record: Result, report: str) -> list[object]:
    result, revisions = record.summary, record.git_revision
    known = revisions if isinstance(revisions, list) else [revisions]
    wanted = f" of {record.protocol.repetitions}" if record.missing else ""
    return [
        label,
        record.gate or "none",
        record.control,
        spread_text(report, result.mean, result.std),
        interval_text(report, result.interval) or "–",
        f"{len(record.repetitions)}{wanted}",
        f"{record.parameters:,}" if isinstance(record.parameters, int) else "differs",
        record.seconds / 3600,
        ", ".join(dict.fromkeys(map(str, known))),
    ]


def page(folder: Path = RECORDS) -> str:
    """Return all tables in Markdown, each with its commands."""
    parts = []
    for table, commands in tables(collect([folder])[0]):
        lines = "\n".join(filter(None, commands))
        parts.append(f"{markdown(table)}\n```sh\n{lines}\n```\n")
    return "\n".join(parts).replace("### ", "## ")


if __name__ == "__main__":
    print(page(Path(sys.argv[1]) if len(sys.argv) > 1 else RECORDS))
