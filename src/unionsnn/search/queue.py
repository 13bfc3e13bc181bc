"""The queue of a study: an Optuna study with trials that are planned once."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.exceptions import DuplicatedStudyError
from optuna.trial import FrozenTrial, TrialState

from unionsnn.base.errors import RequestError
from unionsnn.config.grid import flatten
from unionsnn.search.samplers import SeededSampler, make_pruner
from unionsnn.search.storage import PatientStorage, open_storage
from unionsnn.search.study import Study
from unionsnn.search.trial import State, Trial

_STATES: Mapping[TrialState, State] = {
    TrialState.COMPLETE: "finished",
    TrialState.PRUNED: "pruned",
    TrialState.RUNNING: "running",
    TrialState.WAITING: "waiting",
    TrialState.FAIL: "failed",
}
_RANK = list(_STATES)

WORKER_DIED = "the worker died"

_MEANING = ("experiment", "trial", "objective")
"""Parts of a study's definition that determine the value of a trial."""


def open_study(study: Study, *, extend: bool = False) -> optuna.Study:
    """Create the study in its storage, or continue it.

    Args:
        study: The study.
        extend: Whether to continue although file, command line or versions have changed.

    Raises:
        RequestError: with the differences, or if the storage cannot be opened.
    """
    storage = open_storage(study.storage, study.file.heartbeat, study.file.retries)
    name = _newest(storage, study.name)
    if name is None:
        try:
            made = optuna.create_study(
                storage=storage, study_name=study.name, directions=study.directions
            )
        except DuplicatedStudyError:
            # Another worker was first and is planning the trials.
            return open_study(study, extend=extend)
        made.set_user_attr("definition", study.definition())
        _plan(made, study)
        return made
    stored = optuna.load_study(study_name=name, storage=storage)
    _wait_for_plan(stored, study)
    differences = _differences(stored.user_attrs["definition"], study.definition())
    if differences and not extend:
        raise RequestError(
            f"The study {study.name!r} in the storage has another definition:",
            *differences,
            "Type --extend to continue it anyway, or --name NAME for another study.",
            code="study.changed",
        )
    if differences:
        stored = _extended(stored, study, storage)
    return stored


def attach(study: Study) -> optuna.Study:
    """Open the study with sampler and pruner, for a worker."""
    file = study.file
    storage = open_storage(study.storage, file.heartbeat, file.retries, patient=True)
    sampler = SeededSampler(
        file.sampler.name, file.sampler.options, file.seed, study.points_drawn_once()
    )
    return optuna.load_study(
        study_name=_newest(storage, study.name) or study.name,
        storage=storage,
        sampler=sampler,
        pruner=make_pruner(study.file.pruner.name, study.file.pruner.options),
    )


def _newest(storage: PatientStorage, name: str) -> str | None:
    """Return the name of the study's newest extension, NAME+N; None if the study is new."""
    names = {s.study_name for s in storage.get_all_studies()}
    if name not in names:
        return None
    number = 1
    while f"{name}+{number}" in names:
        number += 1
    return name if number == 1 else f"{name}+{number - 1}"


def _plan(made: optuna.Study, study: Study) -> None:
    """Add every missing planned trial to the queue.

    Workers take trials out of the queue one by one, so that none is trained twice, and the study
    has as many as it should.
    """
    there = {trial.user_attrs.get("cell") for trial in made.get_trials(deepcopy=False)}
    points = {_key(t.params): t for t in made.get_trials(deepcopy=False) if t.params}
    for index, parameters in enumerate(study.plan()):
        if index not in there and not (parameters and _key(parameters) in points):
            made.enqueue_trial(parameters, user_attrs={"cell": index})
    made.set_user_attr("planned", study.num_trials)


def _key(parameters: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((key, repr(value)) for key, value in parameters.items()))


def _wait_for_plan(stored: optuna.Study, study: Study, patience: float = 60.0) -> None:
    limit = time.monotonic() + patience
    while "planned" not in stored.user_attrs and time.monotonic() < limit:
        time.sleep(0.2)
    if "planned" not in stored.user_attrs:
        # The worker that created it died meanwhile.
        stored.set_user_attr("definition", study.definition())
        _plan(stored, study)


