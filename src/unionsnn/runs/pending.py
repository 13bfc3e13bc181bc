"""What is left of an experiment: repetitions are trained and recorded, each when it is done."""

from __future__ import annotations

import functools
import itertools
import logging
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from unionsnn.base.display import current_display
from unionsnn.base.errors import (
    MemoryRanOutError,
    RepetitionFailedError,
    UnionsnnError,
)
from unionsnn.base.files import write_json
from unionsnn.config.schema import Config, ProtocolConfig
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.data.process_group import agreed, rank
from unionsnn.data.sources.source import Progress
from unionsnn.data.splits import Split, load_splits, save_splits
from unionsnn.runs.distributed import (
    follow,
    joined_by_torchrun,
    num_processes,
    together,
)
from unionsnn.runs.experiment import (
    merge,
    refuse_other_code,
    refuse_other_data,
    warn_of_other_versions,
)
from unionsnn.runs.failures import Failure, Outcome, SameAgain, attempt
from unionsnn.runs.run_folder import RunFolder
from unionsnn.runs.selection import select_in_fold, train_cells_together
from unionsnn.runs.workers import Workers, train_in_workers
from unionsnn.training.build import announce_own, build_data, check_request, locate
from unionsnn.training.devices import check_accelerator, own_state
from unionsnn.training.protocols import draw_splits
from unionsnn.training.records import Repetition, Result
from unionsnn.training.repetition import REPETITIONS, Training, train_repetition
from unionsnn.training.resume import SharedPoint, point_of
from unionsnn.training.together import groups_of, say_alone, train_together
from unionsnn.training.tracking import prepare_tracking, track_results

logger = logging.getLogger(__name__)


def complete(
    config: Config, progress: Progress | None = None, workers: Workers | None = None
) -> Result | None:
    """Check a request, train what it lacks, and return the merged record; see `run_experiment`."""
    with own_state(config.trainer.threads):
        check_accelerator(config)
        check_request(config)
        with joined_by_torchrun(config):
            return _complete(config, progress, workers)


def _complete(config: Config, progress: Progress | None, workers: Workers | None) -> Result | None:
    if rank() > 0:
        follow(config)
        return None
    if (whole := _whole_but_read_only(config, progress)) is not None:
        return whole
    with RunFolder.of(config).locked() as folder:
        finished = folder.finished()
        warn_of_other_versions(folder.path, finished)
        refuse_other_code(folder, finished, accept=config.accept_code)
        pending = [i for i in config.protocol.wanted if i not in finished]
        data = build_data(config, progress)
        if pending or data.source.belongs_to_user:
            refuse_other_data(folder, finished, data.dataset_id)
        if pending:
            announce_own(config)
        unread, choices = data.unread_edge_features if pending else ("", ())
        if unread:
            network = locate(config.model.target, object, "model._target_")
            hint = f"data.edge_features={' or '.join(choices)} reads them"
            if not getattr(network, "reads_edges", True):
                hint = f"model={config.model.name} reads none"
            name = config.data.name
            logger.info("%s: features of edges are not read: %s. %s.", name, unread, hint)
        failure = _train_pending(config, folder, data, pending, workers, started=bool(finished))
        result = merge(folder)
        write_json(folder.results_path, result.to_json())
        if pending and failure is None:
            track_results(config, folder.path, result, folder.finished())
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
    refuse_other_code(folder, finished, accept=config.accept_code)
    data = build_data(config, progress)
    if data.source.belongs_to_user:
        refuse_other_data(folder, finished, data.dataset_id)
    folder.warn_of_the_merged_record()
    return merge(folder)


