"""Which pairs trained networks tell apart, as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from unionsnn.base.words import duration_text
from unionsnn.expressivity.trained_pairs import NOISE
from unionsnn.reports.table import Report, Table, numbers, words
from unionsnn.reports.views.expressivity import SPARE, published_lines


def trained_table(records: Sequence[Mapping[str, Any]]) -> Table:
    """Make the table of one set's records, a row for each network."""
    first = records[0]
    sizes = first["categories"]
    names = [f"{category} ({size})" for category, size in sizes.items()]
    names += [f"all ({sum(sizes.values())})"] if len(sizes) > 1 else []
    columns = [
        *words("network"),
        *numbers(*names, "may", "unreliable"),
        *numbers("largest equal", "smallest different", form="{:.1e}".format),
        *numbers("time", form=duration_text),
    ]
    protocol, trainer = first["config"]["protocol"], first["config"]["trainer"]
    notes = [
        f"Each pair has its own network, trained on {protocol['copies']} relabelled copies of "
        f"both graphs for at most {trainer['max_epochs']} epochs to push their embeddings "
        f"({protocol['channels']} numbers) apart. Told apart: T² of the paired differences exceeds "
        f"{first['threshold']:.2f} (size {protocol['alpha']}), T² of copies of the same "
        "graph does not (otherwise: unreliable, in brackets what chance explains).",
        "A cell a/b: a of b tested pairs. may: how many pairs a control may tell apart, "
        "those that 1-WL tells apart and, with noise, those due to chance. largest equal, smallest "
        "different: distance of the mean embeddings relative to their length. time: one process.",
        *published_lines(first["set"]),
    ]
    rows = []
    for record in records:
        summary = record["summary"]
        counts = [(c["told"], c["tested"], c["pairs"]) for c in summary["categories"].values()]
        if len(counts) > 1:
            counts.append((summary["told"], summary["tested"], sum(c[2] for c in counts)))
        rows.append(
            [
                label(record),
                *(
                    told if tested == pairs else f"{told}/{tested}"
                    for told, tested, pairs in counts
                ),
                summary["bar"],
                f"{summary['unreliable']} (≤ {summary['unreliable_bound']})",
                summary["unresolved"],
                summary["resolved"],
                summary["seconds"],
            ]
        )
        notes += [f"FAULT: {fault}" for fault in faults(record)]
        if record["control"] in NOISE and _over_bar(summary):
            notes.append(f"{label(record)} {_over_bar(summary)}: the noise tells them apart.")
        if count := sum(outcome.get("together", False) for outcome in record["pairs"]):
            notes.append(
                f"{label(record)}: {count} of {summary['tested']} tested pairs were trained "
                "together (protocol.together); alone, numbers differ by rounding, which training "
                "amplifies."
            )
        if record["state"] != "finished" and summary["tested"]:
            duration = duration_text(estimate(record))
            notes.append(f"{label(record)}: all pairs would take {duration}.")
    title = f"Told apart in {first['set']} by trained networks"
    return Table(title, columns, rows, notes, spare=[*SPARE, *reversed(names[:-1])])


def label(record: Mapping[str, Any]) -> str:
    """Return the name of a network: its model, non-default gate and control."""
    gate = record["gate"]
    words = [record["model"]]
    words += [f"{gate} gate"] if gate not in (None, "default") else []
    words += [record["control"]] if record["control"] != "none" else []
    return ", ".join(words)


def faults(record: Mapping[str, Any]) -> list[str]:
    """Return what invalidates a record's results; empty if they can be trusted."""
    summary, lines = record["summary"], []
    if record["control"] not in NOISE and _over_bar(summary):
        lines.append(f"{label(record)} is a control, and {_over_bar(summary)}.")
    if summary["unreliable"] > summary["unreliable_bound"]:
        lines.append(
            f"{label(record)} tells copies of the same graph apart in "
            f"{summary['unreliable']} pairs; its results are invalid."
        )
    return lines


def _over_bar(summary: Mapping[str, Any]) -> str:
    if summary["bar"] is None or summary["told"] <= summary["bar"]:
        return ""
    return f"tells {summary['told']} pairs apart where {summary['bar']} are explained"


def estimate(record: Mapping[str, Any]) -> float:
    """Estimate the seconds of one process for all pairs from the mean of each category."""
    total = 0.0
    for category, size in record["categories"].items():
        seconds = [o["seconds"] for o in record["pairs"] if o["category"] == category]
        total += size * sum(seconds) / max(len(seconds), 1)
    return total


def trained_report(records: Sequence[Mapping[str, Any]]) -> Report:
    """Return the table of all networks, and a row for each network and pair."""
    keys = (
        *("name", "category", "told", "reliable", "told_by_1wl", "statistic", "reliability"),
        *("rank", "distance", "spread", "epochs", "loss", "seconds"),
    )
    rows = [
        {"network": label(record)} | {key: outcome[key] for key in keys}
        for record in records
        for outcome in record["pairs"]
    ]
    return Report([trained_table(records)], rows)