def _differences(began: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    before, after = dict(flatten(began)), dict(flatten(now))
    return [
        f"{key}: {before.get(key, 'absent')!r} when it started, {after.get(key, 'absent')!r} now"
        for key in sorted(before.keys() | after.keys())
        if before.get(key, "absent") != after.get(key, "absent")
    ]


def _extended(stored: optuna.Study, study: Study, storage: PatientStorage) -> optuna.Study:
    """Continue a study whose definition has changed.

    In Optuna the values of a parameter are fixed, so another space needs a new study, which starts
    with the finished trials inside the space. If values would mean something else, all trials are
    planned again; repetitions on disk are read.
    """
    before, now = stored.user_attrs["definition"], study.definition()
    other_values = any(before[key] != now[key] for key in _MEANING)
    if other_values or before["space"] != now["space"]:
        suffix = stored.study_name.removeprefix(study.name).removeprefix("+")
        number = int(suffix or 0) + 1
        fresh = optuna.create_study(
            storage=storage, study_name=f"{study.name}+{number}", directions=study.directions
        )
        if not other_values:
            fresh.add_trials(_inside(stored.get_trials(), study))
        stored = fresh
    stored.set_user_attr("definition", study.definition())
    _plan(stored, study)
    return stored


def _inside(trials: Iterable[FrozenTrial], study: Study) -> list[FrozenTrial]:
    """Return finished trials with parameters inside the space, one for each of its cells."""
    distributions = {p.key: p.distribution for p in study.space}
    grid = study.file.sampler.name == "grid"
    places = {_key(parameters): i for i, parameters in enumerate(study.plan())} if grid else {}
    inside: list[FrozenTrial] = []
    taken: set[int] = set()
    for trial in trials:
        fits = trial.params.keys() == distributions.keys() and all(
            _holds(d, trial.params[key]) for key, d in distributions.items()
        )
        cell = places.get(_key(trial.params)) if grid else len(inside)
        if not fits or cell is None or cell in taken or trial.state != TrialState.COMPLETE:
            continue
        taken.add(cell)
        inside.append(
            optuna.trial.create_trial(
                state=trial.state,
                params=trial.params,
                distributions=distributions,
                values=trial.values,
                user_attrs={**trial.user_attrs, "cell": cell},
                intermediate_values=trial.intermediate_values,
            )
        )
    return inside


def _holds(distribution: BaseDistribution, value: Any) -> bool:
    try:
        return distribution._contains(distribution.to_internal_repr(value))
    except ValueError:
        return False


def read_trials(stored: optuna.Study) -> list[Trial]:
    """Return the outcome of each planned trial, in planned order.

    A trial that was tried several times counts by its best state: finished, pruned, running,
    waiting, failed.
    """
    best: dict[int, FrozenTrial] = {}
    for tried in stored.get_trials(deepcopy=False):
        index = tried.user_attrs.get("cell")
        if index is None:
            continue
        before = best.get(index)
        # Of several failed tries, the last gives the reason.
        rank = (_RANK.index(tried.state), -tried.number)
        if before is None or rank < (_RANK.index(before.state), -before.number):
            best[index] = tried
    return [_trial(index, best[index]) for index in sorted(best)]


def _trial(index: int, tried: FrozenTrial) -> Trial:
    duration = tried.duration.total_seconds() if tried.duration else 0.0
    reason = tried.user_attrs.get("reason")
    if tried.state == TrialState.FAIL and reason is None:
        reason = WORKER_DIED
    repetitions: Mapping[str, float] = tried.user_attrs.get("repetitions", {})
    return Trial(
        index,
        _STATES[tried.state],
        dict(tried.params or tried.system_attrs.get("fixed_params", {})),
        tuple(tried.values) if tried.state == TrialState.COMPLETE else None,
        {int(number): value for number, value in repetitions.items()},
        reason,
        round(duration, 3),
        tried.number,
    )
