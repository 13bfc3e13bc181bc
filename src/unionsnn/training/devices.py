"""Devices: availability, joint training, and determinism."""

from __future__ import annotations

import copy
import logging
import os
import warnings
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytorch_lightning as pl
import torch
from lightning_fabric.plugins.environments.lightning import LightningEnvironment
from pytorch_lightning.callbacks import Callback
from pytorch_lightning.strategies import DDPStrategy

from unionsnn.base.errors import Fault, NotDeterministicError, RequestError
from unionsnn.config.schema import Config
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.data.process_group import rank
from unionsnn.data.store import GraphStore
from unionsnn.training.compilation import missing_compiler
from unionsnn.training.tasks import Task


def training_device(accelerator: str) -> torch.device:
    """Return the device of an accelerator's name on this machine."""
    if accelerator in ("auto", "gpu") and torch.cuda.is_available():
        return torch.device("cuda", torch.cuda.current_device())
    if accelerator in ("auto", "gpu", "mps") and torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")


def named_device(name: str) -> torch.device:
    """Return the device that a user names: auto (a GPU if there is one), cpu, cuda or cuda:N.

    Raises:
        RequestError: if it is no such name, or this machine does not have it.
    """
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    kind, colon, number = name.partition(":")
    if name == "auto":
        return torch.device("cuda", torch.cuda.current_device()) if count else torch.device("cpu")
    if name == "cpu":
        return torch.device("cpu")
    if kind != "cuda" or (colon and not number.isdecimal()):
        raise RequestError(
            f"device is {name!r}; allowed are auto, cpu, cuda and cuda:N.", code="device.name"
        )
    if not count:
        raise RequestError(
            f"device is {name!r}, but torch {torch.__version__} finds no GPU; type --device cpu, "
            "or install a torch build for your device.",
            code="device.absent",
        )
    if colon and int(number) >= count:
        there = ", ".join(f"cuda:{i}" for i in range(count))
        raise RequestError(
            f"device is {name!r}, but this machine has {there}.", code="device.absent"
        )
    return torch.device("cuda", int(number) if colon else torch.cuda.current_device())


def name_of_device(device: torch.device) -> str:
    """Return what a record calls a device."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device.type} ({torch.get_num_threads()} thread(s))"


def forked_generators(device: torch.device | None = None) -> AbstractContextManager[None]:
    """Restore torch's global generators on exit, those of GPUs too if they are in use.

    Args:
        device: What will be computed on; None for the CPU.
    """
    used = torch.cuda.is_initialized() or (device is not None and device.type == "cuda")  # type: ignore[no-untyped-call]
    # torch.manual_seed seeds those of all GPUs.
    return torch.random.fork_rng(devices=range(torch.cuda.device_count() if used else 0))


@contextmanager
def own_state(threads: int) -> Iterator[None]:
    """Let torch compute with a number of threads; restore theirs and its generators at the end."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with forked_generators():
            yield
    finally:
        torch.set_num_threads(before)


