"""A requested study: its file and the command line, checked as a whole.

All faults are reported before the first trial.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import optuna
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException

from unionsnn.base.errors import Fault, RequestError
from unionsnn.config.compose import compose_config
from unionsnn.config.grid import VARIED, flatten, may_vary
from unionsnn.config.schema import Config
from unionsnn.search.samplers import SeededSampler, make_pruner, quiet_optuna
from unionsnn.search.space import bare, grid_points, parse_space
from unionsnn.search.storage import sqlite_file
from unionsnn.search.study import Study
from unionsnn.search.study_file import PARAMETERS, find_study, read_study

GROUPS = ("model", "gate", "coefficient", "optimizer")
"""Groups whose options a space may try."""

SHORTER = ("protocol.only", "protocol.patience", "trainer.max_epochs")
"""Keys that make a trial shorter, in addition to those of optimizer and model."""

_SECTIONS = (*Config.model_fields, "experiment", "grid", "hydra")

_TRIALS = 60
"""Enough for the samplers to leave their first, random phase unless that is set to be long."""

_REPORTS = 5


@dataclass(frozen=True)
class StudyOptions:
    """Options of the command line.

    Args:
        name: Name of the study; by default made of file, data and model.
        trials: Replaces the file's number of trials.
        storage: Replaces the file's URL.
        config_dir: Folder of the user's own configuration.
    """

    name: str | None = None
    trials: int | None = None
    storage: str | None = None
    config_dir: str | None = None


def make_study(
    name_or_file: str, overrides: Sequence[str] = (), options: StudyOptions | None = None
) -> Study:
    """Read a study and check all of it.

    Args:
        name_or_file: A shipped study, or a YAML file.
        overrides: As for `unionsnn train`, after those of the file. An override of a key of the
            space replaces its values, or removes it from the space if it is a single value.
        options: Options of the command line.

    Raises:
        RequestError: with every fault.
    """
    options = options or StudyOptions()
    path = find_study(name_or_file)
    given = {"trials": options.trials, "storage": options.storage}
    content = read_study(path).model_copy(
        update={key: value for key, value in given.items() if value is not None}
    )
    faults = [*section_faults(content.space, [*overrides, *content.overrides])]
    if faults:
        raise RequestError(*faults)
    texts, words = _replaced(content.space, overrides)
    space = parse_space(texts)
    if not space:
        raise RequestError(f"The space of {path} has no key left to search.", code="study.space")
    experiment = [*content.overrides, *words]
    base = compose_config(experiment, options.config_dir)
    name = options.name
    if name is None:
        name = f"{path.stem}-{base.data.name}-{base.model.name}"
    study = Study(name, content, tuple(experiment), tuple(space), base, options.config_dir)
    for check in (request_faults, key_faults, space_faults):
        faults = [*check(study)]
        if faults:
            raise RequestError(*faults)
    return study


def _replaced(
    space: Mapping[str, Any], overrides: Sequence[str]
) -> tuple[dict[str, Any], list[str]]:
    """Return the space with the command line's values, and the remaining overrides."""
    texts, words = dict(space), []
    names = {bare(key): key for key in space}
    for word in overrides:
        override = parsed(word)
        key = bare(word.partition("=")[0] if override is None else override.key_or_group)
        if override is not None and override.is_sweep_override():
            texts[names.get(key, word.partition("=")[0])] = word.partition("=")[2]
            continue
        texts.pop(names.get(key, key), None)
        words.append(word)
    return texts, words


def parsed(word: str) -> Override | None:
    """Parse an override; None if invalid, which composing reports in detail."""
    try:
        return OverridesParser.create().parse_override(word)
    except HydraException:
        return None


def set_keys(override: Override) -> set[str]:
    """Return the keys that an override sets, without + or ~, including those of a section."""
    key = bare(override.key_or_group)
    value = None if override.is_sweep_override() else override.value()
    return {key} | (set(dict(flatten(value, f"{key}."))) if isinstance(value, Mapping) else set())


def section_faults(space: Mapping[str, Any], overrides: Sequence[str]) -> Iterator[Fault]:
    """Refuse overrides that set keys of the space along with others, since the space wins."""
    for word in overrides:
        override = parsed(word)
        if override is None:
            continue
        hidden = [k for k in space if bare(k) in set_keys(override) - {override.key_or_group}]
        for key in hidden:
            yield Fault(
                f"{word} sets {bare(key)}, a key of the space; type {bare(key)}=... by itself.",
                "study.space",
            )


def key_faults(study: Study) -> Iterator[Fault]:
    """Refuse keys in which trials, or trials and the final run, must not differ."""
    for parameter in study.space:
        key = bare(parameter.key)
        if key.partition(".")[0] in _SECTIONS and key not in GROUPS and not may_vary(key):
            yield Fault(
                f"space.{parameter.key}: trials that differ in {key} are not comparable, or write "
                f"elsewhere; the space may hold {VARIED}, and the groups {', '.join(GROUPS)}.",
                "study.space_key",
            )
    searched = {bare(p.key) for p in study.space}
    for word in study.file.trial:
        override = parsed(word)
        if override is None:
            continue
        for key in sorted(set_keys(override) & searched):
            yield Fault(
                f"trial: {word} sets {key}, a key of the space; leave it out of one of them.",
                "study.trial_key",
            )
        key = bare(override.key_or_group)
        inside = key.startswith(("optimizer.", "model.")) and may_vary(key)
        if key not in SHORTER and not inside:
            yield Fault(
                f"trial: {word} does not make a trial shorter; trial may hold "
                f"{', '.join(SHORTER)}, and keys of optimizer and model. Overrides that also "
                "apply to the final run belong in overrides.",
                "study.trial_key",
            )


