"""A checked study: its space, and the configurations of trials and final run."""

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
        space: The search space.
        base: The experiment's configuration without a point of the space.
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
        """Folder of the study."""
        return Path(self.base.paths.output).expanduser() / "studies" / self.name

    @property
    def storage(self) -> str:
        """URL of the storage; by default a file in the study's folder."""
        return self.file.storage or sqlite_url(self.folder / "study.db")

    @property
    def directions(self) -> list[Direction]:
        """Direction of each objective."""
        return [natural_direction(key) for key in self.file.objectives]

    @property
    def num_trials(self) -> int:
        """Number of trials: that of the file, at most the number of points."""
        if self.file.sampler.name == "grid":
            count = len(grid_points(self.space))
            return min(count, self.file.trials or count)
        assert self.file.trials is not None
        if self.points_drawn_once() is None:
            return self.file.trials
        return int(min(size(self.space), self.file.trials))

    def plan(self) -> list[dict[str, Value]]:
        """Return the fixed parameters of each trial: all of them in a grid, otherwise none."""
        if self.file.sampler.name == "grid":
            return grid_points(self.space)[: self.num_trials]
        return [{}] * self.num_trials

    def points_drawn_once(self) -> dict[str, BaseDistribution] | None:
        """The space, if it is finite and the sampler must draw each point once."""
        if self.file.sampler.name not in ("random", "tpe"):
            return None
        if not all(p.countable for p in self.space):
            return None
        return {p.key: p.distribution for p in self.space}

    def words(self, parameters: Mapping[str, Value]) -> list[str]:
        """Return the overrides of a point of the space."""
        return [p.override(parameters[p.key]) for p in self.space if p.key in parameters]

    def trial_config(self, parameters: Mapping[str, Value]) -> Config:
        """Return the configuration of a trial, with run folders inside the study."""
        words = [*self.overrides, *self.file.trial, *self.words(parameters)]
        config = compose_config(words, self.config_dir)
        return self._placed(config, "trials")

    def final_config(self, parameters: Mapping[str, Value], place: str = "final") -> Config:
        """Return the configuration of the final run."""
        config = compose_config([*self.overrides, *self.words(parameters)], self.config_dir)
        return self._placed(config.replace({"protocol.only": None}), place)

    def _placed(self, config: Config, place: str) -> Config:
        logger = config.logger.in_group(self.name)
        return config.replace(
            {"paths.output": str(self.folder / place), "force": False, "logger": logger}
        )

    def definition(self) -> dict[str, Any]:
        """Return what determines the trials, stored and compared when the study continues."""
        trial = compose_config([*self.overrides, *self.file.trial], self.config_dir)
        only = trial.protocol.only
        return {
            "experiment": determining(self.base),
            # It does not affect a repetition, but the mean over them.
            "trial": determining(trial) | ({} if only is None else {"repetitions": only}),
            "space": {p.key: p.text for p in self.space},
            "objective": self.file.objectives,
            "sampler": self.file.sampler.model_dump(),
            "pruner": self.file.pruner.model_dump(),
            "trials": self.num_trials,
            "seed": self.file.seed,
            "versions": {"unionsnn": __version__, "optuna": optuna.__version__},
        }
