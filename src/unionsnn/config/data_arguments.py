"""Arguments of the shipped data modules: checked before torch, which the modules need, is there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from unionsnn.config.schema import DataSchema

_PairedSize = Annotated[int, Field(ge=2)]
_Share = Annotated[float, Field(gt=0, lt=1)]


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class TUArguments(_Arguments):
    """Of `TUDataModule`."""

    tu_name: str


class CyclesArguments(_Arguments):
    """Of `CyclesDataModule`."""

    length: Literal[4, 6]
    variant: Literal["matched", "plain"]
    num_train: _PairedSize
    num_validation: _PairedSize
    num_test: _PairedSize
    generator_seed: Annotated[int, Field(ge=0)] = 0


class ZincArguments(_Arguments):
    """Of `ZincDataModule`."""

    size: Literal["subset", "full"]


class OGBArguments(_Arguments):
    """Of `OGBDataModule`."""

    folder: str


class NodeArguments(_Arguments):
    """Of `NodeDataModule`."""

    normalize_features: bool = False


class PlanetoidArguments(NodeArguments):
    """Of `PlanetoidDataModule`."""

    planetoid_name: str


class AmazonArguments(NodeArguments):
    """Of `AmazonDataModule`."""

    amazon_name: str
    train_share: _Share = 0.1
    validation_share: _Share = 0.1


class FolderArguments(_Arguments):
    """Of `FolderDataModule`."""

    path: str
    table: str = "labels.csv"
    symmetrize: bool = False


class PyGArguments(_Arguments):
    """Of `PyGDataModule`."""

    dataset: str
    arguments: dict[str, Any] | None = None
    symmetrize: bool = False


class PyGNodeArguments(PyGArguments, NodeArguments):
    """Of `PyGNodeDataModule`."""


ARGUMENTS: Mapping[str, type[_Arguments]] = {
    "unionsnn.data.datamodules.TUDataModule": TUArguments,
    "unionsnn.data.datamodules.CyclesDataModule": CyclesArguments,
    "unionsnn.data.molecules.ZincDataModule": ZincArguments,
    "unionsnn.data.molecules.OGBDataModule": OGBArguments,
    "unionsnn.data.nodes.PlanetoidDataModule": PlanetoidArguments,
    "unionsnn.data.nodes.AmazonDataModule": AmazonArguments,
    "unionsnn.data.own.FolderDataModule": FolderArguments,
    "unionsnn.data.own.PyGDataModule": PyGArguments,
    "unionsnn.data.own.PyGNodeDataModule": PyGNodeArguments,
}
"""By the class that `_target_` names; a user's own class checks its arguments itself."""


def argument_faults(section: DataSchema) -> list[Any]:
    """Return pydantic's errors about the keys that one class of data alone has."""
    kind = ARGUMENTS.get(section.target)
    if kind is None:
        return []
    try:
        kind.model_validate(section.model_extra)
    except ValidationError as error:
        return [{**fault, "loc": ("data", *fault["loc"])} for fault in error.errors()]
    return []
