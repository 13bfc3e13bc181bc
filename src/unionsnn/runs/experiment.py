"""One experiment: its finished repetitions are merged, others trained first.

Answering a request that lacks nothing does not import torch; training does.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unionsnn.base.display import display
from unionsnn.base.environment import environment
from unionsnn.base.errors import RequestError
from unionsnn.base.files import write_json
from unionsnn.base.imports import loading
from unionsnn.base.processes import refuse_second_run, torchrun_process
from unionsnn.config.identity import config_hash
from unionsnn.config.schema import Config
from unionsnn.config.targets import changed_code, own_code
from unionsnn.data.processed import dataset_id, processed_graphs
from unionsnn.data.sources.download import data_root
from unionsnn.data.sources.source import Progress, RawFiles, Source
from unionsnn.data.splits import load_splits, split_hash
from unionsnn.runs.run_folder import RunFolder
from unionsnn.training.protocols import summarize
from unionsnn.training.records import RecordedFailure, RecordedProtocol, Repetition, Result

if TYPE_CHECKING:
    from unionsnn.runs.workers import Workers


def run_experiment(
    config: Config, progress: Progress | None = None, workers: Workers | None = None
) -> Result | None:
    """Train unfinished repetitions and return the merged record.

    A failed repetition does not stop the others; the same request trains it again. Of the processes
    started by torchrun, all but the first return None.

    Args:
        config: A checked configuration.
        progress: Called during long work on data.
        workers: Processes that train repetitions, if ``protocol.workers`` asks for several; by
            default they are started, and end with the experiment.

    Raises:
        RequestError: if the request does not fit the data, the model or the machine.
        RunFolderError: if the run folder cannot be used.
        RankDiedError: if one of several processes dies.
        Exception: the first repetition's error, if none is finished. Otherwise failures are part of
            the record, under ``failed``.
    """
    refuse_second_run()
    if not config.protocol.wanted:
        raise RequestError(
            "protocol.only is [], which names no repetition; leave it out for all of them.",
            code="config.only",
        )
    config.logger.check()
    if (whole := _whole(config, progress)) is not None:
        return whole
    with display(config.trainer.progress):
        with loading("torch"):
            from unionsnn.runs.pending import complete
        return complete(config, progress, workers)


@dataclass(frozen=True)
class FinishedRequest:
    """A request of which nothing is left to train.

    Args:
        folder: Its run folder.
        finished: Its repetitions, by index.
        source: Where its data come from.
        raw: The raw files.
    """

    folder: RunFolder[Config]
    finished: dict[int, Repetition]
    source: Source
    raw: RawFiles

    def refuse_other_data(self) -> None:
        """Refuse it if the user's own data have changed since."""
        if self.source.belongs_to_user:
            name = self.folder.config.data.name
            arrays, _ = processed_graphs(self.source, self.raw, name)
            refuse_other_data(self.folder, self.finished, dataset_id(name, arrays))


def finished_request(config: Config, progress: Progress | None) -> FinishedRequest | None:
    """Return a request of which nothing is left to train; nothing is written.

    None if something is, or if a check of the request needs torch; `complete` then makes it:
    whether the machine has another device than a CPU, or several; whether a network of other
    versions, or of code that has changed, takes its arguments; whether the data of a class of the
    user's own are those that were trained on.
    """
    folder, trainer = RunFolder.of(config), config.trainer
    simple = (trainer.accelerator, trainer.precision) in _WITHOUT_TORCH and trainer.devices == 1
    if config.force or not simple or trainer.num_nodes > 1 or torchrun_process() is not None:
        return None
    section = config.data
    raw = RawFiles(data_root(config.paths.data), section.mirror, section.offline, progress)
    source = _source(config, raw)
    finished = folder.finished() if source is not None else {}
    if source is None or not _all_there(config, finished) or _changed(config, finished):
        return None
    return FinishedRequest(folder, finished, source, raw)


def _whole(config: Config, progress: Progress | None) -> Result | None:
    """Return the record of a request of which nothing is left to train; otherwise None."""
    found = finished_request(config, progress)
    if found is None:
        return None
    folder = found.folder
    if folder.is_read_only():
        folder.adopt()
        found.refuse_other_data()
        folder.warn_of_the_merged_record()
        return merge(folder)
    with folder.locked():
        # Read again: damaged records are out of the way now.
        finished = folder.finished()
        if not _all_there(config, finished):
            return None
        warn_of_other_versions(folder.path, finished)
        refuse_other_code(folder, finished, accept=config.accept_code)
        replace(found, finished=finished).refuse_other_data()
        result = merge(folder)
        write_json(folder.results_path, result.to_json())
        return result


