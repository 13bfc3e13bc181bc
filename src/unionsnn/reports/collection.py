"""Records on disk, with the files next to them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unionsnn.base.errors import DamagedFileError
from unionsnn.base.files import open_regular
from unionsnn.config.targets import changed_since
from unionsnn.data.arrays import NPZ_ERRORS
from unionsnn.runs.run_folder import altered
from unionsnn.training.records import Bins, Repetition, Result, Row, read_record, sealed

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class StoredRecord:
    """A record and its run folder."""

    folder: Path
    record: Result

    def curves(self) -> list[list[dict[str, float]]]:
        """Read the metrics of each epoch and repetition; empty if they are not on disk."""
        try:
            return [self._repetition(row).curves for row in self.record.repetitions]
        except (OSError, DamagedFileError):
            return []

    def histogram(self) -> dict[str, Bins] | None:
        """Read the histogram of the first repetition's training coefficients; None if missing."""
        try:
            return self._repetition(self.record.repetitions[0]).coefficient_histogram
        except (OSError, DamagedFileError):
            return None

    def _repetition(self, row: Row) -> Repetition:
        path = self.folder / "repetitions" / f"{row.index:02d}.json"
        return read_record(Repetition, path)

    def predictions(self) -> tuple[NDArray[Any], NDArray[Any]] | None:
        """Read outputs and targets of the test parts of all repetitions; None if missing."""
        outputs, targets, epoch = [], [], self.record.summary.epoch
        for row in self.record.repetitions:
            try:
                path = self.folder / "predictions" / f"{row.index:02d}.npz"
                with open_regular(path) as file, np.load(file, allow_pickle=False) as content:
                    # If the epoch is chosen after training, outputs of all epochs are kept.
                    chosen = "outputs" in content.files
                    outputs.append(content["outputs"][epoch] if chosen else content["output"])
                    targets.append(content["target"])
            except (*NPZ_ERRORS, DamagedFileError, IndexError, TypeError):
                return None
        return (np.concatenate(outputs), np.concatenate(targets)) if outputs else None


def collect(folders: Sequence[Path]) -> tuple[list[StoredRecord], list[str]]:
    """Find all records in folders and their subfolders.

    Runs that ``force=true`` set aside (``NAME.old-N``) are left out, and trials (``debug``), which
    are logged.

    Returns:
        The records in the order of their paths, each once, also if its folder was copied, and a
        line for each file that is not a record or a copy, and for each folder without one.
    """
    records: dict[Path, StoredRecord] = {}
    faults = []
    whole: dict[str, Path] = {}
    for folder in folders:
        paths = sorted(folder.rglob("results.json"))
        kept = [path for path in paths if not any(".old-" in part for part in path.parts)]
        if not kept:
            faults.append(f"{folder}: no results.json in it or its subfolders")
        for path in kept:
            try:
                record = read_record(Result, path)
            except (OSError, DamagedFileError) as error:
                faults.append(f"{path}: is not a record of this package, or damaged ({error})")
                continue
            if (debug := record.config.get("debug")) is not None:
                logger.info("%s: left out, of debug=%s, whose figures are no result", path, debug)
                continue
            if record.result is None:
                faults.append(f"{path}: has no finished repetition")
                continue
            faults += altered(path.parent, record)
            if names := changed_since(record.config, (row.code for row in record.repetitions)):
                faults.append(
                    f"{path}: is of other code: the file of {', '.join(names)} has changed since"
                )
            content = sealed(record.to_json())["digest"]
            if first := whole.get(content):
                if first.resolve() != path.resolve():
                    faults.append(f"{path}: is a copy of {first}, which is counted once")
                continue
            whole[content] = path
            records.setdefault(path.resolve(), StoredRecord(path.parent, record))
    return list(records.values()), faults
