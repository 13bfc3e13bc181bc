"""A requested study: its file and the command line, checked as a whole.

All faults are reported before the first trial.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from optuna.distributions import BaseDistribution
from optuna.trial import TrialState

from unionsnn.base.errors import Fault, RequestError
from unionsnn.base.version import __version__
from unionsnn.config.compose import compose_config
from unionsnn.config.grid import VARIED, flatten, may_vary
from unionsnn.config.identity import determining, refuse_debug
from unionsnn.config.schema import Config, metric_mode
from unionsnn.search.samplers import PRUNERS, SeededSampler, quiet_optuna
from unionsnn.search.space import Parameter, Value, bare, num_values, overrides, parse_space, values
from unionsnn.search.storage import sqlite_file, sqlite_url
from unionsnn.search.study_file import PARAMETERS, Direction, StudySchema, find_study, read_study

GROUPS = ("model", "gate", "coefficient", "optimizer")
"""Groups whose options a space may try."""

SHORTER = ("protocol.only", "protocol.patience", "trainer.max_epochs")
"""Keys that make a trial shorter, in addition to those of optimizer and model."""

_SECTIONS = (*Config.model_fields, "experiment", "grid", "hydra")

_TRIALS = 60
"""Enough for the samplers to leave their first, random phase unless that is set to be long."""

_REPORTS = 5


@dataclass(frozen=True)
class Study:
    """A checked study.

    Args:
        name: Its name in the storage, and of its folder.
        file: Content of its file, with what the command line replaces.
        overrides: The experiment.
        space: The search space.
        base: The experiment's configuration without a point of the space.
        plan: Fixed parameters of each trial: all of them in a grid, otherwise none.
        definition: What determines the trials, stored and compared when the study continues.
        config_dir: Folder of the user's own configuration.
    """

    name: str
    file: StudySchema
    overrides: tuple[str, ...]
    space: tuple[Parameter, ...]
    base: Config
    plan: Sequence[Mapping[str, Value]]
    definition: Mapping[str, Any]
    config_dir: str | None = None

    @property
    def folder(self) -> Path:
        """Folder of the study."""
        return Path(self.base.paths.output).expanduser() / "studies" / self.name

    @property
    def storage(self) -> str:
        """URL of the storage; by default a file in the study's folder."""
        return self.file.storage or sqlite_url(self.folder / "study.db")

    @property
    def directions(self) -> list[Direction]:
        """Direction of each objective."""
        modes = map(metric_mode, self.file.objectives)
        return ["minimize" if mode == "min" else "maximize" for mode in modes]

    @property
    def distributions(self) -> dict[str, BaseDistribution]:
        """The space as Optuna knows it."""
        return {p.key: p.distribution for p in self.space}

    @property
    def draws_once(self) -> bool:
        """Whether the space is finite and the sampler must draw each point once."""
        one_by_one = self.file.sampler.name in ("random", "tpe")
        return one_by_one and all(p.countable for p in self.space)

    def methods(self) -> dict[str, Any]:
        """Return new sampler and pruner."""
        sampler, pruner = self.file.sampler, self.file.pruner
        space = self.distributions if self.draws_once else None
        with quiet_optuna():
            return {
                "sampler": SeededSampler(sampler.name, sampler.options, self.file.seed, space),
                "pruner": PRUNERS[pruner.name](**pruner.options),
            }

    def config(self, point: Mapping[str, Value], place: str = "trials") -> Config:
        """Return the configuration of a point, with run folders inside the study.

        Args:
            point: Values of parameters.
            place: Name of the folder: ``trials``, or where the chosen point is tested.
        """
        shorter = self.file.trial if place == "trials" else []
        config = compose_config([*self.overrides, *shorter, *overrides(point)], self.config_dir)
        changes = {
            "paths.output": str(self.folder / place),
            "force": False,
            "logger": config.logger.in_group(self.name),
        }
        return config.replace(changes if place == "trials" else {**changes, "protocol.only": None})


