"""Batches gathered by index from the concatenated tensors of a data set."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data, InMemoryDataset

from unionsnn.base.errors import MaxPairsError, RequestError
from unionsnn.base.memory import Extent
from unionsnn.data.encodings.subgraphs import COUNTS
from unionsnn.data.process_group import rank, world_size

# Maximum size ratio of the matrices of graphs in one bucket, unless the bucket would not fill a
# batch.
_SPREAD = 2
# A set that takes more than this share of a device's free memory is not moved there.
_RESIDENT_SHARE = 0.25
# Index attributes, and the attribute whose entries they index in each graph.
_COUNTS = {"edge_index": "x", **COUNTS}


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


class GraphStore:
    """The graphs of an in-memory data set, ready to be gathered into batches.

    A batch equals PyG's `Batch.from_data_list` bit for bit, but is made by one gather per
    attribute, without a loop over graphs.

    Args:
        dataset: A data set whose attributes are tensors; `edge_index` numbers nodes within each
            graph, and `subgraphs.COUNTS` says what the indices of subgraphs refer to.

    Raises:
        TypeError: if an attribute is not a tensor.
    """

    def __init__(self, dataset: InMemoryDataset) -> None:
        data = dataset._data
        slices = {key: torch.as_tensor(value) for key, value in dataset.slices.items()}
        wrong = [key for key in slices if not isinstance(data[key], Tensor)]
        if wrong:
            raise TypeError(f"The attributes {wrong} are not tensors; batches hold only tensors.")
        # Inspecting the signature of a batch's class takes longer than a gather.
        self._empty = Batch(_base_cls=type(data))
        self._parts = [_Part(data, slices["x"], ["x"])]
        for key, bounds in slices.items():
            # Attributes with the same slices share their positions in a batch.
            alike = (part for part in self._parts if torch.equal(part.bounds, bounds))
            part = next(alike, None)
            if part is None:
                self._parts.append(_Part(data, bounds, [key]))
            elif key not in part.values:
                part.add(data, key)

    def __len__(self) -> int:
        return len(self._parts[0].counts)

    @property
    def num_nodes(self) -> Tensor:
        """Number of nodes of each graph, on the CPU, [num_graphs]."""
        return self._parts[0].counts.cpu()

    @property
    def num_bytes(self) -> int:
        """Size of all tensors in bytes."""
        tensors = [t for part in self._parts for t in (*part.values.values(), part.bounds)]
        return sum(t.numel() * t.element_size() for t in tensors)

    def resident(self, device: torch.device) -> GraphStore:
        """Return the store on a device if it fits there with room to train, otherwise itself."""
        if device.type != "cuda":
            return self
        free, _ = torch.cuda.mem_get_info(device)
        return self.to(device) if self.num_bytes <= _RESIDENT_SHARE * free else self

    def to(self, device: torch.device) -> GraphStore:
        """Return a copy of the store on a device."""
        moved = copy.copy(self)
        moved._parts = [part.to(device) for part in self._parts]
        return moved

    def batch(self, index: Tensor) -> Batch:
        """Gather graphs into one batch.

        Args:
            index: Indices of the graphs, in order.

        Shapes:
            - index: [num_graphs]
        """
        index = index.to(self._parts[0].bounds.device)
        batch = copy.copy(self._empty)
        slices: dict[str, Tensor] = {}
        none = torch.zeros_like(index)
        increments = {key: none for part in self._parts for key in part.values}
        nodes = self._parts[0].counts.index_select(0, index)
        node_ptr = _pointer(nodes)
        shares = [part.counts.index_select(0, index) for part in self._parts]
        pointers = [_pointer(counts) for counts in shares]
        starts = {
            key: ptr[:-1]
            for part, ptr in zip(self._parts, pointers, strict=True)
            for key in part.values
        }
        for part, counts, ptr in zip(self._parts, shares, pointers, strict=True):
            positions = part.positions(index, counts, ptr)
            for key, value in part.values.items():
                along = part.along[key]
                if along == 1 and value.dim() == 2:
                    # Several times as fast as index_select along rows.
                    gathered = value.gather(1, positions.expand(value.size(0), -1))
                else:
                    gathered = value.index_select(along, positions)
                if key in _COUNTS:
                    first = starts[_COUNTS[key]]
                    gathered += first.repeat_interleave(counts, output_size=len(positions))
                    increments[key] = first
                batch[key] = gathered
                slices[key] = ptr
        total = batch.x.size(0)
        batch.batch = torch.arange(len(index), device=index.device).repeat_interleave(
            nodes, output_size=total
        )
        batch.ptr = node_ptr
        batch._num_graphs = len(index)
        batch._slice_dict, batch._inc_dict = slices, increments
        return batch

    def extent(self, index: Tensor, num_graphs: int) -> Extent:
        """Return bounds of any batch of a number of the graphs at `index`.

        Shapes:
            - index: [at least num_graphs]
        """
        most = [part.counts.cpu()[index].topk(num_graphs).values for part in self._parts]
        rows = {
            key: int(counts.sum())
            for part, counts in zip(self._parts, most, strict=True)
            for key in part.values
        }
        # Nodes have the slices of `x`, the first part.
        nodes = most[0]
        return Extent(num_graphs, int(nodes.max()), int(nodes.square().sum()), rows)


class _Part:
    """Attributes whose tensors have the same slices.

    Args:
        data: All graphs as one.
        bounds: Slices of the graphs, [num_graphs + 1].
        keys: Names of the attributes.
    """

    def __init__(self, data: Data, bounds: Tensor, keys: Sequence[str]) -> None:
        self.bounds = bounds
        self.counts = bounds[1:] - bounds[:-1]
        self.one_each = torch.equal(bounds, torch.arange(len(bounds)))
        self.values: dict[str, Tensor] = {}
        self.along: dict[str, int] = {}
        for key in keys:
            self.add(data, key)

    def add(self, data: Data, key: str) -> None:
        """Add an attribute."""
        self.values[key] = data[key]
        self.along[key] = data.__cat_dim__(key, data[key]) % data[key].dim()

    def positions(self, index: Tensor, counts: Tensor, ptr: Tensor) -> Tensor:
        """Return the positions of the chosen graphs' entries, graph by graph."""
        if self.one_each:
            return index
        total = int(ptr[-1])
        offset = self.bounds.index_select(0, index) - ptr[:-1]
        positions = offset.repeat_interleave(counts, output_size=total)
        return positions.add_(torch.arange(total, device=index.device))

    def to(self, device: torch.device) -> _Part:
        """Return a copy on a device."""
        moved = copy.copy(self)
        moved.bounds, moved.counts = self.bounds.to(device), self.counts.to(device)
        moved.values = {key: value.to(device) for key, value in self.values.items()}
        return moved


