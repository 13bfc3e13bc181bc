"""Data module of one graph whose nodes are classified, as a full batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Batch

from unionsnn.base.memory import Extent
from unionsnn.data.batching import Batches
from unionsnn.data.controls import TRAINING
from unionsnn.data.datamodules import GraphDataModule
from unionsnn.data.sources.source import NodeSource


class NodeDataModule(GraphDataModule):
    """One graph with a class for each node; each step sees all of it.

    The batch has boolean ``train_mask``, ``val_mask`` and ``test_mask``, [num_nodes] each, set
    from the split. Training sees the features of all nodes and the classes of its own part
    (transductive), so coefficients of all edges fit the gates' statistics. For a control of the
    coefficients the whole graph is the training part, and ``shuffled`` is ``shuffled_within``.

    Args:
        source: Where the graph comes from.
        common: Further arguments of `GraphDataModule`.
    """

    def __init__(self, source: NodeSource, **common: Any) -> None:
        super().__init__(source, **common)
        self._batch: Batch | None = None

    def part_coefficient(self, part: str) -> Tensor:
        """Coefficient rows of all edges, [num_edges, C]: every part is in the one graph."""
        rows: Tensor = self.graphs[0].edge_coefficient
        return rows

    def _graph_parts(self) -> NDArray[np.int64]:
        """The training part: all parts of the split are in the one graph."""
        return np.full(self.num_graphs, TRAINING)

    def _forget_batches(self) -> None:
        super()._forget_batches()
        self._batch = None

    def full_batch(self) -> Batch:
        """Make the one batch, with the masks of the split."""
        if self.split is None:
            raise RuntimeError("No split is set; assign data.split before asking for loaders.")
        if self._batch is None:
            self._batch = Batch.from_data_list([self.graphs[0]])
        batch = self._batch.clone("train_mask", "val_mask", "test_mask")
        for name, part in (("train", "train"), ("val", "validation"), ("test", "test")):
            mask = torch.zeros(self.num_items, dtype=torch.bool)
            mask[torch.from_numpy(getattr(self.split, part))] = True
            batch[f"{name}_mask"] = mask
        return batch

    def train_dataloader(self) -> Batches:
        """The full batch, once."""
        return OneBatch(self.full_batch())

    def val_dataloader(self) -> Batches:
        """The full batch, once."""
        return OneBatch(self.full_batch())

    def test_dataloader(self) -> Batches:
        """The full batch, once."""
        return OneBatch(self.full_batch())


class OneBatch:
    """A loader of one batch; a plain list would be taken for several loaders.

    Args:
        batch: What each pass gives once, neither copied nor collated.
    """

    def __init__(self, batch: Batch) -> None:
        self.batch = batch

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[Batch]:
        return iter([self.batch])

    @property
    def extents(self) -> list[Extent]:
        """The one graph."""
        rows = {
            key: value.size(self.batch.__cat_dim__(key, value))
            for key, value in self.batch
            if isinstance(value, Tensor) and value.dim()
        }
        nodes = self.batch.num_nodes
        return [Extent(1, nodes, nodes**2, rows)]
