"""The record of a study: its trials, the chosen point, and the result of its final run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from unionsnn.base.frames import frame
from unionsnn.runs.selection import pareto_front
from unionsnn.search.queue import Trial
from unionsnn.search.storage import shown
from unionsnn.search.study import Study
from unionsnn.training.records import Result
from unionsnn.training.statistics import Summary

SELECTIONS: Mapping[str, str] = {
    "cross_validation": "shared folds",
    "holdout": "shared split",
    "repeated_seeds": "shared split",
}
"""How a point is chosen under each protocol.

`shared folds`: by the mean over the inner validation parts of the same folds that are then tested.
A graph that is tested in one fold validates or trains in the others, so the result is better than
that of a search which never saw it. `shared split`: by the validation part; the test part is
untouched.
"""


@dataclass(frozen=True)
class NestedFold:
    """An outer fold with the point chosen for it.

    Args:
        fold: The fold.
        trial: Index of the chosen trial.
        parameters: Its point of the space.
        metrics: Metrics of the fold.
    """

    fold: int
    trial: int
    parameters: dict[str, Any]
    metrics: dict[str, float]


@dataclass(frozen=True)
class NestedResult:
    """The result of a study that selects a point for each outer fold.

    Args:
        selection: How, in words.
        report: The reported metric.
        result: It over folds.
        folds: The folds.
    """

    selection: str
    report: str
    result: Summary
    folds: list[NestedFold]

    def to_json(self) -> dict[str, Any]:
        """Return plain types, as written to a file."""
        return asdict(self) | {"result": self.result.to_dict()}


@dataclass(frozen=True, kw_only=True)
class StudyRecord:
    """The record of a study.

    Args:
        study: The study.
        trials: All planned trials.
        best: The chosen one.
        repetitions: How many repetitions a whole trial has.
        best_file: The chosen point as an experiment.
        nested: The result with a point for each outer fold, if requested.
        final: The result of the chosen point, unless left to another command.
        final_elsewhere: Which process makes the final run, if it is another one.
        seconds: Wall-clock time of the command.
    """

    study: Study
    trials: list[Trial]
    best: Trial
    repetitions: int
    best_file: Path
    nested: NestedResult | None = None
    final: Result | None = None
    final_elsewhere: str | None = None
    seconds: float = 0.0

    @property
    def selection(self) -> str:
        """How the point is chosen."""
        return SELECTIONS[self.study.base.protocol.name]

    @property
    def rule(self) -> str:
        """How the point is chosen, in full."""
        better = "smallest" if self.study.directions[0] == "minimize" else "largest"
        finished = sum(trial.state == "finished" for trial in self.trials)
        return (
            f"configuration with the {better} mean {self.study.file.objectives[0]} of {finished} "
            f"finished trials of the study {self.study.name} (selection: {self.selection})"
        )

    @property
    def front(self) -> list[int]:
        """Indices of the trials that are not dominated in two objectives."""
        objectives = self.study.file.objectives
        if len(objectives) == 1:
            return []
        places = pareto_front([trial.values for trial in self.trials], objectives)
        return [self.trials[place].index for place in places]

    @property
    def repetitions_trained(self) -> int:
        """How many repetitions the trials have trained."""
        return sum(len(trial.repetitions) for trial in self.trials)

    @property
    def repetitions_at_most(self) -> int:
        """How many repetitions they would have trained without pruning."""
        return self.repetitions * len(self.trials)

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with a row for each trial: state, parameters and objectives."""
        return frame(
            [
                {
                    "trial": trial.index,
                    "state": trial.state,
                    **trial.parameters,
                    **dict(zip(self.study.file.objectives, trial.values or (), strict=False)),
                }
                for trial in self.trials
            ]
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain types, as written to study.json."""
        study = self.study
        tested = {
            "nested": self.nested and self.nested.to_json(),
            "final": self.final and self.final.to_json(),
            "final_elsewhere": self.final_elsewhere,
        }
        return {
            "format": 1,
            "name": study.name,
            "storage": shown(study.storage),
            "folder": str(study.folder),
            "data": study.base.data.name,
            "model": study.base.model.name,
            "protocol": study.base.protocol.name,
            "objectives": study.file.objectives,
            "directions": study.directions,
            "sampler": study.file.sampler.model_dump(),
            "pruner": study.file.pruner.model_dump(),
            "space": {p.key: p.text for p in study.space},
            "selection": self.selection,
            "rule": self.rule,
            "best": self.best.index,
            "front": self.front,
            "repetitions_trained": self.repetitions_trained,
            "repetitions_at_most": self.repetitions_at_most,
            "trials": [trial.to_json() for trial in self.trials],
            "best_file": str(self.best_file),
            **{key: value for key, value in tested.items() if value is not None},
            "seconds": self.seconds,
        }
