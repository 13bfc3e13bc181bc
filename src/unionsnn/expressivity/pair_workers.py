"""Pairs in several processes, with the results of one."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import torch

from unionsnn.base.processes import end_with_parent
from unionsnn.expressivity.contrastive import compare_pair
from unionsnn.expressivity.copies import Graph


def compared(
    config: Mapping[str, Any], pairs: Sequence[tuple[Graph, Graph]], pending: Sequence[int]
) -> Iterator[dict[str, Any]]:
    """Train and test on pairs in ``protocol.workers`` processes; yield each outcome as it comes.

    Args:
        config: As `unionsnn.expressivity.trained.trained_config` returns it.
        pairs: All pairs.
        pending: Numbers of those to train on.

    Raises:
        RuntimeError: if a worker is killed.
    """
    count = min(config["protocol"]["workers"], len(pending))
    if count <= 1:
        for index in pending:
            yield compare_pair(config, pairs[index], index)
        return
    executor = ProcessPoolExecutor(
        count,
        # A forked child would inherit the threads' locks of torch and numba.
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_start,
        initargs=(config["trainer"]["threads"], os.getpid()),
    )
    try:
        futures = [executor.submit(compare_pair, config, pairs[i], i) for i in pending]
        for future in as_completed(futures):
            yield future.result()
    except BrokenProcessPool as error:
        raise RuntimeError(
            "A worker process was killed. If memory ran out, set protocol.workers or "
            "data.batch_size lower; finished pairs are kept, the same command goes on."
        ) from error
    finally:
        # On an error or a signal nobody waits for what is still training.
        executor.shutdown(wait=False, cancel_futures=True)
        for child in multiprocessing.active_children():
            child.kill()


def _start(threads: int, parent: int) -> None:
    """Prepare a worker: threads, and an end when the parent ends."""
    torch.set_num_threads(threads)
    end_with_parent(parent)
