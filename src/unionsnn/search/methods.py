"""Samplers and pruners by the name that a study file gives them."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.pruners import BasePruner
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, TrialState

from unionsnn.training.sections import nearest

SAMPLERS: Mapping[str, type[BaseSampler]] = {
    # The cells of a grid are planned: nothing is left to be sampled.
    "grid": optuna.samplers.RandomSampler,
    "random": optuna.samplers.RandomSampler,
    "tpe": optuna.samplers.TPESampler,
    "cmaes": optuna.samplers.CmaEsSampler,
    "nsga2": optuna.samplers.NSGAIISampler,
}
"""Samplers: every cell of a grid, independent draws, TPE (Bergstra et al. 2011), CMA-ES (Hansen and
Ostermeier 2001), NSGA-II (Deb et al. 2002)."""

PRUNERS: Mapping[str, type[BasePruner]] = {
    "none": optuna.pruners.NopPruner,
    "median": optuna.pruners.MedianPruner,
    "hyperband": optuna.pruners.HyperbandPruner,
    "halving": optuna.pruners.SuccessiveHalvingPruner,
    "wilcoxon": optuna.pruners.WilcoxonPruner,
}
"""Pruners: none, median (Golovin et al. 2017), Hyperband (Li et al. 2018), asynchronous successive
halving (Li et al. 2020), and the signed-rank test of a trial's folds against the same folds of the
best trial."""

_NOT_IN_FILE = {"seed"}

_STEPS = 1000
"""How far a sampler walks for a point that is new; a space may have none left."""


def option_faults(
    section: str, name: str, options: Mapping[str, Any], known: Mapping[str, type[Any]]
) -> list[str]:
    """Say what is wrong with a sampler or a pruner: its name, or an option it does not have."""
    if name not in known:
        return [
            f"{section}.name is {name!r}; allowed are {', '.join(known)}.{nearest(name, known)}"
        ]
    allowed = [k for k in inspect.signature(known[name]).parameters if k not in _NOT_IN_FILE]
    if name in ("grid", "none"):
        allowed = []
    faults = [
        f"{section}.{key} is no option of {section}.name={name}; allowed are "
        f"{', '.join(allowed) or 'none'}.{nearest(key, allowed)}"
        for key in options
        if key not in allowed
    ]
    if faults:
        return faults
    try:
        _build(known[name], options)
    except (TypeError, ValueError) as error:
        return [f"{section} {name}: {error}"]
    return []


def _build(kind: Callable[..., Any], options: Mapping[str, Any]) -> Any:
    with warnings.catch_warnings():
        # What Optuna may still change is not the user's concern; the version is pinned and kept.
        warnings.simplefilter("ignore", ExperimentalWarning)
        return kind(**options)


def make_pruner(name: str, options: Mapping[str, Any]) -> BasePruner:
    """Make the pruner that a study file names."""
    pruner: BasePruner = _build(PRUNERS[name], options)
    return pruner


class SeededSampler(BaseSampler):
    """A sampler whose draws for trial i come from SeedSequence([seed, i]).

    What a trial draws then depends on the trials before it alone: not on how often the study was
    interrupted, and two workers do not draw the same.

    A sampler that draws a point of `space` again that an earlier trial has, as TPE does once a
    small space looks settled, walks on from there: parameters chosen at random are drawn anew, one
    after another, up to the first point that is new.

    Args:
        name: Key of `SAMPLERS`.
        options: Arguments of the class.
        seed: Seed of the study.
        space: All parameters, if each point is to be drawn once; None leaves all to the sampler.
    """

    def __init__(
        self,
        name: str,
        options: Mapping[str, Any],
        seed: int,
        space: Mapping[str, BaseDistribution] | None = None,
    ) -> None:
        self.name = name
        self.options = dict(options)
        self.seed = seed
        self.space = space
        self._begin(0)

    def _begin(self, number: int) -> None:
        draws, walk, steps = np.random.SeedSequence([self.seed, number]).generate_state(3)
        self._inner: BaseSampler = _build(SAMPLERS[self.name], {**self.options, "seed": int(draws)})
        self._walk = optuna.samplers.RandomSampler(seed=int(walk))
        self._steps = np.random.default_rng(int(steps))

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
        """Begin the trial's own stream of draws."""
        self._begin(trial.number)
        self._inner.before_trial(study, trial)

    def infer_relative_search_space(
        self, study: optuna.Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """As the sampler does, or the whole space."""
        if self.space is not None:
            return dict(self.space)
        return self._inner.infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """As the sampler does, or a point that no trial has."""
        if self.space is None:
            return self._inner.sample_relative(study, trial, search_space)
        joint = self._inner.infer_relative_search_space(study, trial)
        point = dict(self._inner.sample_relative(study, trial, joint)) if joint else {}
        for key, distribution in self.space.items():
            if key not in point:
                point[key] = self._inner.sample_independent(study, trial, key, distribution)
        others = study.get_trials(deepcopy=False)
        taken = [each.params for each in others if each.number != trial.number]
        keys = list(self.space)
        for _ in range(_STEPS):
            if point not in taken:
                break
            key = keys[self._steps.integers(len(keys))]
            point[key] = self._walk.sample_independent(study, trial, key, self.space[key])
        return point

    def sample_independent(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """As the sampler does."""
        return self._inner.sample_independent(study, trial, param_name, param_distribution)

    def after_trial(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        state: TrialState,
        values: Sequence[float] | None,
    ) -> None:
        """As the sampler does."""
        self._inner.after_trial(study, trial, state, values)
