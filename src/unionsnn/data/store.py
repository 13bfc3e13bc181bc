"""Batches gathered by index from the concatenated tensors of a data set."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data, InMemoryDataset

from unionsnn.base.memory import Extent
from unionsnn.base.rows import note_loops
from unionsnn.data.arrays import IntArray
from unionsnn.data.encodings.subgraphs import COUNTS

# A set that takes more than this share of a device's free memory is not moved there.
_RESIDENT_SHARE = 0.25
# Batches are gathered together up to this many bytes: on a CPU what its cache holds, on a device an
# epoch of most sets, on the way to one what two blocks of locked memory may take.
_CPU_BLOCK, _DEVICE_BLOCK, _STREAMED_BLOCK = 8 * 2**20, 256 * 2**20, 32 * 2**20
# Index attributes, and the attribute whose entries they index in each graph.
_COUNTS = {"edge_index": "x", "edge_label_index": "x", **COUNTS}


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
            packed = pinned(packed).to(self._device, non_blocking=True)
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


def pinned(tensor: Tensor) -> Tensor:
    """Return the tensor in memory from which a GPU copies without anyone waiting."""
    return tensor.pin_memory() if torch.cuda.is_available() else tensor
