"""Tables of records, one for each data set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from unionsnn.base.words import duration_text
from unionsnn.config.grid import flatten
from unionsnn.config.identity import SERVING, differing_keys
from unionsnn.config.schema import metric_mode
from unionsnn.reports.collection import StoredRecord
from unionsnn.reports.formatting import (
    CUT,
    interval_text,
    is_cut,
    is_percent,
    result_columns,
    spread_text,
)
from unionsnn.reports.paper import paper_value
from unionsnn.reports.table import Mark, Report, Table, numbers, words
from unionsnn.runs.failures import failure_lines
from unionsnn.training.records import Result

COLUMNS = (
    *words("model", "gate", "coefficient", "protocol"),
    *numbers("mean ± std", "95 % interval", "n", "parameters"),
    *numbers("time", form=duration_text),
    *numbers("paper"),
)
_MEAN = 4
TUNED = "†"
"""Marks rows whose hyper-parameters were searched."""

_SPARE = ("time", "parameters", "paper", "n", "protocol", "coefficient", "gate")

# Keys shown in other columns, and keys that do not distinguish models.
_SHOWN = ("model.name", "model._target_", "gate.", "coefficient.", "protocol.", "data.")


def by_dataset(records: Sequence[StoredRecord]) -> dict[str, list[StoredRecord]]:
    """Group records by data set, sorted by protocol, best first."""

    def order(stored: StoredRecord) -> tuple[str, float]:
        record = stored.record
        sign = -1 if metric_mode(record.protocol.report) == "max" else 1
        return "\n".join(map(str, _kind(record))), sign * stored.record.summary.mean

    groups: dict[str, list[StoredRecord]] = {}
    for each in sorted(records, key=lambda each: str(each.record.dataset)):
        groups.setdefault(str(each.record.dataset), []).append(each)
    return {name: sorted(group, key=order) for name, group in groups.items()}


def _kind(record: Result) -> tuple[str, str, str, str]:
    """Return what two results must share to be ranked: metric, protocol, selection rule, split."""
    protocol = record.protocol
    return (
        protocol.report,
        protocol.name,
        protocol.selection,
        str(protocol.split_hash),
    )


def _edges(record: Result) -> str:
    """Say which edge features are read; empty if none are."""
    read = record.config["data"].get("edge_features")
    return "" if read is None else f"edge features: {read}"


def gate_text(record: Result) -> str:
    """Format the preset of a gate and its changes."""
    section = record.config["gate"]
    if record.gate is None:
        return "none"
    changes = [
        f"{key}={','.join(value) if isinstance(value, list) else value}"
        for key, value in section.items()
        if key != "preset" and value is not None
    ]
    return " ".join([record.gate, *changes])


def coefficient_text(record: Result) -> str:
    """Format the coefficient that the gate reads, and its radii."""
    if record.gate is None:
        return "–"
    section = record.config["coefficient"]
    parts = [section["substructure"]]
    if section["descriptor"] != "path":
        parts.append(section["descriptor"])
    if section["encoding"] not in (None, "singular_value_sum"):
        parts.append(section["encoding"])
    parts.append(f"r={','.join(map(str, section['radius'] or ['auto']))}")
    return " ".join(parts)


def tuned_by(record: Result) -> str | None:
    """Say what chose the hyper-parameters of a record; None if they were set."""
    if record.study is not None:
        return f"the study {record.study.get('name', '')}".strip()
    if any(row.grid is not None for row in record.repetitions):
        return "a grid in each repetition"
    return None


def labels(group: Sequence[StoredRecord]) -> list[str]:
    """Name the model of each record, with the keys that distinguish it from its namesakes."""
    shown = [
        (
            each.record.model,
            gate_text(each.record),
            coefficient_text(each.record),
            *_kind(each.record),
        )
        for each in group
    ]
    times = Counter(shown)
    first = {name: each.record.config for name, each in zip(shown, group, strict=True)}
    names = []
    for name, each in zip(shown, group, strict=True):
        label = each.record.model
        if times[name] > 1:
            keys = {
                key
                for other, one in zip(group, shown, strict=True)
                if one == name
                for key in differing_keys(first[name], other.record.config)
                if key in SERVING or not key.startswith(_SHOWN)
            }
            values = dict(flatten(each.record.config))
            # A key missing in a configuration is left out of its row.
            told = (f"{key}={values[key]}" for key in sorted(keys) if values.get(key) is not None)
            label = " ".join([label, *told])
        names.append(label)
    return names


def _controlled(label: str, record: Result) -> str:
    """Return a label with the control, without which its row would pass for the real one."""
    return label if record.control == "none" else f"{label} ({record.control})"


def records_report(records: Sequence[StoredRecord]) -> Report:
    """Return a table for each data set, with the best and second best of each protocol marked."""
    tables, rows = [], []
    for group in by_dataset(records).values():
        full = [_full_row(each, label) for each, label in zip(group, labels(group), strict=True)]
        tables.append(_table(group, full))
        rows += full
    return Report(tables, rows, pivot_tables(records))


def pivot_tables(records: Sequence[StoredRecord]) -> list[Table]:
    """Return models × data sets, as papers print them: a table for each protocol and metric.

    Results that read edge features have a table of their own, and so have those on another split of
    a data set than most of its results, since they cannot be ranked with those.
    """
    groups: dict[tuple[str, ...], dict[str, list[StoredRecord]]] = {}
    for each, rank in _split_ranks(records):
        protocol = each.record.protocol
        other = f"other split {str(protocol.split_hash)[:12]}" if rank else ""
        key = (protocol.report, protocol.name, protocol.selection, _edges(each.record), other)
        groups.setdefault(key, {}).setdefault(each.record.data, []).append(each)
    return [_pivot(key, sets) for key, sets in sorted(groups.items())]


def _split_ranks(records: Sequence[StoredRecord]) -> list[tuple[StoredRecord, int]]:
    """Return each record with the place of its split among those of its data set and protocol."""

    def of(each: StoredRecord) -> tuple[str, ...]:
        report, name, selection, _ = _kind(each.record)
        return (each.record.data, report, name, selection, _edges(each.record))

    splits: dict[tuple[str, ...], Counter[str]] = {}
    for each in records:
        split = f"{each.record.protocol.split_hash} {each.record.dataset}"
        splits.setdefault(of(each), Counter())[split] += 1
    return [
        (
            each,
            [split for split, _ in splits[of(each)].most_common()].index(
                f"{each.record.protocol.split_hash} {each.record.dataset}"
            ),
        )
        for each in records
    ]


def _pivot(key: tuple[str, ...], sets: Mapping[str, Sequence[StoredRecord]]) -> Table:
    """Return the table of one protocol, metric and split."""
    report, protocol, selection, edges, other = key
    named = _by_row(sets)
    names = sorted({name for found in named.values() for name in found})
    cells: list[list[Any]] = []
    for name in names:
        found = [named[data].get(name) for data in named]
        cells.append([name, *(None if each is None else _pivot_cell(each) for each in found)])
    marks: dict[tuple[int, int], Mark] = {}
    for column, data in enumerate(named, 1):
        group = list(named[data].values())
        for (place, _), mark in _marks(group).items():
            row = names.index(list(named[data])[place])
            marks[row, column] = mark
    by = dict.fromkeys(tuned_by(each.record) for group in sets.values() for each in group)
    tuned = ", ".join(filter(None, by))
    tuned = tuned and f"{TUNED}: hyper-parameters chosen by {tuned}; the others are as set"
    unit = " in %" if is_percent(report) else ""
    notes = [
        f"mean ± standard deviation of {report}{unit}; {protocol}: {selection}",
        *([f"{other}: not the one of most results on these data"] if other else []),
        "best and second best of a data set are marked by the mean alone; controls and incomplete "
        "runs (*) are not ranked",
        *([tuned] if tuned else []),
    ]
    title = ", ".join(filter(None, [f"{report}{unit}", protocol, edges, other]))
    return Table(title, [*words("model"), *numbers(*named)], cells, notes, marks)


def _pivot_cell(each: StoredRecord) -> str:
    record = each.record
    report, result = record.protocol.report, record.summary
    text = spread_text(report, result.mean, result.std).removesuffix(" %")
    return f"{text}{f' {TUNED}' if tuned_by(record) else ''}{' *' if record.missing else ''}"


def _by_row(
    sets: Mapping[str, Sequence[StoredRecord]],
) -> dict[str, dict[str, StoredRecord]]:
    """Name the rows of a pivot by as little as tells the records of each data set apart."""
    names, further = {}, {}
    for group in sets.values():
        for each, label in zip(group, labels(group), strict=True):
            names[each.folder] = _controlled(label, each.record)
            further[each.folder] = iter(
                [
                    f"gate {gate_text(each.record)}",
                    f"of {coefficient_text(each.record)}",
                    each.record.config_hash,
                ]
            )
    for _ in range(3):
        shared = {
            name
            for group in sets.values()
            for name, times in Counter(names[each.folder] for each in group).items()
            if times > 1
        }
        for folder, name in names.items():
            if name in shared:
                names[folder] = f"{name}, {next(further[folder])}"
    return {data: {names[each.folder]: each for each in group} for data, group in sets.items()}


def _full_row(stored: StoredRecord, label: str) -> dict[str, Any]:
    """Return a record with full precision, as plain types."""
    record, paper = stored.record, paper_value(stored.record)
    return {
        "data": record.data,
        "dataset": record.dataset,
        "model": label,
        "gate": gate_text(record),
        "coefficient": coefficient_text(record),
        "control": record.control,
        "protocol": record.protocol.name,
        "split": record.protocol.split_hash,
        "metric": record.protocol.report,
        **result_columns(record.protocol.report, stored.record.summary),
        "state": record.state,
        "repetitions": len(record.repetitions),
        "parameters": record.parameters,
        "seconds": record.seconds,
        "paper_mean": paper.mean if paper else None,
        "paper_std": paper.std if paper else None,
        "config_hash": record.config_hash,
        "run_dir": str(stored.folder),
        "tuned": tuned_by(record),
    }


def _table(group: Sequence[StoredRecord], full: Sequence[Mapping[str, Any]]) -> Table:
    kinds = list(dict.fromkeys(_kind(each.record) for each in group))
    notes = [
        f"{name}: {report}, {selection}, split {split[:12]}"
        for report, name, selection, split in kinds
    ]
    methods = dict.fromkeys(row["method"] for row in full)
    beyond = any(is_cut(r.record.protocol.report, r.record.summary.interval) for r in group)
    notes.append("; ".join(["intervals: " + ", ".join(map(str, methods)), *[CUT] * beyond]))
    if len(kinds) < len(group):
        notes.append(
            "best and second best are marked within a protocol and split, by the mean alone; "
            "controls and incomplete runs are not ranked"
        )
    by = dict.fromkeys(row["tuned"] for row in full if row["tuned"])
    if by:
        notes.append(f"{TUNED}: hyper-parameters chosen by {', '.join(by)}; the others are as set")
    rows, incomplete, failed = [], [], []
    for each, row in zip(group, full, strict=True):
        record, report = each.record, row["metric"]
        name = _controlled(row["model"], record)
        paper = paper_value(record)
        comparable = paper is not None and report == f"test_{paper.metric}"
        if record.missing:
            wanted = record.protocol.repetitions
            incomplete.append(f"INCOMPLETE: {name}, {row['repetitions']} of {wanted} repetitions")
        failed += [f"FAILED: {name}, {line}" for line in failure_lines(record.failed)]
        rows.append(
            [
                f"{name}{f' {TUNED}' if row['tuned'] else ''}",
                *(row[key] for key in ("gate", "coefficient", "protocol")),
                spread_text(report, row["mean"], row["std"]),
                interval_text(report, each.record.summary.interval),
                f"{row['repetitions']}{' *' if record.missing else ''}",
                row["parameters"],
                row["seconds"],
                spread_text(report, row["paper_mean"], row["paper_std"]) if comparable else None,
            ]
        )
    title = f"{full[0]['data']} ({full[0]['dataset']})"
    edges = {_edges(each.record) or "no edge features" for each in group}
    if edges != {"no edge features"}:
        title += f", {', '.join(sorted(edges))}"
    below = [*notes, *incomplete, *failed]
    groups = {}
    if len(kinds) > 1:
        for kind in kinds:
            first = next(i for i, each in enumerate(group) if _kind(each.record) == kind)
            groups[first] = f"{kind[1]}: {kind[0]}, {kind[2]}, split {kind[3][:12]}"
    return Table(title, COLUMNS, rows, below, _marks(group), spare=_SPARE, groups=groups)


def _marks(group: Sequence[StoredRecord]) -> dict[tuple[int, int], Mark]:
    """Mark the best and second best mean within each protocol; ties share a mark."""
    marks: dict[tuple[int, int], Mark] = {}
    for kind in {_kind(each.record) for each in group}:
        means = {
            i: each.record.summary.mean
            for i, each in enumerate(group)
            if _kind(each.record) == kind
            and not each.record.missing
            and each.record.control == "none"
        }
        if len(means) < 2:
            continue
        ranked = sorted(set(means.values()), reverse=metric_mode(kind[0]) == "max")
        names: tuple[Mark, ...] = ("best", "second")
        for value, mark in zip(ranked, names, strict=False):
            marks |= {(i, _MEAN): mark for i, mean in means.items() if mean == value}
    return marks
