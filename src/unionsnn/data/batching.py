"""Batches gathered by index from the concatenated tensors of a data set."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, Self

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data, InMemoryDataset

from unionsnn.base.errors import MaxPairsError, RequestError
from unionsnn.base.memory import Extent
from unionsnn.base.rows import note_loops
from unionsnn.data.arrays import IntArray
from unionsnn.data.encodings.subgraphs import COUNTS
from unionsnn.data.process_group import rank, world_size

# Maximum size ratio of the matrices of graphs in one bucket, unless the bucket would not fill a
# batch.
_SPREAD = 2
# A set that takes more than this share of a device's free memory is not moved there.
_RESIDENT_SHARE = 0.25
# Batches are gathered together up to this many bytes: on a CPU what its cache holds, on a device an
# epoch of most sets, on the way to one what two blocks of locked memory may take.
_CPU_BLOCK, _DEVICE_BLOCK, _STREAMED_BLOCK = 8 * 2**20, 256 * 2**20, 32 * 2**20
# Index attributes, and the attribute whose entries they index in each graph.
_COUNTS = {"edge_index": "x", "edge_label_index": "x", **COUNTS}


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

    A batch equals PyG's `Batch.from_data_list` bit for bit, but several are made by one gather per
    attribute, without a loop over graphs. Their sizes come from counts on the CPU: nothing waits
    for a GPU.

    Attributes:
        target: The device that batches go to, if it is not the one that holds the graphs.

    Args:
        dataset: A data set whose attributes are tensors; `edge_index` numbers nodes within each
            graph, and `subgraphs.COUNTS` says what the indices of subgraphs refer to.

    Raises:
        TypeError: if an attribute is not a tensor.
    """

    def __init__(self, dataset: InMemoryDataset) -> None:
        data = dataset._data
        slices = {key: torch.as_tensor(value).numpy() for key, value in dataset.slices.items()}
        wrong = [key for key in slices if not isinstance(data[key], Tensor)]
        if wrong:
            raise TypeError(f"The attributes {wrong} are not tensors; batches hold only tensors.")
        # Inspecting the signature of a batch's class takes longer than a gather.
        self._empty = Batch(_base_cls=type(data))
        self._parts = [_Part(data, slices["x"], ["x"])]
        self._loops = _loops(data, slices)
        self.target: torch.device | None = None
        for key, bounds in slices.items():
            # Attributes with the same slices share their positions in a batch.
            alike = (part for part in self._parts if np.array_equal(part.bounds, bounds))
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
        return torch.from_numpy(self._parts[0].counts)

    @property
    def num_bytes(self) -> int:
        """Size of all tensors in bytes."""
        values = sum(value.nbytes for part in self._parts for value in part.values.values())
        return values + sum(part.bounds.nbytes for part in self._parts)

    @cached_property
    def graph_bytes(self) -> IntArray:
        """Size of each graph in a batch, in bytes, [num_graphs]."""
        total = np.zeros(len(self), dtype=np.int64)
        for part in self._parts:
            total += part.counts * part.entry_bytes
        return total

    @property
    def block_bytes(self) -> int:
        """Size up to which batches are gathered together."""
        if self.target is not None:
            return _STREAMED_BLOCK
        return _CPU_BLOCK if self._device.type == "cpu" else _DEVICE_BLOCK

    @property
    def _device(self) -> torch.device:
        return self._parts[0].values["x"].device

    def resident(self, device: torch.device) -> GraphStore:
        """Return the store on a device if it fits there with room to train; or streaming to it."""
        if device.type != "cuda":
            return self
        free, _ = torch.cuda.mem_get_info(device)
        fits = self.num_bytes <= _RESIDENT_SHARE * free
        return self.to(device) if fits else self.streaming(device)

    def to(self, device: torch.device) -> GraphStore:
        """Return a copy of the store on a device; sizes stay on the CPU."""
        moved = copy.copy(self)
        moved._parts = [part.to(device) for part in self._parts]
        return moved

    def streaming(self, device: torch.device) -> GraphStore:
        """Return a copy that gathers where the graphs are, and makes its batches on a device."""
        other = copy.copy(self)
        other.target = device
        return other

    def batch(self, index: Tensor) -> Batch:
        """Gather graphs into one batch.

        Args:
            index: Indices of the graphs, in order.

        Shapes:
            - index: [num_graphs]
        """
        block = self.gather([index])
        target = self.target
        return next(iter(block if target is None else block.moved(lambda t: t.to(target))))

    def gather(self, indices: Sequence[Tensor]) -> Block:
        """Gather graphs into several batches at once.

        Args:
            indices: Indices of the graphs of each batch, in order.

        Shapes:
            - indices: [number of graphs of the batch] each
        """
        order = np.concatenate([index.cpu().numpy() for index in indices])
        sizes = np.array([len(index) for index in indices])
        shares = [_Share(part, order, sizes) for part in self._parts]
        graphs = np.arange(len(order)) - np.repeat(_pointer(sizes)[:-1], sizes)
        # In one piece, so that there is one copy to a device.
        arrays = [graphs, *(array for share in shares for array in share.arrays)]
        packed = torch.from_numpy(np.concatenate(arrays))
        if self._device.type != "cpu":
            packed = _pinned(packed).to(self._device, non_blocking=True)
        graph, *placed = torch.split(packed, [len(array) for array in arrays])
        for number, share in enumerate(shares):
            share.place(*placed[4 * number : 4 * number + 4])
        counted = {key: share for share in shares for key in share.part.values}
        for share in shares:
            share.gather(counted)
        num_nodes = shares[0].arrays[0].tolist()
        loops = np.diff(_pointer(self._loops[order])[_pointer(sizes)]).tolist()
        graph = shares[0].spread(graph)
        return Block(self._empty, sizes.tolist(), num_nodes, loops, shares, graph)

    def extent(self, index: Tensor, num_graphs: int) -> Extent:
        """Return bounds of any batch of a number of the graphs at `index`.

        Shapes:
            - index: [at least num_graphs]
        """
        most = [
            torch.from_numpy(part.counts)[index].topk(num_graphs).values for part in self._parts
        ]
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

    def __init__(self, data: Data, bounds: IntArray, keys: Sequence[str]) -> None:
        self.bounds = bounds
        self.counts = np.diff(bounds)
        self.one_each = np.array_equal(bounds, np.arange(len(bounds)))
        self.values: dict[str, Tensor] = {}
        self.along: dict[str, int] = {}
        for key in keys:
            self.add(data, key)

    def add(self, data: Data, key: str) -> None:
        """Add an attribute."""
        self.values[key] = data[key]
        self.along[key] = data.__cat_dim__(key, data[key]) % data[key].dim()

    @property
    def entry_bytes(self) -> int:
        """Size of one entry of each attribute."""
        lengths = ((value, value.size(self.along[key])) for key, value in self.values.items())
        return sum(value.nbytes // max(length, 1) for value, length in lengths)

    def to(self, device: torch.device) -> _Part:
        """Return a copy whose values are on a device."""
        moved = copy.copy(self)
        moved.values = {key: value.to(device) for key, value in self.values.items()}
        return moved


class _Share:
    """The entries of some graphs in a part, in the order of their batches.

    Args:
        part: The part.
        order: Indices of the graphs, one batch after another.
        sizes: Number of graphs of each batch.

    Attributes:
        totals: Number of entries of each batch.
        arrays: `counts`, `source`, `starts` and `pointers` as computed on the CPU, for `place`.
        counts: Number of entries of each graph.
        source: What is added to an entry's number to give its place in the part; where each graph
            has one entry, that place.
        starts: Number of each graph's first entry in its batch.
        pointers: Slices of the graphs in each batch, one batch after another.
        values: The attributes; indices number the entries of a batch. Those along the second of two
            dimensions lie flat, batch by batch.

    Shapes:
        order [n]; sizes [B]; counts, source, starts [n]; pointers [n + B].
    """

    counts: Tensor
    source: Tensor
    starts: Tensor
    pointers: Tensor
    values: dict[str, Tensor]

    def __init__(self, part: _Part, order: IntArray, sizes: IntArray) -> None:
        self.part = part
        counts = part.counts[order]
        ptr = _pointer(counts)
        begins = ptr[_pointer(sizes)]
        self.totals: list[int] = np.diff(begins).tolist()
        source = order if part.one_each else part.bounds[order] - ptr[:-1]
        starts = ptr[:-1] - np.repeat(begins[:-1], sizes)
        rows = np.arange(len(order) + len(sizes)) - np.repeat(np.arange(len(sizes)), sizes + 1)
        pointers = ptr[rows] - np.repeat(begins[:-1], sizes + 1)
        self.arrays = counts, source, starts, pointers

    def place(self, counts: Tensor, source: Tensor, starts: Tensor, pointers: Tensor) -> None:
        """Take over `arrays` as tensors on the device of the part."""
        self.counts, self.source, self.starts, self.pointers = counts, source, starts, pointers

    def gather(self, shares: Mapping[str, _Share]) -> None:
        """Gather the attributes.

        Args:
            shares: For each attribute of the graphs the share it is in.
        """
        positions = self.source
        if not self.part.one_each:
            positions = self.spread(self.source)
            positions += torch.arange(len(positions), device=positions.device)
        self.values = {}
        for key, value in self.part.values.items():
            along = self.part.along[key]
            if along == 1 and value.dim() == 2:
                # Several times as fast as index_select along rows.
                gathered = value.gather(1, positions.expand(value.size(0), -1))
            else:
                gathered = value.index_select(along, positions)
            if key in _COUNTS:
                gathered += self.spread(shares[_COUNTS[key]].starts)
            if along == 1 and value.dim() == 2:
                # Batch by batch, so that each has its rows in one piece.
                pieces = torch.split(gathered, self.totals, 1)
                gathered = torch.cat([row for piece in pieces for row in piece])
            self.values[key] = gathered

    def batches(self, key: str) -> Sequence[Tensor]:
        """Return an attribute of each batch."""
        value, along = self.part.values[key], self.part.along[key]
        if along == 1 and value.dim() == 2:
            rows = value.size(0)
            flat = torch.split(self.values[key], [rows * total for total in self.totals])
            return [p.view(rows, total) for p, total in zip(flat, self.totals, strict=True)]
        return torch.split(self.values[key], self.totals, along)

    def spread(self, values: Tensor) -> Tensor:
        """Return for each entry the value of its graph."""
        return values.repeat_interleave(self.counts, output_size=sum(self.totals))


@dataclass
class Block:
    """Batches gathered at once.

    Args:
        empty: A batch without attributes.
        sizes: Number of graphs of each batch.
        num_nodes: Number of nodes of each graph, one batch after another.
        loops: Number of self loops of each batch.
        shares: The attributes; first those of the nodes.
        graph: Graph of each node in its batch.
    """

    empty: Batch
    sizes: list[int]
    num_nodes: list[int]
    loops: list[int]
    shares: list[_Share]
    graph: Tensor

    def __iter__(self) -> Iterator[Batch]:
        """Yield the batches; their tensors are parts of the same memory."""
        ends = [size + 1 for size in self.sizes]
        columns: dict[str, Sequence[Tensor]] = {}
        slices: dict[str, Sequence[Tensor]] = {}
        for share in self.shares:
            pointers = torch.split(share.pointers, ends)
            for key in share.values:
                columns[key] = share.batches(key)
                slices[key] = pointers
        columns["batch"] = torch.split(self.graph, self.shares[0].totals)
        columns["ptr"] = slices["x"]
        zeros = self.graph.new_zeros(max(self.sizes))
        first = 0
        for number, size in enumerate(self.sizes):
            batch = copy.copy(self.empty)
            for key, column in columns.items():
                # Autograd shall not know that a network changes something that belongs to other
                # batches too.
                batch[key] = column[number].contiguous().data
            batch._num_graphs = size
            batch._slice_dict = {key: pointers[number] for key, pointers in slices.items()}
            batch._inc_dict = {
                key: slices[_COUNTS[key]][number][:-1] if key in _COUNTS else zeros[:size]
                for key in slices
            }
            # Known without asking a GPU: to networks that pad, and to gates.
            if "edge_index" in columns:
                note_loops(batch.edge_index, self.loops[number])
            batch._sizes = tuple(self.num_nodes[first : first + size])
            first += size
            yield batch

    def moved(self, move: Callable[[Tensor], Tensor]) -> Self:
        """Return the block with all tensors moved, those of the batches alone."""
        for share in self.shares:
            share.values = {key: move(value) for key, value in share.values.items()}
            share.pointers = move(share.pointers)
        self.graph = move(self.graph)
        return self


def _loops(data: Data, slices: Mapping[str, IntArray]) -> IntArray:
    """Return the number of self loops of each graph, [num_graphs]."""
    num_graphs = len(slices["x"]) - 1
    if "edge_index" not in slices:
        return np.zeros(num_graphs, dtype=np.int64)
    sender, receiver = data.edge_index.cpu().numpy()
    places = np.flatnonzero(sender == receiver)
    graphs = np.searchsorted(slices["edge_index"], places, side="right") - 1
    return np.bincount(graphs, minlength=num_graphs)


def _pointer(counts: IntArray) -> IntArray:
    """Return where the entries of each begin, and the last end, [len(counts) + 1]."""
    ptr = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=ptr[1:])
    return ptr


def _pinned(tensor: Tensor) -> Tensor:
    """Return the tensor in memory from which a GPU copies without anyone waiting."""
    return tensor.pin_memory() if torch.cuda.is_available() else tensor


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
            gathered = (pool.submit(lambda b: store.gather(b).moved(_pinned), b) for b in blocks)
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
