"""Predictions for the user's graphs: a table on disk, part of it on the terminal."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from unionsnn.reports.formatting import counted
from unionsnn.reports.table import Table, numbers, words, write_text
from unionsnn.reports.views.coefficients import WRITERS, write_table
from unionsnn.runs.prediction import Prediction

SHOWN = 20
"""Number of rows shown on the terminal."""

EXTENSIONS = (*WRITERS, ".json")
"""File extensions that `write_predictions` can write."""

# Node names may be numbers in one file and words in the next.
_TEXTS = ("graph", "node", "other_node", "label", "predicted")


def columns(prediction: Prediction) -> dict[str, list[Any]]:
    """Return the columns: item, class, and for each output its mean, spread and repetitions."""
    table: dict[str, list[Any]] = {"graph": list(prediction.names)}
    if prediction.nodes is not None and prediction.task == "link_prediction":
        table["node"], table["other_node"] = (
            [pair[i] for pair in prediction.nodes] for i in (0, 1)
        )
    elif prediction.nodes is not None:
        table["node"] = list(prediction.nodes)
    if prediction.labels is not None and prediction.nodes is None:
        table["label"] = list(prediction.labels)
    if prediction.has_classes:
        table["predicted"] = prediction.predicted
    stems = {"probability_" if prediction.classifies else "": prediction}
    if prediction.scores is not None:
        stems["score_"] = replace(prediction, each=prediction.scores)
    for stem, of in stems.items():
        kinds = [("", of.mean)]
        if of.spread is not None:
            kinds.append(("_std", of.spread))
            kinds += [
                (f"_repetition_{number:02d}", values)
                for number, values in zip(of.repetitions, of.each, strict=True)
            ]
        for suffix, values in kinds:
            for i, name in enumerate(of.outputs):
                table[f"{stem}{name}{suffix}"] = values[:, i].tolist()
    return table


def as_plain(prediction: Prediction) -> dict[str, Any]:
    """Return all rows as plain types."""
    table = columns(prediction)
    rows = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
    return {
        "task": prediction.task,
        "outputs": list(prediction.outputs),
        "repetitions": list(prediction.repetitions),
        "notes": list(prediction.notes),
        "device": prediction.device,
        "rows": rows,
    }


def write_predictions(prediction: Prediction, path: Path) -> None:
    """Write all rows atomically, in the format of the file extension."""
    if path.suffix.lower() == ".json":
        write_text(path, json.dumps(as_plain(prediction), indent=1) + "\n")
    else:
        import pyarrow

        arrays = {
            key: pyarrow.array([str(v) for v in values] if key in _TEXTS else values)
            for key, values in columns(prediction).items()
        }
        write_table(pyarrow.table(arrays), path)


def prediction_table(prediction: Prediction, title: str, out: Path | None = None) -> Table:
    """Return the first rows as a table for the terminal."""
    table = {k: v[:SHOWN] for k, v in columns(prediction).items() if "_repetition_" not in k}
    texts = [key for key in table if key in _TEXTS]
    outputs = [key for key in table if key not in texts and not key.endswith("_std")]
    shown = [list(map(str, table[key])) for key in texts]
    for key in outputs:
        cells = [f"{value:.4f}" for value in table[key]]
        for i, spread in enumerate(table.get(f"{key}_std", ())):
            cells[i] += f" ± {spread:.4f}"
        shown.append(cells)
    count = len(prediction.repetitions)
    kind = "probabilities" if prediction.classifies else "values"
    notes = [
        "of one repetition"
        if count == 1
        else f"mean {kind} of {counted(count, 'repetition')} ± standard deviation over them"
    ]
    if len(prediction.names) > SHOWN:
        rest = "" if out else "; --out FILE.csv has all"
        notes.append(f"the first {SHOWN} of {len(prediction.names):,} rows{rest}")
    notes += [f"written: {out}"] if out else []
    headings = [*words(*texts), *numbers(*outputs)]
    rows, below = list(zip(*shown, strict=True)), [*notes, *prediction.notes]
    return Table(title, headings, rows, below, spare=list(reversed(outputs)))
