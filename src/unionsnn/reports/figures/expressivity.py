"""Pictures of pairs of graphs: edges coloured by a number or a class, nodes by 1-WL.

The half of an edge at a node has the colour of what that node receives over it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unionsnn.base.errors import DataError
from unionsnn.expressivity.bench import Bench
from unionsnn.expressivity.color_refinement import GraphUnion, cluster, refine
from unionsnn.expressivity.edge_colorings import EdgeColoring
from unionsnn.expressivity.graph_sets import Family, golden_pairs
from unionsnn.reports.figures.palette import COLORS, INK, PALE, SCALE
from unionsnn.reports.figures.plots import (
    frame_graph,
    place_nodes,
    save_figure,
    subplots,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

_FAMILIAR = len(COLORS)


@dataclass(frozen=True, eq=False)
class Panel:
    """A drawing of one graph.

    Attributes:
        title: Title above it.
        edge_index: Edges, both directions.
        num_nodes: Number of nodes.
        values: Number or class of each directed edge.
        colors: Colour class of each node.
        marked: Nodes with a thick rim.
    """

    title: str
    edge_index: IntArray
    num_nodes: int
    values: FloatArray
    colors: IntArray
    marked: tuple[int, ...] = ()


def make_folder(folder: Path) -> None:
    """Create the folder for pictures.

    Raises:
        DataError: It cannot be made.
    """
    if folder.exists() and not folder.is_dir():
        raise DataError(
            f"--plot is {str(folder)!r}, which is a file; name a folder.", code="output.is_a_file"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            f"--plot is {str(folder)!r}, which cannot be made ({error.strerror}); name another "
            "folder.",
            code="output.no_folder",
        ) from error


def panels_of(
    union: GraphUnion,
    values: FloatArray,
    titles: Sequence[str],
    marked: Sequence[tuple[int, ...]] = (),
    step: int = 1,
) -> list[Panel]:
    """Make a panel of each graph: edges by a number, nodes by 1-WL.

    Args:
        union: The graphs.
        values: Number or class of each directed edge.
        titles: What stands above each panel.
        marked: Nodes of each graph with a thick rim.
        step: How many graphs of the union there are for each panel, the first of which is drawn.

    Shapes:
        values [E].
    """
    owner, slices = union.graph_of_edge, union.node_slices
    colors = refine(union, np.zeros(len(owner), np.int64))
    panels = []
    for i, title in enumerate(titles):
        mine, first, end = owner == step * i, slices[step * i], slices[step * i + 1]
        rims = marked[i] if marked else ()
        edges = union.edge_index[:, mine] - first
        panels.append(Panel(title, edges, int(end - first), values[mine], colors[first:end], rims))
    return panels


def draw_family(
    family: Family, titles: Sequence[str], choices: Mapping[str, str], title: str
) -> Figure:
    """Draw the graphs of a family, a row for each choice with its label: edges by its number."""
    bench = Bench([family], threads=1)
    rows = []
    for choice, label in choices.items():
        values = bench.values(EdgeColoring.parse(choice))
        numbers = values[:, 0] if values.shape[1] else np.zeros(len(values))
        # Each graph is followed by its relabelled copy.
        rows.append((label, panels_of(bench.union, numbers, titles, step=2)))
    return draw_panels(rows, title)


def draw_panels(rows: Sequence[tuple[str, Sequence[Panel]]], title: str) -> Figure:
    """Draw rows of graphs; equal numbers of a row share a colour, named in a legend.

    Args:
        rows: A label and the same number of graphs for each row.
        title: Title of the figure.
    """
    from matplotlib import colormaps
    from matplotlib.lines import Line2D

    columns = len(rows[0][1])
    figure, grid = subplots(4.2 * columns, 3.9 * len(rows), len(rows), columns)
    for axes, (label, panels) in zip(grid, rows, strict=True):
        values = np.concatenate([panel.values for panel in panels])
        classes, _ = cluster(values, np.zeros(len(values), np.int64))
        count = int(classes.max(initial=-1)) + 1
        few = count <= _FAMILIAR
        palette = COLORS[:count] if few else colormaps[SCALE](np.linspace(0, 1, count))
        bounds = np.cumsum([0, *(len(panel.values) for panel in panels)])
        for each, panel, begin in zip(axes, panels, bounds, strict=False):
            _draw_graph(each, panel, classes[begin : begin + len(panel.values)], palette)
        axes[0].text(
            -0.02, 0.5, label, rotation=90, va="center", ha="right", transform=axes[0].transAxes
        )
        if few:
            first = [int(np.flatnonzero(classes == k)[0]) for k in range(count)]
            handles = [
                Line2D([], [], color=palette[k], linewidth=3, label=f"{values[first[k]]:.4g}")
                for k in range(count)
            ]
            axes[-1].legend(
                handles=handles, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False
            )
    figure.suptitle(title)
    return figure


def _draw_graph(axes: Axes, panel: Panel, classes: IntArray, palette: Any) -> None:
    from matplotlib.collections import LineCollection

    senders, receivers = panel.edge_index
    place = place_nodes(panel.edge_index[:, senders < receivers].T, panel.num_nodes)
    # The half of an edge at a node shows what that node sees: ã differs between the ends.
    # A little beyond the middle, so that no gap shows between halves of one colour.
    middle = place[receivers] + 0.505 * (place[senders] - place[receivers])
    halves = np.stack([middle, place[receivers]], axis=1)
    lines = LineCollection(
        list(halves), colors=[palette[k] for k in classes], linewidths=3, zorder=1
    )
    axes.add_collection(lines)
    rims = [2.6 if node in panel.marked else 0.9 for node in range(panel.num_nodes)]
    axes.scatter(
        place[:, 0],
        place[:, 1],
        s=130,
        color=[PALE[c % len(PALE)] for c in panel.colors],
        edgecolors=INK,
        linewidths=rims,
        zorder=2,
    )
    axes.set_title(panel.title, fontsize=10)
    frame_graph(axes, 0.08)


def draw_golden_pairs() -> dict[str, Figure]:
    """Draw each golden pair by a and by ã; return the figures by names of files."""
    choices = {"a": "a, radius 1", "a~": "ã, radius 1", "a@2": "a, radius 2"}
    figures = {}
    for family in golden_pairs():
        titles = [text.strip() for text in family.name.split("/")]
        words = family.name.lower().replace("/", " ").replace(",", "").split()
        figures["_".join(words)] = draw_family(family, titles, choices, family.name)
    return figures


def save_figures(figures: Mapping[str, Figure], folder: Path) -> None:
    """Write figures as SVG under their names.

    Raises:
        OSError: A figure cannot be written.
    """
    for name, figure in figures.items():
        save_figure(figure, folder / f"{name}.svg")
