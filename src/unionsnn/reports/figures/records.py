"""Figures of records: learning curves, values of the repetitions, predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unionsnn.data.sources.source import has_numbers
from unionsnn.reports.collection import StoredRecord
from unionsnn.reports.figures.palette import COLORS, NEUTRAL, SHARES
from unionsnn.reports.figures.plots import subplots
from unionsnn.reports.formatting import is_percent, possible
from unionsnn.training.records import Bins

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LINES = ("-", "--", ":", "-.")


FEWEST = 4
"""Minimum number of repetitions for a box, which has five numbers of its own."""


def draw_boxes(group: Sequence[StoredRecord], names: Sequence[str]) -> Figure:
    """Draw the values of all repetitions as points, with a box where there are enough."""
    report = group[0].record.protocol.report
    scale = 100 if is_percent(report) else 1
    values = [[scale * v for v in each.record.summary.values] for each in group]
    figure, ((axes,),) = subplots(7.5, 0.9 + 0.32 * len(group))
    places = [place for place, points in enumerate(values, 1) if len(points) >= FEWEST]
    if places:
        axes.boxplot(
            [values[place - 1] for place in places],
            positions=places,
            orientation="horizontal",
            widths=0.6,
            showfliers=False,
            medianprops={"color": COLORS[1], "linewidth": 1.6},
        )
    for place, points in enumerate(values, 1):
        axes.plot(points, [place] * len(points), "o", markersize=3.5, alpha=0.6, color=COLORS[0])
    axes.set_yticks(range(1, len(names) + 1), [_short(name) for name in names])
    # The first on top; points are not cut where there are few.
    axes.set_ylim(len(group) + 0.6, 0.4)
    axes.set_xlabel(f"{report}{' (%)' if scale == 100 else ''}")
    axes.grid(axis="x", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def draw_curves(curves: Sequence[Sequence[dict[str, float]]], title: str) -> Figure:
    """Draw loss and metric by epoch: mean over repetitions with a band of one standard deviation.

    An epoch's mean is over the repetitions that reached it.
    """
    keys = sorted({key for repetition in curves for epoch in repetition for key in epoch})
    losses = [key for key in keys if key.endswith("_loss")]
    metrics = [key for key in keys if not key.endswith("_loss")]
    panels = [panel for panel in (losses, metrics) if panel]
    figure, (row,) = subplots(7.5, 2.6, 1, len(panels))
    for axes, shown in zip(row, panels, strict=True):
        for key, line, color in zip(shown, _LINES, COLORS, strict=False):
            columns = []
            for epoch in range(max(len(repetition) for repetition in curves)):
                there = [r[epoch][key] for r in curves if epoch < len(r) and key in r[epoch]]
                columns.append((np.mean(there), np.std(there)) if there else (np.nan, np.nan))
            mean, std = np.array(columns).T
            epochs = np.arange(1, len(mean) + 1)
            axes.plot(epochs, mean, line, label=key, linewidth=1.3, color=color)
            bounds = [possible(key, (m - s, m + s)) for m, s in zip(mean, std, strict=True)]
            axes.fill_between(epochs, *np.array(bounds).T, alpha=0.2, color=color)
        axes.set_xlabel("epoch")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.legend(frameon=False, fontsize=8)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(_short(title, 80), fontsize=10)
    return figure


def draw_predictions(output: NDArray[Any], target: NDArray[Any], task: str, title: str) -> Figure:
    """Draw a confusion matrix, or for a regression predictions against targets.

    Args:
        output: Outputs of the network, a row for each item.
        target: Targets.
        task: Name of the task, as in the configuration.
        title: Title of the figure.

    Shapes:
        output [N, C], target [N] or [N, T]; missing targets are not drawn.
    """
    figure, ((axes,),) = subplots(4.6, 3.8)
    truth = target.reshape(-1)
    if has_numbers(task):
        known = ~np.isnan(truth)
        truth, output = truth[known], output.reshape(-1, 1)[known]
    if task == "graph_regression":
        chosen = np.random.default_rng(0).permutation(len(truth))[:3000]
        axes.plot(truth[chosen], output[chosen, 0], ".", markersize=3, alpha=0.4, color=COLORS[0])
        ends = [float(truth.min()), float(truth.max())]
        axes.plot(ends, ends, "-", color=NEUTRAL, linewidth=1)
        axes.set(xlabel="target", ylabel="prediction")
    else:
        guess = (output[:, 0] > 0).astype(int) if output.shape[1] == 1 else output.argmax(axis=1)
        count = int(max(truth.max(), guess.max())) + 1
        matrix = np.zeros((count, count), dtype=int)
        np.add.at(matrix, (truth.astype(int), guess), 1)
        share = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
        axes.imshow(share, cmap=SHARES, vmin=0, vmax=1)
        for i, j in np.ndindex(*matrix.shape):
            color = "white" if share[i, j] > 0.5 else "black"
            axes.text(j, i, f"{matrix[i, j]:,}", ha="center", va="center", color=color, fontsize=8)
        axes.set(xlabel="predicted class", ylabel="class")
        axes.set_xticks(range(count))
        axes.set_yticks(range(count))
    axes.set_title(_short(title, 50), fontsize=9)
    return figure


def draw_histogram(histogram: Mapping[str, Bins], title: str) -> Figure:
    """Draw a histogram of coefficients over edges, a panel for each column.

    Args:
        histogram: Bins of each column.
        title: Title of the figure.
    """
    across = min(len(histogram), 4)
    down = -(-len(histogram) // across)
    figure, grid = subplots(max(2.5 * across, 3.6), 0.6 + 1.7 * down, down, across)
    panels = list(grid.flat)
    for axes, (column, content) in zip(panels, histogram.items(), strict=False):
        ends = np.linspace(content.low, content.high, len(content.counts) + 1)
        axes.stairs(content.counts, ends, fill=True, color=COLORS[0])
        # Most edges of a molecule share a few values, and a linear scale would show only those.
        axes.set_yscale("log")
        axes.set_ylim(bottom=0.7)
        axes.set_xlabel(column, fontsize=8)
        axes.tick_params(labelsize=7)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in panels[len(histogram) :]:
        axes.set_axis_off()
    figure.supylabel("directed edges", fontsize=8)
    figure.suptitle(_short(title, max(30 * across, 42)), fontsize=9)
    return figure


def _short(text: str, length: int = 60) -> str:
    # A dollar sign would start a formula.
    shown = text if len(text) <= length else f"{text[: length - 1]}…"
    return shown.replace("$", r"\$")
