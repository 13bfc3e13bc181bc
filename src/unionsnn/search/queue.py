"""The queue of a study: an Optuna study with trials that are planned once."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import optuna
from optuna.exceptions import DuplicatedStudyError
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, TrialState

from unionsnn.base.errors import RequestError
from unionsnn.config.grid import flatten
from unionsnn.config.targets import changed_code, code_digests
from unionsnn.search.storage import open_storage, plan_again
from unionsnn.search.study import Study

State = Literal["finished", "pruned", "failed", "lost", "running", "waiting"]
"""Failed is a verdict on a trial; a lost one has none: its worker died, or memory ran out."""

_STATES: Mapping[TrialState, State] = {
    TrialState.COMPLETE: "finished",
    TrialState.PRUNED: "pruned",
    TrialState.RUNNING: "running",
    TrialState.WAITING: "waiting",
    TrialState.FAIL: "failed",
}

WORKER_DIED = "the worker died"

LOST = "lost"
"""Attribute of a try that the surroundings ended."""

_PLANNING = 60.0
"""Seconds to wait for another worker that plans the trials."""

_MEANING = ("experiment", "trial", "objective")
"""Parts of a study's definition that determine the value of a trial."""


@dataclass(frozen=True)
class Trial:
    """A planned trial with its outcome, however often it was tried.

    Args:
        index: Its index in the plan, from 0.
        state: Its state.
        parameters: Point of the space, partial before the sampler has chosen.
        values: Objective values; None unless finished.
        repetitions: Values of the first objective by repetition, as far as trained.
        reason: Why it failed or was pruned.
        seconds: How long its last try took.
        trial: Number of the Optuna trial.
    """

    index: int
    state: State
    parameters: dict[str, Any]
    values: tuple[float, ...] | None
    repetitions: dict[int, float]
    reason: str | None
    seconds: float
    trial: int

    def to_json(self) -> dict[str, Any]:
        """Return the trial as stored in study.json."""
        plain = {
            "values": None if self.values is None else list(self.values),
            "repetitions": {str(index): value for index, value in self.repetitions.items()},
        }
        return asdict(self) | plain


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
            stored = optuna.create_study(
                storage=storage, study_name=study.name, directions=study.directions
            )
        except DuplicatedStudyError:
            # Another worker was first and is planning the trials.
            return open_study(study, extend=extend)
        _plan(stored, study)
        return stored
    stored = optuna.load_study(study_name=name, storage=storage)
    limit = time.monotonic() + _PLANNING
    while "planned" not in stored.user_attrs and time.monotonic() < limit:
        time.sleep(0.2)
    if "planned" not in stored.user_attrs:
        # The worker that created it died meanwhile.
        _plan(stored, study)
    began = stored.user_attrs["definition"]
    before, now = dict(flatten(began)), dict(flatten(study.definition))
    differences = [
        f"{key}: {before.get(key, 'absent')!r} when it started, {now.get(key, 'absent')!r} now"
        for key in sorted(before.keys() | now.keys())
        if before.get(key, "absent") != now.get(key, "absent")
    ]
    _refuse_other_code(stored, study)
    # Earlier versions did not.
    _name_metrics(stored, study)
    if not differences:
        return stored
    if not extend:
        raise RequestError(
            f"The study {study.name!r} in the storage has another definition:",
            *differences,
            "Type --extend to continue it anyway, or --name NAME for another study.",
            code="study.changed",
        )
    # Optuna holds on to the values that a parameter may have, so that another space needs a study
    # of its own: it begins with the finished trials that lie inside. Where values would mean
    # something else, all trials are planned anew; repetitions that are on disk are read.
    other_values = any(began[key] != study.definition[key] for key in _MEANING)
    if other_values or began["space"] != study.definition["space"]:
        number = int(name.removeprefix(study.name).removeprefix("+") or 0) + 1
        trials = [] if other_values else _inside(stored, study)
        attributes = stored.user_attrs
        stored = optuna.create_study(
            storage=storage, study_name=f"{study.name}+{number}", directions=study.directions
        )
        stored.add_trials(trials)
        if trials and "code" in attributes:
            stored.set_user_attr("code", attributes["code"])
    _plan(stored, study)
    return stored


def _name_metrics(stored: optuna.Study, study: Study) -> None:
    """Tell Optuna, and with it its dashboard, what the objectives are called."""
    if stored.metric_names is None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            stored.set_metric_names(study.file.objectives)


