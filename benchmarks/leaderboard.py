"""The results in `benchmarks/records` as tables, a row for each record.

Usage: python benchmarks/leaderboard.py [FOLDER]

Each table has its protocol, split and seed, each row its configuration in words, the keys that its
command changes, the number of repetitions, the parameters, the revision and the hours of training;
below are the commands, by the numbers of their rows. A command is printed only if it composes to
the configuration of the record, by its hash. The last table counts the pairs of BREC that networks
tell apart.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from runs import RECORDS, read_checked
from unionsnn.base.errors import RequestError
from unionsnn.config.compose import compose_config
from unionsnn.config.grid import flatten
from unionsnn.config.identity import config_hash, determining
from unionsnn.config.schema import Config, metric_mode
from unionsnn.reports.collection import StoredRecord, collect
from unionsnn.reports.formatting import interval_text, spread_text
from unionsnn.reports.table import Table, markdown, numbers, words
from unionsnn.reports.views.records import by_dataset
from unionsnn.training.records import Result

_READS = {
    "raw": "a",
    "excess": "excess",
    "cyclomatic": "cyclomatic number",
    "size": "sizes",
    "cycles": "numbers of cycles",
    "normalized": "normalised a",
    "marked": "marked spectrum",
}
_GATES = {"default": "default gate", "paper": "the paper's gate", "authors-code": "authors' gate"}
CONTROL_WORDS = {
    "shuffled": "shuffled over all graphs",
    "shuffled_within": "shuffled within each graph",
    "constant": "constant coefficient",
}
_ALL_COLUMNS = {"raw", "excess", "cyclomatic", "eigenvalues", "distances", "marked", "cycles"}
_NAMES = {"unionormer": "Unionormer", "gatedgcn_lspe": "GatedGCN-LSPE", "mewispool": "MEWISPool"}


def described(config: Mapping[str, Any]) -> str:
    """Say in a reader's words by what a configuration differs from its namesakes.

    Such as: UnionGIN, all columns as edge feature, bonds, shuffled within each graph.
    """
    model, gate, coefficient = config["model"], config["gate"], config["coefficient"]
    name = _NAMES.get(model["name"], model["_target_"].rpartition(".")[2])
    parts = [name]
    if gate["preset"] is not None:
        if not name.startswith("Union"):
            parts = [f"Union{name}"]
        features = gate["features"]
        if features is None:
            reads = _GATES.get(gate["preset"], gate["preset"])
        elif {*features} - {"size"} == _ALL_COLUMNS:
            reads = "all columns with sizes" if "size" in features else "all columns"
        else:
            reads = ", ".join(_READS.get(each, each) for each in features)
        usual = [1] if gate["preset"] != "default" else [1, 2, 3]
        on_nodes = config["data"].get("task") == "node_classification"
        # Cycles are counted in the whole graph.
        local = not on_nodes and features != ["cycles"]
        if local and coefficient["radius"] not in (None, usual):
            reads += f" at radius {', '.join(map(str, coefficient['radius']))}"
        place = {"edge": " as edge feature", "both": " as weight and edge feature"}
        parts.append(reads + place.get(gate.get("inject"), ""))
        other = [coefficient["substructure"], coefficient["descriptor"], coefficient["encoding"]]
        if other != ["union", "path", "singular_value_sum"]:
            parts.append(" ".join(filter(None, other)))
    if (read := config["data"].get("edge_features")) is not None:
        bonds = config["data"]["name"].startswith(("zinc", "mol")) and read == "labels"
        parts.append("bonds" if bonds else f"edge {'features' if read == 'both' else read}")
    if (control := coefficient["control"]) != "none":
        parts.append(CONTROL_WORDS.get(control, f"control {control}"))
    return ", ".join(parts)


def revisions(records: Iterable[Result]) -> str:
    """Return the revisions that trained records, each once."""
    known = [r.git_revision for r in records]
    flat = [each for k in known for each in (k if isinstance(k, list) else [k])]
    return ", ".join(dict.fromkeys(map(str, flat)))


def devices(records: Iterable[Result]) -> str:
    """Return what trained records, each device once."""
    shared = "one thread of a CPU that other work may have shared"
    found = dict.fromkeys(row.device for record in records for row in record.repetitions)
    return ", ".join(shared if name == "cpu (1 thread(s))" else name for name in found)


def changed_keys(record: Result) -> list[str]:
    """Return the keys, with values, that a record's configuration sets besides its options.

    Raises:
        RequestError: The options of the record are no longer there.
    """
    known = _composed(tuple(_options(record)))
    target = dict(flatten(determining(_wanted(record))))
    if record.missing:
        target["protocol.only"] = [row.index for row in record.repetitions]
    words_ = []
    for key in sorted({*known, *target}):
        value = target.get(key)
        if value != known.get(key) and key != "data.name" and "_target_" not in key:
            words_.append(f"{key}={_text(value)}")
    return words_


@cache
def _composed(words_: tuple[str, ...]) -> Mapping[str, Any]:
    return dict(flatten(determining(compose_config(words_))))


def _text(value: object) -> str:
    """Return a value as it is typed."""
    if isinstance(value, list | tuple):
        return f"[{','.join(map(str, value))}]"
    return "null" if value is None else str(value)


def _options(record: Result) -> list[str]:
    words_ = [f"data={record.data}", f"model={record.model}", f"protocol={record.protocol.name}"]
    return words_ if record.gate is None else [*words_, f"gate={record.gate}"]


def _wanted(record: Result) -> Config:
    folders = {"paths": {**record.config["paths"], "output": "runs"}}
    return Config.from_dict({**record.config, **folders})


def command_of(record: Result) -> str:
    """Return the command that trains a record's configuration; empty if none is found."""
    try:
        words_ = [*_options(record), *changed_keys(record)]
        again = compose_config(words_)
    except RequestError:
        return ""
    if config_hash(again) != config_hash(_wanted(record)):
        return ""
    return f"unionsnn train {shlex.join(words_)}"


