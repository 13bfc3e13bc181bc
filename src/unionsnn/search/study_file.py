"""Study files: what they may hold, and where the shipped ones are."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import yaml
from pydantic import ConfigDict, Field, ValidationError, field_validator

from unionsnn.base.errors import RequestError
from unionsnn.base.words import nearest
from unionsnn.config.schema import metric_mode
from unionsnn.config.sections import PositiveInt, Section
from unionsnn.search.samplers import PRUNERS, SAMPLERS, option_faults

Direction = Literal["maximize", "minimize"]

PARAMETERS = "parameters"
"""Second objective: number of trainable parameters."""


def natural_direction(key: str) -> Direction:
    """Return what is better of an objective: ``maximize`` or ``minimize``."""
    return "minimize" if metric_mode(key) == "min" else "maximize"


class MethodSchema(Section):
    """A sampler or a pruner; further keys are options of its class."""

    model_config = ConfigDict(extra="allow", strict=True)

    name: str

    @property
    def options(self) -> dict[str, Any]:
        """Arguments of the class."""
        return dict(self.__pydantic_extra__ or {})


class PrunerSchema(MethodSchema):
    """A pruner, and what it looks at trials after: each repetition (fold or seed), or epoch."""

    every: Literal["repetition", "epoch"] = "repetition"


class StudySchema(Section):
    """Keys of a study file.

    `overrides` name the experiment, as on the command line of `unionsnn train`; `trial` adds some
    for trials only, and `space` lists keys with the values to be tried. Trials of workers that died
    are tried again `retries` times; a worker that has sent no sign of life for six times
    `heartbeat` seconds counts as dead.
    """

    overrides: list[str]
    trial: list[str] = Field(default_factory=list)
    space: Annotated[dict[str, Any], Field(min_length=1)]
    objective: str | list[str]
    direction: Direction | list[Direction] | None = None
    sampler: MethodSchema
    pruner: PrunerSchema = PrunerSchema(name="none")
    trials: PositiveInt | None = None
    seed: Annotated[int, Field(ge=0)] = 0
    storage: str | None = None
    retries: Annotated[int, Field(ge=0)] = 2
    heartbeat: PositiveInt = 10

    @field_validator("objective", mode="before")
    @classmethod
    def _metrics(cls, given: Any) -> Any:
        names = given if isinstance(given, list) else [given]
        if not all(isinstance(name, str) for name in names):
            raise ValueError(f"objective is {given!r}; it must be a metric, or a list of two.")
        return given

    @field_validator("direction", mode="before")
    @classmethod
    def _directions(cls, given: Any) -> Any:
        allowed = get_args(Direction)
        for word in given if isinstance(given, list) else [given]:
            if word not in (*allowed, None):
                raise ValueError(
                    f"direction is {given!r}; allowed are {', '.join(allowed)}."
                    f"{nearest(str(word), allowed)} It may be left out."
                )
        return given

    @property
    def objectives(self) -> list[str]:
        """The objective, or both."""
        return [self.objective] if isinstance(self.objective, str) else self.objective

    def faults(self) -> list[str]:
        """Say what the file alone shows to be wrong."""
        faults = option_faults("sampler", self.sampler.name, self.sampler.options, SAMPLERS)
        faults += option_faults("pruner", self.pruner.name, self.pruner.options, PRUNERS)
        if len(self.objectives) > 2 or not self.objectives:
            faults.append(f"objective is {self.objective!r}; name one, or two with sampler nsga2.")
        elif len(set(self.objectives)) < len(self.objectives):
            faults.append(f"objective names {self.objectives[0]} twice; name it once.")
        elif len(self.objectives) == 2 and self.pruner.name != "none":
            faults.append("Two objectives cannot be pruned by; type pruner: {name: none}.")
        elif len(self.objectives) == 2 and self.sampler.name == "cmaes":
            faults.append("sampler cmaes has one objective; for two choose nsga2.")
        if self.sampler.name != "grid" and self.trials is None:
            faults.append(f"trials is missing; sampler {self.sampler.name} needs their number.")
        return faults


def sweeps_folder() -> Path:
    """Folder of the shipped studies, in the package or in a source checkout."""
    packaged = Path(str(files("unionsnn"))) / "sweeps"
    return packaged if packaged.is_dir() else Path(__file__).parents[3] / "sweeps"


def shipped() -> Iterable[str]:
    """Names of the shipped studies."""
    return sorted(path.stem for path in sweeps_folder().glob("*.yaml"))


def find_study(name_or_file: str) -> Path:
    """Return the file of a shipped study's name, or of a path.

    Raises:
        RequestError: if there is none.
    """
    path = Path(name_or_file)
    if path.suffix in (".yaml", ".yml"):
        if path.is_file():
            return path
        raise RequestError(f"There is no study file {name_or_file}.")
    names = list(shipped())
    if name_or_file not in names:
        raise RequestError(
            f"The study {name_or_file!r} is unknown; shipped are {', '.join(names)}."
            f"{nearest(name_or_file, names)} A file of your own is named with its ending .yaml."
        )
    return sweeps_folder() / f"{name_or_file}.yaml"


def read_study(path: Path) -> StudySchema:
    """Read a study file.

    Raises:
        RequestError: with all that is wrong with it.
    """
    try:
        content = yaml.safe_load(path.read_text())
    except yaml.YAMLError as error:
        raise RequestError(f"{path} is no YAML: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        raise RequestError(f"{path} holds no study: it must be a mapping of keys.")
    try:
        study = StudySchema.model_validate(content)
    except ValidationError as error:
        raise RequestError(*([_sentence(path, fault) for fault in error.errors()])) from None
    faults = [f"{path}: {fault}" for fault in study.faults()]
    if faults:
        raise RequestError(*faults)
    return study


def _sentence(path: Path, fault: Any) -> str:
    key = ".".join(str(part) for part in fault["loc"])
    if fault["type"] == "value_error":
        return f"{path}: {fault['ctx']['error']}"
    if fault["type"] == "missing":
        return f"{path}: {key} is missing."
    if fault["type"] == "extra_forbidden":
        known = StudySchema.model_fields
        return f"{path}: the key {key!r} does not exist.{nearest(key, known)}"
    return f"{path}: {key} is {fault['input']!r}; {fault['msg'][0].lower()}{fault['msg'][1:]}."
