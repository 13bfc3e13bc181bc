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
    trainings = [
        replace(training, config=config.with_cell(cell), cell=number)
        for number, cell in enumerate(cells)
    ]
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
        values = [[o.metrics[key]] if key in o.metrics else None for o in outcomes]
        chosen = best(values, [key])
        for other in range(number + 1):
            if other != chosen:
                trainings[other].checkpoint.unlink(missing_ok=True)
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
    path = training.checkpoint.with_suffix(".json")
    if not again and (outcome := _recorded_cell(path, training.config)) is not None:
        code = outcome.code if isinstance(outcome, Repetition) else None
        if names := changed_code(training.config, code):
            kept = training.config.accept_code
            warnings.warn(
                f"The file of {', '.join(names)} has changed since {path} was trained with it; "
                f"the cell is {'kept' if kept else 'trained again'}.",
                stacklevel=2,
            )
            if kept:
                return outcome
        else:
            return outcome
    try:
        record = train_repetition(training, data, watch, test=False)
    except NonFiniteLossError as error:
        failed = FailedCell(str(error))
        write_json(path, asdict(failed))
        training.unfinished.unlink(missing_ok=True)
        return failed
    write_json(path, record.to_json())
    training.unfinished.unlink(missing_ok=True)
    return record


def _recorded_cell(path: Path, config: Config) -> Repetition | FailedCell | None:
    """Read a finished cell; a damaged one is renamed with a warning, and trained again."""
    content = read_mapping(path)
    try:
        if content is not None and "failed" in content:
            return FailedCell(str(content["failed"]))
        if content is not None:
            record = Repetition.from_json(content)
            record.refuse_another(config)
            return record
        fault = "it is no record"
    except DamagedFileError as error:
        fault = str(error)
    if path.exists():
        set_aside(path)
        warnings.warn(f"{path} is damaged ({fault}); its cell is trained again.", stacklevel=3)
    return None


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
