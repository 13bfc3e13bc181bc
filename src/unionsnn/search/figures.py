"""Figures of a study, drawn by Optuna as HTML for plotly.js."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import optuna
from optuna.exceptions import ExperimentalWarning
from optuna.importance import FanovaImportanceEvaluator
from optuna.trial import FrozenTrial, TrialState

from unionsnn.search.queue import attach
from unionsnn.search.study import Study

FEWEST = 4
"""Minimum number of finished trials to estimate the importance of parameters."""


def study_figures(study: Study) -> list[tuple[str, str]]:
    """Draw a study: history, importance, parallel coordinates, slices, curves of pruned trials.

    Returns:
        Caption and HTML of each figure, without plotly.js; a caption without HTML says what is left
        out, and why.
    """
    stored = attach(study)
    return [(caption, _html(make)) for caption, make in _figures(stored, study)]


def _figures(stored: optuna.Study, study: Study) -> Iterator[tuple[str, Callable[[], Any] | None]]:
    from optuna import visualization as vis

    finished = stored.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    if len(study.file.objectives) == 2:
        yield (
            "Both objectives of each trial; no trial is better in both than those of the front",
            partial(vis.plot_pareto_front, stored, target_names=study.file.objectives),
        )
    for number, key in enumerate(study.file.objectives):
        # Optuna refuses a target with one objective, and requires it with two.
        options: dict[str, Any] = {"target_name": key}
        if len(study.file.objectives) == 2:
            options["target"] = partial(_value_of, place=number)
        varied = [
            name
            for name in study.space
            if len({repr(trial.params.get(name.key)) for trial in finished}) > 1
        ]
        yield (
            f"History: {key} of each finished trial, and the best so far",
            partial(vis.plot_optimization_history, stored, **options),
        )
        distinct = {trial.values[number] for trial in finished}
        if len(finished) < FEWEST or len(distinct) < 2 or not varied:
            yield (
                f"No importance of parameters: {len(finished)} finished trials are too few",
                None,
            )
        else:
            yield (
                f"Importance for {key}: share of its variance over the space (fANOVA, Hutter et "
                "al. 2014), from the finished trials alone",
                partial(
                    vis.plot_param_importances,
                    stored,
                    evaluator=FanovaImportanceEvaluator(seed=study.file.seed),
                    **options,
                ),
            )
        if finished:
            yield (
                f"Parallel coordinates: a line per finished trial, coloured by {key}",
                partial(vis.plot_parallel_coordinate, stored, **options),
            )
            yield (
                f"Slices: {key} against each parameter",
                partial(vis.plot_slice, stored, **options),
            )
    if study.file.pruner.name != "none":
        yield (
            f"What the pruner saw after each {study.file.pruner.every}",
            partial(vis.plot_intermediate_values, stored),
        )


def _value_of(trial: FrozenTrial, place: int) -> float:
    return float(trial.values[place])


def _html(make: Callable[[], Any] | None) -> str:
    if make is None:
        return ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        figure = make()
    text: str = figure.to_html(full_html=False, include_plotlyjs=False)
    return text


def plotly_script() -> str:
    """Return plotly.js, for a page that opens offline."""
    from plotly.offline import get_plotlyjs

    text: str = get_plotlyjs()
    return text
