"""Predictions for the user's graphs: a table on disk, part of it on the terminal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unionsnn.reports.formatting import counted
from unionsnn.reports.table import Table, check_output, numbers, print_tables, words, write_text
from unionsnn.reports.views.coefficients import WRITERS, write_table
from unionsnn.runs.prediction import Prediction

if TYPE_CHECKING:
    from rich.console import Console

SHOWN = 20
"""Number of rows shown on the terminal."""

EXTENSIONS = (*WRITERS, ".json")
"""File extensions that `write_predictions` can write."""


def check_writable(path: Path) -> None:
    """Check before any work that predictions can be written to a path.

    Raises:
        RequestError: The extension or the folder is not usable.
    """
    check_output("--out", path, EXTENSIONS)


def columns(prediction: Prediction) -> dict[str, list[Any]]:
    """Return the columns: item, class, and for each output its mean, spread and repetitions."""
    found: dict[str, list[Any]] = {"graph": list(prediction.names)}
    if prediction.nodes is not None:
        found["node"] = list(prediction.nodes)
    if prediction.labels is not None and prediction.nodes is None:
        found["label"] = list(prediction.labels)
    if prediction.classifies:
        found["predicted"] = prediction.predicted
    stem = "probability_" if prediction.classifies else ""
    names = [f"{stem}{name}" for name in prediction.outputs]
    mean, spread = prediction.mean, prediction.spread
    for i, name in enumerate(names):
        found[name] = mean[:, i].tolist()
    if spread is not None:
        for i, name in enumerate(names):
            found[f"{name}_std"] = spread[:, i].tolist()
        for number, values in zip(prediction.repetitions, prediction.each, strict=True):
            for i, name in enumerate(names):
                found[f"{name}_repetition_{number:02d}"] = values[:, i].tolist()
    return found


def as_plain(prediction: Prediction) -> dict[str, Any]:
    """Return all rows as plain types."""
    table = columns(prediction)
    rows = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
    return {
        "task": prediction.task,
        "outputs": list(prediction.outputs),
        "repetitions": list(prediction.repetitions),
        "notes": list(prediction.notes),
        "rows": rows,
    }


def write_predictions(prediction: Prediction, path: Path) -> None:
    """Write all rows atomically, in the format of the file extension."""
    if path.suffix.lower() == ".json":
        write_text(path, json.dumps(as_plain(prediction), indent=1) + "\n")
    else:
        import pyarrow

        # Node names may be numbers in one file and words in the next.
        texts = ("graph", "node", "label", "predicted")
        arrays = {
            key: pyarrow.array([str(v) for v in values] if key in texts else values)
            for key, values in columns(prediction).items()
        }
        write_table(pyarrow.table(arrays), path)


def prediction_table(prediction: Prediction, title: str, out: Path | None = None) -> Table:
    """Return the first rows as a table for the terminal."""
    table = {k: v for k, v in columns(prediction).items() if "_repetition_" not in k}
    texts = [k for k in ("graph", "node", "label", "predicted") if k in table]
    shown = [key for key in table if key in texts or not key.endswith("_std")]
    rows = []
    for i in range(min(len(prediction.names), SHOWN)):
        rows.append([_cell(table, key, i) for key in shown])
    notes = [_repetitions(prediction)]
    if len(prediction.names) > SHOWN:
        rest = "" if out else "; --out FILE.csv has all"
        notes.append(f"the first {SHOWN} of {len(prediction.names):,} rows{rest}")
    notes += [f"written: {out}"] if out else []
    headings = [*words(*texts), *numbers(*shown[len(texts) :])]
    return Table(title, headings, rows, [*notes, *prediction.notes])


def _cell(table: dict[str, list[Any]], key: str, row: int) -> str:
    value = table[key][row]
    if not isinstance(value, float):
        return str(value)
    spread = table.get(f"{key}_std")
    return f"{value:.4f}" if spread is None else f"{value:.4f} ± {spread[row]:.4f}"


def _repetitions(prediction: Prediction) -> str:
    count = len(prediction.repetitions)
    if count == 1:
        return "of one repetition"
    kind = "probabilities" if prediction.classifies else "values"
    return f"mean {kind} of {counted(count, 'repetition')} ± standard deviation over them"


def print_predictions(
    prediction: Prediction, title: str, out: Path | None = None, console: Console | None = None
) -> None:
    """Print the first rows, and where all of them were written."""
    print_tables([prediction_table(prediction, title, out)], console)
