"""Selection: of candidates by their objectives, and of a grid's cells inside a repetition."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from unionsnn.base.display import current_display
from unionsnn.base.errors import DamagedFileError, NonFiniteLossError
from unionsnn.base.files import read_mapping, set_aside, write_json
from unionsnn.config.grid import Cell, cell_text, cells_of
from unionsnn.config.identity import config_hash
from unionsnn.config.schema import Config, metric_mode
from unionsnn.config.targets import changed_code
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.runs.worker_view import StatusFile
from unionsnn.training.build import build_data, coefficient_spec, layer_spec
from unionsnn.training.records import Repetition
from unionsnn.training.repetition import Training, measure_selected, train_repetition
from unionsnn.training.resume import SharedPoint
from unionsnn.training.together import groups_of, say_alone, train_together

logger = logging.getLogger(__name__)


def best(values: Sequence[Sequence[float] | None], objectives: Sequence[str]) -> int | None:
    """Return the index of the best by the first objective, then the next; ties go to the first.

    With two objectives it is on the `pareto_front`.

    Args:
        values: Values of the objectives for each candidate; None if it cannot be chosen.
        objectives: Metrics, or ``parameters``, of which fewer are better.

    Returns:
        None if no candidate can be chosen.
    """
    costs = _costs(values, objectives)
    return min(costs, key=lambda place: costs[place], default=None)


def pareto_front(values: Sequence[Sequence[float] | None], objectives: Sequence[str]) -> list[int]:
    """Return the indices of the candidates that are not dominated by another one."""
    costs = _costs(values, objectives)

    def beaten(cost: Sequence[float]) -> bool:
        return any(
            other != cost and all(o <= c for o, c in zip(other, cost, strict=True))
            for other in costs.values()
        )

    return [place for place, cost in costs.items() if not beaten(cost)]


def _costs(
    values: Sequence[Sequence[float] | None], objectives: Sequence[str]
) -> dict[int, list[float]]:
    """Return the values of candidates that have any, by index, signed so that smaller is better."""
    signs = [1.0 if metric_mode(key) == "min" else -1.0 for key in objectives]
    return {
        place: [sign * value for sign, value in zip(signs, given, strict=True)]
        for place, given in enumerate(values)
        if given is not None
    }


def select_in_fold(
    training: Training, data: GraphDataModule, watch: StatusFile | None = None
) -> Repetition:
    """Train each cell of ``protocol.grid``, test the one best on validation; return its record.

    All cells train on the same part with the same seeds. They are compared by
    ``protocol.select_on`` of their selected epoch on the validation part; ties go to the first.
    Only the best is tested, once. The record is that of the best cell trained alone, with the
    seconds of all cells and, under ``grid``, the result of each cell.

    Raises:
        NonFiniteLossError: if all cells diverge; a single diverging cell is just not selected.
    """
    config, key = training.config, training.config.protocol.select_on
    assert config.protocol.grid is not None
    assert key is not None
    cells = cells_of(config.protocol.grid)
    trainings = cell_trainings([training])
    data_of = CellData(config, data)
    outcomes: list[Repetition | FailedCell] = []
    chosen: int | None = None
    shown, row = current_display(), object()
    for number, (cell, each) in enumerate(zip(cells, trainings, strict=True)):
        if watch is not None:
            watch.part = f"cell {number + 1}/{len(cells)}"
        if shown is not None:
            shown.show(
                row, "cell", number, len(cells), figures={"now": cell_text(cell)}, numbered=True
            )
        outcomes.append(train_cell(each, data_of(each.config), watch))
        chosen = _keep_best(trainings, outcomes, key)
    if shown is not None:
        shown.end(row, say=False)
    if chosen is None:
        reason = outcomes[0].failed if isinstance(outcomes[0], FailedCell) else key
        raise NonFiniteLossError(f"All {len(cells)} cells of the grid failed: {reason}")
    selected = trainings[chosen]
    if not selected.checkpoint.exists():
        # Its file was lost, so it is trained again.
        outcomes[chosen] = train_cell(selected, data_of(selected.config), watch, again=True)
    record = outcomes[chosen]
    assert isinstance(record, Repetition)
    return replace(
        record,
        config_hash=config_hash(config),
        metrics=measure_selected(selected, data_of(selected.config)),
        seconds=round(sum(each.seconds for each in outcomes), 3),
        grid={
            "selected": cells[chosen],
            "on": key,
            "cells": [_summary(c, o, key) for c, o in zip(cells, outcomes, strict=True)],
        },
    )


def cell_trainings(trainings: Sequence[Training]) -> list[Training]:
    """Return the trainings of all cells of the grid in each of the repetitions of an experiment."""
    config = trainings[0].config
    assert config.protocol.grid is not None
    configs = [config.with_cell(cell) for cell in cells_of(config.protocol.grid)]
    return [
        replace(training, config=own, cell=number)
        for training in trainings
        for number, own in enumerate(configs)
    ]


def train_cells_together(
    trainings: Sequence[Training], data: GraphDataModule, point: SharedPoint
) -> None:
    """Train in one step the cells of one shape that repetitions lack, where that is to be.

    `select_in_fold` finds them recorded, and trains what is left.

    Args:
        trainings: The repetitions.
        data: The data module of their experiment.
        point: Where the state is kept.

    Raises:
        RequestError: if that is asked for, and a cell cannot be trained with others.
    """
    config = trainings[0].config
    key = config.protocol.select_on
    assert key is not None
    if config.protocol.together is False and not point.path.exists():
        return
    cells = cell_trainings(trainings)
    outcomes = {cell.name: recorded_cell(cell) for cell in cells}
    # Those that have begun alone go on alone.
    lacking = [c for c in cells if outcomes[c.name] is None and not c.unfinished.exists()]
    data_of = CellData(config, data)
    for group in groups_of(lacking, data_of, point):
        of_group = data_of(group[0].config)
        for training, found in train_together(group, of_group, point, test=False):
            if isinstance(found, NonFiniteLossError):
                outcome: Repetition | FailedCell = FailedCell(str(found))
            elif isinstance(found, Exception):
                say_alone(training, found)
                continue
            else:
                outcome = found
            _record_cell(training, outcome)
            outcomes[training.name] = outcome
            own = [cell for cell in cells if cell.index == training.index]
            _keep_best(own, [outcomes[cell.name] for cell in own], key)


@dataclass(frozen=True)
class FailedCell:
    """A cell with a non-finite loss.

    Args:
        failed: The reason.
    """

    failed: str
    metrics: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0


def train_cell(
    training: Training,
    data: GraphDataModule,
    watch: StatusFile | None = None,
    *,
    again: bool = False,
) -> Repetition | FailedCell:
    """Train one cell and evaluate it on validation, never on test; a finished one is read.

    Args:
        training: The cell; its files are ``cells/NN/CCC.json`` and ``.ckpt``.
        data: Its data module.
        watch: Callback for its epochs.
        again: Whether to train it even if it is finished.

    Returns:
        The record of a repetition with validation metrics only, or why it failed.
    """
    if not again and (outcome := recorded_cell(training)) is not None:
        return outcome
    try:
        outcome = train_repetition(training, data, watch, test=False)
    except NonFiniteLossError as error:
        outcome = FailedCell(str(error))
    _record_cell(training, outcome)
    return outcome


def recorded_cell(training: Training) -> Repetition | FailedCell | None:
    """Read a finished cell; None if it is to be trained.

    With a warning, a damaged one is renamed, and one that other code has trained is trained again.
    """
    path, config = _record_of(training), training.config
    content = read_mapping(path)
    try:
        if content is not None and "failed" in content:
            outcome: Repetition | FailedCell = FailedCell(str(content["failed"]))
        elif content is not None:
            outcome = Repetition.from_json(content)
            outcome.refuse_another(config)
        else:
            raise DamagedFileError("it is no record")
    except DamagedFileError as error:
        if path.exists():
            set_aside(path)
            warnings.warn(f"{path} is damaged ({error}); its cell is trained again.", stacklevel=3)
        return None
    if names := changed_code(config, outcome.code if isinstance(outcome, Repetition) else None):
        kept = config.accept_code
        warnings.warn(
            f"The file of {', '.join(names)} has changed since {path} was trained with it; "
            f"the cell is {'kept' if kept else 'trained again'}.",
            stacklevel=3,
        )
        return outcome if kept else None
    return outcome


def _record_cell(training: Training, outcome: Repetition | FailedCell) -> None:
    content = asdict(outcome) if isinstance(outcome, FailedCell) else outcome.to_json()
    write_json(_record_of(training), content)
    training.unfinished.unlink(missing_ok=True)


def _record_of(training: Training) -> Path:
    return training.checkpoint.with_suffix(".json")


def _keep_best(
    trainings: Sequence[Training], outcomes: Sequence[Repetition | FailedCell | None], key: str
) -> int | None:
    """Return the number of the best cell so far; delete the weights of the others."""
    values = [[o.metrics[key]] if o and key in o.metrics else None for o in outcomes]
    chosen = best(values, [key])
    for number, (training, outcome) in enumerate(zip(trainings, outcomes, strict=False)):
        if outcome is not None and number != chosen:
            training.checkpoint.unlink(missing_ok=True)
    return chosen


class CellData:
    """Data modules of a grid's cells, shared by cells with the same data.

    Args:
        config: The configuration without the grid.
        data: Its data module.
    """

    def __init__(self, config: Config, data: GraphDataModule) -> None:
        self._made = [(read_by(config), data)]

    def __call__(self, config: Config) -> GraphDataModule:
        """Return the data module of a cell."""
        wanted = read_by(config)
        for read, data in self._made:
            if read == wanted:
                return data
        made = build_data(config)
        made.computes = self._made[0][1].computes
        self._made.append((wanted, made))
        return made


def read_by(config: Config) -> tuple[Any, ...]:
    """Return the parts of a configuration that determine its data module."""
    encodings = config.model.encodings
    return config.data, coefficient_spec(config), layer_spec(config), encodings


def _summary(cell: Cell, outcome: Repetition | FailedCell, key: str) -> dict[str, Any]:
    summary = {"cell": cell, key: outcome.metrics.get(key)}
    if isinstance(outcome, FailedCell):
        ended = {"best_epoch": None, "epochs": None, "seconds": 0.0, "failed": outcome.failed}
    else:
        names = ("best_epoch", "epochs", "seconds")
        ended = {name: getattr(outcome, name) for name in names}
    return {**summary, **ended}