_WITHOUT_TORCH = {
    (accelerator, precision)
    for accelerator in ("auto", "cpu")
    for precision in ("32-true", "bf16-mixed")
}
"""Accelerators and precisions that every machine has."""


def _source(config: Config, raw: RawFiles) -> Source | None:
    """Return where the data come from; None if that is code of the user's own, or needs torch."""
    target = config.data.target
    if not target.startswith("unionsnn.data.sources."):
        return None
    module, _, name = target.rpartition(".")
    kind: type[Source] = getattr(import_module(module), name)
    source = kind(task=config.data.task, **(config.data.model_extra or {}))
    source = source.model_copy(update={"edge_features": config.data.edge_features})
    if target.startswith("unionsnn.data.sources.pyg.") and source.processed_key(raw) is None:
        return None
    return source


def _all_there(config: Config, finished: Mapping[int, Repetition]) -> bool:
    return finished.keys() >= set(config.protocol.wanted)


def _changed(config: Config, finished: Mapping[int, Repetition]) -> bool:
    """Return whether a repetition was trained by other versions, or other code of the user's."""
    now, own = environment()["versions"], own_code(config)
    return any(
        record.versions != now or (own and not record.code) or changed_code(config, record.code)
        for record in finished.values()
    )


def refuse_other_data(
    folder: RunFolder[Config], finished: Mapping[int, Repetition], dataset: str
) -> None:
    """Refuse to mix repetitions of two versions of a data set.

    Raises:
        RequestError: if a finished repetition was trained on other graphs.
    """
    others = {repetition.dataset for repetition in finished.values()} - {dataset}
    if others:
        raise RequestError(
            f"{folder.path} has repetitions of the data {', '.join(sorted(others))}, but the data "
            f"is now {dataset}; type force=true for a new folder."
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
        # Describes what is merged, not the folder's first request; each row says whether it was
        # trained together with others.
        config=config.replace({"protocol.only": only, "protocol.together": "auto"}).to_dict(),
        config_hash=config_hash(config),
    )


def _shared(values: list[Any]) -> Any:
    """Return the value common to all repetitions, otherwise a list of all values."""
    different = [value for i, value in enumerate(values) if value not in values[:i]]
    return different[0] if len(different) == 1 else different or None


def warn_of_other_versions(folder: Path, finished: Mapping[int, Repetition]) -> None:
    """Warn once if finished repetitions were trained with other versions, or another revision."""
    present = environment()
    current = {**present["versions"], "revision": present["git_revision"]}
    for repetition in finished.values():
        before = {**repetition.versions, "revision": repetition.git_revision}
        if current["revision"] is None or before["revision"] is None:
            # One of the two is no source checkout.
            before["revision"] = current["revision"]
        changed = [f"{k} {before.get(k)} -> {v}" for k, v in current.items() if before.get(k) != v]
        if changed:
            warnings.warn(
                f"{folder} has repetitions from other versions ({', '.join(changed)}); both are "
                "recorded.",
                stacklevel=2,
            )
            return


def refuse_other_code(
    folder: RunFolder[Config], finished: Mapping[int, Repetition], *, accept: bool
) -> None:
    """Refuse to go on with repetitions that were trained by other code of the user's.

    Args:
        folder: The run folder.
        finished: Its finished repetitions.
        accept: Whether to warn instead.

    Raises:
        RequestError: The code has changed; names the files.
    """
    changed = {
        name: index
        for index, repetition in sorted(finished.items(), reverse=True)
        for name in changed_code(folder.config, repetition.code)
    }
    if not changed:
        return
    names = ", ".join(f"{name} (repetition {index + 1})" for name, index in changed.items())
    fault = (
        f"The file of {names} has changed since {folder.path} was trained with it, so its results "
        "are those of other code."
    )
    if accept:
        warnings.warn(fault, stacklevel=2)
        return
    again = "force=true to train again in a new folder" if folder.tested else "--name for a study"
    raise RequestError(
        f"{fault} Type {again}, or accept_code=true to keep them.", code="run.other_code"
    )
