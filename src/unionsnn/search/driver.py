"""Runs a study: trials, then training and testing of the best one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from unionsnn.base.errors import FolderInUseError, RepetitionFailedError, RequestError
from unionsnn.base.files import write_json
from unionsnn.data.datamodules import Progress
from unionsnn.runs.dry_run import describe
from unionsnn.runs.selection import best, pareto_front
from unionsnn.search.final import (
    nested_faults,
    rule,
    selection,
    train_best,
    train_nested,
    write_best,
)
from unionsnn.search.queue import open_study, read_trials
from unionsnn.search.samplers import quiet_optuna
from unionsnn.search.storage import shown
from unionsnn.search.study import Study
from unionsnn.search.trial import Trial
from unionsnn.search.workers import Watch, work, work_in_processes


@dataclass(frozen=True)
class RunOptions:
    """Options of a command, which do not define the study.

    Args:
        workers: Number of processes of this command.
        extend: Whether to continue a study whose definition has changed.
        trials_only: Whether to leave the final run to another command.
        nested: Whether to select a point for each outer fold.
    """

    workers: int = 1
    extend: bool = False
    trials_only: bool = False
    nested: bool = False


def run_study(
    study: Study,
    options: RunOptions,
    watch: Watch | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Run all remaining trials, train and test the best one; return the study's record.

    Raises:
        RequestError: if the study differs from that in the storage, or no trial finished.
        WorkersDiedError: if no worker is left.
    """
    faults = [*nested_faults(study)] if options.nested else []
    if faults:
        raise RequestError(*faults)
    started = time.perf_counter()
    with quiet_optuna():
        stored = open_study(study, extend=options.extend)
        if watch is not None:
            watch(read_trials(stored))
        if options.workers > 1:
            work_in_processes(study, options.workers, watch)
        else:
            work(study, watch)
        trials = read_trials(stored)
    chosen = best(trials, [trial.values for trial in trials], study.file.objectives)
    if chosen is None:
        reasons = dict.fromkeys(trial.reason for trial in trials if trial.reason)
        raise RepetitionFailedError(
            f"None of the {len(trials)} trials of {study.name} finished: "
            f"{'; '.join(map(str, reasons))}",
            code="study.no_trial",
        )
    record = describe_outcome(study, trials, chosen)
    record["best_file"] = str(write_best(study, chosen))
    if not options.trials_only:
        try:
            if options.nested:
                record["nested"] = train_nested(study, trials, options.workers, progress)
            else:
                record["final"] = train_best(study, chosen, trials, options.workers, progress)
        except FolderInUseError as error:
            record["final_elsewhere"] = str(error)
    record["seconds"] = round(time.perf_counter() - started, 3)
    write_json(study.folder / "study.json", record)
    return record


def describe_outcome(study: Study, trials: Sequence[Trial], chosen: Trial) -> dict[str, Any]:
    """Return the study's record without the final run, as plain types."""
    repetitions = len(study.trial_config(chosen.parameters).protocol.wanted)
    trained = sum(len(trial.repetitions) for trial in trials)
    front: list[Trial] = []
    if len(study.file.objectives) > 1:
        front = pareto_front(trials, [trial.values for trial in trials], study.file.objectives)
    return {
        "format": 1,
        "name": study.name,
        "storage": shown(study.storage),
        "folder": str(study.folder),
        "data": study.base.data.name,
        "model": study.base.model.name,
        "protocol": study.base.protocol.name,
        "objectives": study.file.objectives,
        "directions": study.directions,
        "sampler": study.file.sampler.model_dump(),
        "pruner": study.file.pruner.model_dump(),
        "space": {p.key: p.text for p in study.space},
        "selection": selection(study),
        "rule": rule(study, trials),
        "best": chosen.index,
        "front": [trial.index for trial in front],
        "repetitions_trained": trained,
        "repetitions_at_most": repetitions * len(trials),
        "trials": [trial.to_json() for trial in trials],
    }


def describe_study(study: Study, progress: Progress | None = None) -> dict[str, Any]:
    """Return the plan of a study, with a time limit without pruning or early stopping."""
    first = {p.key: p.examples()[0] for p in study.space}
    config = study.trial_config(first)
    one = describe(config, progress)
    return {
        "name": study.name,
        "storage": shown(study.storage),
        "space": {p.key: p.text for p in study.space},
        "sampler": study.file.sampler.name,
        "pruner": study.file.pruner.name,
        "objectives": study.file.objectives,
        "trials": study.num_trials,
        "repetitions": len(config.protocol.wanted),
        "seconds_per_trial": one["seconds_at_most"],
        "seconds_at_most": one["seconds_at_most"] * study.num_trials,
        "experiment": one,
    }
