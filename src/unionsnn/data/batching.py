"""Batches assembled by index from the concatenated tensors of a data set."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data, InMemoryDataset

# A set that takes more than this share of a device's free memory stays where it is.
_RESIDENT_SHARE = 0.25


class GraphStore:
    """The graphs of an in-memory data set, ready to be gathered into batches.

    A batch equals that of PyG's `Batch.from_data_list` bit for bit, but is made by one gather per
    attribute, without a loop over graphs.

    Args:
        dataset: A data set whose attributes are tensors; `edge_index` counts nodes within each
            graph.

    Raises:
        TypeError: if an attribute is no tensor.
    """

    def __init__(self, dataset: InMemoryDataset) -> None:
        data, slices = dataset._data, dataset.slices
        wrong = [key for key in slices if not isinstance(data[key], Tensor)]
        if wrong:
            raise TypeError(f"The attributes {wrong} are no tensors; batches hold tensors only.")
        self.values: dict[str, Tensor] = {key: data[key] for key in slices}
        self.slices: dict[str, Tensor] = {key: torch.as_tensor(slices[key]) for key in slices}
        self.along = {key: data.__cat_dim__(key, self.values[key]) for key in slices}

    def __len__(self) -> int:
        return len(self.slices["x"]) - 1

    @property
    def num_bytes(self) -> int:
        """Memory of all tensors."""
        tensors = [*self.values.values(), *self.slices.values()]
        return sum(t.numel() * t.element_size() for t in tensors)

    def resident(self, device: torch.device) -> GraphStore:
        """Return the store on a device, if it fits there with room to train; itself otherwise."""
        if device.type != "cuda":
            return self
        free, _ = torch.cuda.mem_get_info(device)
        return self.to(device) if self.num_bytes <= _RESIDENT_SHARE * free else self

    def to(self, device: torch.device) -> GraphStore:
        """Return a copy of the store on a device."""
        copy = object.__new__(GraphStore)
        copy.values = {key: value.to(device) for key, value in self.values.items()}
        copy.slices = {key: value.to(device) for key, value in self.slices.items()}
        copy.along = self.along
        return copy

    def batch(self, index: Tensor) -> Batch:
        """Gather graphs into one batch.

        Args:
            index: Numbers of the graphs, in the order wanted.

        Shapes:
            - index: [num_graphs]
        """
        index = index.to(self.slices["x"].device)
        nodes, node_ptr = self._counts("x", index)
        batch = Batch(_base_cls=Data)
        slices: dict[str, Tensor] = {}
        increments: dict[str, Tensor | None] = {}
        gathered: dict[int, Tensor] = {}
        for key, value in self.values.items():
            counts, ptr = self._counts(key, index)
            # Attributes of the same kind share their positions.
            kind = id(self.slices[key])
            if kind not in gathered:
                first = self.slices[key][index] - ptr[:-1]
                gathered[kind] = torch.arange(
                    int(ptr[-1]), device=index.device
                ) + first.repeat_interleave(counts)
            part = value.index_select(self.along[key], gathered[kind])
            increments[key] = torch.zeros(len(index), dtype=torch.long)
            if key == "edge_index":
                part = part + node_ptr[:-1].repeat_interleave(counts)
                increments[key] = node_ptr[:-1].cpu()
            batch[key] = part
            slices[key] = ptr.cpu()
        batch.batch = torch.arange(len(index), device=index.device).repeat_interleave(nodes)
        batch.ptr = node_ptr
        batch._num_graphs = len(index)
        batch._slice_dict, batch._inc_dict = slices, increments
        return batch

    def _counts(self, key: str, index: Tensor) -> tuple[Tensor, Tensor]:
        """Size of each graph's part, and where each begins in the batch."""
        slices = self.slices[key]
        counts = slices[index + 1] - slices[index]
        return counts, torch.nn.functional.pad(counts.cumsum(0), (1, 0))


class BatchLoader:
    """Batches of some graphs of a store, over and over; the part of this process under DDP.

    For training every process gets the same number of batches: the shuffled graphs are dealt out
    in turn, and the first ones again where they do not divide. For evaluation each graph is dealt
    to exactly one process.

    Args:
        store: All graphs.
        graphs: Numbers of the graphs to load.
        batch_size: Graphs in a batch; the last one may be smaller.
        shuffle: Whether for training: in a new order each time.
        generator: Draws the orders; it must be in the same state in all processes.

    Raises:
        ValueError: if the batch size is below 1.
    """

    def __init__(
        self,
        store: GraphStore,
        graphs: Sequence[int] | Tensor,
        *,
        batch_size: int,
        shuffle: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}; it must be at least 1.")
        self.store = store
        self.graphs = torch.as_tensor(graphs, dtype=torch.long)
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.generator = generator

    def __len__(self) -> int:
        return math.ceil(len(self._dealt(self.graphs)) / self.batch_size)

    def __iter__(self) -> Iterator[Batch]:
        graphs = self.graphs
        if self.shuffle:
            graphs = graphs[torch.randperm(len(graphs), generator=self.generator)]
        dealt = self._dealt(graphs)
        for first in range(0, len(dealt), self.batch_size):
            yield self.store.batch(dealt[first : first + self.batch_size])

    def _dealt(self, graphs: Tensor) -> Tensor:
        """The graphs of this process."""
        if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
            return graphs
        rank, world = torch.distributed.get_rank(), torch.distributed.get_world_size()
        if self.shuffle and len(graphs):
            missing = -len(graphs) % world
            graphs = torch.cat([graphs, graphs.repeat(math.ceil(missing / len(graphs)))[:missing]])
        return graphs[rank::world]
