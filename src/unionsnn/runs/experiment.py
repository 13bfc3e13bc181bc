"""One experiment: repetitions are trained, recorded and merged."""

from __future__ import annotations

import functools
import logging
import warnings
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import torch

from unionsnn.base.environment import environment
from unionsnn.base.errors import RepetitionFailedError, RequestError
from unionsnn.base.files import write_json
from unionsnn.base.processes import refuse_second_run
from unionsnn.config.identity import config_hash
from unionsnn.config.schema import Config, ProtocolConfig
from unionsnn.config.targets import changed_code
from unionsnn.data.datamodules import GraphDataModule, Progress
from unionsnn.data.process_group import agreed, rank
from unionsnn.data.splits import Split, load_splits, save_splits, split_hash
from unionsnn.runs.distributed import (
    follow,
    joined_by_torchrun,
    num_processes,
    together,
)
from unionsnn.runs.failures import Failure, Outcome, SameAgain, attempt
from unionsnn.runs.run_folder import RunFolder
from unionsnn.runs.selection import select_in_fold
from unionsnn.runs.workers import train_in_workers
from unionsnn.training.build import build_data, check_model
from unionsnn.training.devices import check_accelerator
from unionsnn.training.protocols import draw_splits, summarize
from unionsnn.training.records import RecordedFailure, RecordedProtocol, Repetition, Result
from unionsnn.training.repetition import Training, train_repetition
from unionsnn.training.tracking import prepare_tracking, track_results

logger = logging.getLogger(__name__)


