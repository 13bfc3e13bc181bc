"""What a batch needs of memory, compared with what is free before the first step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from unionsnn.data.buckets import MaxPairsError
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.data.memory import format_gigabytes, free_bytes
from unionsnn.training.config import RequestError

BatchBytes = Callable[[int, int], int]
"""Memory of a batch of so many graphs of so many nodes each."""

_SMALLER = "a smaller model (model.hidden_channels, model.num_layers) or a set of smaller graphs"


class MemoryRanOutError(RuntimeError):
    """A step of training or evaluation did not fit into memory."""


class TooLargeError(RequestError):
    """A batch would not fit into memory."""


@dataclass(frozen=True)
class BatchMemory:
    """The batch that needs the most memory.

    Args:
        num_graphs: Its graphs.
        largest: Nodes of the largest one, at most.
        needed: Bytes, as the model estimates them; None for a model that does not.
        free: Bytes that are free; None where nobody can tell.
    """

    num_graphs: int
    largest: int
    needed: int | None
    free: int | None

    @property
    def fits(self) -> bool:
        """Whether nothing speaks against it."""
        return self.needed is None or self.free is None or self.needed <= self.free

    def __str__(self) -> str:
        graphs = "one graph" if self.num_graphs == 1 else f"{self.num_graphs} graphs"
        text = f"{graphs} of up to {self.largest:,} nodes"
        if self.needed is None:
            return text
        text += f", about {format_gigabytes(self.needed)}"
        return text if self.free is None else f"{text} of {format_gigabytes(self.free)} free"


def batch_memory(model: nn.Module, data: GraphDataModule, device: torch.device) -> BatchMemory:
    """Find the batch that needs the most memory; a split must be set.

    A model states it by a method ``batch_bytes(num_graphs, largest)``, asked in training mode for
    training batches and in evaluation mode for the others. Of a model without, it is the batch
    with the most pairs of nodes.
    """
    estimate = getattr(model, "batch_bytes", None)
    candidates: list[tuple[int, int, int]] = []
    was_training = model.training
    for training, extents in _extents(data):
        model.train(training)
        candidates += [(estimate(b, n) if estimate else b * n**2, b, n) for b, n in extents]
    model.train(was_training)
    needed, num_graphs, largest = max(candidates, default=(0, 0, 0))
    return BatchMemory(num_graphs, largest, needed if estimate else None, free_bytes(device))


def require_memory(model: nn.Module, data: GraphDataModule, device: torch.device) -> BatchMemory:
    """Return what the largest batch needs; refuse one that does not fit.

    Raises:
        TooLargeError: With the bound of pairs or the batch size to choose.
    """
    memory = batch_memory(model, data, device)
    if not memory.fits:
        advice = _advice(model, data, memory)
        raise TooLargeError([f"The largest batch has {memory}: {advice}."])
    return memory


def _extents(data: GraphDataModule) -> Iterator[tuple[bool, list[tuple[int, int]]]]:
    """Whether for training, and the extents of the batches, of each part of the split.

    Raises:
        RequestError: if a single graph exceeds the bound of pairs.
    """
    try:
        yield True, data.train_dataloader().extents
        yield False, data.val_dataloader().extents
        yield False, data.test_dataloader().extents
    except MaxPairsError as error:
        raise RequestError([str(error)]) from error


def _advice(model: nn.Module, data: GraphDataModule, memory: BatchMemory) -> str:
    """What to type so that every batch of a set fits."""
    estimate: BatchBytes = model.batch_bytes  # type: ignore[assignment]
    free = memory.free or 0
    sizes = np.unique(np.diff(data.arrays.node_slices)).tolist()
    alone = estimate(1, sizes[-1])
    if data.arrays.level == "node" or alone > free:
        return (
            f"a single graph of {sizes[-1]:,} nodes needs about {format_gigabytes(alone)}; "
            f"choose {_SMALLER}"
        )
    ways = [f"data.max_pairs={pairs}" for pairs in _fitting_pairs(estimate, data, sizes, free)]
    fitting = [b for b in range(1, data.batch_size) if estimate(b, sizes[-1]) <= free]
    ways += [f"data.batch_size={b}" for b in fitting[-1:]]
    return f"type {' or '.join(ways)}, or choose {_SMALLER}"


def _fitting_pairs(
    estimate: BatchBytes, data: GraphDataModule, sizes: list[int], free: int
) -> Iterator[int]:
    """The largest bound of pairs, by halves, with which every batch fits; nothing if none does."""
    pairs = data.batch_size * sizes[-1] ** 2
    if data.max_pairs is not None:
        pairs = min(pairs, data.max_pairs)
    while pairs >= max(sizes[-1] ** 2, 1):
        # As `size_buckets` cuts them.
        batches = ((min(data.batch_size, pairs // max(n**2, 1)), n) for n in sizes)
        if all(estimate(*batch) <= free for batch in batches):
            yield pairs
            return
        pairs //= 2


@contextmanager
def memory_errors(data: GraphDataModule) -> Iterator[None]:
    """Turn what torch says when memory runs out into what to type.

    Raises:
        MemoryRanOutError: Memory ran out inside.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not _ran_out(error):
            raise
        everywhere = [extent for _, extents in _extents(data) for extent in extents]
        num_graphs, largest = max(everywhere, key=lambda e: e[0] * e[1] ** 2)
        if num_graphs == 1:
            advice = f"choose {_SMALLER}"
        else:
            pairs = max(num_graphs // 2, 1) * largest**2
            advice = f"type data.batch_size={num_graphs // 2} or data.max_pairs={pairs}"
        raise MemoryRanOutError(
            f"Memory ran out in a batch of up to {num_graphs} graphs of up to {largest:,} nodes: "
            f"{advice}; finished repetitions are kept."
        ) from error


def _ran_out(error: BaseException) -> bool:
    """Whether an error means that memory ran out; on a CPU torch has no class for it."""
    words = ("can't allocate memory", "not enough memory", "out of memory")
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or any(
        part in str(error) for part in words
    )


def training_device(accelerator: str) -> torch.device:
    """The device that an accelerator's name stands for on this machine."""
    if accelerator in ("auto", "gpu") and torch.cuda.is_available():
        return torch.device("cuda", torch.cuda.current_device())
    if accelerator in ("auto", "gpu", "mps") and torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")
