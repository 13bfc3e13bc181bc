"""One repetition trained by several processes, each on its own device.

The process of the command is rank 0: it locks the run folder, writes and tests. The others follow:
they receive what to train and take their share of each batch. They are started here, or by
torchrun, which starts the command once for each rank.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch

from unionsnn.base.errors import RankDiedError, RequestError
from unionsnn.base.processes import Died, ProcessPool, torchrun_process
from unionsnn.config.schema import Config
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.data.process_group import agreed, rank, world_size
from unionsnn.training.build import build_data
from unionsnn.training.repetition import assist

TIMEOUT = timedelta(minutes=30)
"""How long a process waits for another one that is alive but does not respond."""

GRACE = 30.0
"""Seconds within which rank 0 must notice by itself that another process has died."""


def num_processes(config: Config) -> int:
    """Return the number of processes of a configuration, on all machines."""
    return config.trainer.devices * config.trainer.num_nodes


@contextmanager
def together(config: Config) -> Iterator[None]:
    """Start the other processes of this machine and join their group, if there are several.

    Entered by rank 0 once the data caches are filled. On exit the others have ended.

    Raises:
        RankDiedError: if one of them dies first.
    """
    if num_processes(config) == 1 or world_size() > 1:
        yield
        return
    others = range(1, num_processes(config))
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPool(_Follower(config, Path(folder)), len(others)) as pool,
    ):
        for number in others:
            pool.start(number)
        while len(list(Path(folder).glob("ready-*"))) < len(others):
            if ended := pool.ended(0.1):
                raise _death(ended, num_processes(config))
        finished = threading.Event()
        death: Future[RankDiedError] = Future()
        watch = threading.Thread(target=_watch, args=(config, pool, finished, death), daemon=True)
        watch.start()
        try:
            with group(config, _rendezvous(Path(folder)), 0):
                yield
                agreed(None)
        except RuntimeError as error:
            if _from_collective(error):
                with suppress(TimeoutError):
                    raise death.result(timeout=5.0) from error
            raise
        finally:
            finished.set()


@dataclass(frozen=True)
class _Follower:
    """Work of each of the other ranks; called with its rank.

    Args:
        config: The configuration.
        folder: Folder of the rendezvous.
    """

    config: Config
    folder: Path

    def __call__(self, number: int) -> None:
        (self.folder / f"ready-{number}").touch()
        with group(self.config, _rendezvous(self.folder), number):
            follow(self.config)


def _rendezvous(folder: Path) -> str:
    return (folder / "rendezvous").as_uri()


@contextmanager
def group(config: Config, address: str = "env://", number: int | None = None) -> Iterator[None]:
    """Join the process group of the processes that train together.

    Args:
        config: A configuration.
        address: Address of the rendezvous; by default from torchrun's variables.
        number: Rank of this process; by default from the same variables.
    """
    on_gpu = config.trainer.accelerator in ("auto", "gpu") and torch.cuda.is_available()
    place: dict[str, Any] = {}
    if number is not None:
        place = {"rank": number, "world_size": num_processes(config)}
    if on_gpu:
        local = int(os.environ["LOCAL_RANK"]) if number is None else number
        torch.cuda.set_device(local)
    torch.distributed.init_process_group(
        "nccl" if on_gpu else "gloo", init_method=address, timeout=TIMEOUT, **place
    )
    try:
        yield
    finally:
        torch.distributed.destroy_process_group()


def follow(config: Config) -> None:
    """Train along with rank 0 until it is finished."""
    torch.set_num_threads(config.trainer.threads)
    config = config.replace({"trainer.progress": "none"})
    data: GraphDataModule | None = None
    while (told := agreed(None)) is not None:
        # Only after rank 0 has filled the caches.
        data = data or build_data(config)
        assist(replace(told, config=config), data)


@contextmanager
def joined_by_torchrun(config: Config) -> Iterator[None]:
    """Join the processes started by torchrun, if any.

    Raises:
        RequestError: if the number of processes differs from the configuration.
    """
    trainer, this = config.trainer, torchrun_process()
    nodes = trainer.num_nodes
    if this is None:
        if nodes > 1:
            raise RequestError(
                f"trainer.num_nodes is {nodes}: start the command on each machine with torchrun "
                f"--nnodes={nodes} --nproc-per-node={trainer.devices} --rdzv-backend=c10d "
                "--rdzv-endpoint=HOST:PORT --no-python unionsnn train ...",
                code="run.torchrun",
            )
        yield
        return
    if this.world_size != num_processes(config) or this.local_world_size != trainer.devices:
        raise RequestError(
            f"torchrun started {this.world_size} processes, {this.local_world_size} on this "
            f"machine, but trainer.devices is {trainer.devices} and trainer.num_nodes "
            f"{nodes}: type trainer.devices={this.local_world_size} "
            f"trainer.num_nodes={this.world_size // this.local_world_size}.",
            code="run.torchrun",
        )
    with group(config):
        yield
        if rank() == 0:
            agreed(None)


def _watch(
    config: Config,
    pool: ProcessPool[int, None],
    finished: threading.Event,
    death: Future[RankDiedError],
) -> None:
    """Watch the other processes; end this one if its backend never notices a death."""
    death.set_result(_death(pool.ended(), num_processes(config)))
    if not finished.wait(GRACE):
        print(f"error: {death.result()}", file=sys.stderr, flush=True)
        pool.__exit__()
        os._exit(1)


def _from_collective(error: RuntimeError) -> bool:
    """Return whether an error may mean that another process died; our own errors have classes."""
    return type(error) is RuntimeError or isinstance(error, torch.distributed.DistError)


def _death(ended: Sequence[tuple[int, Exception | Died | None]], processes: int) -> RankDiedError:
    """Return the error that says which process died, and why."""
    # A kill precedes the errors that it causes.
    number, outcome = min(ended, key=lambda each: not isinstance(each[1], Died))
    reason = f"{type(outcome).__name__}: {outcome}" if isinstance(outcome, Exception) else outcome
    return RankDiedError(
        f"Process {number} of {processes} that train together died ({reason}). If memory ran out, "
        "lower data.batch_size or trainer.devices. Finished repetitions are kept; rerun the "
        "command to resume."
    )
