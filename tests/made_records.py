"""Records of experiments that were never trained."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from unionsnn.reports.collection import StoredRecord
from unionsnn.training.records import Result


def record(model: str, data: str, gate: str | None, **data_keys: Any) -> dict[str, Any]:
    """An incomplete cross-validation, as a file holds it."""
    deviation = 0.05 / math.sqrt(2)
    values = [0.75 - deviation, 0.75 + deviation]
    return {
        "format": 1,
        "state": "incomplete",
        "task": "graph_classification",
        "model": model,
        "data": data,
        "gate": gate,
        "control": "none",
        "coefficient": None,
        "layer_coefficient": None,
        "git_revision": None,
        "config": {
            "data": data_keys,
            "model": {"parameter_budget": None},
            "gate": {"preset": gate},
            "protocol": {},
            "coefficient": {
                "substructure": "union",
                "descriptor": "path",
                "encoding": "singular_value_sum",
                "radius": None,
            },
        },
        "config_hash": "0" * 8,
        "dataset": f"{data}-abc",
        "parameters": 12345,
        "hidden_channels": 64,
        "versions": {"unionsnn": "0", "torch": "2"},
        "seconds": 3661.0,
        "missing": [1],
        "protocol": {
            "name": "cross_validation",
            "selection": "best val_loss of the repetition, test touched once",
            "select_on": "val_loss",
            "stop_on": "val_loss",
            "report": "test_accuracy",
            "repetitions": 3,
            "seed": 0,
            "split_hash": "f" * 64,
        },
        "result": {
            "mean": 0.75,
            "std": 0.05,
            "interval": [0.7, 0.8],
            "method": "corrected resampled t over folds",
            "values": values,
            "epoch": None,
        },
        "repetitions": [
            {
                "index": i,
                "seed": [0, i],
                "split_hash": "f" * 64,
                "sizes": {"train": 8, "validation": 1, "test": 1},
                "metrics": {"test_accuracy": v, "val_loss": 0.5},
                "best_epoch": 3,
                "epochs": 29,
                "seconds": 1.0,
                "device": "cpu",
            }
            for i, v in zip((0, 2), values, strict=True)
        ],
    }


def result(model: str, data: str, gate: str | None, **data_keys: Any) -> Result:
    return Result.from_json(record(model, data, gate, **data_keys))


def seeds(
    model: str,
    hash_: str,
    values: list[float],
    data: str = "mutag",
    report: str = "test_accuracy",
) -> dict[str, Any]:
    """A finished run of seeds, as a file holds it."""
    content = record(model, data, None)
    mean = sum(values) / len(values)
    std = (sum((v - mean) ** 2 for v in values) / (len(values) - 1)) ** 0.5
    content["result"] |= {"mean": mean, "std": std, "values": values, "interval": [mean, mean]}
    content["protocol"] |= {"name": "repeated_seeds", "repetitions": len(values), "report": report}
    row = content["repetitions"][0]
    content["repetitions"] = [
        {**row, "index": i, "seed": [0, i], "metrics": {report: v}} for i, v in enumerate(values)
    ]
    content["config"]["protocol"] = {"folds": None}
    content["config"]["model"] |= {"name": model}
    content |= {"state": "finished", "missing": [], "config_hash": hash_, "git_revision": "abc"}
    return content


def stored_in(folder: str, content: dict[str, Any]) -> StoredRecord:
    """A record of a file in a folder."""
    return StoredRecord(Path(folder), Result.from_json(content))
