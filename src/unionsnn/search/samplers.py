"""Samplers and pruners by name in a study file."""

from __future__ import annotations

import inspect
import itertools
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.pruners import BasePruner
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, TrialState

from unionsnn.base.errors import Fault
from unionsnn.base.words import nearest
from unionsnn.search.space import rounded, values

SAMPLERS: Mapping[str, type[BaseSampler]] = {
    # The cells of a grid are planned, so nothing is sampled.
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

_WRITTEN: Mapping[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "str": (str,),
    "None": (type(None),),
    "dict[str, Any]": (dict,),
}
"""Types that a file can contain, by name in a signature."""

_SMALLEST = {"n_ei_candidates": 1, "interval_steps": 1, "n_min_trials": 1, "inc_popsize": -1}
"""Minimum of integer options if not 0; Optuna does not check all of them."""

_STEPS = 1000
"""Number of steps to find a new point before the remaining points are enumerated."""


def option_types(kind: type[Any]) -> dict[str, tuple[str, ...]]:
    """Return the options of a class that a file can set, with the names of their types.

    The rest are functions and objects; the seed is the study's.
    """
    types = {
        key: tuple(inspect.formatannotation(parameter.annotation).strip("'").split(" | "))
        for key, parameter in inspect.signature(kind).parameters.items()
    }
    return {k: names for k, names in types.items() if k != "seed" and set(names) <= set(_WRITTEN)}


def option_faults(
    section: str, name: str, options: Mapping[str, Any], known: Mapping[str, type[Any]]
) -> list[Fault]:
    """Return faults of a sampler or pruner: an unknown name or option."""
    code = f"study.{section}"
    if name not in known:
        unknown = f"{section}.name is {name!r}; allowed are {', '.join(known)}."
        return [Fault(f"{unknown}{nearest(name, known)}", code)]
    allowed = {} if name in ("grid", "none") else option_types(known[name])
    faults = []
    for key, value in options.items():
        if key not in allowed:
            faults.append(
                f"{section}.{key} is not an option of {section}.name={name} that a file can set; "
                f"allowed are {', '.join(allowed) or 'none'}.{nearest(key, allowed)}"
            )
            continue
        names, smallest = allowed[key], _SMALLEST.get(key, 0)
        types = tuple(t for name in names for t in _WRITTEN[name])
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            kinds = " or ".join(name.lower() for name in names)
            faults.append(f"{section}.{key} is {value!r}; it must be {kinds}.")
        elif "int" in names and isinstance(value, int) and value < smallest:
            faults.append(f"{section}.{key} is {value!r}; it must be at least {smallest}.")
    if faults:
        return [Fault(fault, code) for fault in faults]
    low, high = options.get("min_resource", 1), options.get("max_resource")
    if isinstance(low, int) and isinstance(high, int) and low > high:
        order = f"{section}.min_resource is {low}, more than {section}.max_resource, {high}."
        return [Fault(order, code)]
    try:
        with quiet_optuna():
            known[name](**options)
    except Exception as error:
        return [Fault(f"{section} {name}: {' '.join(str(error).split())}", code)]
    return []


@contextmanager
def quiet_optuna() -> Iterator[None]:
    """Silence Optuna's messages; we report trials ourselves.

    Warnings about experimental features are silenced too; Optuna's version is recorded.
    """
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            warnings.filterwarnings("ignore", category=FutureWarning, module=_ASKERS)
            yield
    finally:
        optuna.logging.set_verbosity(before)


# Such warnings are attributed to the module that calls Optuna.
_ASKERS = r"(optuna|unionsnn\.search)\b"


class SeededSampler(BaseSampler):
    """A sampler whose draws for trial i come from SeedSequence([seed, i]).

    A trial's draws depend only on the trials before it, not on interruptions, and two workers do
    not draw the same.

    If a sampler draws a point of `space` that an earlier trial has, as TPE does when it has
    converged on a small space, random parameters are redrawn one by one until the point is new. If
    that takes long, few points remain, and one of them is chosen at random.

    Args:
        name: Key of `SAMPLERS`.
        options: Arguments of the class.
        seed: Seed of the study.
        space: All parameters, if each point must be drawn once; None leaves it to the sampler.
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
        kind: Callable[..., BaseSampler] = SAMPLERS[self.name]
        with quiet_optuna():
            self._inner = kind(**self.options, seed=int(draws))
        self._walk = optuna.samplers.RandomSampler(seed=int(walk))
        self._steps = np.random.default_rng(int(steps))

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
        """Start the trial's random stream."""
        self._begin(trial.number)
        self._inner.before_trial(study, trial)

    def infer_relative_search_space(
        self, study: optuna.Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Return the sampler's relative space, or the whole space."""
        if self.space is not None:
            return dict(self.space)
        return self._inner.infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return the sampler's point, or one that no trial has."""
        if self.space is None:
            drawn = self._inner.sample_relative(study, trial, search_space)
            return {key: rounded(search_space[key], value) for key, value in drawn.items()}
        joint = self._inner.infer_relative_search_space(study, trial)
        point = dict(self._inner.sample_relative(study, trial, joint)) if joint else {}
        for key, distribution in self.space.items():
            if key not in point:
                point[key] = self._inner.sample_independent(study, trial, key, distribution)
        point = {key: rounded(self.space[key], value) for key, value in point.items()}
        others = study.get_trials(deepcopy=False)
        keys = list(self.space)
        taken = {
            tuple(each.params[key] for key in keys)
            for each in others
            if each.number != trial.number and each.params.keys() == self.space.keys()
        }
        for _ in range(_STEPS):
            if tuple(point[key] for key in keys) not in taken:
                return point
            key = keys[self._steps.integers(len(keys))]
            drawn = self._walk.sample_independent(study, trial, key, self.space[key])
            point[key] = rounded(self.space[key], drawn)
        points = itertools.product(*map(values, self.space.values()))
        left = [each for each in points if each not in taken]
        if left:
            point = dict(zip(keys, left[self._steps.integers(len(left))], strict=True))
        return point

    def sample_independent(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Return the sampler's value, with numbers rounded as written."""
        drawn = self._inner.sample_independent(study, trial, param_name, param_distribution)
        return rounded(param_distribution, drawn)

    def after_trial(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        state: TrialState,
        values: Sequence[float] | None,
    ) -> None:
        """Call the sampler's method."""
        self._inner.after_trial(study, trial, state, values)