def _train_pending(
    config: Config,
    folder: RunFolder[Config],
    data: GraphDataModule,
    pending: Sequence[int],
    workers: Workers | None,
    *,
    started: bool,
) -> Failure | None:
    """Train what is missing, save each outcome when it is there; return the first failure."""
    first: Failure | None = None
    if not pending:
        return first
    # Once, so that workers and other processes find the caches filled, and what is wrong with the
    # data is told of the request, not of its repetitions.
    data.prepare_data()
    prepare_tracking(folder.path)
    splits = recorded_splits(folder, config.protocol, data, config.seed)
    waiting, alike = deque(pending), SameAgain(started)
    shown, unit, total = current_display(), config.protocol.unit, len(config.protocol.wanted)

    def count(done: int) -> None:
        if shown is not None and total > 1:
            shown.show(REPETITIONS, f"{unit}s done", done, total)

    before = total - len(pending)
    count(before)
    with ExitStack() as stack:
        if shown is not None:
            stack.callback(shown.end, REPETITIONS)
        # Closed at once if saving fails or a signal comes: workers end with it.
        outcomes = stack.enter_context(
            closing(train_all(config, data, splits, waiting, folder.path, workers))
        )
        for done, (index, outcome) in enumerate(outcomes, before + 1):
            if isinstance(outcome, Failure):
                first = first or outcome
                folder.save_failure(index, outcome.kind, outcome.reason)
                # Of a single repetition, the error itself is shown.
                if config.protocol.num_repetitions > 1:
                    logger.error("%s %d FAILED: %s", unit, index + 1, outcome.reason)
            else:
                folder.save_repetition(index, outcome)
            if alike.add(outcome) and waiting:
                logger.error("Two failed with the same error, none is finished: the rest waits.")
                waiting.clear()
            write_json(folder.results_path, merge(folder).to_json())
            count(done)
    return first


def train_all(
    config: Config,
    data: GraphDataModule,
    splits: Sequence[Split],
    waiting: deque[int],
    folder: Path,
    workers: Workers | None = None,
) -> Generator[tuple[int, Outcome]]:
    """Train repetitions one after another or in workers; yield each outcome when it is done.

    Repetitions removed from `waiting` meanwhile are not started.
    """
    if min(config.protocol.workers, len(waiting)) > 1:
        yield from train_in_workers(config, splits, waiting, folder, workers)
        return
    if num_processes(config) > 1:
        with together(config):
            while waiting:
                index = waiting.popleft()
                training = agreed(Training(config, splits[index], index, folder))
                # A failure here ends the other processes, and with them the command.
                yield index, train_repetition(training, data)
        return
    yield from _train_together(config, data, splits, waiting, folder)
    repeat: Callable[..., Repetition] = select_in_fold if config.protocol.grid else train_repetition
    while waiting:
        index = waiting.popleft()
        training = Training(config, splits[index], index, folder)
        yield index, attempt(functools.partial(repeat, training, data))


def _train_together(
    config: Config,
    data: GraphDataModule,
    splits: Sequence[Split],
    waiting: deque[int],
    folder: Path,
) -> Generator[tuple[int, Outcome]]:
    """Train in one step what ``protocol.together`` and the device say; cells are only recorded.

    Raises:
        RequestError: if that is asked for, and a repetition cannot be trained with others.
    """
    trainings = [Training(config, splits[i], i, folder) for i in waiting]
    point = SharedPoint(point_of(folder), config)
    if config.protocol.grid:
        train_cells_together(trainings, data, point)
        return
    # Those that have begun alone go on alone.
    trainings = [training for training in trainings if not training.unfinished.exists()]
    groups = groups_of(trainings, lambda _: data, point)
    for training in itertools.chain(*groups):
        waiting.remove(training.index)
    for group in groups:
        for training, found in train_together(group, data, point):
            # What is not the repetition's own fault may be that of training it with others.
            own = isinstance(found, UnionsnnError) and not isinstance(found, MemoryRanOutError)
            if not isinstance(found, Exception):
                yield training.index, found
            elif config.protocol.together == "auto" and not own:
                say_alone(training, found)
                waiting.append(training.index)
            else:
                yield training.index, attempt(functools.partial(_raise, found))


def _raise(error: Exception) -> Repetition:
    raise error


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
