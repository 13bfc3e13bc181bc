"""Selection of a cell of a grid inside each repetition: train all, compare, test the best once."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

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
    assert protocol.select_on is not None
    cells = cells_of(protocol.grid)
    data_of = CellData(config, data)
    rows: list[dict[str, Any]] = []
    best: int | None = None
    for number, cell in enumerate(cells):
        if watch is not None:
            watch.part = f"cell {number + 1}/{len(cells)}"
        if config.trainer.progress != "none":
            logger.info("cell %d of %d: %s", number + 1, len(cells), cell_text(cell))
        own = config.with_cell(cell)
        rows.append(train_cell(own, data_of(own), protocol, split, index, folder, number, watch))
        chosen = best_of(rows, protocol.select_on)
        for other in range(number + 1):
            if other != chosen:
                cell_checkpoint(folder, index, other).unlink(missing_ok=True)
        best = chosen
    if best is None:
        raise NonFiniteLossError(f"All {len(cells)} cells of the grid failed: {rows[0]['failed']}")
    own = config.with_cell(cells[best])
    if not cell_checkpoint(folder, index, best).exists():
        # Its file was lost; it is trained once more.
        rows[best] = train_cell(
            own, data_of(own), protocol, split, index, folder, best, watch, again=True
        )
    metrics = measure_selected(own, data_of(own), split, index, folder, best)
    return {
        **rows[best],
        "metrics": metrics,
        "seconds": round(sum(row["seconds"] for row in rows), 3),
        "grid": {
            "selected": cells[best],
            "on": protocol.select_on,
            "cells": [_summary(c, r, protocol.select_on) for c, r in zip(cells, rows, strict=True)],
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


def best_of(rows: Sequence[Mapping[str, Any]], key: str) -> int | None:
    """Return which of some records has the best metric; the first of equal ones."""
    sign = 1 if metric_mode(key) == "max" else -1
    values = {i: sign * row["metrics"][key] for i, row in enumerate(rows) if key in row["metrics"]}
    return max(values, key=lambda i: values[i]) if values else None


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
