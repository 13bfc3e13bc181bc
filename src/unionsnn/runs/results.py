"""The merged record of all finished repetitions of an experiment."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unionsnn.base.environment import environment
from unionsnn.config.identity import config_hash
from unionsnn.config.schema import Config
from unionsnn.config.targets import code_digests
from unionsnn.data.splits import load_splits, split_hash
from unionsnn.runs.run_folder import RunFolder
from unionsnn.training.protocols import summarize
from unionsnn.training.records import (
    RecordedFailure,
    RecordedProtocol,
    Repetition,
    Result,
)


def merge(folder: RunFolder[Config]) -> Result:
    """Merge the repetitions of a folder into one record.

    Its state is ``finished``, or ``incomplete`` with the missing repetitions and the reasons of
    those that failed; the result is None without a finished repetition.
    """
    config = folder.config
    protocol = config.protocol
    finished = folder.finished()
    chosen = [finished[i] for i in range(protocol.num_repetitions) if i in finished]
    missing = [i for i in range(protocol.num_repetitions) if i not in finished]
    only = sorted(finished) if missing else None
    splits = folder.path / "splits.json"
    written = folder.digests()

    def shared(key: str) -> Any:
        return _shared([getattr(repetition, key) for repetition in chosen])

    return Result(
        format=1,
        state="incomplete" if missing else "finished",
        missing=missing,
        failed=[RecordedFailure(**row) for row in folder.failures(missing)],
        data=config.data.name,
        task=config.data.task,
        model=config.model.name,
        gate=config.gate.preset,
        control=config.coefficient.control,
        protocol=RecordedProtocol(
            name=protocol.name,
            repetitions=protocol.num_repetitions,
            selection=protocol.selection,
            select_on=protocol.select_on,
            stop_on=protocol.stop_on,
            report=protocol.report,
            seed=config.seed,
            split_hash=split_hash(load_splits(splits)) if splits.exists() else None,
        ),
        result=summarize(protocol, chosen) if chosen else None,
        seconds=round(sum(r.seconds for r in chosen), 3),
        dataset=shared("dataset"),
        coefficient=shared("coefficient"),
        layer_coefficient=shared("layer_coefficient"),
        parameters=shared("parameters"),
        hidden_channels=shared("hidden_channels"),
        versions=shared("versions"),
        git_revision=shared("git_revision"),
        repetitions=[folder.row(r, written) for r in chosen],
        # Describes what is merged, not the folder's first request.
        config=config.replace({"protocol.only": only}).to_dict(),
        config_hash=config_hash(config),
    )


def _shared(values: list[Any]) -> Any:
    """Return the value common to all repetitions, otherwise a list of all values."""
    different = [value for i, value in enumerate(values) if value not in values[:i]]
    return different[0] if len(different) == 1 else different or None


def warn_of_other_versions(folder: Path, finished: Mapping[int, Repetition]) -> None:
    """Warn once if finished repetitions were trained with other package versions."""
    current = environment()["versions"]
    for repetition in finished.values():
        before = repetition.versions
        changed = [f"{k} {before.get(k)} -> {v}" for k, v in current.items() if before.get(k) != v]
        if changed:
            warnings.warn(
                f"{folder} has repetitions from other versions ({', '.join(changed)}); both are "
                "recorded.",
                stacklevel=2,
            )
            return


def warn_of_other_code(folder: RunFolder[Config], finished: Mapping[int, Repetition]) -> None:
    """Warn once if the user's own classes have changed since repetitions were trained with them."""
    now = code_digests(folder.config)
    changed = {
        target: index
        for index, repetition in sorted(finished.items(), reverse=True)
        for target, digest in (repetition.code or {}).items()
        if now.get(target) != digest
    }
    if changed:
        names = ", ".join(f"{target} (repetition {index})" for target, index in changed.items())
        warnings.warn(
            f"The file of {names} has changed since {folder.path} was trained with it; its results "
            "are those of the old code. Type force=true to train again in a new folder.",
            stacklevel=2,
        )
