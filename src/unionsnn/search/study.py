"""A checked study: what it tries, and the configurations of its trials and of its final run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import BaseDistribution

from unionsnn.base.version import __version__
from unionsnn.config.compose import compose_config
from unionsnn.config.identity import determining
from unionsnn.config.schema import Config
from unionsnn.search.space import Parameter, Value, grid_points, size
from unionsnn.search.storage import sqlite_url
from unionsnn.search.study_file import Direction, StudySchema, natural_direction


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
        logger = config.logger.in_group(self.name)
        return config.replace(
            {"paths.output": str(self.folder / place), "force": False, "logger": logger}
        )

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
