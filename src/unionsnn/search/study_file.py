"""Study files: their schema, and the shipped ones."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import ConfigDict, Field, ValidationError, field_validator

from unionsnn.base.errors import Fault, RequestError
from unionsnn.base.words import nearest
from unionsnn.config.compose import config_folder
from unionsnn.config.packages import package_folders
from unionsnn.config.sections import PositiveInt, Section, sentences
from unionsnn.config.yaml_files import read_yaml
from unionsnn.search.samplers import PRUNERS, SAMPLERS, option_faults

Direction = Literal["maximize", "minimize"]

PARAMETERS = "parameters"
"""Second objective: number of trainable parameters."""


class MethodSchema(Section):
    """A sampler or a pruner; further keys are options of its class."""

    model_config = ConfigDict(extra="allow", strict=True)

    name: str

    @property
    def options(self) -> dict[str, Any]:
        """Arguments of the class."""
        return dict(self.__pydantic_extra__ or {})


class PrunerSchema(MethodSchema):
    """A pruner, applied after each repetition (fold or seed) or epoch."""

    every: Literal["repetition", "epoch"] = "repetition"


class StudySchema(Section):
    """Keys of a study file.

    `overrides` name the experiment, as on the command line of `unionsnn train`; `trial` adds some
    for trials only. `space` lists keys with the values to be tried, or names a grid of
    ``conf/grid``. Trials of workers that died are tried again `retries` times; a worker without a
    sign of life for six times `heartbeat` seconds counts as dead.
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
            raise RequestError(
                f"objective is {given!r}; it must be a metric, or a list of two.",
                code="study.objective",
            )
        return given

    @field_validator("direction", mode="before")
    @classmethod
    def _directions(cls, given: Any) -> Any:
        allowed = get_args(Direction)
        for word in given if isinstance(given, list) else [given]:
            if word not in (*allowed, None):
                raise RequestError(
                    f"direction is {given!r}; allowed are {', '.join(allowed)}."
                    f"{nearest(str(word), allowed)} It may be left out.",
                    code="study.direction",
                )
        return given

    @property
    def objectives(self) -> list[str]:
        """The objective, or both."""
        return [self.objective] if isinstance(self.objective, str) else self.objective


def sweeps_folder() -> Path:
    """Folder of the shipped studies, in the package or in a source checkout."""
    packaged = Path(str(files("unionsnn"))) / "sweeps"
    return packaged if packaged.is_dir() else Path(__file__).parents[3] / "sweeps"


def shipped() -> Iterable[str]:
    """Names of the shipped studies."""
    return sorted(_studies())


def _studies() -> dict[str, Path]:
    """Return the files of the studies that are shipped, or an installed package's."""
    found = {path.stem: path for path in sweeps_folder().glob("*.yaml")}
    for folder in package_folders(config_folder()):
        for path in sorted((folder.path / "sweeps").glob("*.yaml")):
            if path.stem in found:
                raise RequestError(
                    f"{folder.origin} has the study {path.stem}, which unionsnn has, too: rename "
                    "it, or uninstall the package.",
                    code="config.package",
                )
            found[path.stem] = path
    return found


def find_study(name_or_file: str) -> Path:
    """Return the file of a shipped study's name, or of a path.

    Raises:
        RequestError: if it does not exist.
    """
    path = Path(name_or_file)
    if path.suffix in (".yaml", ".yml"):
        if path.is_file():
            return path
        raise RequestError(f"There is no study file {name_or_file}.", code="study.no_file")
    names = list(shipped())
    if name_or_file not in names:
        raise RequestError(
            f"The study {name_or_file!r} is unknown; shipped are {', '.join(names)}."
            f"{nearest(name_or_file, names)} For your own file, include its extension .yaml.",
            code="study.unknown",
        )
    return _studies()[name_or_file]


def read_study(path: Path) -> StudySchema:
    """Read a study file.

    Raises:
        RequestError: with every fault.
    """
    content = read_yaml(path)
    if not isinstance(content, dict):
        raise RequestError(
            f"{path} is not a study: it must be a mapping of keys.", code="study.not_yaml"
        )
    if isinstance(content.get("space"), str):
        name = content["space"]
        grids = {file.stem: file for file in (config_folder() / "grid").glob("*.yaml")}
        if name not in grids:
            raise RequestError(
                f"{path}: space is {name!r}; it maps keys to values, or names a grid: "
                f"{', '.join(sorted(grids))}.{nearest(name, grids)}",
                code="study.space",
            )
        grid = read_yaml(grids[name])
        content["space"] = {k: f"choice({', '.join(map(str, v))})" for k, v in grid.items()}
    faults: list[Fault] = []
    try:
        study = StudySchema.model_validate(content)
    except ValidationError as error:
        for each in error.errors():
            key = ".".join(str(part) for part in each["loc"])
            if each["type"] == "missing":
                faults.append(Fault(f"{key} is missing.", "study.missing"))
            elif each["type"] == "extra_forbidden":
                near = nearest(key, StudySchema.model_fields)
                faults.append(Fault(f"The key {key!r} does not exist.{near}", "study.unknown_key"))
            else:
                faults += [Fault(f, getattr(f, "code", "study.value")) for f in sentences(each)]
    else:
        sampler, pruner, objectives = study.sampler, study.pruner, study.objectives
        faults += option_faults("sampler", sampler.name, sampler.options, SAMPLERS)
        faults += option_faults("pruner", pruner.name, pruner.options, PRUNERS)
        if len(objectives) > 2 or not objectives:
            fault = f"objective is {study.objective!r}; name one, or two with sampler nsga2."
            faults.append(Fault(fault, "study.objective"))
        elif len(set(objectives)) < len(objectives):
            fault = f"objective names {objectives[0]} twice; name it once."
            faults.append(Fault(fault, "study.objective"))
        elif len(objectives) == 2 and pruner.name != "none":
            fault = "Pruning needs a single objective; type pruner: {name: none}."
            faults.append(Fault(fault, "study.pruner"))
        elif len(objectives) == 2 and sampler.name == "cmaes":
            fault = "sampler cmaes needs one objective; for two choose nsga2."
            faults.append(Fault(fault, "study.sampler"))
        if sampler.name != "grid" and study.trials is None:
            fault = f"trials is missing; sampler {sampler.name} needs a number of trials."
            faults.append(Fault(fault, "study.trials"))
    if faults:
        raise RequestError(*(Fault(f"{path}: {fault}", fault.code) for fault in faults))
    return study
