"""Repetitions in several processes, with the results of one."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import torch

from unionsnn.base.processes import end_with_parent
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.data.splits import Split
from unionsnn.runs.failures import Failure, Outcome, attempt
from unionsnn.runs.nested import select_in_fold
from unionsnn.runs.status import StatusFile
from unionsnn.runs.worker_view import WorkerView
from unionsnn.training.build import build_data
from unionsnn.training.protocols import make_protocol
from unionsnn.training.repetition import train_repetition

_DIED = Failure(
    "WorkerDied",
    "its worker process was killed. If memory ran out, set protocol.workers or data.batch_size "
    "lower",
)
_LOOK = 0.25
"""Seconds between two looks at what the workers do."""


def train_in_workers(
    config: Mapping[str, Any], splits: Sequence[Split], waiting: deque[int], folder: Path
) -> Generator[tuple[int, Outcome]]:
    """Train repetitions in ``protocol.workers`` processes; yield each outcome when it is there.

    A repetition draws from its own seed, so the records are those of a single process. A worker
    that is killed loses its own repetition; another takes its place.

    Args:
        config: A checked configuration.
        splits: One for each repetition of the protocol.
        waiting: Repetitions to train; what is removed from it is not begun.
        folder: The run folder.
    """
    total = len(waiting)
    with (
        tempfile.TemporaryDirectory(prefix="unionsnn-", ignore_cleanup_errors=True) as status,
        WorkerView(config["trainer"]["progress"], Path(status), total) as view,
    ):
        # A pool for each worker: one that dies takes no other's repetition with it.
        idle = [
            _pool(config, Path(status)) for _ in range(min(config["protocol"]["workers"], total))
        ]
        running: dict[Future[Outcome], tuple[int, ProcessPoolExecutor]] = {}
        try:
            while waiting or running:
                while waiting and idle:
                    index, pool = waiting.popleft(), idle.pop()
                    running[pool.submit(_train, splits[index], index, folder)] = index, pool
                done, _ = wait(running, timeout=_LOOK, return_when=FIRST_COMPLETED)
                for future in done:
                    index, pool = running.pop(future)
                    try:
                        outcome = future.result()
                        idle.append(pool)
                    except BrokenProcessPool:
                        outcome = _DIED
                        pool.shutdown(wait=False)
                        idle.append(_pool(config, Path(status)))
                    view.ended(index, isinstance(outcome, Failure))
                    yield index, outcome
                view.look([index for index, _ in running.values()])
        finally:
            # On an error or a signal nobody waits for what is still training.
            for pool in [*idle, *(pool for _, pool in running.values())]:
                pool.shutdown(wait=False, cancel_futures=True)
            for child in multiprocessing.active_children():
                child.kill()


def _pool(config: Mapping[str, Any], status: Path) -> ProcessPoolExecutor:
    """Make a pool of one process, which starts with its first repetition."""
    return ProcessPoolExecutor(
        1,
        # A forked child would inherit the threads' locks of torch and numba.
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_start,
        initargs=(dict(config), os.getpid(), status),
    )


_config: dict[str, Any] = {}
_data: list[GraphDataModule] = []
_status: list[Path] = []


def _start(config: dict[str, Any], parent: int, status: Path) -> None:
    """Prepare a worker: threads, data, and an end when the parent ends."""
    torch.set_num_threads(config["trainer"]["threads"])
    end_with_parent(parent)
    _config.update({**config, "trainer": {**config["trainer"], "progress": "none"}})
    _data.append(build_data(_config))
    _status.append(status)


def _train(split: Split, index: int, folder: Path) -> Outcome:
    protocol = make_protocol(_config["protocol"])
    watch = StatusFile(_status[0], index, protocol.select_on)
    train: Callable[..., dict[str, Any]] = select_in_fold if protocol.grid else train_repetition
    outcome = attempt(lambda: train(_config, _data[0], protocol, split, index, folder, watch))
    return outcome.without_error() if isinstance(outcome, Failure) else outcome
