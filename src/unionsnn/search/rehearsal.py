"""Sampler and pruner tried out in memory, with values that are made up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import optuna

from unionsnn.search.samplers import SeededSampler, make_pruner, quiet_optuna

if TYPE_CHECKING:
    from unionsnn.search.study import Study

_TRIALS = 60
"""Enough for the samplers to leave their first, random phase unless that is set to be long."""

_REPORTS = 5


def rehearsal_faults(study: Study) -> Iterator[str]:
    """Say what goes wrong when the sampler draws from the space and the pruner gets reports."""
    file = study.file
    generator = np.random.default_rng(file.seed)
    part = f"sampler {file.sampler.name}"
    with quiet_optuna():
        try:
            sampler = SeededSampler(
                file.sampler.name, file.sampler.options, file.seed, study.points_drawn_once()
            )
            pruner = make_pruner(file.pruner.name, file.pruner.options)
            stored = optuna.create_study(
                directions=study.directions, sampler=sampler, pruner=pruner
            )
            for _ in range(min(study.num_trials, _TRIALS)):
                part = f"sampler {file.sampler.name}"
                trial = stored.ask()
                for parameter in study.space:
                    parameter.suggest(trial)
                values = generator.random(len(file.objectives)).tolist()
                state = optuna.trial.TrialState.COMPLETE
                part = f"pruner {file.pruner.name}"
                if len(values) == 1 and file.pruner.name != "none":
                    for step in range(_REPORTS):
                        trial.report(values[0] + 0.1 * generator.random(), step)
                        if trial.should_prune():
                            state = optuna.trial.TrialState.PRUNED
                            break
                pruned = state == optuna.trial.TrialState.PRUNED
                part = f"sampler {file.sampler.name}"
                stored.tell(trial, None if pruned else values, state)
        except Exception as error:
            kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
            yield f"{part}: {kind}{' '.join(str(error).split())}"
