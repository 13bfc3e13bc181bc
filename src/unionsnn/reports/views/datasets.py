"""Tables and figures of data sets: what there is, what is on disk, where the paper differs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from unionsnn.data.inventory import OnDisk, Removal
from unionsnn.data.sources.facts import CatalogEntry, Deviation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WIDE = 140
_BINS = 40


def console() -> Console:
    """A console; where the output is no terminal, wide enough that no line is broken."""
    made = Console()
    return made if made.is_terminal else Console(width=_WIDE)


def datasets_table(entries: Sequence[CatalogEntry], disk: Sequence[OnDisk]) -> Table:
    """All sets with their counts, metric, licence and state on disk."""
    table = Table(title="Data sets", title_justify="left")
    for column in ("data=", "graphs", "nodes", "edges", "per graph", "features", "classes"):
        side = "left" if column in ("data=", "features") else "right"
        table.add_column(column, justify=side, no_wrap=True)  # type: ignore[arg-type]
    for column in ("metric", "licence", "on disk"):
        table.add_column(column, no_wrap=True)
    for entry, found in zip(entries, disk, strict=True):
        per_graph = "–"
        if entry.graphs > 1 and entry.nodes is not None:
            figures = entry.figures()
            per_graph = f"{figures['nodes per graph']:.2f} / {figures['edges per graph']:.2f}"
        table.add_row(
            entry.name,
            f"{entry.graphs:,}",
            _count(entry.nodes),
            _count(entry.edges),
            per_graph,
            f"{entry.features} {entry.feature_kind}",
            str(entry.classes or "–"),
            entry.metric,
            entry.licence,
            found.state,
        )
    return table


def deviations_table(entries: Sequence[CatalogEntry]) -> Table:
    """Figures that differ from the paper's tables, and why."""
    table = Table(title="Where a figure differs from the paper's", title_justify="left")
    for column in ("data=", "what"):
        table.add_column(column, no_wrap=True)
    for column in ("here", "paper"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("why")
    for entry in entries:
        for deviation in entry.deviations():
            ours, paper = _shown(deviation)
            table.add_row(entry.name, deviation.what, ours, paper, deviation.reason)
    return table


def _shown(deviation: Deviation) -> tuple[str, str]:
    digits = ".2f" if "per graph" in deviation.what else ",.0f"
    return f"{deviation.ours:{digits}}", f"{deviation.paper:{digits}}"


def _count(value: int | None) -> str:
    return "not known" if value is None else f"{value:,}"


def print_datasets(entries: Sequence[CatalogEntry], disk: Sequence[OnDisk]) -> None:
    """Print all sets, and where they differ from the paper."""
    out = console()
    out.print(datasets_table(entries, disk))
    out.print(deviations_table(entries))
    out.print(
        "Nodes and edges of all graphs together; edges undirected, without loops and repeats. "
        "unionsnn datasets NAME shows citations and more."
    )


def print_dataset(entry: CatalogEntry, disk: OnDisk) -> None:
    """Print all that is known of one set."""
    table = Table(title=f"data={entry.name}", title_justify="left", show_header=False)
    for key, value in _details(entry, disk):
        table.add_row(key, value)
    out = console()
    out.print(table)
    if entry.deviations():
        out.print(deviations_table([entry]))


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
    rows += [("coefficients", _spec_text(spec)) for spec in disk.coefficients]
    return rows


def _spec_text(spec: dict[str, Any]) -> str:
    radii = ",".join(str(r) for r in spec["radius"])
    choices = f"{spec['substructure']}, {spec['descriptor']}, {spec['encoding']}"
    return f"{choices}, radius {radii}: {', '.join(spec['quantities'])}"


def as_plain(entry: CatalogEntry, disk: OnDisk) -> dict[str, Any]:
    """All that is known of one set, as plain types."""
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
    """Draw how often each degree occurs, and each value of the structural coefficient.

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


def removal_table(found: Sequence[Removal]) -> Table:
    """What would be deleted."""
    table = Table(title_justify="left")
    table.add_column("what")
    table.add_column("files", justify="right")
    table.add_column("size", justify="right")
    table.add_column("folder", overflow="fold")
    for each in found:
        files = f"{len(each.files):,}"
        table.add_row(each.kind, files, format_bytes(each.size), str(each.folder))
    return table


def format_bytes(size: float) -> str:
    """Write a size in the unit that fits."""
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
