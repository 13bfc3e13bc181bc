"""Data modules of one graph whose nodes are classified, as a full batch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Batch

from unionsnn.data import catalog
from unionsnn.data.arrays import GraphArrays
from unionsnn.data.batching import Batches, Extent
from unionsnn.data.controls import TRAINING
from unionsnn.data.datamodules import GraphDataModule, Task
from unionsnn.data.sources.amazon import read_amazon
from unionsnn.data.sources.download import files_hash, set_aside_if_wrong
from unionsnn.data.sources.planetoid import read_planetoid
from unionsnn.data.splits import Split, stratified_shares


class NodeDataModule(GraphDataModule):
    """One graph with a class for each node; each step sees all of it.

    The batch has boolean ``train_mask``, ``val_mask`` and ``test_mask``, [num_nodes] each, set
    from the split. Training sees the features of all nodes and the classes of its own part
    (transductive), so coefficients of all edges fit the gates' statistics. For a control of the
    coefficients the whole graph is the training part, and ``shuffled`` is ``shuffled_within``.

    Args:
        normalize_features: Whether each node's features are divided by their sum.
        common: Arguments of `GraphDataModule`.
    """

    task: Task = "node_classification"

    def __init__(self, *, normalize_features: bool = False, **common: Any) -> None:
        super().__init__(**common)
        self.normalize_features = normalize_features
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


class PlanetoidDataModule(NodeDataModule):
    """A citation graph with its public split.

    "Revisiting Semi-Supervised Learning with Graph Embeddings" (Yang et al., ICML 2016).

    Args:
        planetoid_name: cora, citeseer or pubmed.
        common: Arguments of `NodeDataModule`.
    """

    def __init__(self, *, planetoid_name: str, **common: Any) -> None:
        super().__init__(**common)
        self.planetoid_name = planetoid_name

    def _files(self) -> dict[str, Path]:
        upstream = catalog.PLANETOID_URL
        return {
            part: self.fetch(path, f"{upstream}/{Path(path).name}")
            for part, path in catalog.planetoid_paths(self.planetoid_name).items()
        }

    def processed_key(self) -> str:
        """Hash of the raw files."""
        return f"planetoid {files_hash([*self._files().values()])}"

    def read(self) -> GraphArrays:
        """Read the raw files and check their counts where they are known."""
        files = self._files()
        with set_aside_if_wrong([*files.values()]):
            arrays = read_planetoid(files)
            catalog.check_statistics(self.planetoid_name, arrays)
        return arrays


class AmazonDataModule(NodeDataModule):
    """A co-purchase graph: its largest connected component, with a split that is drawn.

    "Pitfalls of Graph Neural Network Evaluation" (Shchur et al., 2018). The source has no split.

    Args:
        amazon_name: computers or photo.
        train_share: Share of the nodes that is trained on, each class in its proportion.
        validation_share: Share of the nodes that chooses the epoch; the rest is tested.
        common: Arguments of `NodeDataModule`.
    """

    def __init__(
        self,
        *,
        amazon_name: str,
        train_share: float = 0.1,
        validation_share: float = 0.1,
        **common: Any,
    ) -> None:
        super().__init__(**common)
        self.amazon_name = amazon_name
        self.shares = (train_share, validation_share)

    def _file(self) -> Path:
        name = f"amazon_electronics_{self.amazon_name}.npz"
        return self.fetch(f"amazon/{name}", f"{catalog.AMAZON_URL}/{name}")

    def processed_key(self) -> str:
        """Hash of the raw file."""
        return f"amazon {files_hash([self._file()])}"

    def read(self) -> GraphArrays:
        """Read the raw file and check its counts where they are known."""
        path = self._file()
        with set_aside_if_wrong([path]):
            arrays = read_amazon(path)
            catalog.check_statistics(self.amazon_name, arrays)
        return arrays

    def default_split(self, generator: np.random.Generator) -> Split:
        """Draw training nodes stratified by class, validation nodes, and test on the rest."""
        train, validation = self.shares
        return stratified_shares(self.targets, train, validation, generator=generator)
