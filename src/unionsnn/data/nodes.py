"""Data module of node classification on one graph, as a full batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Batch, Data

from unionsnn.base.memory import Extent
from unionsnn.base.rows import note_loops
from unionsnn.data.batching import Batches
from unionsnn.data.controls import TRAINING
from unionsnn.data.datamodules import GraphDataModule, Part
from unionsnn.data.datasets import GraphDataset
from unionsnn.data.sources.source import NodeSource
from unionsnn.data.splits import Split


class NodeDataModule(GraphDataModule):
    """One graph with a class for each node, as a full batch.

    The batch has boolean ``train_mask``, ``val_mask`` and ``test_mask``, [num_nodes] each, set
    from the split. Training reads the features of all nodes and the classes of the training part
    (transductive), so the gates' statistics are fitted to all edges. For controls the whole graph
    is the training part, and ``shuffled`` equals ``shuffled_within``.

    Args:
        source: Source of the graph.
        common: Further arguments of `GraphDataModule`.
    """

    def __init__(self, source: NodeSource, **common: Any) -> None:
        super().__init__(source, **common)
        self._batch: Batch | None = None
        self._loops = 0

    def part_coefficient(self, part: str) -> Tensor:
        """Return the coefficient rows of all edges, [num_edges, C], whatever the part."""
        rows: Tensor = self.graphs[0].edge_coefficient
        return rows

    def _graph_parts(self) -> NDArray[np.int64]:
        """Return the training part for the graph, which contains all parts."""
        return np.full(self.num_graphs, TRAINING)

    def _forget_batches(self) -> None:
        super()._forget_batches()
        self._batch = None

    def full_batch(self) -> Batch:
        """Make the full batch with the masks of the split."""
        split = self._given_split()
        if self._batch is None:
            self._batch = Batch.from_data_list([self.graphs[0]])
            sender, receiver = self._batch.edge_index
            self._loops = int((sender == receiver).sum())
        # Once, and not in each epoch; a batch is known by where its nodes are.
        self._batch = self._batch.to(self.device)
        note_loops(self._batch.edge_index, self._loops)
        batch = self._batch.clone("train_mask", "val_mask", "test_mask")
        self._set_masks(batch, split)
        return batch

    def pyg_dataset(self, part: Part | None = None) -> GraphDataset:
        """Return the graph with the masks of the split, whatever the part."""
        split, graph = self._given_split(), self.graphs[0]
        self._set_masks(graph, split)
        return GraphDataset(*GraphDataset.collate([graph]))

    def _set_masks(self, graph: Data, split: Split) -> None:
        for name, part in (("train", "train"), ("val", "validation"), ("test", "test")):
            mask = torch.zeros(self.num_items, dtype=torch.bool)
            mask[torch.from_numpy(getattr(split, part))] = True
            graph[f"{name}_mask"] = mask.to(graph.x.device)

    def train_dataloader(self) -> Batches:
        """Return the full batch, once per epoch."""
        return OneBatch(self.full_batch())

    val_dataloader = test_dataloader = train_dataloader


class OneBatch:
    """A loader of one batch; Lightning would take a plain list for several loaders.

    Args:
        batch: The batch, neither copied nor collated.
    """

    def __init__(self, batch: Batch) -> None:
        self.batch = batch

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[Batch]:
        return iter([self.batch])

    @property
    def extents(self) -> list[Extent]:
        """Return the extent of the graph."""
        rows = {
            key: value.size(self.batch.__cat_dim__(key, value))
            for key, value in self.batch
            if isinstance(value, Tensor) and value.dim()
        }
        nodes = self.batch.num_nodes
        return [Extent(1, nodes, nodes**2, rows)]
