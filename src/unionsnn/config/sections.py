"""Independent sections of a configuration, and their base class."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from unionsnn.base.errors import Fault, RequestError
from unionsnn.base.secrets import masked_content
from unionsnn.base.words import nearest

# Compiled code and torch count in fewer bits than Python does.
PositiveInt = Annotated[int, Field(ge=1, le=2**31 - 1)]

SCHEDULE_DEFAULTS: Mapping[str, Mapping[str, float]] = {
    "plateau": {"factor": 0.5, "patience": 10},
    "cosine": {"warmup": 0},
}
"""Keys of each learning-rate schedule with their defaults."""


def absent_if_none() -> Any:
    """Return a field for an optional key, which is not part of the configuration if left out."""
    return Field(None, exclude_if=lambda value: value is None)


class Section(BaseModel):
    """Frozen section; refuses unknown keys and does not convert types."""

    model_config = ConfigDict(extra="forbid", strict=True, populate_by_name=True, frozen=True)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Check plain types and resolve open keys.

        Raises:
            RequestError: with every fault.
        """
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            raise RequestError(*(f for each in error.errors() for f in sentences(each))) from None

    def to_dict(self) -> dict[str, Any]:
        """Return plain types, as written to files, without absent keys and secrets."""
        plain: dict[str, Any] = masked_content(self.model_dump(by_alias=True))
        return plain

    def replace(self, changes: Mapping[str, Any]) -> Self:
        """Return a copy with unchecked changes.

        Args:
            changes: Values by their dotted keys, such as ``trainer.progress``.
        """
        made = self
        for key, value in changes.items():
            name, _, inner = key.partition(".")
            if name not in {*type(self).model_fields, *(self.model_extra or ())}:
                raise KeyError(f"{type(self).__name__} has no key {name!r}.")
            new = getattr(made, name).replace({inner: value}) if inner else value
            made = made.model_copy(update={name: new})
        return made

    def _settled(self, defaults: Mapping[str, Any]) -> Self:
        """Return a copy in which open keys have their defaults."""
        return self.model_copy(
            update={k: copy(v) for k, v in defaults.items() if getattr(self, k) is None}
        )


def sentences(error: ErrorDetails, *section: str) -> list[str]:
    """Return the faults that pydantic found for one key, in a section if not in the error."""
    key = ".".join(str(part) for part in (*section, *error["loc"]))
    kind, given = error["type"], error["input"]
    if kind == "value_error":
        cause = error["ctx"]["error"]
        refused = (
            cause
            if isinstance(cause, RequestError)
            else RequestError(str(cause), code="config.value")
        )
        return list(refused.faults)
    if kind == "missing":
        fault = f"{key} is missing; type {key}=..., or leave out what deletes it (~{key})."
        return [Fault(fault, "config.missing")]
    if kind == "extra_forbidden":
        return [Fault(f"The key {key!r} does not exist.", "config.unknown_key")]
    message = error["msg"].replace("Input should be", "it must be")
    shown = repr(given) if len(repr(given)) <= 200 else f"{repr(given)[:200]}..."
    return [Fault(f"{key} is {shown}; {message[0].lower()}{message[1:]}.", "config.value")]


class EncodingsConfig(Section):
    """Encodings of nodes, pairs of nodes and subgraphs that a model reads."""

    random_walk: Annotated[int, Field(ge=0)] = 0
    laplacian: Annotated[int, Field(ge=0)] = 0
    distance: bool = False
    # If not requested, it is not part of the hash that names a run folder.
    subgraph: Annotated[int, Field(ge=0, exclude_if=lambda hops: hops == 0)] = 0

    @model_validator(mode="before")
    @classmethod
    def _known(cls, given: Any) -> Any:
        """Suggest the nearest key for an unknown one."""
        known = cls.model_fields
        if not isinstance(given, Mapping):
            raise RequestError(
                f"model.encodings is {given!r}; it must be a section with the keys "
                f"{', '.join(known)}.",
                code="config.type",
            )
        faults = [
            f"The key 'model.encodings.{key}' does not exist.{nearest(str(key), known)} "
            f"Keys there: {', '.join(known)}."
            for key in given
            if key not in known
        ]
        if faults:
            raise RequestError(*faults, code="config.unknown_key")
        return given


class OptimizerConfig(Section):
    """Keys of Adam and of its learning rate's schedule."""

    lr: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    weight_decay: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    # Keys without effect are left out of the hash that names a run folder.
    schedule: Literal["none", "plateau", "cosine"] = Field("none", exclude_if=lambda v: v == "none")
    factor: Annotated[float, Field(gt=0, lt=1)] | None = absent_if_none()
    patience: PositiveInt | None = absent_if_none()
    warmup: Annotated[int, Field(ge=0)] | None = absent_if_none()

    @model_validator(mode="after")
    def _of_the_schedule(self) -> Self:
        """Refuse keys of another schedule, and resolve open keys of this one."""
        owners = {key: name for name, keys in SCHEDULE_DEFAULTS.items() for key in keys}
        faults = [
            f"optimizer.{key} has no effect on optimizer.schedule={self.schedule}; type "
            f"optimizer.schedule={owner}, or leave it out."
            for key, owner in owners.items()
            if getattr(self, key) is not None and owner != self.schedule
        ]
        if faults:
            raise RequestError(*faults, code="config.no_effect")
        return self._settled(SCHEDULE_DEFAULTS.get(self.schedule, {}))


class TrainerConfig(Section):
    """Keys that go to Lightning's Trainer."""

    max_epochs: PositiveInt
    accelerator: Literal["auto", "cpu", "gpu", "mps"]
    devices: PositiveInt
    # If these have no effect, they are not part of the hash that names a run folder.
    num_nodes: PositiveInt = Field(1, exclude_if=lambda value: value == 1)
    sync_batchnorm: bool = Field(False, exclude_if=lambda value: not value)
    deterministic: bool = Field(False, exclude_if=lambda value: not value)
    precision: Literal["32-true", "64-true", "bf16-mixed", "16-mixed"]
    threads: PositiveInt
    progress: Literal["auto", "bar", "plain", "none"]
    keep_checkpoints: bool = True

    @property
    def several(self) -> bool:
        """Whether several processes train together."""
        return self.devices * self.num_nodes > 1

    @model_validator(mode="after")
    def _sync_batchnorm(self) -> Self:
        if self.sync_batchnorm and not self.several:
            raise RequestError(
                "trainer.sync_batchnorm is true, but there is one device; type trainer=ddp, or "
                "leave it out.",
                code="config.no_effect",
            )
        return self