def _refuse_other_code(stored: optuna.Study, study: Study) -> None:
    names = changed_code(study.base, stored.user_attrs.get("code"))
    if not names:
        return
    fault = (
        f"The file of {', '.join(names)} has changed since the trials of the study {study.name!r} "
        "began; finished ones keep the values of the old code."
    )
    if study.base.accept_code:
        warnings.warn(fault, stacklevel=2)
        return
    raise RequestError(
        f"{fault} Type --name NAME for another study, or accept_code=true to keep them.",
        code="run.other_code",
    )


def attach(study: Study) -> optuna.Study:
    """Open the study with sampler and pruner, for a worker."""
    storage = open_storage(study.storage, study.file.heartbeat, study.file.retries, patient=True)
    name = _newest(storage, study.name) or study.name
    return optuna.load_study(study_name=name, storage=storage, **study.methods())


def _newest(storage: BaseStorage, name: str) -> str | None:
    """Return the name of the study's newest extension, NAME+N; None if the study is new."""
    names = {s.study_name for s in storage.get_all_studies()}
    if name not in names:
        return None
    number = 1
    while f"{name}+{number}" in names:
        number += 1
    return name if number == 1 else f"{name}+{number - 1}"


def _plan(stored: optuna.Study, study: Study) -> None:
    """Add every missing planned trial to the queue.

    Workers take trials out of the queue one by one, so that none is trained twice, and the study
    has as many as it should.
    """
    stored.set_user_attr("definition", study.definition)
    _name_metrics(stored, study)
    if "code" not in stored.user_attrs and (code := code_digests(study.base)):
        stored.set_user_attr("code", code)
    there = stored.get_trials(deepcopy=False)
    indices = {trial.user_attrs.get("cell") for trial in there}
    points = {json.dumps(trial.params, sort_keys=True) for trial in there if trial.params}
    for index, point in enumerate(study.plan):
        if index not in indices and json.dumps(point, sort_keys=True) not in points:
            stored.enqueue_trial(dict(point), user_attrs={"cell": index})
    stored.set_user_attr("planned", len(study.plan))


def _inside(stored: optuna.Study, study: Study) -> list[FrozenTrial]:
    """Return finished trials with parameters inside the space, one for each of its cells."""
    distributions = study.distributions
    grid = study.file.sampler.name == "grid"
    places = {json.dumps(point, sort_keys=True): i for i, point in enumerate(study.plan)}
    inside: dict[int, FrozenTrial] = {}
    for trial in stored.get_trials(states=(TrialState.COMPLETE,)):
        try:
            fits = trial.params.keys() == distributions.keys() and all(
                d._contains(d.to_internal_repr(trial.params[key]))
                for key, d in distributions.items()
            )
        except ValueError:
            continue
        cell = places.get(json.dumps(trial.params, sort_keys=True)) if grid else len(inside)
        if fits and cell is not None and cell not in inside:
            inside[cell] = optuna.trial.create_trial(
                state=trial.state,
                params=trial.params,
                distributions=distributions,
                values=trial.values,
                user_attrs={**trial.user_attrs, "cell": cell},
                intermediate_values=trial.intermediate_values,
            )
    return list(inside.values())


def is_lost(tried: FrozenTrial) -> bool:
    """Return whether a failed try says nothing about its trial."""
    return "reason" not in tried.user_attrs or LOST in tried.user_attrs


def retry_lost(stored: optuna.Study) -> None:
    """Requeue the trials that were lost."""
    tries = stored.get_trials(deepcopy=False)
    for trial in read_trials(stored):
        if trial.state == "lost":
            plan_again(stored, tries[trial.trial])


def read_trials(stored: optuna.Study) -> list[Trial]:
    """Return the outcome of each planned trial, in planned order.

    A trial that was tried several times counts by its best state: finished, pruned, running,
    waiting, failed or lost.
    """
    ranks = list(_STATES)
    # Of several failed tries, the last gives the reason.
    tries = sorted(
        stored.get_trials(deepcopy=False), key=lambda t: (-ranks.index(t.state), t.number)
    )
    best = {t.user_attrs["cell"]: t for t in tries if "cell" in t.user_attrs}
    trials = []
    for index, tried in sorted(best.items()):
        attributes, failed = tried.user_attrs, tried.state == TrialState.FAIL
        repetitions: Mapping[str, float] = attributes.get("repetitions", {})
        trials.append(
            Trial(
                index,
                "lost" if failed and is_lost(tried) else _STATES[tried.state],
                dict(tried.params or tried.system_attrs.get("fixed_params", {})),
                tuple(tried.values) if tried.state == TrialState.COMPLETE else None,
                {int(number): value for number, value in repetitions.items()},
                attributes.get("reason", WORKER_DIED if failed else None),
                round(tried.duration.total_seconds(), 3) if tried.duration else 0.0,
                tried.number,
            )
        )
    return trials
