"""Figures: a graph with edges coloured by coefficient, box plots of the effects of deletions."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unionsnn.base.errors import DataError
from unionsnn.base.files import atomic_write
from unionsnn.reports.figures.palette import COLORS, INK, NEUTRAL, SCALE
from unionsnn.reports.table import check_output

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_NODES = 300
"""Largest graph to draw: with more nodes, edges are too small to see their colours."""

_MAX_LABELS = 40
_COLORED = (0.02, 0.98)
"""Quantiles of the coefficients between which colours differ, of a graph without names."""


def subplots(
    width: float, height: float, rows: int = 1, columns: int = 1, **options: Any
) -> tuple[Figure, NDArray[Any]]:
    """Make a figure with a grid of axes.

    Args:
        width: In inches.
        height: In inches.
        rows: Rows of the grid.
        columns: Its columns.
        options: Further ones of `matplotlib.figure.Figure.subplots`.

    Shapes:
        -> [rows, columns] axes.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def frame_graph(axes: Axes, margin: float) -> None:
    """Give a drawn graph equal scales and no axes."""
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(margin)
    axes.axis("off")


def check_plot(path: Path) -> None:
    """Check before any work that a figure can be written to a path.

    Raises:
        DataError: The extension or the folder is not usable.
    """
    check_output("--plot", path, (".png", ".svg", ".pdf"), DataError)


def check_drawable(num_nodes: int) -> None:
    """Check that a graph is small enough to be drawn.

    Raises:
        DataError: It is too large; says what to do instead.
    """
    if num_nodes > MAX_NODES:
        raise DataError(
            f"A graph of {num_nodes:,} nodes is not drawn: beyond {MAX_NODES} the edges cannot be "
            "told apart. Leave out --plot and use the table, or write the part of interest to a "
            "separate file.",
            code="plot.too_large",
        )


def draw_coefficients(
    edges: NDArray[np.int64],
    values: NDArray[np.float64],
    names: Sequence[Any],
    *,
    title: str,
    label: str,
) -> Figure:
    """Draw a graph with its edges coloured by a coefficient.

    The same graph is always drawn the same way.

    Args:
        edges: Edges in one or both directions; self loops are left out.
        values: The coefficient of each edge.
        names: Name of each node; shown if there are few nodes.
        title: Title of the figure.
        label: Title of the colour bar.

    Shapes:
        edges [2, E], values [E], names [N].

    Raises:
        DataError: The graph is too large.
    """
    from matplotlib.collections import LineCollection

    check_drawable(len(names))
    first = {tuple(sorted(pair)): i for i, pair in enumerate(edges.T.tolist()) if len({*pair}) == 2}
    pairs = np.array(list(first), dtype=np.int64).reshape(-1, 2)
    place = place_nodes(pairs, len(names))
    shown = values[list(first.values())]
    # Large values lie on top, where many edges cross.
    order = np.argsort(shown, kind="stable")
    pairs, shown = pairs[order], shown[order]
    # The larger the graph, the larger the sheet: edges keep a length that shows their colours.
    larger = float(np.clip(np.sqrt(len(names) / _MAX_LABELS), 1, 2))
    figure, ((axes,),) = subplots(8 * larger, 6 * larger)
    # A few extreme edges would give all others the same colour.
    few = len(names) <= _MAX_LABELS
    wanted = (0.0, 1.0) if few else _COLORED
    low, high = np.quantile(shown, wanted).tolist() if len(pairs) else (0.0, 1.0)
    lines = LineCollection(
        list(place[pairs]),
        array=shown,
        cmap=SCALE,
        clim=(low, high),
        linewidths=float(np.clip(60 / max(len(names), 1), 1.2, 4)),
        zorder=1,
    )
    axes.add_collection(lines)
    looks: dict[str, Any]
    if few:
        looks = {"s": 260.0, "color": "white", "edgecolors": INK, "linewidths": 1.0}
    else:
        looks = {"s": float(np.clip(6000 / len(names), 12, 120)), "color": INK}
    axes.scatter(place[:, 0], place[:, 1], zorder=2, **looks)
    if few:
        for (x, y), name in zip(place, names, strict=True):
            text = str(name)
            axes.annotate(
                text if len(text) <= 12 else f"{text[:11]}…",
                (x, y),
                ha="center",
                va="center",
                fontsize=8 if len(text) <= 3 else 6,
                color=INK,
                zorder=3,
            )
    axes.set_title(title, fontsize=12 * larger)
    frame_graph(axes, 0.06)
    if len(pairs):
        ends = [bool(shown[0] < low), bool(shown[-1] > high)]
        if any(ends):
            label += f" (ends of the scale: beyond it, from {shown[0]:.4g} to {shown[-1]:.4g})"
        extend = {(True, True): "both", (True, False): "min", (False, True): "max"}
        bar = figure.colorbar(lines, ax=axes, extend=extend.get((ends[0], ends[1]), "neither"))
        bar.set_label(label, size=10 * larger)
        bar.ax.tick_params(labelsize=10 * larger)
    return figure


