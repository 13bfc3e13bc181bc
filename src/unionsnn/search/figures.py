"""Figures of a study, drawn by Optuna as HTML for plotly.js."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from optuna.importance import FanovaImportanceEvaluator
from optuna.trial import TrialState

from unionsnn.search.queue import attach
from unionsnn.search.samplers import quiet_optuna
from unionsnn.search.study import Study

FEWEST = 4
"""Minimum number of finished trials to estimate the importance of parameters."""


def study_figures(study: Study) -> list[tuple[str, str]]:
    """Draw a study: history, importance, parallel coordinates, slices, curves of pruned trials.

    Returns:
        Caption and HTML of each figure, without plotly.js; a caption without HTML says what is left
        out, and why.
    """
    from optuna import visualization as vis

    stored = attach(study)
    finished = stored.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    objectives, file = study.file.objectives, study.file
    varied = any(len({repr(t.params.get(p.key)) for t in finished}) > 1 for p in study.space)
    wanted: list[tuple[str, Callable[..., Any] | None, dict[str, Any]]] = []
    if len(objectives) == 2:
        caption = (
            "Both objectives of each trial; no trial is better in both than those of the front"
        )
        wanted.append((caption, vis.plot_pareto_front, {"target_names": objectives}))
    for number, key in enumerate(objectives):
        options: dict[str, Any] = {"target_name": key}
        if len(objectives) == 2:
            # Optuna asks for a target where there are two objectives, and refuses it else.
            options["target"] = lambda trial, number=number: trial.values[number]
        caption = f"History: {key} of each finished trial, and the best so far"
        wanted.append((caption, vis.plot_optimization_history, options))
        distinct = {trial.values[number] for trial in finished}
        if len(finished) < FEWEST or len(distinct) < 2 or not varied:
            caption = f"No importance of parameters: {len(finished)} finished trials are too few"
            wanted.append((caption, None, {}))
        else:
            caption = (
                f"Importance for {key}: share of its variance over the space (fANOVA, Hutter et "
                "al. 2014), from the finished trials alone"
            )
            fanova = FanovaImportanceEvaluator(seed=file.seed)
            wanted.append((caption, vis.plot_param_importances, {**options, "evaluator": fanova}))
        if finished:
            caption = f"Parallel coordinates: a line per finished trial, coloured by {key}"
            wanted.append((caption, vis.plot_parallel_coordinate, options))
            wanted.append((f"Slices: {key} against each parameter", vis.plot_slice, options))
    if file.pruner.name != "none":
        caption = f"What the pruner saw after each {file.pruner.every}"
        wanted.append((caption, vis.plot_intermediate_values, {}))
    with quiet_optuna():
        return [
            (caption, _html(plot(stored, **options)) if plot is not None else "")
            for caption, plot, options in wanted
        ]


def _html(figure: Any) -> str:
    text: str = figure.to_html(full_html=False, include_plotlyjs=False)
    return text


def plotly_script() -> str:
    """Return plotly.js, for a page that opens offline."""
    from plotly.offline import get_plotlyjs

    text: str = get_plotlyjs()
    return text
