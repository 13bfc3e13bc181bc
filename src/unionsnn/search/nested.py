"""A choice for each outer fold: nested model selection over the trials of a study."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from unionsnn.data.datamodules import Progress
from unionsnn.runs.experiment import run_experiment
from unionsnn.runs.selection import best
from unionsnn.search.study import Study
from unionsnn.search.trial import Trial
from unionsnn.training.protocols import summarize

FOLDWISE = ("grid", "random")
"""Samplers whose points do not depend on results."""


def nested_faults(study: Study) -> Iterator[str]:
    """Say why a point cannot be chosen for each outer fold alone."""
    file = study.file
    if study.base.protocol.name != "cross_validation":
        yield "--nested chooses for each outer fold; type protocol=cross_validation."
    if file.sampler.name not in FOLDWISE:
        yield (
            f"--nested: sampler {file.sampler.name} proposes points by the mean over all folds, "
            f"and what is tested in one fold validates in others; choose {' or '.join(FOLDWISE)}."
        )
    if file.pruner.name != "none":
        yield "--nested: a pruned trial lacks folds; type pruner: {name: none}."
    if len(file.objectives) > 1:
        yield "--nested chooses by one objective."
    if file.trial:
        yield "--nested: trials and the final run must be the same; leave out trial."


def choose_by_fold(study: Study, trials: Sequence[Trial]) -> dict[int, Trial]:
    """The finished trial with the best value on each fold's inner validation part.

    Ties go to the first. Nothing of a fold's test part has a say in its choice.
    """
    finished = [trial for trial in trials if trial.values is not None]
    chosen: dict[int, Trial] = {}
    for fold in range(study.base.protocol.num_repetitions):
        values = [[trial.repetitions[fold]] for trial in finished]
        trial = best(finished, values, study.file.objectives)
        assert trial is not None
        chosen[fold] = trial
    return chosen


def train_nested(
    study: Study, trials: Sequence[Trial], workers: int, progress: Progress | None = None
) -> dict[str, Any]:
    """Train each outer fold with the point chosen for it, and test it once."""
    chosen = choose_by_fold(study, trials)
    repetitions: dict[int, dict[str, Any]] = {}
    for index in dict.fromkeys(trial.index for trial in chosen.values()):
        folds = [fold for fold, trial in chosen.items() if trial.index == index]
        config = study.final_config(chosen[folds[0]].parameters, "nested")
        config = config.replace({"protocol.only": folds, "protocol.workers": workers})
        if progress is None:
            config = config.replace({"trainer.progress": "none"})
        record = run_experiment(config, progress)
        repetitions |= {r["index"]: r for r in record["repetitions"] if r["index"] in folds}
    protocol = study.base.protocol
    trained = [repetitions[fold] for fold in sorted(repetitions)]
    return {
        "selection": f"nested: best {study.file.objectives[0]} of the inner validation part of "
        "each outer fold",
        "report": protocol.report,
        "result": summarize(protocol, trained).to_dict(),
        "folds": [
            {
                "fold": fold,
                "trial": trial.index,
                "parameters": trial.parameters,
                "metrics": repetitions[fold]["metrics"],
            }
            for fold, trial in chosen.items()
        ],
    }