def check_accelerator(config: Config) -> None:
    """Refuse an accelerator, number of devices, precision or compiler that is not there.

    Raises:
        RequestError: with what is available.
    """
    trainer = config.trainer
    wanted, devices, precision = trainer.accelerator, trainer.devices, trainer.precision
    there = {"gpu": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not there.get(wanted, True):
        raise RequestError(
            f"trainer.accelerator is {wanted!r}, but torch {torch.__version__} finds none; "
            "type trainer.accelerator=cpu, or install a torch build for your device.",
            code="trainer.accelerator",
        )
    kind = training_device(wanted).type
    faults = []
    count = {"cuda": torch.cuda.device_count(), "mps": 1}.get(kind, devices)
    if devices > count:
        text = (
            f"trainer.devices is {devices}, but this machine has {count} {kind} device(s); type "
            f"trainer.devices={count}, or trainer.accelerator=cpu for {devices} processes."
        )
        faults.append(Fault(text, "trainer.devices"))
    if kind == "cpu" and trainer.sync_batchnorm:
        text = (
            "trainer.sync_batchnorm is true, but torch shares the statistics of a batch between "
            "GPUs only; leave it out, or type model.norm=layer."
        )
        faults.append(Fault(text, "trainer.sync_batchnorm"))
    if (kind, precision) == ("cpu", "16-mixed"):
        text = (
            "trainer.precision is '16-mixed', which torch does not support on a CPU; type "
            "trainer.precision=bf16-mixed."
        )
        faults.append(Fault(text, "trainer.precision"))
    if (kind, precision) == ("mps", "64-true"):
        text = (
            "trainer.precision is '64-true', which Apple's GPUs do not support; type "
            "trainer.accelerator=cpu, or trainer.precision=32-true."
        )
        faults.append(Fault(text, "trainer.precision"))
    if trainer.compile and (missing := missing_compiler(kind)) is not None:
        text = (
            f"trainer.compile is true, but torch.compile finds no working compiler: {missing} is "
            "missing; install it, or type trainer.compile=false."
        )
        faults.append(Fault(text, "trainer.compile"))
    if faults:
        raise RequestError(*faults)


class EqualBuffers(Callback):
    """Broadcast the buffers of process 0 to all processes before validation.

    Each process has running means of its own shares; the weights are equal anyway.
    """

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Broadcast the buffers."""
        for buffer in pl_module.buffers():
            torch.distributed.broadcast(buffer, src=0)


class ExistingProcesses(LightningEnvironment):
    """Tells Lightning that all processes exist already, and the rank of this one.

    Args:
        per_node: Number of processes on each machine.
    """

    def __init__(self, per_node: int) -> None:
        super().__init__()
        self._place = divmod(rank(), per_node)
        # Lightning has read it from variables of any launcher when it was imported.
        self.set_global_rank(rank())

    @property
    def creates_processes_externally(self) -> bool:
        """True: Lightning starts no process."""
        return True

    def node_rank(self) -> int:
        """Return the number of the machine."""
        return self._place[0]

    def local_rank(self) -> int:
        """Return the rank on the machine."""
        return self._place[1]

    def teardown(self) -> None:
        """Keep the environment variables of the process."""


def ddp_strategy(*, all_used: bool) -> DDPStrategy:
    """Return Lightning's strategy for one of several existing processes.

    Args:
        all_used: Whether every parameter takes part in every step.
    """
    return DDPStrategy(find_unused_parameters=not all_used)


def uses_all_parameters(task: Task, data: GraphDataModule) -> bool:
    """Return whether the loss depends on every parameter, unlike the last layer's edge output."""
    assert data.split is not None
    # Not from `data.store`, which must be made on the training device.
    batch = GraphStore(data.graphs).batch(torch.from_numpy(data.split.train[: data.batch_size]))
    probe = copy.deepcopy(task).eval()
    output, target = probe.select(probe(batch), batch, "train")
    torch.autograd.backward(probe.loss(output, target))
    return all(p.grad is not None for p in probe.parameters() if p.requires_grad)


@contextmanager
def deterministic(wanted: bool) -> Iterator[None]:
    """Restrict torch to deterministic algorithms, and restore the settings at the end.

    Args:
        wanted: Whether to do so.

    Raises:
        NotDeterministicError: if something inside has no deterministic algorithm on its device.
    """
    if not wanted:
        yield
        return
    name = "CUBLAS_WORKSPACE_CONFIG"
    before = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    benchmark, variable = torch.backends.cudnn.benchmark, os.environ.get(name)
    # Otherwise cuBLAS sums in an order that depends on concurrent work.
    os.environ.setdefault(name, ":4096:8")
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    try:
        yield
    except RuntimeError as error:
        reason = " does not have a deterministic implementation"
        operation, known, _ = str(error).partition(reason)
        if not known:
            raise
        raise NotDeterministicError(
            f"trainer.deterministic is true, but torch has no deterministic {operation} for this "
            "device. Type trainer.deterministic=false, or trainer.accelerator=cpu, where more "
            "operations are deterministic."
        ) from error
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warn_only)
        torch.backends.cudnn.benchmark = benchmark
        if variable is None:
            del os.environ[name]


@contextmanager
def only_errors(names: Iterable[str]) -> Iterator[None]:
    """Let the loggers of these names pass errors alone."""
    loggers = [logging.getLogger(name) for name in names]
    levels = [each.level for each in loggers]
    for each in loggers:
        each.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for each, level in zip(loggers, levels, strict=True):
            each.setLevel(level)


@contextmanager
def quiet_lightning() -> Iterator[None]:
    """Hide Lightning's advice on loaders and hardware, but not errors or our warnings."""
    with warnings.catch_warnings(), only_errors(["pytorch_lightning", "lightning_fabric"]):
        warnings.filterwarnings("ignore", module="pytorch_lightning|lightning_fabric")
        yield
