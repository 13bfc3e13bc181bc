"""A study as it is asked for: its file and the command line, checked as a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import BaseDistribution

from unionsnn.base.errors import RequestError
from unionsnn.base.version import __version__
from unionsnn.config.compose import compose_config
from unionsnn.config.identity import determining
from unionsnn.config.schema import Config
from unionsnn.search.checks import (
    key_faults,
    parsed,
    request_faults,
    section_faults,
    space_faults,
)
from unionsnn.search.space import Parameter, Value, bare, grid_points, parse_space, size
from unionsnn.search.storage import sqlite_url
from unionsnn.search.study_file import (
    Direction,
    StudySchema,
    find_study,
    natural_direction,
    read_study,
)


@dataclass(frozen=True)
class StudyOptions:
    """What the command line says beside overrides.

    Args:
        name: Name of the study; made of file, data and model unless given.
        trials: Replaces the file's number of trials.
        storage: Replaces the file's URL.
        config_dir: Folder of the user's own configuration.
    """

    name: str | None = None
    trials: int | None = None
    storage: str | None = None
    config_dir: str | None = None


@dataclass(frozen=True)
class Study:
    """A checked study.

    Args:
        name: Its name in the storage, and of its folder.
        file: Content of its file, with what the command line replaces.
        overrides: The experiment.
        space: What is tried.
        base: The experiment's configuration without any point of the space.
        config_dir: Folder of the user's own configuration.
    """

    name: str
    file: StudySchema
    overrides: tuple[str, ...]
    space: tuple[Parameter, ...]
    base: Config
    config_dir: str | None = None

    @property
    def folder(self) -> Path:
        """Where the study keeps what it writes."""
        return Path(self.base.paths.output).expanduser() / "studies" / self.name

    @property
    def storage(self) -> str:
        """URL of the storage: a file in the study's folder unless given."""
        return self.file.storage or sqlite_url(self.folder / "study.db")

    @property
    def directions(self) -> list[Direction]:
        """Direction of each objective."""
        return [natural_direction(key) for key in self.file.objectives]

    @property
    def num_trials(self) -> int:
        """Number of trials: what the file says, but no more than there are points to be tried."""
        if self.file.sampler.name == "grid":
            count = len(grid_points(self.space))
            return min(count, self.file.trials or count)
        assert self.file.trials is not None
        if self.points_drawn_once() is None:
            return self.file.trials
        return int(min(size(self.space), self.file.trials))

    def plan(self) -> list[dict[str, Value]]:
        """Parameters of each trial that are fixed beforehand: all of them in a grid, else none."""
        if self.file.sampler.name == "grid":
            return grid_points(self.space)[: self.num_trials]
        return [{}] * self.num_trials

    def points_drawn_once(self) -> dict[str, BaseDistribution] | None:
        """The space, if its points can be counted and the sampler draws them one by one."""
        if self.file.sampler.name not in ("random", "tpe"):
            return None
        if not all(p.countable for p in self.space):
            return None
        return {p.key: p.distribution for p in self.space}

    def words(self, parameters: Mapping[str, Value]) -> list[str]:
        """Overrides of a point of the space."""
        return [p.override(parameters[p.key]) for p in self.space if p.key in parameters]

    def trial_config(self, parameters: Mapping[str, Value]) -> Config:
        """Configuration of a trial; its run folders are the study's own."""
        words = [*self.overrides, *self.file.trial, *self.words(parameters)]
        config = compose_config(words, self.config_dir)
        return self._placed(config, "trials")

    def final_config(self, parameters: Mapping[str, Value], place: str = "final") -> Config:
        """Configuration of the point that is trained and tested at the end."""
        config = compose_config([*self.overrides, *self.words(parameters)], self.config_dir)
        return self._placed(config.replace({"protocol.only": None}), place)

    def _placed(self, config: Config, place: str) -> Config:
        config = config.replace({"paths.output": str(self.folder / place), "force": False})
        if config.logger.name in ("wandb", "mlflow") and config.logger.group is None:
            config = config.replace({"logger.group": self.name})
        return config

    def definition(self) -> dict[str, Any]:
        """What determines the trials: kept in the storage and compared when the study goes on."""
        trial = compose_config([*self.overrides, *self.file.trial], self.config_dir)
        only = trial.protocol.only
        return {
            "experiment": determining(self.base),
            # It leaves a repetition as it is, but not the mean over them.
            "trial": determining(trial) | ({} if only is None else {"repetitions": only}),
            "space": {p.key: p.text for p in self.space},
            "objective": self.file.objectives,
            "sampler": self.file.sampler.model_dump(),
            "pruner": self.file.pruner.model_dump(),
            "trials": self.num_trials,
            "seed": self.file.seed,
            "versions": {"unionsnn": __version__, "optuna": optuna.__version__},
        }


def make_study(
    name_or_file: str, overrides: Sequence[str] = (), options: StudyOptions | None = None
) -> Study:
    """Read a study and check all of it.

    Args:
        name_or_file: A shipped study, or a YAML file.
        overrides: As of `unionsnn train`, after those of the file. One for a key of the space
            replaces its values, or takes it out of the space if it is a single value.
        options: What else the command line says.

    Raises:
        RequestError: with what is wrong.
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
        raise RequestError(f"No key of the space of {path} is left to be searched.")
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
    """The space after the command line's own values, and the overrides that are left."""
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