def tables(records: list[StoredRecord]) -> Iterator[tuple[Table, list[str]]]:
    """Yield a table for each data set, metric, protocol and split, the best mean first.

    With it come the commands of its rows.
    """
    groups: dict[tuple[str, str, str, str], list[StoredRecord]] = {}
    for group in by_dataset(records).values():
        for stored in group:
            protocol = stored.record.protocol
            key = (
                stored.record.data,
                protocol.report,
                f"{protocol.name}, {protocol.selection}",
                str(protocol.split_hash)[:12],
            )
            groups.setdefault(key, []).append(stored)
    for (data, report, protocol, split), rows in groups.items():
        sign = 1 if metric_mode(report) == "min" else -1
        rows.sort(key=lambda row: sign * row.record.summary.mean)
        changed = [_changed(stored.record) for stored in rows]
        common = [word for word in changed[0] if all(word in words_ for words_ in changed)]
        notes = [
            f"protocol: {protocol}; split {split}; seed {rows[0].record.protocol.seed}",
            "n: number of repetitions; epochs: at most; hours: of training by the clock, on "
            f"{devices(stored.record for stored in rows)}",
        ]
        if common:
            notes.append(f"changed in all rows: {' '.join(common)}")
        table = Table(
            f"{data}, {report}",
            [
                *numbers("row", form=str),
                *words("configuration", "changed keys"),
                *numbers(report, "95 % interval", form=str),
                *numbers("n", "epochs", "parameters", form=str),
                *numbers("hours", form=lambda hours: f"{hours:.2f}"),
                *words("revision"),
            ],
            [
                _row(number, stored.record, report, [w for w in words_ if w not in common])
                for number, (stored, words_) in enumerate(zip(rows, changed, strict=True), 1)
            ],
            notes,
        )
        yield table, [command_of(stored.record) for stored in rows]