def make_study(
    name_or_file: str,
    words: Sequence[str] = (),
    *,
    name: str | None = None,
    trials: int | None = None,
    storage: str | None = None,
    config_dir: str | None = None,
) -> Study:
    """Read a study and check all of it.

    Args:
        name_or_file: A shipped study, or a YAML file.
        words: Overrides as for `unionsnn train`, after those of the file. An override of a key of
            the space replaces its values, or removes it from the space if it is a single value.
        name: Name of the study; by default made of file, data and model.
        trials: Replaces the file's number of trials.
        storage: Replaces the file's URL.
        config_dir: Folder of the user's own configuration.

    Raises:
        RequestError: with every fault.
    """
    path = find_study(name_or_file)
    given = {"trials": trials, "storage": storage}
    file = read_study(path).model_copy(update={k: v for k, v in given.items() if v is not None})
    texts, kept, faults = dict(file.space), list(file.overrides), []
    written = {bare(key): key for key in texts}
    for number, word in enumerate([*file.overrides, *words]):
        key, inside, sweep = _settings(word)
        # The space wins over them.
        faults += [
            Fault(f"{word} sets {k}, a key of the space; type {k}=... by itself.", "study.space")
            for k in written
            if k in inside
        ]
        if number < len(file.overrides):
            continue
        if sweep:
            typed, _, text = word.partition("=")
            texts[written.get(key, typed)] = text
        else:
            texts.pop(written.get(key, key), None)
            kept.append(word)
    if faults:
        raise RequestError(*faults)
    space = tuple(parse_space(texts))
    if not space:
        raise RequestError(f"The space of {path} has no key left to search.", code="study.space")
    try:
        base = compose_config(kept, config_dir)
    except RequestError as error:
        raise RequestError(*error.faults, *_other_data(path, file, words)) from None
    name = f"{path.stem}-{base.data.name}-{base.model.name}" if name is None else name
    study = Study(name, file, tuple(kept), space, base, [], {}, config_dir)
    for check in (_request_faults, _key_faults):
        if faults := [*check(study)]:
            raise RequestError(*faults)
    plan: list[dict[str, Value]] = [{}] * (file.trials or 0)
    if file.sampler.name == "grid":
        # The last key varies fastest.
        points = itertools.product(*(values(p.distribution) for p in space))
        chosen = itertools.islice(points, file.trials)
        plan = [dict(zip(study.distributions, point, strict=True)) for point in chosen]
    elif study.draws_once:
        plan = plan[: int(min(math.prod(num_values(p.distribution) for p in space), len(plan)))]
    study = replace(study, plan=plan)
    if faults := [*_space_faults(study)]:
        raise RequestError(*faults)
    trial = compose_config([*kept, *file.trial], config_dir)
    refuse_debug(trial, "sweep")
    only = trial.protocol.only
    definition = {
        "experiment": determining(base),
        # It does not affect a repetition, but the mean over them.
        "trial": determining(trial) | ({} if only is None else {"repetitions": only}),
        "space": {p.key: p.text for p in space},
        "objective": file.objectives,
        "sampler": file.sampler.model_dump(),
        "pruner": file.pruner.model_dump(),
        "trials": len(plan),
        "seed": file.seed,
        "versions": {"unionsnn": __version__, "optuna": optuna.__version__},
    }
    return replace(study, definition=definition)


def _other_data(path: Path, file: StudySchema, words: Sequence[str]) -> Iterator[Fault]:
    """Say which data a study is for, if the command line names others."""
    own = [word for word in file.overrides if word.startswith("data=")]
    keys = [word.partition("=")[0] for word in file.overrides if word.startswith("data.")]
    given = [word for word in words if word.startswith("data=")]
    if own and keys and given and given[-1] != own[-1]:
        full = path.stem.removesuffix("_smoke")
        other = f", or type unionsnn sweep {full} {given[-1]}" if full != path.stem else ""
        yield Fault(
            f"{path.name} is for {own[-1]}, whose keys it sets ({', '.join(keys)}): leave "
            f"{given[-1]} out{other}.",
            "study.data",
        )


def _settings(word: str) -> tuple[str, set[str], bool]:
    """Return the key that an override sets, keys inside it, and whether it has several values.

    Keys are without + and ~. The key of an invalid override is empty: composing reports it.
    """
    try:
        override = OverridesParser.create().parse_override(word)
    except HydraException:
        return "", set(), False
    key, sweep = bare(override.key_or_group), override.is_sweep_override()
    value = None if sweep else override.value()
    inside = flatten(value, f"{key}.") if isinstance(value, Mapping) else ()
    return key, set(dict(inside)), sweep


