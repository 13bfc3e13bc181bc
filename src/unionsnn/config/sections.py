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
    "onecycle": {"pct_start": 0.3, "div_factor": 25.0, "final_div_factor": 1e4},
}
"""Keys of each learning-rate schedule with their defaults."""


def absent_if_none() -> Any:
    """Return a field for an optional key, which is not part of the configuration if left out."""
    return absent_at(None)


def absent_at(default: Any) -> Any:
    """Return a field for a key that has no effect at its default, and so is not recorded there."""
    return Field(default, exclude_if=lambda value: value == default)


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
            if name not in type(self).model_fields and self.model_config["extra"] != "allow":
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
    subgraph: Annotated[int, Field(ge=0)] = absent_at(0)

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


Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]

ADAM = "torch.optim.Adam"


class OptimizerConfig(Section):
    """A class of optimisers, the schedule of its learning rate, and arguments of the class."""

    model_config = ConfigDict(extra="allow")

    target: str = Field(ADAM, alias="_target_", exclude_if=lambda value: value == ADAM)
    lr: Positive
    weight_decay: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    # Keys without effect are left out of the hash that names a run folder.
    weight_decay_on: Literal["all", "weights"] = absent_at("all")
    schedule: Literal["none", "plateau", "cosine", "onecycle"] = absent_at("none")
    factor: Annotated[float, Field(gt=0, lt=1)] | None = absent_if_none()
    patience: PositiveInt | None = absent_if_none()
    warmup: Annotated[int, Field(ge=0)] | None = absent_if_none()
    pct_start: Annotated[float, Field(gt=0, lt=1)] | None = absent_if_none()
    div_factor: Annotated[float, Field(ge=1, allow_inf_nan=False)] | None = absent_if_none()
    final_div_factor: Annotated[float, Field(ge=1, allow_inf_nan=False)] | None = absent_if_none()

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of the class beside learning rate and weight decay."""
        return dict(self.model_extra or {})

    @model_validator(mode="before")
    @classmethod
    def _absent(cls, given: Any) -> Any:
        """Leave out open arguments, which keep the class's own default."""
        if not isinstance(given, Mapping):
            return given
        known = cls.model_fields
        return {k: v for k, v in given.items() if v is not None or k in known}

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
        if self.weight_decay_on != "all" and not self.weight_decay:
            faults.append(
                f"optimizer.weight_decay_on is {self.weight_decay_on!r}, but optimizer.weight_decay"
                " is 0; type optimizer.weight_decay=0.0005, for example, or leave it out."
            )
        if faults:
            raise RequestError(*faults, code="config.no_effect")
        return self._settled(SCHEDULE_DEFAULTS.get(self.schedule, {}))


class CallbackConfig(Section):
    """A callback of Lightning's, or of the user's own: its class and the class's arguments."""

    model_config = ConfigDict(extra="allow")

    target: str = Field(alias="_target_")

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of the class."""
        return dict(self.model_extra or {})


class TrainerConfig(Section):
    """Keys that go to Lightning's Trainer."""

    max_epochs: PositiveInt
    accelerator: Literal["auto", "cpu", "gpu", "mps"]
    devices: PositiveInt
    # If these have no effect, they are not part of the hash that names a run folder.
    num_nodes: PositiveInt = absent_at(1)
    sync_batchnorm: bool = absent_at(False)
    deterministic: bool = absent_at(False)
    precision: Literal["32-true", "64-true", "bf16-mixed", "16-mixed"]
    gradient_clip_val: Positive | None = absent_if_none()
    gradient_clip_algorithm: Literal["norm", "value"] = absent_at("norm")
    accumulate_grad_batches: PositiveInt = absent_at(1)
    ema_decay: Annotated[float, Field(gt=0, lt=1)] | None = absent_if_none()
    # A share of the epochs, or a number of epochs before the first that counts.
    swa_start: PositiveInt | Annotated[float, Field(gt=0, lt=1)] | None = absent_if_none()
    swa_lr: Positive | None = absent_if_none()
    extra: dict[str, Any] | None = absent_if_none()
    callbacks: list[CallbackConfig] | None = absent_if_none()
    threads: PositiveInt
    progress: Literal["auto", "bar", "plain", "none"]
    keep_checkpoints: bool = True

    @property
    def several(self) -> bool:
        """Whether several processes train together."""
        return self.devices * self.num_nodes > 1

    @property
    def first_averaged(self) -> int | None:
        """The first epoch, from 0, whose weights are averaged by ``swa_start``; None without."""
        start = self.swa_start
        return int(start * self.max_epochs) if isinstance(start, float) else start

    @model_validator(mode="after")
    def _effects(self) -> Self:
        """Refuse keys that have no effect on the others."""
        faults = []
        if self.sync_batchnorm and not self.several:
            faults.append(
                "trainer.sync_batchnorm is true, but there is one device; type trainer=ddp, or "
                "leave it out."
            )
        if self.gradient_clip_algorithm != "norm" and self.gradient_clip_val is None:
            faults.append(
                "trainer.gradient_clip_algorithm is 'value', but gradients are not clipped; type "
                "trainer.gradient_clip_val=1.0, for example, or leave it out."
            )
        if self.swa_lr is not None and self.swa_start is None:
            faults.append(
                f"trainer.swa_lr is {self.swa_lr}, but no weights are averaged; type "
                "trainer.swa_start=0.75, for example, or leave it out."
            )
        if self.ema_decay is not None and self.swa_start is not None:
            faults.append(
                "trainer.ema_decay and trainer.swa_start both say how weights are averaged; keep "
                "one."
            )
        if faults:
            raise RequestError(*faults, code="config.no_effect")
        return self
