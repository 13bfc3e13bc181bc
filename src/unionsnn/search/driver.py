"""A study as a whole: its trials, and the chosen point, or that of each fold, tested once."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from optuna.exceptions import StorageInternalError
from sqlalchemy.exc import SQLAlchemyError

from unionsnn.base.errors import Fault, FolderInUseError, RepetitionFailedError, RequestError
from unionsnn.base.files import atomic_write, write_json
from unionsnn.config.compose import compose_config, first_groups, group_choices, is_shipped
from unionsnn.config.grid import flatten
from unionsnn.config.identity import config_hash, determining, differing_keys
from unionsnn.data.sources.source import Progress
from unionsnn.runs.dry_run import describe
from unionsnn.runs.experiment import run_experiment
from unionsnn.runs.run_folder import RunFolder
from unionsnn.runs.selection import best
from unionsnn.search.queue import Trial, open_study, read_trials, retry_lost
from unionsnn.search.record import NestedFold, NestedResult, StudyRecord
from unionsnn.search.samplers import quiet_optuna
from unionsnn.search.space import overrides
from unionsnn.search.storage import shown, storage_lost
from unionsnn.search.study import Study
from unionsnn.search.workers import Watch, work, work_in_processes
from unionsnn.training.build import build_data
from unionsnn.training.protocols import summarize
from unionsnn.training.records import Repetition, Result
from unionsnn.training.together import obstacle

RETRY = "Lost trials have no result: type --retry to try them again."

FOLDWISE = ("grid", "random")
"""Samplers whose points do not depend on results."""


def run_study(
    study: Study,
    watch: Watch | None = None,
    progress: Progress | None = None,
    *,
    workers: int = 1,
    extend: bool = False,
    trials_only: bool = False,
    nested: bool = False,
    retry: bool = False,
) -> StudyRecord:
    """Run all remaining trials, train and test the best one; return the study's record.

    Args:
        study: The study.
        watch: Called with the state of all trials.
        progress: Called while data are read.
        workers: Number of processes of this command.
        extend: Whether to continue a study whose definition has changed.
        trials_only: Whether to leave the final run to another command.
        nested: Whether to select a point for each outer fold.
        retry: Whether to try lost trials again.

    Raises:
        RequestError: if the study differs from that in the storage, or cannot be nested.
        RepetitionFailedError: if no trial finished.
        WorkersDiedError: if no worker is left.
        StudyStorageError: if the storage does not work any more.
    """
    if nested and (faults := [*_nested_faults(study)]):
        raise RequestError(*faults)
    if study.base.protocol.together is True and (reason := _apart(study, progress)):
        raise RequestError(
            f"protocol.together is true, but {reason}; type protocol.together=auto.",
            code="protocol.together",
        )
    started = time.perf_counter()
    try:
        with quiet_optuna():
            stored = open_study(study, extend=extend)
            if retry:
                retry_lost(stored)
            if watch is not None:
                watch(read_trials(stored))
            if workers > 1:
                work_in_processes(study, workers, watch)
            else:
                work(study, watch)
            trials = read_trials(stored)
    except (StorageInternalError, SQLAlchemyError) as error:
        raise storage_lost(study.storage, error) from error
    place = best([trial.values for trial in trials], study.file.objectives)
    if place is None:
        reasons = dict.fromkeys(trial.reason for trial in trials if trial.reason)
        raise RepetitionFailedError(
            f"None of the {len(trials)} trials of {study.name} finished: "
            f"{'; '.join(map(str, reasons))}"
            + (f". {RETRY}" if any(trial.state == "lost" for trial in trials) else ""),
            code="study.no_trial",
        )
    chosen = trials[place]
    record = StudyRecord(
        study=study,
        trials=trials,
        best=chosen,
        repetitions=len(study.config(chosen.parameters).protocol.wanted),
        best_file=write_best(study, chosen),
    )
    if not trials_only:
        # Together in one process, where that is asked for.
        together = study.base.protocol.together is True
        changes: dict[str, Any] = {"protocol.workers": 1 if together else workers}
        if progress is None:
            changes["trainer.progress"] = "none"
        try:
            if nested:
                record = replace(record, nested=_train_nested(study, trials, changes, progress))
            else:
                record = replace(record, final=_train_final(record, changes, progress))
        except FolderInUseError as error:
            record = replace(record, final_elsewhere=str(error))
    record = replace(record, seconds=round(time.perf_counter() - started, 3))
    write_json(study.folder / "study.json", record.to_json())
    return record


def _train_final(
    record: StudyRecord, changes: Mapping[str, Any], progress: Progress | None
) -> Result:
    """Train and test the chosen point; its record says how it was chosen."""
    study, chosen = record.study, record.best
    config = study.config(chosen.parameters, "final").replace(changes)
    final = run_experiment(config, progress)
    # Only torchrun's other processes get none, and it starts no study.
    assert final is not None
    selection = f"{final.protocol.selection}; {record.rule}"
    final = replace(
        final,
        protocol=replace(final.protocol, selection=selection),
        study={
            "name": study.name,
            "selection": record.selection,
            "objective": study.file.objectives,
            "values": list(chosen.values or ()),
            "trial": chosen.index,
            "parameters": chosen.parameters,
        },
    )
    write_json(RunFolder.of(config).results_path, final.to_json())
    return final


def _apart(study: Study, progress: Progress | None) -> str:
    """Return why trainings of a study cannot go together; empty if they can."""
    if study.file.pruner.name != "none":
        return f"the pruner {study.file.pruner.name} decides between trainings"
    config = study.config(study.plan[0] or {p.key: p.examples()[0] for p in study.space})
    tracked = any(tracker.keeps_runs for tracker in config.logger.parts)
    if tracked and len(config.protocol.wanted) == 1:
        return "a tracker is told of each epoch of a trial when it ends"
    return obstacle(config, build_data(config, progress))


def _nested_faults(study: Study) -> Iterator[Fault]:
    """Yield reasons why a point cannot be selected for each outer fold alone."""
    file = study.file
    if study.base.protocol.name != "cross_validation":
        yield Fault(
            "--nested selects for each outer fold; type protocol=cross_validation.", "study.nested"
        )
    if file.sampler.name not in FOLDWISE:
        yield Fault(
            f"--nested: sampler {file.sampler.name} proposes points by the mean over all folds, "
            f"and what is tested in one fold validates in others; choose {' or '.join(FOLDWISE)}.",
            "study.nested",
        )
    if file.pruner.name != "none":
        yield Fault(
            "--nested: a pruned trial lacks folds; type pruner: {name: none}.", "study.nested"
        )
    if len(file.objectives) > 1:
        yield Fault("--nested needs a single objective; name one.", "study.nested")
    if file.trial:
        yield Fault(
            "--nested: trials and the final run must be the same; leave out trial.", "study.nested"
        )


def choose_by_fold(study: Study, trials: Sequence[Trial]) -> dict[int, Trial]:
    """Return the finished trial with the best value on each fold's inner validation part.

    Ties go to the first. A fold's test part does not affect the choice.
    """
    chosen: dict[int, Trial] = {}
    for fold in range(study.base.protocol.num_repetitions):
        values = [[t.repetitions[fold]] if t.values is not None else None for t in trials]
        place = best(values, study.file.objectives)
        assert place is not None
        chosen[fold] = trials[place]
    return chosen


def _train_nested(
    study: Study,
    trials: Sequence[Trial],
    changes: Mapping[str, Any],
    progress: Progress | None,
) -> NestedResult:
    """Train each outer fold with the point chosen for it, and test it once."""
    chosen = choose_by_fold(study, trials)
    repetitions: dict[int, Repetition] = {}
    for index in dict.fromkeys(trial.index for trial in chosen.values()):
        folds = [fold for fold, trial in chosen.items() if trial.index == index]
        config = study.config(chosen[folds[0]].parameters, "nested")
        config = config.replace({"protocol.only": folds, **changes})
        run_experiment(config, progress)
        finished = RunFolder.of(config).finished()
        repetitions |= {fold: finished[fold] for fold in folds if fold in finished}
    protocol = study.base.protocol
    trained = [repetitions[fold] for fold in sorted(repetitions)]
    return NestedResult(
        f"nested: best {study.file.objectives[0]} of the inner validation part of each outer fold",
        protocol.report,
        summarize(protocol, trained),
        [
            NestedFold(fold, trial.index, trial.parameters, repetitions[fold].metrics)
            for fold, trial in chosen.items()
        ],
    )


def write_best(study: Study, chosen: Trial) -> Path:
    """Write the best point as an experiment: train --config-dir FOLDER experiment=best runs it.

    Raises:
        RequestError: if it does not compose to the configuration that was trained.
    """
    config = study.config(chosen.parameters, "final")
    words = [*study.overrides, *overrides(chosen.parameters)]
    choices = group_choices(words, study.config_dir)
    # The folder of the study does not have what only the user's own folder has.
    own = {group for group, option in choices.items() if not is_shipped(group, option)}
    if own:
        # Nor is there a gate to be overridden without the model that brings it.
        own |= choices.keys() - first_groups()
    shipped = {group: option for group, option in choices.items() if group not in own}
    content = config.to_dict()
    wanted = determining(config) | {group: content[group] for group in own & content.keys()}
    try:
        same = [] if own else [f"{group}={option}" for group, option in shipped.items()]
        before = {} if own else dict(flatten(determining(compose_config(same))))
    except RequestError:
        # An option that leaves a key to the user, such as data=tu: all keys are written.
        before = {}
    values: dict[str, Any] = {}
    for key, value in flatten(wanted):
        if key not in before or before[key] != value:
            section = values
            *parents, last = key.split(".")
            for part in parents:
                section = section.setdefault(part, {})
            section[last] = value
    # No option: of the default one, keys would be left that the user's own lacks.
    nothing = dict.fromkeys(group for group in choices if group in own & first_groups())
    defaults = [{f"override /{k}": v} for k, v in (shipped | nothing).items()]
    path = study.folder / "experiment" / "best.yaml"
    text = (
        "# @package _global_\n"
        f"# Trial {chosen.index} of the study {study.name}: "
        f"{', '.join(study.file.objectives)} "
        f"{', '.join(f'{v:.6g}' for v in chosen.values or ())}.\n"
        f"# unionsnn train --config-dir {shlex.quote(str(study.folder))} experiment=best\n"
        f"{yaml.safe_dump({'defaults': defaults, **values}, sort_keys=False)}"
    )
    atomic_write(path, lambda file: file.write(text.encode()))
    again = compose_config(["experiment=best"], study.folder)
    if config_hash(again) != config_hash(config):
        raise RequestError(
            f"{path} does not compose to the configuration of the best trial; it differs in "
            f"{', '.join(differing_keys(again, config))}.",
            code="study.best_file",
        )
    return path


def describe_study(
    study: Study, progress: Progress | None = None, *, trust: bool = False
) -> dict[str, Any]:
    """Return the plan of a study, with a time limit without pruning or early stopping.

    `trust` is that of `describe`.
    """
    first = {p.key: p.examples()[0] for p in study.space}
    config = study.config(first)
    one = describe(config, progress, trust=trust)
    return {
        "name": study.name,
        "storage": shown(study.storage),
        "space": {p.key: p.text for p in study.space},
        "sampler": study.file.sampler.name,
        "pruner": study.file.pruner.name,
        "objectives": study.file.objectives,
        "trials": len(study.plan),
        "repetitions": len(config.protocol.wanted),
        "seconds_per_trial": one["seconds_at_most"],
        "seconds_at_most": one["seconds_at_most"] * len(study.plan),
        "compiles": one["compiles"],
        "experiment": one,
    }
