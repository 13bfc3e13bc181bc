"""Graphs of similar size, which are batched together within a bound of pairs of nodes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from unionsnn.base.errors import MaxPairsError

# Maximum size ratio of the matrices of graphs in one bucket, unless the bucket would not fill a
# batch.
_SPREAD = 2


@dataclass(frozen=True)
class Bucket:
    """Graphs that are batched together.

    Args:
        members: Their indices among the given graphs, largest first.
        num_batches: Number of batches.
        largest: Number of nodes of the largest graph.

    Shapes:
        members: [number of graphs in the bucket].
    """

    members: Tensor
    num_batches: int
    largest: int

    @property
    def num_graphs(self) -> int:
        """Number of graphs of its largest batch."""
        return math.ceil(len(self.members) / self.num_batches)


def size_buckets(sizes: Tensor, *, batch_size: int, max_pairs: int) -> list[Bucket]:
    """Divide graphs into buckets such that any batch from a bucket keeps both bounds.

    A batch of b graphs of at most n nodes has b * n^2 pairs, including padding. Buckets, and with
    them the number of batches, depend on the sizes alone: the largest remaining graph opens a
    bucket, every graph whose matrix is at least half as large joins it, and then smaller ones until
    it fills a batch. A last bucket that does not fill a batch is merged with the one before. The
    batches of a bucket have equal numbers of graphs, up to one.

    Args:
        sizes: Number of nodes of each graph.
        batch_size: Maximum number of graphs in a batch.
        max_pairs: Maximum number of pairs in a batch.

    Shapes:
        sizes: [number of graphs].

    Raises:
        DataError: A single graph has more pairs.
    """
    refuse_single(sizes, max_pairs)
    descending, order = torch.sort(sizes, descending=True, stable=True)
    pairs = descending.square()
    limits: list[tuple[int, int, int]] = []
    begin = 0
    while begin < len(order):
        capacity = min(batch_size, max_pairs // max(int(pairs[begin]), 1))
        similar = int((pairs * _SPREAD >= pairs[begin]).sum())
        end = min(len(order), max(similar, begin + capacity))
        if limits and end - begin < capacity and end == len(order):
            begin, _, capacity = limits.pop()
        limits.append((begin, end, capacity))
        begin = end
    return [
        Bucket(order[begin:end], math.ceil((end - begin) / capacity), int(descending[begin]))
        for begin, end, capacity in limits
    ]


def refuse_single(sizes: Tensor, max_pairs: int, others: Tensor | None = None) -> None:
    """Refuse a limit of pairs that a single graph exceeds.

    Args:
        sizes: Number of nodes of each graph.
        max_pairs: The limit.
        others: Sizes of all graphs of the set, from which the advice is computed.

    Raises:
        MaxPairsError: A graph exceeds the limit; names a sufficient one.
    """
    largest = int(sizes.max()) if len(sizes) else 0
    if largest**2 > max_pairs:
        enough = largest if others is None else int(others.max())
        raise MaxPairsError(
            f"data.max_pairs is {max_pairs}, but a single graph of {largest:,} nodes has "
            f"{largest**2} pairs; type data.max_pairs={enough**2} or larger, or leave it out."
        )
