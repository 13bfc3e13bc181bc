"""Choosing the best: of candidates by their objectives, of a grid's cells inside a repetition."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from unionsnn.base.errors import NonFiniteLossError
from unionsnn.base.files import read_mapping, write_json
from unionsnn.config.grid import Cell, cell_text, cells_of
from unionsnn.config.schema import Config, ProtocolConfig, metric_mode
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.data.splits import Split
from unionsnn.runs.worker_view import StatusFile
from unionsnn.training.build import build_data, coefficient_spec, layer_spec
from unionsnn.training.repetition import cell_checkpoint, measure_selected, train_repetition

logger = logging.getLogger(__name__)

Candidate = TypeVar("Candidate")


def best(
    candidates: Sequence[Candidate],
    values: Sequence[Sequence[float] | None],
    objectives: Sequence[str],
) -> Candidate | None:
    """Return the best candidate by the first objective, then by the next; of equals the first.

    With two objectives it is on the `pareto_front`.

    Args:
        candidates: In their order.
        values: Value of each objective for each candidate; None if it cannot be chosen.
        objectives: Metrics, or ``parameters``, of which few are better.

    Returns:
        None if no candidate can be chosen.
    """
    costs = _costs(candidates, values, objectives)
    return min(costs, key=lambda each: each[1])[0] if costs else None


def pareto_front(
    candidates: Sequence[Candidate],
    values: Sequence[Sequence[float] | None],
    objectives: Sequence[str],
) -> list[Candidate]:
    """Return the candidates that no other one beats: is as good in each objective, and differs."""
    costs = _costs(candidates, values, objectives)

    def beaten(cost: Sequence[float]) -> bool:
        return any(
            other != cost and all(o <= c for o, c in zip(other, cost, strict=True))
            for _, other in costs
        )

    return [candidate for candidate, cost in costs if not beaten(cost)]


def _costs(
    candidates: Sequence[Candidate],
    values: Sequence[Sequence[float] | None],
    objectives: Sequence[str],
) -> list[tuple[Candidate, list[float]]]:
    """Values of the candidates that have some, with signs that make less better."""
    signs = [1.0 if metric_mode(key) == "min" else -1.0 for key in objectives]
    return [
        (candidate, [sign * value for sign, value in zip(signs, given, strict=True)])
        for candidate, given in zip(candidates, values, strict=True)
        if given is not None
    ]


def select_in_fold(
    config: Config,
    data: GraphDataModule,
    protocol: ProtocolConfig,
    split: Split,
    index: int,
    folder: Path,
    watch: StatusFile | None = None,
) -> dict[str, Any]:
    """Train each cell of ``protocol.grid``, test the best on validation; return its record.

    All cells train on the same part with the same seeds. They are compared by
    ``protocol.select_on`` of their selected epoch on the validation part; ties go to the first.
    The test part is touched once, by the best. The record is that of the best cell trained alone,
    with the seconds of all cells and, under ``grid``, what each cell reached.

    Raises:
        NonFiniteLossError: if all cells diverge; a cell that diverges beside others loses.
    """
    assert protocol.grid is not None
    key = protocol.select_on
    assert key is not None
    cells = cells_of(protocol.grid)
    data_of = CellData(config, data)
    rows: list[dict[str, Any]] = []
    chosen: int | None = None
    for number, cell in enumerate(cells):
        if watch is not None:
            watch.part = f"cell {number + 1}/{len(cells)}"
        if config.trainer.progress != "none":
            logger.info("cell %d of %d: %s", number + 1, len(cells), cell_text(cell))
        own = config.with_cell(cell)
        rows.append(train_cell(own, data_of(own), protocol, split, index, folder, number, watch))
        values = [[row["metrics"][key]] if key in row["metrics"] else None for row in rows]
        chosen = best(range(len(rows)), values, [key])
        for other in range(number + 1):
            if other != chosen:
                cell_checkpoint(folder, index, other).unlink(missing_ok=True)
    if chosen is None:
        raise NonFiniteLossError(f"All {len(cells)} cells of the grid failed: {rows[0]['failed']}")
    own = config.with_cell(cells[chosen])
    if not cell_checkpoint(folder, index, chosen).exists():
        # Its file was lost; it is trained once more.
        rows[chosen] = train_cell(
            own, data_of(own), protocol, split, index, folder, chosen, watch, again=True
        )
    metrics = measure_selected(own, data_of(own), split, index, folder, chosen)
    return {
        **rows[chosen],
        "metrics": metrics,
        "seconds": round(sum(row["seconds"] for row in rows), 3),
        "grid": {
            "selected": cells[chosen],
            "on": key,
            "cells": [_summary(c, r, key) for c, r in zip(cells, rows, strict=True)],
        },
    }


def train_cell(
    config: Config,
    data: GraphDataModule,
    protocol: ProtocolConfig,
    split: Split,
    index: int,
    folder: Path,
    number: int,
    watch: StatusFile | None = None,
    *,
    again: bool = False,
) -> dict[str, Any]:
    """Train one cell and measure it on validation, never on test; a finished one is read.

    Args:
        config: The configuration of the cell.
        data: What it reads.
        protocol: How its epoch is selected.
        split: The repetition's split.
        index: The repetition.
        folder: The run folder; the cell's files are ``cells/NN/CCC.json`` and ``.ckpt``.
        number: The cell.
        watch: Is told about its epochs.
        again: Whether to train it though it is finished.

    Returns:
        The record of a repetition, with metrics of validation only; with ``failed``, the reason,
        and no metrics if its loss was not finite.
    """
    path = cell_checkpoint(folder, index, number).with_suffix(".json")
    held = None if again else read_mapping(path)
    if held is not None and {"metrics", "seconds"} <= held.keys():
        return held
    try:
        record = train_repetition(
            config, data, config.protocol, split, index, folder, watch, cell=number, test=False
        )
    except NonFiniteLossError as error:
        record = {"metrics": {}, "seconds": 0.0, "failed": str(error)}
    write_json(path, record)
    return record


class CellData:
    """What the cells of a grid read: one data module for all that read the same.

    Args:
        config: The configuration without a cell.
        data: Its data module.
    """

    def __init__(self, config: Config, data: GraphDataModule) -> None:
        self._made = [(_read(config), data)]

    def __call__(self, config: Config) -> GraphDataModule:
        """Return the data module of a cell."""
        wanted = _read(config)
        for read, data in self._made:
            if read == wanted:
                return data
        self._made.append((wanted, build_data(config)))
        return self._made[-1][1]


def _read(config: Config) -> tuple[Any, ...]:
    """What a data module is made of."""
    encodings = config.model.encodings
    return config.data, coefficient_spec(config), layer_spec(config), encodings


def _summary(cell: Cell, row: Mapping[str, Any], key: str) -> dict[str, Any]:
    failed = {"failed": row["failed"]} if "failed" in row else {}
    kept = {name: row.get(name) for name in ("best_epoch", "epochs", "seconds")}
    return {"cell": cell, key: row["metrics"].get(key), **kept, **failed}
