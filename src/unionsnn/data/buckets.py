"""Graphs of similar size put together, so that a batch keeps a bound of pairs of nodes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from unionsnn.base.errors import MaxPairsError

# Matrices of graphs in one bucket differ by this factor at most, unless the bucket would not fill
# a batch.
_SPREAD = 2


@dataclass(frozen=True)
class Bucket:
    """Graphs that are batched with each other.

    Args:
        members: Their places among the graphs that were given, by size, the largest first.
        num_batches: In how many batches they are.
        largest: Nodes of the largest one.

    Shapes:
        members: [number of graphs in the bucket].
    """

    members: Tensor
    num_batches: int
    largest: int

    @property
    def num_graphs(self) -> int:
        """How many graphs the largest of its batches has."""
        return math.ceil(len(self.members) / self.num_batches)


def size_buckets(sizes: Tensor, *, batch_size: int, max_pairs: int) -> list[Bucket]:
    """Divide graphs into buckets whose batches keep both bounds, whichever graphs they hold.

    A batch of b graphs of at most n nodes has b * n^2 pairs, padding counted. Buckets, and with
    them the number of batches, depend on the sizes alone: the largest graph that is left opens
    one, every graph joins whose matrix is at least half as large, and smaller ones until it fills
    a batch. A last one that fills none joins the one before. The batches of a bucket are of equal
    numbers of graphs, give or take one.

    Args:
        sizes: Nodes of each graph.
        batch_size: Graphs in a batch, at most.
        max_pairs: Pairs in a batch, at most.

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
    """Refuse a bound that a single graph exceeds.

    Args:
        sizes: Nodes of each graph.
        max_pairs: The bound.
        others: Nodes of each graph of the whole set, whose largest one the advice is for.

    Raises:
        MaxPairsError: With the value to choose.
    """
    largest = int(sizes.max()) if len(sizes) else 0
    if largest**2 > max_pairs:
        enough = largest if others is None else int(others.max())
        raise MaxPairsError(
            f"data.max_pairs is {max_pairs}, but a single graph of {largest:,} nodes has "
            f"{largest**2} pairs; type data.max_pairs={enough**2} or larger, or leave it out."
        )