def _changed(record: Result) -> list[str]:
    """Return the changed keys that no other column shows."""
    try:
        told_elsewhere = ("coefficient.control=", "trainer.max_epochs=")
        return [w for w in changed_keys(record) if not w.startswith(told_elsewhere)]
    except RequestError:
        return []


def _row(number: int, record: Result, report: str, changed: list[str]) -> list[object]:
    result = record.summary
    wanted = f" of {record.protocol.repetitions}" if record.missing else ""
    return [
        number,
        described(record.config),
        " ".join(changed) or "–",
        spread_text(report, result.mean, result.std),
        interval_text(report, result.interval) or "–",
        f"{len(record.repetitions)}{wanted}",
        record.config["trainer"]["max_epochs"],
        f"{record.parameters:,}" if isinstance(record.parameters, int) else "differs",
        record.seconds / 3600,
        revisions([record]),
    ]


def read_pairs(folder: Path) -> list[dict[str, Any]]:
    """Read the records of BREC."""
    return [read_checked(path) for path in sorted(folder.glob("brec/*/*.json"))]


def told(record: Mapping[str, Any]) -> int:
    """Count the pairs of BREC that a network tells apart, without unreliable ones."""
    return sum(pair["told"] and pair["reliable"] for pair in record["pairs"])


def pairs_table(folder: Path) -> Table | None:
    """Return the pairs of BREC that each network tells apart; None without records of them."""
    found = read_pairs(folder)
    if not found:
        return None
    shared = [dict(flatten(each["config"])) for each in found]

    def changed(i: int) -> str:
        """The keys by which a record differs from the others of its network and control."""
        names = ("model", "gate", "control")
        same = [
            config
            for each, config in zip(found, shared, strict=True)
            if all(each[name] == found[i][name] for name in names)
        ]
        keys = {key for c in same for key in {*c, *shared[i]} if c.get(key) != shared[i].get(key)}
        kept = [key for key in sorted(keys) if key.startswith(("model.", "gate.", "coefficient."))]
        return " ".join(f"{key}={_text(shared[i].get(key))}" for key in kept) or "–"

    order = sorted(range(len(found)), key=lambda i: (len(found[i]["pairs"]) < 400, -told(found[i])))
    rows = [
        [
            found[i]["model"],
            found[i]["gate"] or "none",
            found[i]["control"],
            changed(i),
            f"{told(found[i])} of {len(found[i]['pairs'])}",
            sum(not pair["reliable"] for pair in found[i]["pairs"]),
            f"{found[i]['parameters']:,}",
            sum(pair["seconds"] for pair in found[i]["pairs"]) / 3600,
            ", ".join(dict.fromkeys(e["git_revision"] for e in found[i]["environments"])),
        ]
        for i in order
    ]
    columns = [
        *words("model", "gate", "control", "changed keys"),
        *numbers("pairs told apart", "unreliable", "parameters", form=str),
        *numbers("hours", form="{:.2f}".format),
        *words("revision"),
    ]
    notes = [
        "protocol: a network for each pair, Hotelling's paired T²; seed 0; unreliable pairs do not "
        "count as told apart",
        "of 400: all pairs; of fewer: a part of them, whose share is not that of all",
        "unionsnn expressivity brec --trained model=MODEL trains a row, with its changed keys",
    ]
    return Table("BREC, pairs of graphs told apart", columns, rows, notes)


def page(folder: Path = RECORDS) -> str:
    """Return all tables in Markdown, each with its commands."""
    parts = []
    for table, commands in tables(collect([folder])[0]):
        lines = "\n".join(f"# {i}\n{line}" for i, line in enumerate(commands, 1) if line)
        parts.append(f"{markdown(table)}\n```sh\n{lines}\n```\n")
    if (pairs := pairs_table(folder)) is not None:
        parts.append(markdown(pairs))
    return "\n".join(parts).replace("### ", "## ")


if __name__ == "__main__":
    print(page(Path(sys.argv[1]) if len(sys.argv) > 1 else RECORDS))