def place_nodes(pairs: NDArray[np.int64], num_nodes: int) -> NDArray[np.float64]:
    """Lay out each component by its distances, then place components side by side, [N, 2]."""
    import networkx

    graph = networkx.Graph()
    graph.add_nodes_from(range(num_nodes))
    graph.add_edges_from(pairs.tolist())
    place = np.zeros((num_nodes, 2))
    components = sorted(networkx.connected_components(graph), key=lambda c: (-len(c), min(c)))
    # A component gets a square with as many units of area as it has nodes; the rows of squares are
    # of about the width of a square that holds all components.
    width = np.sqrt(num_nodes)
    x = y = row = 0.0
    for component in components:
        extent = np.sqrt(len(component))
        if x > 0 and x + extent > 1.2 * width:
            x, y, row = 0.0, y - row, 0.0
        nodes = sorted(component)
        place[nodes] = _place_component(graph.subgraph(nodes), nodes) * extent + (x, y - extent)
        x, row = x + extent, max(row, extent)
    return place


def _place_component(graph: Any, nodes: Sequence[int]) -> NDArray[np.float64]:
    """Lay out a connected graph in the unit square, with its longer axis horizontal, [n, 2]."""
    import networkx

    if len(nodes) == 1:
        return np.full((1, 2), 0.5)
    found = networkx.kamada_kawai_layout(graph)
    place = np.array([found[node] for node in nodes])
    place -= place.mean(axis=0)
    place = place @ np.linalg.svd(place, full_matrices=False)[2].T
    # The signs of singular vectors are arbitrary; the first node fixes them.
    place *= np.where(place[0] > 0, -1, 1)
    low, high = place.min(axis=0), place.max(axis=0)
    centred: NDArray[np.float64] = 0.5 + 0.84 * (place - (low + high) / 2) / (high - low).max()
    return centred


def draw_effects(effects: Mapping[str, NDArray[np.float64]], *, title: str, label: str) -> Figure:
    """Draw a box for each kind of deletion: quartiles, whiskers to 5 and 95 %, mean as a dot.

    Args:
        effects: Effects by kind, in the order of the boxes; those of nodes, which are larger, get
            a separate axis.
        title: Title of the figure.
        label: Title of the vertical axes.
    """
    edges = {kind: values for kind, values in effects.items() if kind != "node"}
    nodes = {kind: values for kind, values in effects.items() if kind == "node"}
    figure, ((left, right),) = subplots(8.5, 5, 1, 2, width_ratios=(max(len(edges), 1), 1.3))
    _draw_boxes(left, edges, COLORS)
    _draw_boxes(right, nodes, COLORS[len(edges) :])
    left.set_title("an edge is deleted", fontsize=10)
    right.set_title("a node is deleted", fontsize=10)
    left.set_ylabel(label)
    figure.suptitle(title)
    return figure


def _draw_boxes(
    axes: Axes, effects: Mapping[str, NDArray[np.float64]], colors: Sequence[str]
) -> None:
    axes.axhline(0, color=NEUTRAL, linewidth=0.8, zorder=0)
    axes.spines[["top", "right"]].set_visible(False)
    there = [kind for kind, values in effects.items() if len(values)]
    if not there:
        axes.set_xticks([])
        return
    boxes = axes.boxplot(
        [effects[kind] for kind in there],
        tick_labels=[f"{kind}\n{len(effects[kind]):,} cases" for kind in there],
        whis=(5, 95),
        showfliers=False,
        showmeans=True,
        meanprops={"marker": "o", "markerfacecolor": "white", "markeredgecolor": "black"},
        medianprops={"color": "black"},
        patch_artist=True,
        widths=0.6,
    )
    for kind, box in zip(there, boxes["boxes"], strict=True):
        box.set_facecolor(colors[list(effects).index(kind)])


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure atomically; the same figure gives the same bytes.

    Args:
        figure: The figure.
        path: A path with extension .png, .svg or .pdf.

    Raises:
        OSError: The file cannot be written.
    """
    content = figure_bytes(figure, path.suffix.lower().removeprefix("."), dpi=150)
    atomic_write(path, lambda file: file.write(content))


def figure_bytes(figure: Figure, form: str, **options: Any) -> bytes:
    """Return a figure as png, svg or pdf; the same figure gives the same bytes.

    Args:
        figure: The figure.
        form: The format.
        options: Further ones of `matplotlib.figure.Figure.savefig`.
    """
    import matplotlib

    undated: dict[str, Any] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form, {})
    buffer = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "unionsnn"}):
        figure.savefig(buffer, format=form, metadata=undated or None, **options)
    return buffer.getvalue()
