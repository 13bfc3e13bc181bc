"""One experiment: its repetitions, trained, recorded and merged."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from unionsnn.data.datamodules import GraphDataModule, Progress
from unionsnn.data.splits import Split, load_splits, save_splits
from unionsnn.training.build import build_data, check_model
from unionsnn.training.config import RequestError
from unionsnn.training.protocols import Protocol, make_protocol
from unionsnn.training.records import RunFolder, write_json
from unionsnn.training.repetition import train_repetition
from unionsnn.training.results import merge, warn_of_other_versions
from unionsnn.training.trackers import check_tracker, prepare_tracking, track_results
from unionsnn.training.workers import train_in_workers

logger = logging.getLogger(__name__)


def run_experiment(config: Mapping[str, Any], progress: Progress | None = None) -> dict[str, Any]:
    """Train what is not finished yet and return the merged record.

    Args:
        config: A checked configuration.
        progress: Called during long work on data.

    Raises:
        RequestError: if the request does not fit the data, the model or the machine.
        RunFolderError: if the run folder cannot be used.
        NonFiniteLossError: if training diverges.
    """
    check_accelerator(config)
    check_tracker(config)
    check_model(config)
    torch.set_num_threads(config["trainer"]["threads"])
    with RunFolder.of(config).locked() as folder:
        protocol = make_protocol(config["protocol"])
        finished = folder.finished()
        warn_of_other_versions(folder.path, finished)
        pending = [i for i in protocol.wanted if i not in finished]
        data = build_data(config, progress)
        if pending or data.belongs_to_user:
            refuse_other_data(folder, finished, data)
        if pending:
            prepare_tracking(folder.path)
            splits = recorded_splits(folder, protocol, data, config["seed"])
            for index, record in train_all(config, data, splits, pending, folder.path, progress):
                folder.save_repetition(index, record)
                write_json(folder.results_path, merge(folder))
        results = merge(folder)
        write_json(folder.results_path, results)
        if pending:
            track_results(config, folder.path, results)
        return results


def train_all(
    config: Mapping[str, Any],
    data: GraphDataModule,
    splits: Sequence[Split],
    pending: Sequence[int],
    folder: Path,
    progress: Progress | None = None,
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Train repetitions one after another or in workers; yield each record when it is there."""
    if min(config["protocol"]["workers"], len(pending)) > 1:
        # Once, here: the workers find the caches filled.
        data.prepare_data()
        report = progress or (lambda *_: None)
        report("repetitions", 0, len(pending))
        records = train_in_workers(config, splits, pending, folder)
        for done, (index, record) in enumerate(records, 1):
            report("repetitions", done, len(pending))
            yield index, record
        return
    protocol = make_protocol(config["protocol"])
    for index in pending:
        if protocol.num_repetitions > 1 and config["trainer"]["progress"] != "none":
            logger.info("repetition %d of %d", index + 1, protocol.num_repetitions)
        yield index, train_repetition(config, data, protocol, splits[index], index, folder)


def check_accelerator(config: Mapping[str, Any]) -> None:
    """Refuse an accelerator that this machine does not have.

    Raises:
        RequestError: with what is there.
    """
    wanted = config["trainer"]["accelerator"]
    there = {"gpu": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not there.get(wanted, True):
        raise RequestError(
            [
                f"trainer.accelerator is {wanted!r}, but torch {torch.__version__} finds none; "
                "type trainer.accelerator=cpu, or install a torch build for your device."
            ]
        )


def refuse_other_data(
    folder: RunFolder, finished: Mapping[int, Mapping[str, Any]], data: GraphDataModule
) -> None:
    """Refuse to mix repetitions of two versions of a data set.

    Raises:
        RequestError: if a finished repetition was trained on other graphs.
    """
    held = {record["dataset"] for record in finished.values()} - {data.dataset_id}
    if held:
        raise RequestError(
            [
                f"{folder.path} holds repetitions of the data {', '.join(sorted(held))}, the data "
                f"are now {data.dataset_id}; type force=true for a fresh folder."
            ]
        )


def recorded_splits(
    folder: RunFolder, protocol: Protocol, data: GraphDataModule, seed: int
) -> list[Split]:
    """Return the folder's splits; drawn and saved the first time, checked every time."""
    path = folder.path / "splits.json"
    if path.exists():
        return load_splits(path, data.num_items)
    splits = protocol.splits(data, seed)
    # A split that the data set prescribes may leave items out, as may a cut training part.
    cover = data.split_covers and protocol.train_size is None
    save_splits(path, splits, data.num_items, cover=cover)
    return splits
