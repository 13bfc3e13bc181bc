"""Figures of a study, drawn by Optuna as HTML for plotly.js."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from optuna.importance import FanovaImportanceEvaluator
from optuna.trial import FrozenTrial, TrialState

from unionsnn.search.queue import attach
from unionsnn.search.samplers import quiet_optuna
from unionsnn.search.study import Study
from unionsnn.search.study_file import Direction

FEWEST = 4
"""Minimum number of finished trials to estimate the importance of parameters."""

_FENCE = 3.0
"""A value is drawn at the edge beyond so many interquartile ranges from the nearest quartile."""

_NAMED = 8
"""Maximum number of trials named in a caption."""


@dataclass(frozen=True)
class Range:
    """The part of an objective's values that a figure shows, so that bad trials do not squash it.

    Args:
        low: Smallest value drawn in its place.
        high: Largest value drawn in its place.
        beyond: The trials whose values are worse, with these.
    """

    low: float
    high: float
    beyond: Sequence[tuple[int, float]]

    @classmethod
    def of(cls, values: Sequence[tuple[int, float]], direction: Direction) -> Range:
        """Find the range of the values of trials; only bad values lie beyond it."""
        known = np.array([value for _, value in values if math.isfinite(value)])
        if not len(known):
            return cls(0.0, 1.0, list(values))
        lower, upper = np.quantile(known, [0.25, 0.75])
        # Where most values are alike, what differs a little is not far off.
        reach = _FENCE * max(upper - lower, 0.02 * abs(float(np.median(known))), 1e-9)
        low, high = float(known.min()), float(known.max())
        if direction == "minimize":
            high = min(high, float(upper + reach))
        else:
            low = max(low, float(lower - reach))
        return cls(low, high, [(i, v) for i, v in values if not low <= v <= high])

    def clip(self, value: float) -> float:
        """Move a value that lies beyond to the edge."""
        return float(np.clip(value, self.low, self.high))

    @property
    def axis(self) -> list[float]:
        """Both ends of an axis, with a margin."""
        margin = 0.06 * ((self.high - self.low) or abs(self.high) or 1.0)
        return [self.low - margin, self.high + margin]

    @property
    def words(self) -> str:
        """What lies beyond, for a caption; empty if nothing does."""
        if not self.beyond:
            return ""
        named = ", ".join(f"{i} ({value:.4g})" for i, value in self.beyond[:_NAMED])
        more = len(self.beyond) - _NAMED
        return f"; trials beyond the axis: {named}{f' and {more} more' if more > 0 else ''}"


def study_figures(
    study: Study, colors: Sequence[str], ordered: Sequence[str]
) -> list[tuple[str, str]]:
    """Draw a study: history, importance, parallel coordinates, slices, curves of pruned trials.

    A trial that is far worse than the others is drawn at the edge, and named in the caption.

    Args:
        study: The study.
        colors: Colours of lines and points, in the order of use.
        ordered: Colours of numbers, between which others are mixed, smallest first.

    Returns:
        Caption and HTML of each figure, without plotly.js; a caption without HTML says what is left
        out, and why.
    """
    stored = attach(study)
    finished = stored.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    objectives, file = study.file.objectives, study.file
    varied = any(len({repr(t.params.get(p.key)) for t in finished}) > 1 for p in study.space)
    ranges = [
        Range.of([(t.number, t.values[k]) for t in finished], direction)
        for k, direction in enumerate(study.directions)
    ]
    with quiet_optuna():
        drawn = [*_figures(stored, finished, objectives, ranges, file.seed, varied=varied)]
        if file.pruner.name != "none":
            every, direction = file.pruner.every, study.directions[0]
            drawn.append(_intermediate(stored, objectives[0], direction, every, colors))
        keys = [parameter.key for parameter in study.space]
        return [
            (caption, _html(figure, colors, ordered, keys) if figure is not None else "")
            for caption, figure in drawn
        ]


def _figures(
    stored: Any,
    finished: Sequence[FrozenTrial],
    objectives: Sequence[str],
    ranges: Sequence[Range],
    seed: int,
    *,
    varied: bool,
) -> list[tuple[str, Any]]:
    """Return captions and figures of the objectives; None where a figure is left out."""
    from optuna import visualization as vis

    made: list[tuple[str, Any]] = []
    if len(objectives) == 2:
        caption = (
            "Both objectives of each trial; no trial is better in both than those of the front"
        )
        figure = vis.plot_pareto_front(stored, target_names=list(objectives))
        figure.update_xaxes(range=ranges[0].axis).update_yaxes(range=ranges[1].axis)
        made.append((caption + "".join(r.words for r in ranges), figure))
    for number, (key, shown) in enumerate(zip(objectives, ranges, strict=True)):
        # Optuna asks for a target where there are two objectives, and refuses it else.
        one: dict[str, Any] = {"target_name": key}
        if len(objectives) == 2:
            one["target"] = lambda trial, number=number: trial.values[number]
        figure = vis.plot_optimization_history(stored, **one)
        if finished:
            figure.update_yaxes(range=shown.axis)
        caption = f"History: {key} of each finished trial, and the best so far"
        made.append((caption + shown.words, figure))
        distinct = {trial.values[number] for trial in finished}
        if len(finished) < FEWEST or len(distinct) < 2 or not varied:
            caption = f"No importance of parameters: {len(finished)} finished trials are too few"
            made.append((caption, None))
        else:
            caption = (
                f"Importance for {key}: share of its variance over the space (fANOVA, Hutter et "
                "al. 2014), from the finished trials alone"
            )
            fanova = FanovaImportanceEvaluator(seed=seed)
            made.append((caption, vis.plot_param_importances(stored, **one, evaluator=fanova)))
        if finished:
            inside = partial(_inside, number=number, shown=shown)
            clipped: dict[str, Any] = {"target_name": key, "target": inside}
            caption = f"Parallel coordinates: a line per finished trial, coloured by {key}"
            made.append((caption + shown.words, vis.plot_parallel_coordinate(stored, **clipped)))
            caption = f"Slices: {key} against each parameter, coloured by the number of the trial"
            made.append((caption + shown.words, vis.plot_slice(stored, **clipped)))
    return made


def _inside(trial: FrozenTrial, number: int, shown: Range) -> float:
    return shown.clip(trial.values[number])


def _intermediate(
    stored: Any, key: str, direction: Direction, every: str, colors: Sequence[str]
) -> tuple[str, Any]:
    """Return caption and figure of what the pruner saw, a line per trial coloured by its state."""
    from optuna import visualization as vis

    figure = vis.plot_intermediate_values(stored)
    trials = stored.get_trials(deepcopy=False)
    states = {
        f"Trial{t.number}": t.state.name.lower().replace("complete", "finished") for t in trials
    }
    order = [state for state in ("finished", "pruned") if state in states.values()]
    order += sorted({*states.values()} - {*order})
    named = set[str]()
    for trace in figure.data:
        if (state := states.get(trace.name or "")) is None:
            continue
        trace.update(
            line_color=colors[order.index(state)],
            marker_color=colors[order.index(state)],
            legendgroup=state,
            showlegend=state not in named,
            x=[step + 1 for step in trace.x],
            hovertemplate=f"{trace.name}, {state}: %{{y:.4g}}<extra></extra>",
            name=state,
        )
        named.add(state)
    figure.update_layout(showlegend=True)
    figure.update_xaxes(title=every).update_yaxes(title=key)
    seen = [(t.number, value) for t in trials for value in t.intermediate_values.values()]
    if not seen:
        return f"What the pruner saw after each {every}", figure
    shown = Range.of(seen, direction)
    figure.update_yaxes(range=shown.axis)
    words = Range(shown.low, shown.high, list(dict(shown.beyond).items())).words
    return f"What the pruner saw after each {every}{words}", figure


def _html(figure: Any, colors: Sequence[str], ordered: Sequence[str], keys: Sequence[str]) -> str:
    """Return a figure as HTML: keys and legends in full, no pale colours, as wide as the page."""
    from plotly.colors import sample_colorscale

    figure.update_layout(
        title=None,
        width=None,
        template="plotly_white",
        colorway=list(colors),
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"size": 12},
        height=460,
        margin={"l": 90, "r": 60, "t": 60, "b": 70},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "title": None},
        modebar={"bgcolor": "rgba(0,0,0,0)", "color": "#808080", "activecolor": colors[0]},
        autosize=True,
    )
    figure.update_xaxes(automargin=True).update_yaxes(automargin=True)
    for axis in (figure.layout.xaxis, figure.layout.yaxis):
        if axis.ticktext:
            axis.ticktext = [_whole_key(text, keys) for text in axis.ticktext]
    for trace in figure.data:
        if trace.type == "bar":
            trace.marker.color = colors[0]
        elif trace.marker.colorscale is not None:
            trace.marker.update(colorscale=list(ordered), reversescale=False)
        elif trace.mode == "lines" and str(trace.line.color).startswith("rgb"):
            # Of parallel coordinates; the first is the objective, from 0 to 1.
            (trace.line.color,) = sample_colorscale(list(ordered), [trace.y[0]])
            trace.opacity = 0.8
    text: str = figure.to_html(
        full_html=False,
        include_plotlyjs=False,
        config={"responsive": True, "displaylogo": False},
    )
    return text


def _whole_key(text: str, keys: Sequence[str]) -> str:
    """Return a key of the space that Optuna has shortened, on two lines."""
    start = text.removesuffix("...")
    known = [key for key in keys if key.startswith(start)] if start != text else [text]
    return (known[0] if len(known) == 1 else text).replace(".", ".<br>", 1)


def plotly_script() -> str:
    """Return plotly.js, for a page that opens offline."""
    from plotly.offline import get_plotlyjs

    text: str = get_plotlyjs()
    return text
