"""A study as it is asked for: its file and the command line, checked as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from optuna.distributions import BaseDistribution

from unionsnn import __version__
from unionsnn.search.space import Parameter, Value, cells, parse_space
from unionsnn.search.study_file import Direction, StudySchema, find_study, read_study
from unionsnn.training.config import RequestError, compose_config, determining
from unionsnn.training.schema import metric_mode

Config = dict[str, Any]

PARAMETERS = "parameters"
"""Second objective: number of trainable parameters."""


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
        return Path(self.base["paths"]["output"]).expanduser() / "studies" / self.name

    @property
    def storage(self) -> str:
        """URL of the storage: a file in the study's folder unless given."""
        return self.file.storage or f"sqlite:///{self.folder / 'study.db'}"

    @property
    def directions(self) -> list[Direction]:
        """Direction of each objective."""
        return [natural_direction(key) for key in self.file.objectives]

    @property
    def num_trials(self) -> int:
        """Number of trials: cells of the grid, or what the file says."""
        if self.file.sampler.name != "grid":
            assert self.file.trials is not None
            return self.file.trials
        count = len(cells(self.space))
        return min(count, self.file.trials or count)

    def plan(self) -> list[dict[str, Value]]:
        """Parameters of each trial that are fixed beforehand: all of them in a grid, else none."""
        if self.file.sampler.name == "grid":
            return cells(self.space)[: self.num_trials]
        return [{}] * self.num_trials

    def points_drawn_once(self) -> dict[str, BaseDistribution] | None:
        """The space, if its points can be counted and the sampler draws them one by one."""
        if self.file.sampler.name not in ("random", "tpe"):
            return None
        if any(p.values() is None for p in self.space):
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
        config["protocol"]["only"] = None
        return self._placed(config, place)

    def _placed(self, config: Config, place: str) -> Config:
        config["paths"]["output"] = str(self.folder / place)
        config["force"] = False
        if config["logger"]["name"] in ("wandb", "mlflow"):
            config["logger"].setdefault("group", self.name)
        return config

    def definition(self) -> dict[str, Any]:
        """What determines the trials: kept in the storage and compared when the study goes on."""
        trial = compose_config([*self.overrides, *self.file.trial], self.config_dir)
        return {
            "experiment": determining(self.base),
            "trial": determining(trial),
            "space": {p.key: p.text for p in self.space},
            "objective": self.file.objectives,
            "sampler": self.file.sampler.model_dump(),
            "pruner": self.file.pruner.model_dump(),
            "trials": self.num_trials,
            "seed": self.file.seed,
            "versions": {"unionsnn": __version__, "optuna": optuna.__version__},
        }


def natural_direction(key: str) -> Direction:
    """Return what is better of an objective: ``maximize`` or ``minimize``."""
    return "minimize" if key == PARAMETERS or metric_mode(key) == "min" else "maximize"


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
    texts, words = _replaced(content.space, overrides)
    space = parse_space(texts)
    if not space:
        raise RequestError([f"No key of the space of {path} is left to be searched."])
    experiment = [*content.overrides, *words]
    base = compose_config(experiment, options.config_dir)
    default = f"{path.stem}-{base['data']['name']}-{base['model']['name']}"
    study = Study(
        options.name or default, content, tuple(experiment), tuple(space), base, options.config_dir
    )
    faults = [*_faults(study)]
    if faults:
        raise RequestError(faults)
    faults = [*_space_faults(study)]
    if faults:
        raise RequestError(faults)
    return study


def _replaced(
    space: Mapping[str, Any], overrides: Sequence[str]
) -> tuple[dict[str, Any], list[str]]:
    """The space after the command line's own values, and the overrides that are left."""
    texts, words = dict(space), []
    parser = OverridesParser.create()
    for word in overrides:
        key, _, text = word.partition("=")
        try:
            sweeps = parser.parse_override(word).is_sweep_override()
        except HydraException:
            sweeps = False
        if sweeps:
            texts[key] = text
            continue
        texts.pop(key, None)
        words.append(word)
    return texts, words


def _faults(study: Study) -> Iterator[str]:
    file, base = study.file, study.base
    if "/" in study.name or study.name.startswith("."):
        yield f"The name of a study is a part of paths; {study.name!r} will not do."
    allowed = [f"val_{base['data']['metric']}", "val_loss"]
    for number, key in enumerate(file.objectives):
        if key in allowed or (number == 1 and key == PARAMETERS):
            continue
        why = ""
        if str(key).startswith("test"):
            why = "what the test part has chosen is no longer tested by it; "
        yield f"objective is {key!r}; {why}allowed are {', '.join(allowed)}."
        return
    directions = [file.direction] if isinstance(file.direction, str) else file.direction
    if directions is not None and list(directions) != study.directions:
        yield (
            f"direction is {file.direction!r}, but of {', '.join(file.objectives)} it is "
            f"{', '.join(study.directions)}; it may be left out."
        )
    if base["run_dir"] is not None or base["force"]:
        yield "A study has run folders of its own: leave out run_dir and force."
    protocol = base["protocol"]
    if protocol["name"] == "cross_validation_paper":
        yield (
            "protocol=cross_validation_paper tests in every epoch, and a study must not see the "
            "test part; type protocol=cross_validation."
        )
    if protocol["workers"] > 1:
        yield "The workers of a study train trials: type --workers N in place of protocol.workers."
    if protocol.get("grid") is not None:
        yield "protocol.grid searches inside each repetition: put its keys into space instead."
    if base["trainer"]["devices"] * base["trainer"].get("num_nodes", 1) > 1:
        yield "One process trains a trial: type trainer=default, and --workers N for N at a time."


def _space_faults(study: Study) -> Iterator[str]:
    if study.file.sampler.name == "grid":
        cells(study.space)
    faults: dict[str, None] = {}
    config: Config | None = None
    # Each value once, those of all keys side by side.
    examples = [p.examples() for p in study.space]
    for number in range(max(map(len, examples))):
        values = [each[min(number, len(each) - 1)] for each in examples]
        point = {p.key: value for p, value in zip(study.space, values, strict=True)}
        try:
            config = study.trial_config(point)
        except RequestError as error:
            faults |= dict.fromkeys(error.faults)
    for fault in faults:
        yield f"space: {fault}"
    if config is not None and study.file.pruner.every == "epoch":
        only = config["protocol"]["only"]
        count = len(only) if only else config["protocol"]["folds"] or config["protocol"]["seeds"]
        if (count or 1) > 1:
            yield (
                f"pruner.every is 'epoch', but a trial trains {count} repetitions: type pruner."
                "every: repetition, protocol=holdout, or trial: [protocol.only=[0]]."
            )
