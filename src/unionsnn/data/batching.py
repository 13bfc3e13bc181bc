"""Loaders of batches: in which order, of which size, shared among which processes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from unionsnn.base.errors import RequestError
from unionsnn.base.memory import Extent
from unionsnn.data.buckets import Bucket, refuse_single, size_buckets
from unionsnn.data.process_group import rank, world_size
from unionsnn.data.store import Block, GraphStore, pinned


class Batches(Protocol):
    """A re-iterable of batches for a training loop."""

    def __len__(self) -> int:
        """Number of batches."""
        ...

    @property
    def extents(self) -> list[Extent]:
        """Return bounds of the largest batches; every batch is within one of them."""
        ...

    def __iter__(self) -> Iterator[Data]:
        """Iterate over the batches once."""
        ...


class BatchLoader:
    """Re-iterable batches of some graphs of a store; under DDP, this process's share of them.

    With a limit of pairs, graphs of similar size are batched together (`size_buckets`): in training
    graphs are shuffled within buckets, then batches; in evaluation the largest come first.

    Processes that train together iterate over the same training batches, and each takes its share
    of every batch: of W processes, rank r has the graphs at r, r + W, .... With n_r of n terms of
    the loss, the batch has ``loss_weight`` = W n_r / n, so the mean over processes of the weighted
    mean losses is the mean loss of the whole batch. A process without a graph in a batch gets the
    first one, with weight 0. In evaluation every process gets all graphs.

    If a step accumulates the gradients of A batches, each divided by A, the weight of a batch is
    also A times its share of the terms of the step's loss: the gradient is that of the mean over
    all of them, whatever their sizes, also of the last step of an epoch, which may have fewer.

    Args:
        store: All graphs.
        graphs: Indices of the graphs to load.
        batch_size: Number of graphs in a batch; the last one may be smaller.
        max_pairs: Limit of the number of graphs times the squared size of the largest; None for
            none.
        shuffle: Whether this is for training, in a new order each time.
        generator: Draws the orders; must be in the same state in all processes.
        accumulated: Number A of training batches whose gradients make up a step.
        terms: Number of terms of each graph in a loss; None for one.

    Shapes:
        terms: [number of graphs in the store].

    Raises:
        RequestError: if the batch size or the bound is below 1.
        DataError: if a single graph exceeds the bound.
    """

    def __init__(
        self,
        store: GraphStore,
        graphs: Sequence[int] | Tensor,
        *,
        batch_size: int,
        max_pairs: int | None = None,
        shuffle: bool = False,
        generator: torch.Generator | None = None,
        accumulated: int = 1,
        terms: Tensor | None = None,
    ) -> None:
        for name, value in {"batch_size": batch_size, "max_pairs": max_pairs}.items():
            if value is not None and value < 1:
                raise RequestError(
                    f"data.{name} is {value}; it must be at least 1.", code="data.batch_size"
                )
        self.store = store
        self.graphs = torch.as_tensor(graphs, dtype=torch.long)
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.generator = generator
        self.accumulated = accumulated
        self.terms = terms
        self.buckets: list[Bucket] | None = None
        if max_pairs is not None:
            sizes = store.num_nodes[self.graphs]
            refuse_single(sizes, max_pairs, store.num_nodes)
            self.buckets = size_buckets(sizes, batch_size=batch_size, max_pairs=max_pairs)

    def __len__(self) -> int:
        if self.buckets is None:
            return math.ceil(len(self.graphs) / self.batch_size)
        return sum(bucket.num_batches for bucket in self.buckets)

    def __iter__(self) -> Iterator[Batch]:
        weighted = list(self._weighted())
        blocks = self._gathered([graphs for graphs, _ in weighted])
        batches = itertools.chain.from_iterable(blocks)
        for batch, (_, weight) in zip(batches, weighted, strict=True):
            if weight is not None:
                batch.loss_weight = weight
            yield batch

    def _weighted(self) -> Iterator[tuple[Tensor, float | None]]:
        """Yield this process's graphs of each batch, and the weight of their loss; None for 1."""
        batches = self.indices()
        while step := list(itertools.islice(batches, self.accumulated)):
            total = sum(map(self._count, step)) if self.accumulated > 1 else 0
            for graphs in step:
                share = graphs[rank() :: self._shared] if self._shared > 1 else graphs
                weight = None
                if self.accumulated > 1:
                    scale = self.accumulated * self._shared
                    weight = scale * self._count(share) / max(total, 1)
                elif self._shared > 1:
                    weight = self._shared * self._count(share) / max(self._count(graphs), 1)
                yield (share if len(share) else graphs[:1]), weight

    def _gathered(self, batches: Sequence[Tensor]) -> Iterator[Block]:
        """Yield the batches in blocks; one that goes to another device is gathered ahead."""
        store, blocks = self.store, self._blocks(batches)
        target = store.target
        if target is None:
            yield from map(store.gather, blocks)
            return
        with ThreadPoolExecutor(1) as pool:
            gathered = (pool.submit(lambda b: store.gather(b).moved(pinned), b) for b in blocks)
            for current, _ in itertools.pairwise(itertools.chain(gathered, [None])):
                assert current is not None
                # Here, since a thread has a stream of its own.
                yield current.result().moved(lambda t: t.to(target, non_blocking=True))

    def _blocks(self, batches: Sequence[Tensor]) -> Iterator[list[Tensor]]:
        """Divide batches into blocks that do not exceed the store's `block_bytes`."""
        block: list[Tensor] = []
        held = 0
        for graphs in batches:
            size = int(self.store.graph_bytes[graphs.numpy()].sum())
            if block and held + size > self.store.block_bytes:
                yield block
                block, held = [], 0
            block.append(graphs)
            held += size
        if block:
            yield block

    def _count(self, graphs: Tensor) -> int:
        """Return the number of terms of some graphs in a loss."""
        return len(graphs) if self.terms is None else int(self.terms[graphs].sum())

    @property
    def extents(self) -> list[Extent]:
        """Return bounds of the largest batches; every batch is within one of them."""
        if self.buckets is not None:
            groups = [(self.graphs[bucket.members], bucket.num_graphs) for bucket in self.buckets]
        elif len(self.graphs):
            groups = [(self.graphs, min(self.batch_size, len(self.graphs)))]
        else:
            groups = []
        return [self.store.extent(group, math.ceil(n / self._shared)) for group, n in groups]

    @property
    def _shared(self) -> int:
        """Number of processes that share a batch."""
        return world_size() if self.shuffle else 1

    def _shuffled(self, graphs: Tensor) -> Tensor:
        if not self.shuffle:
            return graphs
        return graphs[torch.randperm(len(graphs), generator=self.generator)]

    def indices(self) -> Iterator[Tensor]:
        """Yield the graphs of each batch, in training in a new order each time."""
        if self.buckets is None:
            if len(self):
                yield from torch.split(self._shuffled(self.graphs), self.batch_size)
            return
        batches: list[Tensor] = []
        for bucket in self.buckets:
            graphs = self._shuffled(self.graphs[bucket.members])
            batches += torch.tensor_split(graphs, bucket.num_batches)
        for number in self._shuffled(torch.arange(len(batches))).tolist():
            yield batches[number]