def _key_faults(study: Study) -> Iterator[Fault]:
    """Refuse keys in which trials, or trials and the final run, must not differ."""
    for parameter in study.space:
        key = bare(parameter.key)
        if key.partition(".")[0] in _SECTIONS and key not in GROUPS and not may_vary(key):
            yield Fault(
                f"space.{parameter.key}: trials that differ in {key} are not comparable, or write "
                f"elsewhere; the space may hold {VARIED}, and the groups {', '.join(GROUPS)}.",
                "study.space_key",
            )
        elif study.file.sampler.name == "grid" and not parameter.countable:
            yield Fault(
                f"space.{parameter.key} is {parameter.text}; a grid needs choice(...) or "
                "range(...) for each key, or choose another sampler, such as tpe.",
                "study.space",
            )
    searched = {bare(p.key) for p in study.space}
    for word in study.file.trial:
        key, inside, _ = _settings(word)
        if not key:
            continue
        for name in sorted(({key} | inside) & searched):
            yield Fault(
                f"trial: {word} sets {name}, a key of the space; leave it out of one of them.",
                "study.trial_key",
            )
        shortens = key.startswith(("optimizer.", "model.")) and may_vary(key)
        if key not in SHORTER and not shortens:
            yield Fault(
                f"trial: {word} does not make a trial shorter; trial may hold "
                f"{', '.join(SHORTER)}, and keys of optimizer and model. Overrides that also "
                "apply to the final run belong in overrides.",
                "study.trial_key",
            )


def _request_faults(study: Study) -> Iterator[Fault]:
    """Yield faults of name, objectives and experiment."""
    file, base = study.file, study.base
    name = study.name
    # NAME+1 is the name of an extension.
    if not re.fullmatch(r"[\w-][\w.-]*", name) or len(name.encode()) > 200:
        yield Fault(
            f"--name is {study.name!r}; it names a folder and a study of the storage: type at most "
            "200 letters, digits, -, _ and, not in front, dots.",
            "study.name",
        )
    if "${" in str(study.folder):
        yield Fault(
            f"paths.output is {base.paths.output!r}; type a folder without ${{.",
            "study.folder",
        )
    given = file.storage
    if given is None and sqlite_file(study.storage) != study.folder / "study.db":
        yield Fault(
            f"The file {study.folder / 'study.db'} cannot be named in a URL; type a paths.output "
            "without ? and %, or --storage sqlite:///FILE.",
            "study.folder",
        )
    if given is not None and given.startswith("sqlite:"):
        storage, question, options = given.partition("?")
        if question and "=" not in options.partition("/")[0]:
            yield Fault(
                f"storage is {given!r}, where ? starts the options of the URL; type it as "
                f"{storage}%3F{options}, or another name of the file.",
                "study.storage",
            )
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
    yield from _protocol_faults(base)
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


def _protocol_faults(config: Config) -> Iterator[Fault]:
    """Refuse a protocol that evaluates the test part during training."""
    if config.protocol.name == "cross_validation_paper":
        yield Fault(
            "protocol=cross_validation_paper tests in every epoch, and a study must not see the "
            "test part; type protocol=cross_validation.",
            "study.protocol",
        )


def _space_faults(study: Study) -> Iterator[Fault]:
    """Compose trials with all values to check, and let the sampler draw from the space."""
    faults: dict[Fault, None] = {}
    config: Config | None = None
    # Each value once, those of all keys side by side.
    examples = [p.examples() for p in study.space]
    for number in range(max(map(len, examples))):
        row = [each[min(number, len(each) - 1)] for each in examples]
        try:
            config = study.config(dict(zip(study.distributions, row, strict=True)))
        except RequestError as error:
            faults |= dict.fromkeys(Fault(f"space: {fault}", fault.code) for fault in error.faults)
        else:
            faults |= dict.fromkeys(
                Fault(f"trial: {fault}", fault.code) for fault in _protocol_faults(config)
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
    # Some mistakes show only when the sampler draws and the pruner gets reports.
    file = study.file
    generator = np.random.default_rng(file.seed)
    part = "sampler"
    with quiet_optuna():
        try:
            stored = optuna.create_study(directions=study.directions, **study.methods())
            for _ in study.plan[:_TRIALS]:
                part, state = "sampler", TrialState.COMPLETE
                trial = stored.ask(study.distributions)
                results = generator.random(len(file.objectives)).tolist()
                part = "pruner"
                if len(results) == 1 and file.pruner.name != "none":
                    for step in range(_REPORTS):
                        trial.report(results[0] + 0.1 * generator.random(), step)
                        if trial.should_prune():
                            state = TrialState.PRUNED
                            break
                part = "sampler"
                stored.tell(trial, None if state == TrialState.PRUNED else results, state)
        except Exception as error:
            name = getattr(file, part).name
            kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
            yield Fault(f"{part} {name}: {kind}{' '.join(str(error).split())}", f"study.{part}")
