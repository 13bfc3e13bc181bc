"""A recorded trial of a study."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

State = Literal["finished", "pruned", "failed", "running", "waiting"]


@dataclass(frozen=True)
class Trial:
    """A planned trial with its outcome, however often it was tried.

    Args:
        index: Its index in the plan, from 0.
        state: Its state.
        parameters: Point of the space, partial before the sampler has chosen.
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
        """Return the trial as stored in study.json."""
        return {
            **asdict(self),
            "values": None if self.values is None else list(self.values),
            "repetitions": {str(index): value for index, value in self.repetitions.items()},
        }