def _pointer(counts: Tensor) -> Tensor:
    """Return the slices of the graphs in the batch, [num_graphs + 1]."""
    ptr = counts.new_zeros(len(counts) + 1)
    torch.cumsum(counts, 0, out=ptr[1:])
    return ptr


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


class BatchLoader:
    """Re-iterable batches of some graphs of a store; under DDP, this process's share of them.

    With a limit of pairs, graphs of similar size are batched together (`size_buckets`): in training
    graphs are shuffled within buckets, then batches; in evaluation the largest come first.

    Processes that train together iterate over the same training batches, and each takes its share
    of every batch: of W processes, rank r has the graphs at r, r + W, .... With n_r of n graphs,
    the batch has ``loss_weight`` = W n_r / n, so the mean over processes of the weighted mean
    losses is the mean loss of the whole batch. A process without a graph in a batch gets the first
    one, with weight 0. In evaluation every process gets all graphs.

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
        terms: Number of terms of each graph in a loss, for `accumulated`; None for one.

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
        batches = self._order()
        while step := list(itertools.islice(batches, self.accumulated)):
            total = sum(map(self._count, step))
            for graphs in step:
                share = graphs[rank() :: self._shared] if self._shared > 1 else graphs
                batch = self.store.batch(share if len(share) else graphs[:1])
                if self.accumulated > 1:
                    scale = self.accumulated * self._shared
                    batch.loss_weight = scale * self._count(share) / max(total, 1)
                elif self._shared > 1:
                    batch.loss_weight = self._shared * len(share) / len(graphs)
                yield batch

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

    def _order(self) -> Iterator[Tensor]:
        """Yield the indices of each batch's graphs."""
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
