"""Memory of batches, compared with the free memory before the first step."""

from __future__ import annotations

import bisect
import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn

from unionsnn.base.errors import MaxPairsError, MemoryRanOutError, RequestError, TooLargeError
from unionsnn.base.memory import Extent, free_bytes
from unionsnn.base.words import format_bytes
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.models.network import Network

Parts = Iterable[tuple[bool, Sequence[Extent]]]
"""For each part of the data: whether it is for training, and the extents of its batches."""


@dataclass(frozen=True)
class BatchMemory:
    """The batch that needs the most memory.

    Args:
        num_graphs: Number of graphs.
        largest: Maximum number of nodes of its largest graph.
        needed: Bytes as estimated by the model; None without an estimate.
        free: Free bytes; None if unknown.
    """

    num_graphs: int
    largest: int
    needed: int | None
    free: int | None

    @property
    def fits(self) -> bool:
        """Whether it fits, as far as known."""
        return self.needed is None or self.free is None or self.needed <= self.free

    def __str__(self) -> str:
        graphs = "one graph" if self.num_graphs == 1 else f"{self.num_graphs} graphs"
        text = f"{graphs} of up to {self.largest:,} nodes"
        if self.needed is None:
            return text
        text += f", about {format_bytes(self.needed)}"
        return text if self.free is None else f"{text} of {format_bytes(self.free)} free"


def batch_memory(model: nn.Module, data: GraphDataModule, device: torch.device) -> BatchMemory:
    """Find the batch that needs the most memory; a split must be set.

    A model estimates it with a method ``batch_bytes(extent)``, called in training mode for training
    batches and in evaluation mode for others. Without an estimate, it is the batch with the most
    pairs of nodes, including padding.

    Raises:
        RequestError: if a single graph exceeds the limit of pairs.
    """
    return _memory(model, _extents(data), device)


def free_memory(device: torch.device) -> int | None:
    """Return the free memory of a device; None if unknown."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return free_bytes() if device.type == "cpu" else None


def _memory(model: nn.Module, parts: Parts, device: torch.device) -> BatchMemory:
    needed, extent = _largest(model, parts)
    return BatchMemory(extent.num_graphs, extent.largest, needed, free_memory(device))


def require_batches(
    model: nn.Module, extents: Sequence[Extent], advice: str, device: torch.device
) -> BatchMemory:
    """Return the memory of the largest batch in the model's current mode; refuse one too large.

    Raises:
        TooLargeError: A batch does not fit; with the advice.
    """
    memory = _memory(model, [(model.training, extents)], device)
    if not memory.fits:
        raise TooLargeError(f"The largest batch has {memory}: {advice}.")
    return memory


def require_memory(model: nn.Module, data: GraphDataModule, device: torch.device) -> BatchMemory:
    """Return the memory of the largest batch; refuse one that does not fit.

    Raises:
        TooLargeError: It does not fit; with the limit of pairs or the batch size to choose.
    """
    whole = data.arrays.level == "node"
    single = data if whole else _bounded(data, batch_size=1, max_pairs=None)
    alone = batch_memory(model, single, device)
    if not alone.fits:
        raise TooLargeError(f"A batch of {alone} cannot be divided: choose {_smaller(model)}.")
    if whole:
        return alone
    memory = batch_memory(model, data, device)
    if not memory.fits:
        advice = _advice(model, data, memory.free or 0)
        raise TooLargeError(f"The largest batch has {memory}: {advice}.")
    return memory


def _extents(data: GraphDataModule) -> Iterator[tuple[bool, list[Extent]]]:
    """Yield for each part of the split whether it is for training, and its batches' extents.

    Raises:
        RequestError: if a single graph exceeds the limit of pairs.
    """
    try:
        yield True, data.train_dataloader().extents
        yield False, data.val_dataloader().extents
        yield False, data.test_dataloader().extents
    except MaxPairsError as error:
        raise RequestError(*error.faults) from error


def _largest(model: nn.Module, parts: Parts) -> tuple[int | None, Extent]:
    """Return bytes and extent of the largest batch; bytes are None without an estimate."""
    was_training = model.training
    estimate: Callable[[Extent], int | None] = getattr(model, "batch_bytes", lambda extent: None)
    candidates: list[tuple[int | None, Extent]] = [(None, Extent(0, 0, 0, {}))]
    for training, extents in parts:
        model.train(training)
        candidates += [(estimate(extent), extent) for extent in extents]
    model.train(was_training)

    def size(candidate: tuple[int | None, Extent]) -> int:
        needed, extent = candidate
        return extent.num_graphs * extent.largest**2 if needed is None else needed

    return max(candidates, key=size)


def _bounded(data: GraphDataModule, *, batch_size: int, max_pairs: int | None) -> GraphDataModule:
    """Return the same data with other limits of batches."""
    # Made before the copy, which shares it.
    _ = data.store
    other = copy.copy(data)
    other.batch_size, other.max_pairs = batch_size, max_pairs
    return other


def _advice(model: nn.Module, data: GraphDataModule, free: int) -> str:
    """Return what to type so that every batch of a set fits, if every graph does."""

    def needed(batch_size: int, max_pairs: int | None) -> int:
        bounded = _bounded(data, batch_size=batch_size, max_pairs=max_pairs)
        return _largest(model, _extents(bounded))[0] or 0

    ways = []
    single = max(int(data.store.num_nodes.max()) ** 2, 1)
    pairs = data.max_pairs or data.batch_size * single
    while pairs >= single and needed(data.batch_size, pairs) > free:
        pairs //= 2
    if pairs >= single:
        ways.append(f"data.max_pairs={pairs}")
    sizes = range(1, data.batch_size)
    fitting = bisect.bisect_right(sizes, free, key=lambda size: needed(size, data.max_pairs))
    if fitting:
        ways.append(f"data.batch_size={fitting}")
    return f"type {' or '.join(ways)}, or choose {_smaller(model)}"


def _smaller(model: nn.Module) -> str:
    """Return what needs less memory whatever the batches."""
    choices = getattr(model, "memory_choices", Network.memory_choices)
    named = ", ".join(f"model.{name}" for name in choices)
    return f"a smaller model ({named}) or a set of smaller graphs"


@contextmanager
def memory_errors(model: nn.Module, data: GraphDataModule) -> Iterator[None]:
    """Convert torch's out-of-memory errors to ones that say what to type.

    Raises:
        MemoryRanOutError: Memory ran out inside.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not _ran_out(error):
            raise
        most = _largest(model, _extents(data))[1]
        num_graphs, largest = most.num_graphs, most.largest
        if num_graphs <= 1:
            advice = f"choose {_smaller(model)}"
        else:
            advice = f"type data.batch_size={num_graphs // 2}"
            pairs = num_graphs // 2 * largest**2
            if pairs >= int(data.store.num_nodes.max()) ** 2:
                advice += f" or data.max_pairs={pairs}"
        raise MemoryRanOutError(
            f"Memory ran out in a batch of up to {num_graphs} graphs of up to {largest:,} nodes: "
            f"{advice}; finished repetitions are kept."
        ) from error


def _ran_out(error: BaseException) -> bool:
    """Return whether an error means that memory ran out; on a CPU torch has no class for it."""
    words = ("can't allocate memory", "not enough memory", "out of memory")
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or any(
        part in str(error) for part in words
    )