def run_experiment(config: Config, progress: Progress | None = None) -> Result | None:
    """Train unfinished repetitions and return the merged record.

    A failed repetition does not stop the others; the same request trains it again. Of the processes
    started by torchrun, all but the first return None.

    Args:
        config: A checked configuration.
        progress: Called during long work on data.

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
    check_accelerator(config)
    config.logger.check()
    check_model(config)
    torch.set_num_threads(config.trainer.threads)
    with joined_by_torchrun(config):
        if rank() > 0:
            follow(config)
            return None
        if (whole := _whole_but_read_only(config, progress)) is not None:
            return whole
        with RunFolder.of(config).locked() as folder:
            finished = folder.finished()
            warn_of_other_versions(folder.path, finished)
            warn_of_other_code(folder, finished)
            pending = [i for i in config.protocol.wanted if i not in finished]
            data = build_data(config, progress)
            if pending or data.source.belongs_to_user:
                refuse_other_data(folder, finished, data)
            if pending and (unread := data.unread_edge_features):
                logger.info(
                    "%s: features of edges are not read: %s. data.edge_features=labels, attributes "
                    "or both reads them.",
                    config.data.name,
                    unread,
                )
            failure = _train_pending(config, folder, data, pending, started=bool(finished))
            result = merge(folder)
            write_json(folder.results_path, result.to_json())
            if pending and failure is None:
                track_results(config, folder.path, result)
            if failure is not None and not result.repetitions:
                raise failure.error or RepetitionFailedError(f"{failure.reason}.")
            return result


def _whole_but_read_only(config: Config, progress: Progress | None) -> Result | None:
    """Return the record of a folder that cannot be written and lacks nothing of the request."""
    folder = RunFolder.of(config)
    if config.force or not folder.is_read_only():
        return None
    folder.adopt()
    finished = folder.finished()
    if not finished.keys() >= set(config.protocol.wanted):
        return None
    data = build_data(config, progress)
    if data.source.belongs_to_user:
        refuse_other_data(folder, finished, data)
    folder.warn_of_the_merged_record()
    return merge(folder)


def _train_pending(
    config: Config,
    folder: RunFolder[Config],
    data: GraphDataModule,
    pending: Sequence[int],
    *,
    started: bool,
) -> Failure | None:
    """Train what is missing, save each outcome when it is there; return the first failure."""
    first: Failure | None = None
    if not pending:
        return first
    prepare_tracking(folder.path)
    splits = recorded_splits(folder, config.protocol, data, config.seed)
    waiting, alike = deque(pending), SameAgain(started)
    # Closed at once if saving fails or a signal comes: workers end with it.
    with closing(train_all(config, data, splits, waiting, folder.path)) as outcomes:
        for index, outcome in outcomes:
            if isinstance(outcome, Failure):
                first = first or outcome
                folder.save_failure(index, outcome.kind, outcome.reason)
                # Of a single repetition, the error itself is shown.
                if config.protocol.num_repetitions > 1:
                    logger.error("repetition %d FAILED: %s", index, outcome.reason)
            else:
                folder.save_repetition(index, outcome)
            if alike.add(outcome) and waiting:
                logger.error("Two failed with the same error, none is finished: the rest waits.")
                waiting.clear()
            write_json(folder.results_path, merge(folder).to_json())
    return first


def train_all(
    config: Config,
    data: GraphDataModule,
    splits: Sequence[Split],
    waiting: deque[int],
    folder: Path,
) -> Generator[tuple[int, Outcome]]:
    """Train repetitions one after another or in workers; yield each outcome when it is done.

    Repetitions removed from `waiting` meanwhile are not started.
    """
    if min(config.protocol.workers, len(waiting)) > 1:
        # Once, here, so that workers find the caches filled.
        data.prepare_data()
        yield from train_in_workers(config, splits, waiting, folder)
        return
    if num_processes(config) > 1:
        # Once, here, so that the other processes find the caches filled.
        data.prepare_data()
        with together(config):
            while waiting:
                index = waiting.popleft()
                announce(config, index)
                training = agreed(Training(config, splits[index], index, folder))
                # A failure here ends the other processes, and with them the command.
                yield index, train_repetition(training, data)
        return
    repeat: Callable[..., Repetition] = select_in_fold if config.protocol.grid else train_repetition
    while waiting:
        index = waiting.popleft()
        announce(config, index)
        training = Training(config, splits[index], index, folder)
        yield index, attempt(functools.partial(repeat, training, data))


def announce(config: Config, index: int) -> None:
    """Log which of several repetitions starts."""
    count = config.protocol.num_repetitions
    if count > 1 and config.trainer.progress != "none":
        logger.info("repetition %d of %d", index + 1, count)


def refuse_other_data(
    folder: RunFolder[Config], finished: Mapping[int, Repetition], data: GraphDataModule
) -> None:
    """Refuse to mix repetitions of two versions of a data set.

    Raises:
        RequestError: if a finished repetition was trained on other graphs.
    """
    others = {repetition.dataset for repetition in finished.values()} - {data.dataset_id}
    if others:
        raise RequestError(
            f"{folder.path} has repetitions of the data {', '.join(sorted(others))}, but the data "
            f"is now {data.dataset_id}; type force=true for a new folder."
        )


def recorded_splits(
    folder: RunFolder[Config], protocol: ProtocolConfig, data: GraphDataModule, seed: int
) -> list[Split]:
    """Return the folder's splits, drawn and saved the first time and checked every time."""
    path = folder.path / "splits.json"
    if path.exists():
        return load_splits(path, data.num_items)
    splits = draw_splits(protocol, data, seed)
    # A split prescribed by the data set, or a sampled training part, may leave items out.
    cover = data.split_covers and protocol.train_size is None
    save_splits(path, splits, data.num_items, cover=cover)
    return splits


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
    """Warn once if the user's own code has changed since repetitions were trained with it."""
    changed = {
        name: index
        for index, repetition in sorted(finished.items(), reverse=True)
        for name in changed_code(folder.config, repetition.code)
    }
    if changed:
        names = ", ".join(f"{name} (repetition {index})" for name, index in changed.items())
        again = "Type force=true to train again in a new folder."
        warnings.warn(
            f"The file of {names} has changed since {folder.path} was trained with it; its results "
            f"are those of the old code. {again if folder.tested else 'Delete it to train again.'}",
            stacklevel=2,
        )
