"""Tables and figures of data sets: counts, state on disk, differences from the paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unionsnn.base.words import format_bytes
from unionsnn.data.catalog import CatalogEntry, edges_in_words
from unionsnn.data.inventory import OnDisk, Removal
from unionsnn.reports.figures.palette import COLORS
from unionsnn.reports.figures.plots import subplots
from unionsnn.reports.table import Table, key_value_table, numbers, words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BINS = 40


def datasets_tables(entries: Sequence[CatalogEntry], disk: Sequence[OnDisk]) -> list[Table | str]:
    """Return all sets with counts and state on disk, and where they differ from the paper."""
    rows = []
    for entry, on_disk in zip(entries, disk, strict=True):
        per_graph = None
        figures = entry.figures()
        if figures["nodes per graph"] and figures["edges per graph"] and entry.graphs != 1:
            per_graph = f"{figures['nodes per graph']:.2f} / {figures['edges per graph']:.2f}"
        rows.append(
            [
                entry.name,
                entry.graphs or "not known",
                entry.nodes or "not known",
                entry.edges or "not known",
                per_graph,
                f"{entry.features} {entry.feature_kind}",
                entry.classes or entry.targets,
                entry.metric,
                entry.licence,
                on_disk.state,
            ]
        )
    columns = [
        *words("data="),
        *numbers("graphs", "nodes", "edges", "per graph"),
        *words("features"),
        *numbers("classes, targets"),
        *words("metric", "licence", "on disk"),
    ]
    spare = ["licence", "features", "metric", "per graph", "edges", "nodes"]
    below = (
        "Nodes and edges of all graphs together; edges are undirected, without loops or repeats. "
        "Names with ogbg- are asked for by data=ogb data.name=NAME. unionsnn datasets NAME shows "
        "citations and more."
    )
    return [Table("Data sets", columns, rows, spare=spare), _deviations(entries), below]


def _deviations(entries: Sequence[CatalogEntry]) -> Table:
    rows = []
    for entry in entries:
        for each in entry.deviations():
            digits = ".2f" if "per graph" in each.what else ",.0f"
            ours, paper = f"{each.ours:{digits}}", f"{each.paper:{digits}}"
            rows.append([entry.name, each.what, ours, paper, each.reason])
    columns = [*words("data=", "what"), *numbers("here", "paper"), *words("why")]
    return Table("Counts that differ from the paper's", columns, rows)


def dataset_tables(entry: CatalogEntry, disk: OnDisk) -> list[Table]:
    """Return all details of one set."""
    rows = [("source", entry.source_name), ("task", entry.task), ("metric", entry.metric)]
    for key, value in entry.figures().items():
        each = "per graph" in key
        if value and key != "training nodes" and not (each and entry.graphs == 1):
            rows.append((key, f"{value:.2f}" if each else f"{value:,.0f}"))
    if entry.targets not in (None, 1):
        rows.append(("targets", str(entry.targets)))
    split = "in its files" if entry.prescribed else "drawn by the protocol"
    if entry.split is not None:
        parts = zip(entry.split, ("training", "validation", "test"), strict=True)
        split = ", ".join(f"{size:,} {name}" for size, name in parts)
    rows += [("split", split), ("node features", f"{entry.features} {entry.feature_kind}")]
    rows += [("edge features", _edge_features(entry))]
    rows += [("cite", str(citation)) for citation in entry.citations]
    rows += [("licence", entry.licence), ("on disk", disk.state)]
    rows += [("raw file", str(path)) for path in disk.raw]
    rows += [("processed", str(path)) for path in disk.processed]
    rows += [
        (
            "coefficients",
            f"{spec['substructure']}, {spec['descriptor']}, {spec['encoding']}, radius "
            f"{','.join(map(str, spec['radius']))}: {', '.join(spec['quantities'])}",
        )
        for spec in disk.coefficients
    ]
    deviations = [_deviations([entry])] if entry.deviations() else []
    return [key_value_table(entry.request or f"data={entry.name}", rows), *deviations]


def _edge_features(entry: CatalogEntry) -> str:
    """Describe what is known of edges, and how it is read: by default it is not."""
    if not (words := edges_in_words(entry.edge_labels, entry.edge_attributes)):
        return "none"
    wanted = "labels" if entry.edge_labels else "attributes"
    return f"{words}, read with data.edge_features={wanted}; by default none"


def as_plain(entry: CatalogEntry, disk: OnDisk) -> dict[str, Any]:
    """Return all details of one set as plain types."""
    return {
        "name": entry.name,
        "source": entry.source_name,
        "task": entry.task,
        "metric": entry.metric,
        "targets": entry.targets,
        **{key: value for key, value in entry.figures().items() if key != "training nodes"},
        "feature_kind": entry.feature_kind,
        "edge_labels": list(entry.edge_labels),
        "edge_attributes": entry.edge_attributes,
        "split": None if entry.split is None else list(entry.split),
        "licence": entry.licence,
        "citations": [str(citation) for citation in entry.citations],
        "paper": dict(entry.paper),
        "deviations": [vars(deviation) for deviation in entry.deviations()],
        "state": disk.state,
        "raw": [str(path) for path in disk.raw],
        "processed": [str(path) for path in disk.processed],
        "coefficients": list(disk.coefficients),
    }


def draw_histograms(
    degree: NDArray[np.int64], coefficient: NDArray[np.float64], title: str
) -> Figure:
    """Draw histograms of the degrees and of the structural coefficient.

    Shapes:
        degree [N], coefficient [M], one value for each undirected edge.
    """
    figure, ((left, right),) = subplots(9, 3.5, 1, 2)
    largest = int(degree.max(initial=0))
    steps = np.arange(largest + 2) - 0.5 if largest <= 2 * _BINS else _BINS
    left.hist(degree, bins=steps, color=COLORS[0], log=True)
    left.set(xlabel="degree", ylabel="nodes")
    right.hist(coefficient, bins=_BINS, color=COLORS[1], log=True)
    right.set(xlabel="structural coefficient a", ylabel="edges")
    figure.suptitle(title)
    return figure


def removals_table(removals: Sequence[Removal]) -> Table:
    """Return what would be deleted."""
    rows = [[each.kind, len(each.files), each.size, str(each.folder)] for each in removals]
    columns = [
        *words("what"),
        *numbers("files"),
        *numbers("size", form=format_bytes),
        *words("folder"),
    ]
    return Table("", columns, rows)
