"""LightningDataModules: from a name to batches with coefficients."""

from __future__ import annotations

import hashlib
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from filelock import FileLock
from numpy.typing import NDArray
from pytorch_lightning import LightningDataModule
from torch import Tensor
from torch_geometric.loader import DataLoader

from unionsnn.data import catalog, tu
from unionsnn.data.arrays import DamagedFileError, DataError, GraphArrays
from unionsnn.data.cycles import cycles_split, generate_cycles
from unionsnn.data.datasets import GraphDataset, build_dataset, disjoint_union
from unionsnn.data.sources import fetch, set_aside
from unionsnn.data.splits import Split, random_holdout, stratified_holdout
from unionsnn.structure import CoefficientSpec
from unionsnn.structure.cache import CoefficientCache

Task = Literal["graph_classification", "graph_regression", "node_classification"]
Progress = Callable[[str, int, int], None]
"""Called with what is being done, steps done and steps in all."""

# Raised when a reader or generator changes what it returns for the same input.
PROCESSED_VERSION = 1


class GraphDataModule(LightningDataModule, ABC):
    """A set of graphs with one target each.

    Nothing is read before `load`. Then `graphs`, `num_features` and `num_outputs` are known; a
    `split` must be given before loaders are asked for.

    Args:
        name: Name of the set.
        root: Folder for raw files, processed graphs and coefficients.
        mirror: Folder or URL that is tried before the upstream address.
        offline: Whether to do without the network.
        features: Node features: ``labels``, ``attributes``, ``both``, ``degree`` or ``constant``.
        batch_size: Graphs in a batch.
        spec: Which coefficients the batches carry; None for none.
        threads: Threads for computing coefficients; None for all cores.
        progress: Called during long work.
    """

    name: str
    task: Task = "graph_classification"

    def __init__(
        self,
        *,
        name: str,
        root: str | Path,
        mirror: str | None = None,
        offline: bool = False,
        features: str = "labels",
        batch_size: int = 32,
        spec: CoefficientSpec | None = None,
        threads: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        super().__init__()
        self.name = name
        self.root = Path(root).expanduser()
        self.mirror = mirror
        self.offline = offline
        self.features = features
        self.batch_size = batch_size
        self.spec = spec
        self.threads = threads
        self.progress = progress
        self.split: Split | None = None
        self.generator: torch.Generator | None = None
        self._arrays: GraphArrays | None = None
        self._graphs: GraphDataset | None = None

    # -- what a format must say ------------------------------------------------------------

    @abstractmethod
    def processed_key(self) -> str:
        """Return what the processed graphs depend on, as text without separators of paths."""

    @abstractmethod
    def read(self) -> GraphArrays:
        """Read or make the graphs, without any cache."""

    def default_split(self, generator: np.random.Generator) -> Split:
        """Draw 8:1:1, stratified by class where there are classes."""
        if self.task == "graph_classification":
            return stratified_holdout(self.targets, generator=generator)
        return random_holdout(self.num_graphs, generator=generator)

    # -- what training asks for ------------------------------------------------------------

    @property
    def arrays(self) -> GraphArrays:
        """The graphs as arrays, read once and kept on disk under their content's key."""
        if self._arrays is None:
            self._arrays = self._processed()
        return self._arrays

    @property
    def graphs(self) -> GraphDataset:
        """The graphs as a PyG data set, with coefficients if `spec` is given."""
        if self._graphs is None:
            coefficient = None if self.spec is None else self._coefficient(self.spec)
            self._graphs = build_dataset(self.arrays, self.features, coefficient)
        return self._graphs

    @property
    def dataset_id(self) -> str:
        """Name and content hash: two sets with the same id hold the same graphs."""
        return f"{self.name}-{self.arrays.content_hash()[:12]}"

    @property
    def split_name(self) -> str:
        """Name of the set in published split files."""
        return self.name

    @property
    def num_graphs(self) -> int:
        """Number of graphs."""
        return self.arrays.num_graphs

    @property
    def targets(self) -> NDArray[Any]:
        """Class or targets of each graph."""
        return self.arrays.y

    @property
    def num_features(self) -> int:
        """Width of the node features."""
        return int(self.graphs.num_features)

    @property
    def num_outputs(self) -> int:
        """Number of classes, or of regression targets."""
        if self.task == "graph_classification":
            return self.arrays.num_classes
        return int(self.targets.shape[1])

    def part_coefficient(self, part: str) -> Tensor:
        """Coefficient rows of all edges of a part of the split, [num_edges, C]."""
        return torch.cat([self.graphs[i].edge_coefficient for i in self._part(part)])

    def prepare_data(self) -> None:
        """Fill the caches; Lightning calls this in one process of each machine."""
        self.graphs  # noqa: B018

    def train_dataloader(self) -> DataLoader:
        """Shuffled batches of the training part."""
        return DataLoader(
            self.graphs.index_select(self._part("train")),
            batch_size=self.batch_size,
            shuffle=True,
            generator=self.generator,
        )

    def val_dataloader(self) -> DataLoader:
        """Batches of the validation part, in order."""
        return self._evaluation_loader("validation")

    def test_dataloader(self) -> DataLoader:
        """Batches of the test part, in order."""
        return self._evaluation_loader("test")

    # -- inside ----------------------------------------------------------------------------

    def _part(self, part: str) -> Sequence[int]:
        if self.split is None:
            raise RuntimeError("No split is set; assign data.split before asking for loaders.")
        indices: Sequence[int] = getattr(self.split, part).tolist()
        return indices

    def _evaluation_loader(self, part: str) -> DataLoader:
        return DataLoader(self.graphs.index_select(self._part(part)), batch_size=self.batch_size)

    def _report(self, what: str) -> Callable[[int, int], None] | None:
        progress = self.progress
        if progress is None:
            return None
        return lambda done, total: progress(what, done, total)

    def _processed(self) -> GraphArrays:
        key = hashlib.sha256(f"{PROCESSED_VERSION} {self.processed_key()}".encode()).hexdigest()
        path = self.root / "processed" / f"{self.name}-{key[:16]}.npz"
        path.parent.mkdir(parents=True, exist_ok=True)
        arrays = _load_intact(path)
        if arrays is None:
            with FileLock(path.with_suffix(".lock")):
                arrays = _load_intact(path, warn=False)
                if arrays is None:
                    arrays = self.read()
                    arrays.validate()
                    arrays.save(path)
        return arrays

    def _coefficient(self, spec: CoefficientSpec) -> NDArray[np.float64]:
        return CoefficientCache(self.root / "coefficients").get(
            disjoint_union(self.arrays),
            self.arrays.num_nodes,
            spec,
            threads=self.threads,
            progress=self._report("structural coefficients"),
        )


def _load_intact(path: Path, *, warn: bool = True) -> GraphArrays | None:
    try:
        return GraphArrays.load(path)
    except FileNotFoundError:
        return None
    except DamagedFileError as error:
        if warn:
            warnings.warn(f"{error}: it is made anew.", stacklevel=4)
        return None


class TUDataModule(GraphDataModule):
    """A set of the TU collection, by its name there.

    "TUDataset: A collection of benchmark datasets for learning with graphs" (Morris et al., 2020).

    Args:
        tu_name: Name in the collection, such as MUTAG.
        common: Arguments of `GraphDataModule`.
    """

    def __init__(self, *, tu_name: str, **common: Any) -> None:
        super().__init__(**common)
        self.tu_name = tu_name

    @property
    def split_name(self) -> str:
        """The collection's own name."""
        return self.tu_name

    def _archive(self) -> Path:
        return fetch(
            catalog.tu_relative_path(self.tu_name),
            upstream=catalog.tu_url(self.tu_name),
            root=self.root,
            mirror=self.mirror,
            offline=self.offline,
            progress=self._report(f"download {self.tu_name}"),
        )

    def processed_key(self) -> str:
        """Hash of the raw archive."""
        return hashlib.sha256(self._archive().read_bytes()).hexdigest()

    def read(self) -> GraphArrays:
        """Read the raw archive and check its counts where they are known."""
        archive = self._archive()
        try:
            arrays = tu.read_tu(archive, self.tu_name)
            catalog.check_statistics(self.tu_name, arrays)
        except DataError as error:
            # Otherwise the copy would shadow a mended mirror for ever.
            aside = set_aside(archive)
            where = f" It was set aside as {aside}; the next call gets it anew." if aside else ""
            raise DataError(f"{error}.{where}") from error
        return arrays


class CyclesDataModule(GraphDataModule):
    """Graphs with or without a cycle of one length, generated.

    Sizes as in table 6 of "Union Subgraph Neural Networks" (Xu et al., AAAI 2024), after Vignac et
    al. (2020).

    Args:
        length: 4 or 6.
        variant: ``matched`` (degrees say nothing) or ``plain`` (degrees leak, as in the paper).
        num_train: Training graphs.
        num_validation: Validation graphs.
        num_test: Test graphs.
        generator_seed: Seed of the generator.
        common: Arguments of `GraphDataModule`.
    """

    def __init__(
        self,
        *,
        length: int,
        variant: Literal["matched", "plain"],
        num_train: int,
        num_validation: int,
        num_test: int,
        generator_seed: int = 0,
        **common: Any,
    ) -> None:
        super().__init__(**common)
        self.length = length
        self.variant = variant
        self.sizes = (num_train, num_validation, num_test)
        self.generator_seed = generator_seed

    @property
    def num_generated(self) -> int:
        """Number of graphs in all parts."""
        split = self.default_split(np.random.default_rng(0))
        return sum(len(part) for part in split.parts().values())

    def processed_key(self) -> str:
        """All arguments of the generator."""
        return f"cycles {self.length} {self.variant} {self.num_generated} {self.generator_seed}"

    def read(self) -> GraphArrays:
        """Generate the graphs."""
        return generate_cycles(
            self.length,
            variant=self.variant,
            num_graphs=self.num_generated,
            seed=self.generator_seed,
            progress=self._report(f"{self.length}-cycles graphs"),
        )

    def default_split(self, generator: np.random.Generator) -> Split:
        """Return the fixed split; both graphs of a matched pair are in the same part."""
        return cycles_split(*self.sizes)
