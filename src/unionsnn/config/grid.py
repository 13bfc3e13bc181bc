"""A grid of configurations: its cells, and what it may vary. Does not import torch."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from unionsnn.base.errors import RequestError
from unionsnn.base.words import nearest
from unionsnn.config.sections import SCHEDULE_DEFAULTS

if TYPE_CHECKING:
    from unionsnn.config.schema import Config

VARIED = (
    "optimizer.*, model.*, gate.*, coefficient.*, data.batch_size, data.class_weights, and of "
    "trainer max_epochs, gradient_clip_val, accumulate_grad_batches, ema_decay, swa_start, swa_lr"
)
"""What a grid may vary: nothing that affects splits, seeds or tests."""

_SECTIONS = ("optimizer.", "model.", "gate.", "coefficient.")
_KEYS = (
    "trainer.max_epochs",
    "trainer.gradient_clip_val",
    "trainer.gradient_clip_algorithm",
    "trainer.accumulate_grad_batches",
    "trainer.ema_decay",
    "trainer.swa_start",
    "trainer.swa_lr",
    "data.batch_size",
    "data.class_weights",
)
# A control is not a candidate, and another model is another experiment.
_NEVER = ("model.name", "model._target_", "coefficient.control")

Cell = dict[str, Any]
"""A point of a grid: the value of each of its keys."""


def cells_of(grid: Mapping[str, list[Any]]) -> list[Cell]:
    """Return all cells, in the order of the values as given; the last key varies fastest."""
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def cell_text(cell: Mapping[str, Any]) -> str:
    """Format a cell as it would be typed."""
    return " ".join(f"{key}={str(value).replace(' ', '')}" for key, value in cell.items())


def with_cell(plain: Mapping[str, Any], cell: Mapping[str, Any]) -> dict[str, Any]:
    """Return an unchecked request with the values of a cell and without the grid.

    Keys of the request that belong to one of the grid's schedules are left out of cells with
    another.
    """
    made: dict[str, Any] = copy.deepcopy(dict(plain))
    grid = made["protocol"].pop("grid", None) or {}
    chosen = cell.get("optimizer.schedule")
    for schedule, keys in SCHEDULE_DEFAULTS.items():
        if schedule in grid.get("optimizer.schedule", ()) and schedule != chosen:
            for key in keys:
                made["optimizer"].pop(key, None)
    for key, value in cell.items():
        section, parts = made, key.split(".")
        for part in parts[:-1]:
            section = section[part]
        section[parts[-1]] = copy.deepcopy(value)
    return made


def flatten(config: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield all dotted keys of nested mappings with their values."""
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def grid_faults(
    plain: Mapping[str, Any],
    checked: Config,
    type_fault: Callable[[str, Any, Any], str | None],
    check: Callable[[dict[str, Any]], Config],
) -> list[str]:
    """Return the faults of a request's grid: keys, values and cells.

    Args:
        plain: The request as composed.
        checked: The request without its grid, checked and resolved.
        type_fault: Returns the fault of a value, given its key and the shipped value.
        check: Checks and resolves the request of a cell; raises RequestError.
    """
    grid = plain["protocol"]["grid"]
    faults = _shape_faults(grid, plain)
    faults = faults or _key_faults(grid, plain, checked)
    if faults:
        return faults
    known = dict(flatten(plain))
    faults = [
        f"protocol.grid: {fault}"
        for key, values in grid.items()
        for value in values
        if (fault := type_fault(key, value, known.get(key)))
    ]
    return faults or _cell_faults(grid, plain, checked, check)


def _shape_faults(grid: Any, plain: Mapping[str, Any]) -> list[str]:
    example = "'protocol.grid={optimizer.lr:[0.01,0.001],model.num_layers:[3,5]}'"
    if not isinstance(grid, Mapping) or not grid:
        return [f"protocol.grid is {grid!r}; it maps keys to lists of values: {example}"]
    if plain["protocol"]["name"] == "cross_validation_paper":
        return [
            "protocol.grid selects a cell in each fold by the fold's validation part, but "
            "protocol=cross_validation_paper has one epoch for all folds, selected by their mean "
            "curve: a cell would be selected on the folds that it reports. Type "
            "protocol=cross_validation."
        ]
    faults = []
    for key, values in grid.items():
        if not isinstance(values, list) or not values:
            faults.append(
                f"protocol.grid has {values!r} for {key}; give a list of values: {example}"
            )
        elif any(value in values[:i] for i, value in enumerate(values)):
            faults.append(f"protocol.grid lists a value of {key} twice: {values}.")
    return faults


def _key_faults(grid: Mapping[str, Any], plain: Mapping[str, Any], checked: Config) -> list[str]:
    known = {key for key, _ in (*flatten(plain), *flatten(checked.to_dict()))}
    allowed = sorted(key for key in known if may_vary(key))
    faults = []
    for key in grid:
        if key not in known:
            faults.append(
                f"protocol.grid names {key!r}, a key that does not exist.{nearest(key, allowed)}"
            )
        elif not may_vary(key):
            faults.append(
                f"protocol.grid names {key!r}, which cannot differ between cells; it may vary "
                f"{VARIED}."
            )
    return faults


def may_vary(key: str) -> bool:
    """Return whether cells of a grid, or trials of a study, may differ in a key."""
    return (key.startswith(_SECTIONS) and key not in _NEVER) or key in _KEYS


def _cell_faults(
    grid: Mapping[str, Any],
    plain: Mapping[str, Any],
    checked: Config,
    check: Callable[[dict[str, Any]], Config],
) -> list[str]:
    """Check each cell as a separate request, which may differ from the others only in its keys."""
    faults: dict[str, None] = {}
    for cell in cells_of(grid):
        where = f"protocol.grid, {cell_text(cell)}"
        try:
            settled = dict(flatten(check(with_cell(plain, cell)).to_dict()))
        except RequestError as error:
            faults |= dict.fromkeys(f"{where}: {fault}" for fault in error.faults)
            continue
        expected = dict(flatten(checked.with_cell(cell).to_dict()))
        for key in sorted(expected.keys() | settled.keys()):
            if expected.get(key) != settled.get(key):
                faults[
                    f"{where}: {key} would become {settled.get(key)} instead of "
                    f"{expected.get(key)}; set {key} explicitly."
                ] = None
    return list(faults)