def request_faults(study: Study) -> Iterator[Fault]:
    """Yield faults of name, objectives and experiment."""
    file, base = study.file, study.base
    if not _names_a_folder(study.name):
        yield Fault(
            f"--name is {study.name!r}; it names a folder and a study of the storage: type "
            "letters, digits, - and _, without /, a dot in front or + and a number at the end.",
            "study.name",
        )
    yield from _place_faults(study)
    allowed = [f"val_{base.data.metric}", "val_loss"]
    for number, key in enumerate(file.objectives):
        if key in allowed or (number == 1 and key == PARAMETERS):
            continue
        why = ""
        if str(key).startswith("test"):
            why = "a test part that selects a configuration can no longer test it; "
        yield Fault(
            f"objective is {key!r}; {why}allowed are {', '.join(allowed)}.", "study.objective"
        )
        return
    directions = [file.direction] if isinstance(file.direction, str) else file.direction
    if directions is not None and list(directions) != study.directions:
        yield Fault(
            f"direction is {file.direction!r}, but of {', '.join(file.objectives)} it is "
            f"{', '.join(study.directions)}; it may be left out.",
            "study.direction",
        )
    if base.run_dir is not None or base.force:
        yield Fault(
            "A study has its own run folders: leave out run_dir and force.", "study.run_dir"
        )
    yield from protocol_faults(base)
    protocol = base.protocol
    if protocol.workers > 1:
        yield Fault(
            "The workers of a study train trials: type --workers N instead of protocol.workers.",
            "study.workers",
        )
    if protocol.grid is not None:
        yield Fault(
            "protocol.grid searches inside each repetition: put its keys into space instead.",
            "study.grid",
        )
    if base.trainer.several:
        yield Fault(
            "A trial is trained by one process: type trainer=default, and --workers N for more.",
            "study.devices",
        )


def protocol_faults(config: Config) -> Iterator[Fault]:
    """Refuse a protocol that evaluates the test part during training."""
    if config.protocol.name == "cross_validation_paper":
        yield Fault(
            "protocol=cross_validation_paper tests in every epoch, and a study must not see the "
            "test part; type protocol=cross_validation.",
            "study.protocol",
        )


def _names_a_folder(name: str) -> bool:
    return (
        0 < len(name.encode()) <= 200
        and name.isprintable()
        and "/" not in name
        and not name.startswith(".")
        # NAME+1 is the name of an extension.
        and re.search(r"\+\d+$", name) is None
    )


def _place_faults(study: Study) -> Iterator[Fault]:
    """Refuse folders that a URL or Hydra cannot name."""
    if "${" in str(study.folder):
        yield Fault(
            f"paths.output is {study.base.paths.output!r}; type a folder without ${{.",
            "study.folder",
        )
    given = study.file.storage
    if given is None and sqlite_file(study.storage) != study.folder / "study.db":
        yield Fault(
            f"The file {study.folder / 'study.db'} cannot be named in a URL; type a paths.output "
            "without ? and %, or --storage sqlite:///FILE.",
            "study.folder",
        )
    if given is not None and given.startswith("sqlite:"):
        file, question, options = given.partition("?")
        if question and "=" not in options.partition("/")[0]:
            yield Fault(
                f"storage is {given!r}, where ? starts the options of the URL; type it as "
                f"{file}%3F{options}, or rename the file.",
                "study.storage",
            )


def space_faults(study: Study) -> Iterator[Fault]:
    """Compose trials with all values to check, and let the sampler draw from the space."""
    if study.file.sampler.name == "grid":
        grid_points(study.space)
    faults: dict[Fault, None] = {}
    config: Config | None = None
    # Each value once, those of all keys side by side.
    examples = [p.examples() for p in study.space]
    for number in range(max(map(len, examples))):
        values = [each[min(number, len(each) - 1)] for each in examples]
        point = {p.key: value for p, value in zip(study.space, values, strict=True)}
        try:
            config = study.trial_config(point)
        except RequestError as error:
            faults |= dict.fromkeys(Fault(f"space: {fault}", fault.code) for fault in error.faults)
        else:
            faults |= dict.fromkeys(
                Fault(f"trial: {fault}", fault.code) for fault in protocol_faults(config)
            )
    yield from faults
    if config is None:
        return
    count = len(config.protocol.wanted)
    if study.file.pruner.every == "epoch" and count > 1:
        yield Fault(
            f"pruner.every is 'epoch', but a trial trains {count} repetitions: type pruner."
            "every: repetition, protocol=holdout, or trial: [protocol.only=[0]].",
            "study.pruner",
        )
    yield from rehearsal_faults(study)


def rehearsal_faults(study: Study) -> Iterator[Fault]:
    """Yield what goes wrong when the sampler draws and the pruner gets reports."""
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
            yield Fault(f"{part}: {kind}{' '.join(str(error).split())}", f"study.{part.split()[0]}")
