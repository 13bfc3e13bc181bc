"""Repetitions in several processes, with the results of one."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import torch

from unionsnn.data.datamodules import GraphDataModule
from unionsnn.data.splits import Split
from unionsnn.training.build import build_data
from unionsnn.training.protocols import make_protocol
from unionsnn.training.repetition import train_repetition


class WorkerDiedError(RuntimeError):
    """A worker process ended without a result, as when it is killed for its memory."""


def train_in_workers(
    config: Mapping[str, Any], splits: Sequence[Split], pending: Sequence[int], folder: Path
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Train repetitions in ``protocol.workers`` processes; yield each record when it is there.

    A repetition draws from its own seed, so the records are those of a single process.

    Raises:
        WorkerDiedError: if a worker is killed.
    """
    count = min(config["protocol"]["workers"], len(pending))
    executor = ProcessPoolExecutor(
        count,
        # A forked child would inherit the threads' locks of torch and numba.
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_start,
        initargs=(dict(config), os.getpid()),
    )
    try:
        futures: dict[Future[dict[str, Any]], int] = {
            executor.submit(_train, splits[index], index, folder): index for index in pending
        }
        for future in as_completed(futures):
            yield futures[future], future.result()
    except BrokenProcessPool as error:
        raise WorkerDiedError(
            "A worker process was killed. If memory ran out, set protocol.workers or "
            "data.batch_size lower; finished repetitions are kept, the same command goes on."
        ) from error
    finally:
        # On an error or a signal nobody waits for what is still training.
        executor.shutdown(wait=False, cancel_futures=True)
        for child in multiprocessing.active_children():
            child.kill()


_config: dict[str, Any] = {}
_data: list[GraphDataModule] = []


def _start(config: dict[str, Any], parent: int) -> None:
    """Prepare a worker: threads, data, and an end when the parent ends."""
    torch.set_num_threads(config["trainer"]["threads"])
    # Ctrl-C reaches all processes of a terminal; the parent alone decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    config["trainer"]["progress"] = "none"
    _config.update(config)
    _data.append(build_data(config))


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _train(split: Split, index: int, folder: Path) -> dict[str, Any]:
    protocol = make_protocol(_config["protocol"])
    return train_repetition(_config, _data[0], protocol, split, index, folder)
