"""A trial of a study, as it is recorded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

State = Literal["finished", "pruned", "failed", "running", "waiting"]


@dataclass(frozen=True)
class Trial:
    """A planned trial and what came of it, however often it was tried.

    Args:
        index: Its place in the plan, from 0.
        state: What came of it.
        parameters: Point of the space; a part of it before the sampler has chosen.
        values: Objective values; None unless finished.
        repetitions: Values of the first objective by repetition, as far as trained.
        reason: Why it failed or was pruned.
        seconds: How long its last try took.
        trial: Number of the Optuna trial.
    """

    index: int
    state: State
    parameters: dict[str, Any]
    values: tuple[float, ...] | None
    repetitions: dict[int, float]
    reason: str | None
    seconds: float
    trial: int

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Trial:
        """Read a trial of study.json."""
        values = content["values"]
        repetitions = {int(index): value for index, value in content["repetitions"].items()}
        return cls(
            **{
                **content,
                "values": None if values is None else tuple(values),
                "repetitions": repetitions,
            }
        )

    def to_json(self) -> dict[str, Any]:
        """Return what study.json holds of it."""
        return {
            **asdict(self),
            "values": None if self.values is None else list(self.values),
            "repetitions": {str(index): value for index, value in self.repetitions.items()},
        }
