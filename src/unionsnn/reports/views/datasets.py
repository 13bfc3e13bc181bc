"""Tables and figures of data sets: counts, state on disk, differences from the paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from unionsnn.base.words import format_bytes
from unionsnn.data.catalog import CatalogEntry
from unionsnn.data.inventory import OnDisk, Removal
from unionsnn.reports.table import Table, numbers, print_tables, words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# When piped, wide enough that no line is wrapped.
_WIDE = 140
_BINS = 40


def _print(*tables: Table) -> None:
    console = Console()
    print_tables(tables, console if console.is_terminal else Console(width=_WIDE))


def print_datasets(entries: Sequence[CatalogEntry], disk: Sequence[OnDisk]) -> None:
    """Print all sets with their counts and state on disk, and where they differ from the paper."""
    rows = []
    for entry, on_disk in zip(entries, disk, strict=True):
        per_graph = None
        if entry.graphs > 1 and entry.nodes is not None:
            figures = entry.figures()
            per_graph = f"{figures['nodes per graph']:.2f} / {figures['edges per graph']:.2f}"
        rows.append(
            [
                entry.name,
                entry.graphs,
                entry.nodes or "not known",
                entry.edges or "not known",
                per_graph,
                f"{entry.features} {entry.feature_kind}",
                entry.classes or None,
                entry.metric,
                entry.licence,
                on_disk.state,
            ]
        )
    columns = [
        *words("data="),
        *numbers("graphs", "nodes", "edges", "per graph"),
        *words("features"),
        *numbers("classes"),
        *words("metric", "licence", "on disk"),
    ]
    _print(Table("Data sets", columns, rows), _deviations(entries))
    print(
        "Nodes and edges of all graphs together; edges are undirected, without loops or repeats. "
        "unionsnn datasets NAME shows citations and more."
    )


def _deviations(entries: Sequence[CatalogEntry]) -> Table:
    rows = []
    for entry in entries:
        for each in entry.deviations():
            digits = ".2f" if "per graph" in each.what else ",.0f"
            ours, paper = f"{each.ours:{digits}}", f"{each.paper:{digits}}"
            rows.append([entry.name, each.what, ours, paper, each.reason])
    columns = [*words("data=", "what"), *numbers("here", "paper"), *words("why")]
    return Table("Counts that differ from the paper's", columns, rows)


def print_dataset(entry: CatalogEntry, disk: OnDisk) -> None:
    """Print all details of one set."""
    tables = [Table(f"data={entry.name}", words("", ""), _details(entry, disk), header=False)]
    if entry.deviations():
        tables.append(_deviations([entry]))
    _print(*tables)


def _details(entry: CatalogEntry, disk: OnDisk) -> list[tuple[str, str]]:
    rows = [("source", entry.source_name), ("task", entry.task), ("metric", entry.metric)]
    figures = {key: value for key, value in entry.figures().items() if value is not None}
    if entry.graphs == 1:
        figures = {k: v for k, v in figures.items() if "per graph" not in k}
    figures.pop("training nodes", None)
    rows += [
        (key, f"{value:.2f}" if "per graph" in key else f"{value:,.0f}")
        for key, value in figures.items()
    ]
    if entry.split is not None:
        parts = zip(entry.split, ("training", "validation", "test"), strict=True)
        rows.append(("split", ", ".join(f"{size:,} {name}" for size, name in parts)))
    else:
        rows.append(("split", "drawn by the protocol"))
    rows.append(("node features", f"{entry.features} {entry.feature_kind}"))
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
    return rows


def as_plain(entry: CatalogEntry, disk: OnDisk) -> dict[str, Any]:
    """Return all details of one set as plain types."""
    return {
        "name": entry.name,
        "source": entry.source_name,
        "task": entry.task,
        "metric": entry.metric,
        **{key: value for key, value in entry.figures().items() if key != "training nodes"},
        "feature_kind": entry.feature_kind,
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
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    largest = int(degree.max(initial=0))
    steps = np.arange(largest + 2) - 0.5 if largest <= 2 * _BINS else _BINS
    left.hist(degree, bins=steps, color="#4477aa", log=True)
    left.set(xlabel="degree", ylabel="nodes")
    right.hist(coefficient, bins=_BINS, color="#228833", log=True)
    right.set(xlabel="structural coefficient a", ylabel="edges")
    figure.suptitle(title)
    return figure


def print_removals(removals: Sequence[Removal]) -> None:
    """Print what would be deleted."""
    rows = [[each.kind, len(each.files), each.size, str(each.folder)] for each in removals]
    columns = [
        *words("what"),
        *numbers("files"),
        *numbers("size", form=format_bytes),
        *words("folder"),
    ]
    _print(Table("", columns, rows))
