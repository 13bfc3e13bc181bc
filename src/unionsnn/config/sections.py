"""Independent sections of a configuration, and their base class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from unionsnn.base.errors import Fault, RequestError
from unionsnn.base.secrets import masked_content
from unionsnn.base.words import nearest

# Compiled code and torch count in fewer bits than Python does.
_MOST = 2**31 - 1
PositiveInt = Annotated[int, Field(ge=1, le=_MOST)]

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
            raise RequestError(*all_sentences(error, cls, content)) from None

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
        names = {field.alias: name for name, field in type(self).model_fields.items()}
        for key, value in changes.items():
            name, _, inner = key.partition(".")
            name = names.get(name, name)
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


def all_sentences(
    error: ValidationError, kind: type[BaseModel], content: Any, *section: str
) -> list[str]:
    """Return the faults that pydantic found, of which a key of several types has one.

    Args:
        error: The error, which has a fault for each of the types.
        kind: The class that refused.
        content: What it was given.
        section: Where that belongs.
    """
    made: list[str] = []
    whole: dict[str, Any] = {}
    for each in error.errors():
        key, value = _typed(each["loc"], content)
        several = len(key) < len(each["loc"]) and each["type"] != "value_error"
        whole = whole or (kind.model_json_schema(by_alias=True) if several else {})
        schema = _schema_at(whole, key) if several else {}
        if "anyOf" not in schema:
            made += sentences(each, *section)
            continue
        shown = repr(value) if len(repr(value)) <= 200 else f"{repr(value)[:200]}..."
        allowed = allowed_words(schema, whole.get("$defs", {}))
        typed = ".".join(str(part) for part in (*section, *key))
        made.append(Fault(f"{typed} is {shown}; it must be {allowed}.", "config.value"))
    return list(dict.fromkeys(made))


def _typed(location: Sequence[int | str], content: Any) -> tuple[list[int | str], Any]:
    """Return the part of a location that was typed, and its value; types of unions follow it."""
    key: list[int | str] = []
    for part in location:
        of_list = isinstance(content, list) and isinstance(part, int)
        if not (of_list or (isinstance(content, Mapping) and part in content)):
            break
        content = content[part]
        key.append(part)
    return key, content


def _schema_at(whole: Mapping[str, Any], key: Sequence[int | str]) -> dict[str, Any]:
    """Return the JSON schema of a key; empty if that is not found."""
    defs = whole.get("$defs", {})
    found = dict(whole)
    for part in key:
        members = [found, *found.get("anyOf", ())]
        resolved = [
            defs.get(m["$ref"].rpartition("/")[2], {}) if "$ref" in m else m for m in members
        ]
        inside = (
            m.get("items") if isinstance(part, int) else m.get("properties", {}).get(part)
            for m in resolved
        )
        found = next(filter(None, inside), {})
    return found


def allowed_words(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> str:
    """Say in words which values a JSON schema allows; empty for any."""
    if "$ref" in schema:
        return allowed_words(defs.get(schema["$ref"].rpartition("/")[2], {}), defs)
    for several in ("anyOf", "oneOf"):
        if several in schema:
            parts = dict.fromkeys(allowed_words(each, defs) for each in schema[several])
            return " or ".join(part for part in parts if part)
    if "enum" in schema:
        return ", ".join("null" if value is None else str(value) for value in schema["enum"])
    if "const" in schema:
        return str(schema["const"])
    kind = schema.get("type")
    if kind in ("integer", "number"):
        bounds = [
            f"{sign} {schema[bound]:g}"
            for bound, sign in _BOUNDS.items()
            if schema.get(bound) not in (None, _MOST)
        ]
        name = "whole number" if kind == "integer" else "number"
        return f"{name} {' and '.join(bounds)}".rstrip()
    if kind == "array":
        inner = allowed_words(schema.get("items", {}), defs)
        least = schema.get("minItems", 0)
        number = f" (at least {least})" if least > 1 else ""
        return f"list of {inner}{number}" if inner else f"list{number}"
    return _TYPES.get(str(kind), "")


_BOUNDS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
_TYPES = {"boolean": "true, false", "string": "text", "null": "null", "object": "mapping"}


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
    betas: list[Annotated[float, Field(ge=0, lt=1)]] | None = absent_if_none()
    eps: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = absent_if_none()
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
        own = {"betas": self.betas, "eps": self.eps, **(self.model_extra or {})}
        return {k: v for k, v in own.items() if v is not None}

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
        # Classes of the user's may take more.
        if self.betas and len(self.betas) != 2 and self.target.startswith("torch.optim."):
            raise RequestError(
                f"optimizer.betas is {self.betas}; it must be two numbers, such as [0.9,0.999].",
                code="config.value",
            )
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
        return self.of_its_schedule()

    def of_its_schedule(self) -> Self:
        """Return a copy without keys of other schedules, with this one's open keys resolved."""
        own = SCHEDULE_DEFAULTS.get(self.schedule, {})
        keys = (key for each in SCHEDULE_DEFAULTS.values() for key in each)
        others = {key: None for key in keys if key not in own}
        return self.model_copy(update=others)._settled(own)


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
    compile: bool = absent_at(False)
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
    def processes(self) -> str:
        """What a request for several processes is called."""
        nodes = f", trainer.num_nodes={self.num_nodes}" if self.num_nodes > 1 else ""
        return f"trainer=ddp (trainer.devices={self.devices}{nodes})"

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
