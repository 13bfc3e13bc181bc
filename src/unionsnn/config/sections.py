"""Sections of a configuration that stand for themselves, and what all sections share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from unionsnn.base.words import nearest

PositiveInt = Annotated[int, Field(ge=1)]

SCHEDULE_DEFAULTS: Mapping[str, Mapping[str, float]] = {
    "plateau": {"factor": 0.5, "patience": 10},
    "cosine": {"warmup": 0},
}
"""Keys of each schedule of the learning rate, and what they are unless given."""

TRACKER_KEYS: Mapping[str, Mapping[str, Any]] = {
    "csv": {},
    "none": {},
    "tensorboard": {},
    "wandb": {"project": "unionsnn", "mode": "offline", "entity": None, "group": None, "tags": []},
    "mlflow": {"project": "unionsnn", "uri": None, "group": None, "tags": []},
}
"""Keys of each tracker, and what they are unless given."""


def absent_if_none() -> Any:
    """Field of a key that may be left out, and is then no part of the configuration."""
    return Field(None, exclude_if=lambda value: value is None)


class Section(BaseModel):
    """Keys of one section; others are refused, and types are not converted."""

    model_config = ConfigDict(extra="forbid", strict=True, populate_by_name=True)


class EncodingsSchema(Section):
    """Encodings of nodes, pairs of nodes and subgraphs that a model reads."""

    random_walk: Annotated[int, Field(ge=0)] = 0
    laplacian: Annotated[int, Field(ge=0)] = 0
    distance: bool = False
    # As long as it is not asked for, it is no part of what a run is named after.
    subgraph: Annotated[int, Field(ge=0, exclude_if=lambda hops: hops == 0)] = 0

    @model_validator(mode="before")
    @classmethod
    def _known(cls, given: Any) -> Any:
        """Name the nearest key beside one that does not exist."""
        known = cls.model_fields
        if not isinstance(given, Mapping):
            raise ValueError(
                f"model.encodings is {given!r}; it must be a section with the keys "
                f"{', '.join(known)}."
            )
        faults = [
            f"The key 'model.encodings.{key}' does not exist.{nearest(str(key), known)} "
            f"Keys there: {', '.join(known)}."
            for key in given
            if key not in known
        ]
        if faults:
            raise ValueError("\n".join(faults))
        return given


class OptimizerSchema(Section):
    """Keys of Adam and of its learning rate's schedule."""

    lr: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    weight_decay: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    # What has no effect is left out: it is no part of what a run is named after.
    schedule: Literal["none", "plateau", "cosine"] = Field("none", exclude_if=lambda v: v == "none")
    factor: Annotated[float, Field(gt=0, lt=1)] | None = absent_if_none()
    patience: PositiveInt | None = absent_if_none()
    warmup: Annotated[int, Field(ge=0)] | None = absent_if_none()

    @model_validator(mode="after")
    def _of_the_schedule(self) -> Self:
        """Refuse keys of another schedule, and settle those of this one that were left open."""
        owners = {key: name for name, keys in SCHEDULE_DEFAULTS.items() for key in keys}
        faults = [
            f"optimizer.{key} has no effect on optimizer.schedule={self.schedule}; type "
            f"optimizer.schedule={owner}, or leave it out."
            for key, owner in owners.items()
            if getattr(self, key) is not None and owner != self.schedule
        ]
        if faults:
            raise ValueError("\n".join(faults))
        for key, value in SCHEDULE_DEFAULTS.get(self.schedule, {}).items():
            if getattr(self, key) is None:
                setattr(self, key, value)
        return self


class TrainerSchema(Section):
    """Keys that go to Lightning's Trainer."""

    max_epochs: PositiveInt
    accelerator: Literal["auto", "cpu", "gpu", "mps"]
    devices: PositiveInt
    # As long as these change nothing, they are no part of what a run is named after.
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
            raise ValueError(
                "trainer.sync_batchnorm is true, but there is one device; type trainer=ddp, or "
                "leave it out."
            )
        return self


class LoggerSchema(Section):
    """Which tracker gets the metrics, and what it is told."""

    name: Literal["csv", "none", "wandb", "tensorboard", "mlflow"]
    project: Annotated[str, Field(min_length=1)] | None = absent_if_none()
    mode: Literal["offline", "online"] | None = absent_if_none()
    entity: str | None = absent_if_none()
    group: str | None = absent_if_none()
    tags: list[str] | None = absent_if_none()
    uri: str | None = absent_if_none()

    @model_validator(mode="after")
    def _of_the_tracker(self) -> Self:
        """Refuse keys of another tracker, and settle those of this one that were left open."""
        own = TRACKER_KEYS[self.name]
        faults = []
        for key in type(self).model_fields:
            if key not in ("name", *own) and getattr(self, key) is not None:
                owners = [f"logger={name}" for name, keys in TRACKER_KEYS.items() if key in keys]
                faults.append(
                    f"logger.{key} has no effect on logger={self.name}; type {' or '.join(owners)}"
                    ", or leave it out."
                )
        if faults:
            raise ValueError("\n".join(faults))
        for key, value in own.items():
            if getattr(self, key) is None:
                setattr(self, key, value)
        return self
