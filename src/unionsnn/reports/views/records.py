"""Tables of records, one for each data set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from unionsnn.config.grid import flatten
from unionsnn.config.identity import differing_keys
from unionsnn.config.schema import metric_mode
from unionsnn.reports.collection import StoredRecord
from unionsnn.reports.formatting import (
    CUT,
    duration_text,
    interval_text,
    is_cut,
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
    """Format the coefficient that the gate reads, its radii, and the control."""
    if record.gate is None:
        return "–"
    section = record.config["coefficient"]
    parts = [section["substructure"]]
    if section["descriptor"] != "path":
        parts.append(section["descriptor"])
    if section["encoding"] not in (None, "singular_value_sum"):
        parts.append(section["encoding"])
    parts.append(f"r={','.join(map(str, section['radius'] or ['auto']))}")
    if record.control != "none":
        parts.append(f"(control: {record.control})")
    return " ".join(parts)


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
                if not key.startswith(_SHOWN)
            }
            values = dict(flatten(each.record.config))
            # A key missing in a configuration is left out of its row.
            told = (f"{key}={values[key]}" for key in sorted(keys) if values.get(key) is not None)
            label = " ".join([label, *told])
        names.append(label)
    return names


def records_report(records: Sequence[StoredRecord]) -> Report:
    """Return a table for each data set, with the best and second best of each protocol marked."""
    tables, rows = [], []
    for group in by_dataset(records).values():
        full = [_full_row(each, label) for each, label in zip(group, labels(group), strict=True)]
        tables.append(_table(group, full))
        rows += full
    return Report(tables, rows)


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
    rows, incomplete, failed = [], [], []
    for each, row in zip(group, full, strict=True):
        record, name, report = each.record, row["model"], row["metric"]
        paper = paper_value(record)
        comparable = paper is not None and report == f"test_{paper.metric}"
        if record.missing:
            wanted = record.protocol.repetitions
            incomplete.append(f"INCOMPLETE: {name}, {row['repetitions']} of {wanted} repetitions")
        failed += [f"FAILED: {name}, {line}" for line in failure_lines(record.failed)]
        rows.append(
            [
                *(row[key] for key in ("model", "gate", "coefficient", "protocol")),
                spread_text(report, row["mean"], row["std"]),
                interval_text(report, each.record.summary.interval),
                f"{row['repetitions']}{' *' if record.missing else ''}",
                row["parameters"],
                row["seconds"],
                spread_text(report, row["paper_mean"], row["paper_std"]) if comparable else None,
            ]
        )
    title = f"{full[0]['data']} ({full[0]['dataset']})"
    below = [*notes, *incomplete, *failed]
    return Table(title, COLUMNS, rows, below, _marks(group), spare=_SPARE)


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
