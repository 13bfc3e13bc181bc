"""Records on disk, with the files next to them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

_NEEDED = (
    *("state", "missing", "data", "task", "model", "gate", "control", "protocol", "result"),
    *("seconds", "parameters", "repetitions", "config", "config_hash", "dataset"),
)


@dataclass(frozen=True)
class StoredRecord:
    """A record and its run folder."""

    folder: Path
    record: dict[str, Any]

    def curves(self) -> list[list[dict[str, float]]]:
        """Read the metrics of each epoch and repetition; empty if they are not on disk."""
        try:
            return [self._repetition(row)["curves"] for row in self.record["repetitions"]]
        except (OSError, ValueError, KeyError, TypeError):
            return []

    def histogram(self) -> dict[str, Any] | None:
        """Read the histogram of the first repetition's training coefficients; None if missing."""
        try:
            first = self._repetition(self.record["repetitions"][0])
            return cast("dict[str, Any] | None", first["coefficient_histogram"])
        except (OSError, ValueError, KeyError, IndexError, TypeError):
            return None

    def _repetition(self, row: Mapping[str, Any]) -> Any:
        path = self.folder / "repetitions" / f"{row['index']:02d}.json"
        return json.loads(path.read_bytes())

    def predictions(self) -> tuple[NDArray[Any], NDArray[Any]] | None:
        """Read outputs and targets of the test parts of all repetitions; None if missing."""
        outputs, targets = [], []
        epoch = self.record["result"].get("epoch")
        for row in self.record["repetitions"]:
            try:
                path = self.folder / "predictions" / f"{row['index']:02d}.npz"
                with np.load(path, allow_pickle=False) as content:
                    # If the epoch is chosen after training, outputs of all epochs are kept.
                    chosen = "outputs" in content.files
                    outputs.append(content["outputs"][epoch] if chosen else content["output"])
                    targets.append(content["target"])
            except (OSError, ValueError, KeyError, IndexError, TypeError):
                return None
        return (np.concatenate(outputs), np.concatenate(targets)) if outputs else None


def collect(folders: Sequence[Path]) -> tuple[list[StoredRecord], list[str]]:
    """Find all records in folders and their subfolders.

    Runs that ``force=true`` set aside (``NAME.old-N``) are left out.

    Returns:
        The records in the order of their paths, each once, and a line for each file that is not
        a record and for each folder without one.
    """
    records: dict[Path, StoredRecord] = {}
    faults = []
    for folder in folders:
        paths = sorted(folder.rglob("results.json"))
        kept = [path for path in paths if not any(".old-" in part for part in path.parts)]
        if not kept:
            faults.append(f"{folder}: no results.json in it or its subfolders")
        for path in kept:
            try:
                record = json.loads(path.read_bytes())
                fault = _fault(record)
            except (OSError, ValueError) as error:
                fault = f"cannot be read ({error})"
            if fault:
                faults.append(f"{path}: {fault}")
            else:
                records.setdefault(path.resolve(), StoredRecord(path.parent, record))
    return list(records.values()), faults


def _fault(record: Any) -> str:
    if not isinstance(record, dict):
        return "is not a record of this package"
    lacking = [key for key in _NEEDED if key not in record]
    if lacking:
        return f"is not a record of this package: it has no {', '.join(lacking)}"
    config, protocol = record["config"], record["protocol"]
    sections = ("data", "model", "gate", "coefficient", "protocol")
    whole = isinstance(config, dict) and all(isinstance(config.get(s), dict) for s in sections)
    if not whole or not isinstance(protocol, dict) or "report" not in protocol:
        return "is damaged: its configuration is incomplete"
    result = record["result"]
    if result is None:
        return "has no finished repetition"
    if not isinstance(result, dict) or not {"mean", "std", "interval", "values"} <= result.keys():
        return "is damaged: its result is incomplete"
    return ""
