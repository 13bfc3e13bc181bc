"""LightningDataModule from a source of graphs to batches with coefficients."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from pytorch_lightning import LightningDataModule
from torch import Tensor

from unionsnn.base.arguments import require_at_least
from unionsnn.base.display import stage
from unionsnn.base.errors import DataError, RequestError, TooLongError
from unionsnn.base.npz import scratch
from unionsnn.coefficients import CoefficientSpec
from unionsnn.coefficients.cache import CoefficientCache
from unionsnn.coefficients.planning import MAX_HOURS, check_hours
from unionsnn.data.arrays import PARTS, GraphArrays
from unionsnn.data.batching import Batches, BatchLoader
from unionsnn.data.catalog import edges_in_words
from unionsnn.data.controls import controlled_rows
from unionsnn.data.datasets import (
    GraphDataset,
    build_dataset,
    edge_feature_widths,
    with_coefficient,
)
from unionsnn.data.encodings import cache as encoding_cache
from unionsnn.data.encodings.cache import EncodingCache
from unionsnn.data.encodings.definitions import Encodings
from unionsnn.data.inventory import Note
from unionsnn.data.processed import dataset_id, processed_graphs
from unionsnn.data.sources.download import data_root
from unionsnn.data.sources.source import (
    NodeSource,
    Progress,
    RawFiles,
    Source,
    Task,
    has_numbers,
)
from unionsnn.data.splits import Split, repetition_seeds, split_hash
from unionsnn.data.store import GraphStore

Part = Literal["train", "val", "validation", "test"]
"""A part of a split."""


# Graphs whose rows are gathered together.
_GRAPHS = 2**16


class GraphDataModule(LightningDataModule):
    """A set of graphs with a target per graph or per node.

    Nothing is read before `arrays` or `graphs` is first used. With a `seed`, `setup` draws the
    split; otherwise assign one before requesting loaders.

    Args:
        source: Where the graphs come from.
        name: Name of the set.
        root: Folder for raw files, processed graphs and coefficients; by default UNIONSNN_DATA, or
            the user's cache.
        mirror: Folder or URL to try before the upstream address; by default UNIONSNN_MIRROR.
        offline: Whether to never access the network.
        features: Node features: ``labels`` (one-hot), ``categorical`` (labels as numbers, for an
            embedding), ``attributes``, ``both``, ``degree`` or ``constant``.
        edge_features: Edge features: ``none``, ``labels`` (as numbers, for an embedding),
            ``attributes`` or ``both`` (labels one-hot).
        batch_size: Number of graphs in a batch.
        spec: Coefficients in batches for gates; None for none.
        layer_spec: Coefficient in batches for layers that read their own; None for none.
        encodings: Encodings of nodes and pairs of nodes in batches; None for none.
        max_pairs: Limit of the number of graphs times the squared size of the largest; graphs of
            similar size are then batched together. None for no limit.
        threads: Number of threads for computing coefficients; None for all cores.
        progress: Called during long work.
        seed: Seed of the split that `setup` draws and of the order of the training items, those of
            the command's first repetition with this seed; None to assign `split` and `generator`.
        max_hours: Hours beyond which the expected time of coefficients is refused; None for no
            limit.

    Attributes:
        split: The split.
        generator: Draws the order of the training items.
        task: The task, as given by the source.
        metric: Name of its metric.
        standardize_targets: Whether networks predict targets less their mean in training, divided
            by their standard deviation there.
        accumulated: Number of training batches whose gradients make up a step.
        normalize_features: Whether to divide each node's features by their sum.
        widths: Cardinality of each categorical node feature; None for the values that occur.
        edge_widths: Cardinality of each categorical edge feature; None for the values that occur.
        computes: Whether coefficients that are not in the cache are computed; in a dry run, random
            numbers stand in for them.
    """

    name: str

    def __init__(
        self,
        source: Source,
        *,
        name: str,
        root: str | Path | None = None,
        mirror: str | None = None,
        offline: bool = False,
        features: str = "labels",
        edge_features: str = "none",
        batch_size: int = 32,
        spec: CoefficientSpec | None = None,
        layer_spec: CoefficientSpec | None = None,
        encodings: Encodings | None = None,
        max_pairs: int | None = None,
        threads: int | None = None,
        progress: Progress | None = None,
        seed: int | None = None,
        max_hours: float | None = MAX_HOURS,
    ) -> None:
        super().__init__()
        require_at_least("batch_size", batch_size, 1)
        check_hours(max_hours)
        if seed is not None:
            require_at_least("seed", seed, 0)
        # A reader reads what is wanted.
        self.source = source.model_copy(update={"edge_features": edge_features})
        self.name = name
        self.root = data_root(root)
        self.mirror = mirror
        self.offline = offline
        self.features = features
        self.edge_features = edge_features
        self.batch_size = batch_size
        self.spec = spec
        self.layer_spec = layer_spec
        self.encodings = encodings or Encodings()
        self.max_pairs = max_pairs
        self.threads = threads
        self.progress = progress
        self.seed = seed
        self.max_hours = max_hours
        self._repetition = 0
        self.task: Task = source.task
        self.metric: str | None = None
        self.standardize_targets = False
        self.accumulated = 1
        self.normalize_features = isinstance(source, NodeSource) and source.normalize_features
        self.widths: tuple[int, ...] | None = None
        self.edge_widths: tuple[int, ...] | None = None
        self.computes = True
        self.split: Split | None = None
        self.generator: torch.Generator | None = None
        self._arrays: GraphArrays | None = None
        self._graphs: GraphDataset | None = None
        self._real_graphs: GraphDataset | None = None
        self._store: GraphStore | None = None
        self.device = torch.device("cpu")
        self._note: Note | None = None

    # -- interface for training ------------------------------------------------------------

    @property
    def raw(self) -> RawFiles:
        """The raw files of the source."""
        return RawFiles(self.root, self.mirror, self.offline, self.progress)

    def default_split(self, generator: np.random.Generator) -> Split:
        """Return the split prescribed by the set, or draw one as its source does."""
        return self.source.default_split(self.arrays, generator)

    def default_splits(self, count: int, generator: np.random.Generator) -> list[Split]:
        """Return a split for each repetition: `default_split`, or one of several prescribed."""
        part = self.arrays.part
        if part is None or part.ndim == 1:
            return [self.default_split(generator)] * count
        return self.source.default_splits(self.arrays, count, generator)

    def fold(self, index: int, *, of: int = 10) -> Self:
        """Return a data module of one fold of a cross-validation, which shares the graphs.

        Each item is tested in one fold and validates in another. Folds and orders are those of the
        command with ``protocol=cross_validation`` and this seed.

        Args:
            index: The fold, from 0.
            of: The number of folds, at least 3 unless the set prescribes 2.

        Raises:
            RequestError: if there is no such fold, or the module has no seed.
            DataError: as `Source.folds`.
        """
        if self.seed is None:
            raise RequestError(
                "Folds are drawn from a seed: give the data module seed=0.", code="data.no_split"
            )
        require_at_least("of", of, 2 if self.source.has_folds else 3)
        if not hasattr(index, "__index__") or not 0 <= index < of:
            raise RequestError(
                f"There is no fold {index!r} of {of}; allowed are 0 to {of - 1}.", code="data.folds"
            )
        self.graphs  # noqa: B018, read once for all folds
        made = copy.copy(self)
        generator = np.random.default_rng(np.random.SeedSequence(self.seed))
        made.split = self.source.folds(self.arrays, of, generator)[index]
        made.generator, made.trainer, made._repetition = None, None, index
        made._forget_batches()
        return made

    def pyg_dataset(self, part: Part | None = None) -> GraphDataset:
        """Return a part of the split as a data set of PyG, for any loader.

        Batches of PyG's DataLoader equal those of this module. For nodes, the data set is the one
        graph, with ``train_mask``, ``val_mask`` and ``test_mask``.

        Args:
            part: ``train``, ``val`` (or ``validation``) or ``test``; None for all graphs.
        """
        if part is None:
            return self.graphs
        if part not in (*PARTS, "val"):
            raise RequestError(
                f"part is {part!r}; allowed are train, val and test.", code="data.split"
            )
        return self.graphs.index_select(self._part("validation" if part == "val" else part))

    @property
    def arrays(self) -> GraphArrays:
        """The graphs as arrays, read once and cached on disk."""
        if self._arrays is None:
            arrays, self._note = processed_graphs(self.source, self.raw, self.name)
            self._check_task(arrays)
            self._arrays = arrays
        return self._arrays

    @property
    def graphs(self) -> GraphDataset:
        """The graphs as a PyG data set, with coefficients if a spec is given."""
        if self._graphs is None:
            specs = {"edge_coefficient": self.spec, "layer_coefficient": self.layer_spec}
            coefficients = {name: self.coefficients(spec) for name, spec in specs.items() if spec}
            wanted = self.encodings.wanted().items()
            encodings = {name: self.encoding(name, size) for name, size in wanted}
            with stage(f"preparing {self.name}"):
                self._graphs = build_dataset(
                    self.arrays,
                    self.features,
                    coefficients,
                    encodings,
                    normalize_features=self.normalize_features,
                    widths=self.widths,
                    edge_features=self.edge_features,
                    edge_widths=self.edge_label_widths,
                    folder=self.coefficient_cache.root,
                )
        return self._graphs

    @property
    def dataset_id(self) -> str:
        """Name and content hash: sets with the same id have the same graphs."""
        return dataset_id(self.name, self.arrays)

    @property
    def split_name(self) -> str:
        """Name of the set in published split files."""
        return self.source.split_name or self.name

    @property
    def num_graphs(self) -> int:
        """Number of graphs."""
        return self.arrays.num_graphs

    @property
    def num_items(self) -> int:
        """Number of items that a split divides: graphs or nodes."""
        return self.arrays.num_items

    @property
    def split_covers(self) -> bool:
        """Whether every split covers all items."""
        part, y = self.arrays.part, self.arrays.y
        if part is not None:
            return bool((part < len(PARTS)).all())
        return y.dtype != np.int64 or bool((y >= 0).all())

    @property
    def targets(self) -> NDArray[Any]:
        """Class or targets of each item."""
        return self.arrays.y

    @property
    def num_features(self) -> int | tuple[int, ...]:
        """Width of the node features, or the cardinality of each categorical column."""
        if self.features != "categorical":
            return int(self.graphs.num_features)
        if self.source.categories is not None:
            return self.source.categories
        return tuple(int(column.max()) + 1 for column in self.graphs.x.unbind(dim=1))

    @property
    def num_edge_features(self) -> int | tuple[int, ...] | None:
        """Width of the edge features, or the cardinality of each column of labels; None if none."""
        if self.edge_features == "none":
            return None
        if self.edge_features == "labels" and self.edge_label_widths is not None:
            return self.edge_label_widths
        return int(self.graphs.edge_attr.size(1))

    @property
    def edge_label_widths(self) -> tuple[int, ...] | None:
        """Cardinality of each column of edge labels in batches; None if there are none."""
        occurring = edge_feature_widths(self.arrays, self.edge_features)
        if occurring is None:
            return None
        return self.edge_widths or self.source.edge_categories or tuple(occurring)

    @property
    def unread_edge_features(self) -> tuple[str, tuple[str, ...]]:
        """Which features of edges the set has though none are asked for, and what reads them.

        Both are empty if features are asked for, or the set has none.
        """
        if self.edge_features != "none":
            return "", ()
        arrays, entry = self.arrays, self.source.known
        labels: Sequence[int] = () if entry is None else entry.edge_labels
        attributes = 0 if entry is None else entry.edge_attributes
        # A catalog's numbers are those that a network gets, of which not all need occur.
        labels = labels or edge_feature_widths(arrays, "labels") or ()
        if arrays.edge_attributes is not None:
            attributes = arrays.edge_attributes.shape[1]
        has = {
            "labels": bool(labels) or "(labels)" in arrays.unread,
            "attributes": attributes > 0 or "(attributes)" in arrays.unread,
        }
        choices = tuple(name for name, there in has.items() if there)
        words = arrays.unread or edges_in_words(labels, attributes)
        return words, (*choices, "both") if len(choices) > 1 else choices

    @property
    def num_outputs(self) -> int:
        """Number of classes (1 for a binary score), of labels, or of regression targets."""
        if self.task == "graph_binary_classification":
            return 1
        if has_numbers(self.task):
            return int(self.targets.shape[1])
        return self.arrays.num_classes

    def class_weights(self, wanted: str | Sequence[float] | None) -> Tensor | None:
        r"""Return the weight of each class in the loss; None for equal ones.

        With n items in training, of which \(n_k\) are of class k, of K classes: balanced is
        \(n / (K n_k)\). Given weights are divided by their mean over the items, so that the loss of
        the whole training part is torch's cross-entropy with these weights.

        Args:
            wanted: ``balanced``, or a weight for each class.

        Raises:
            RequestError: if there are more or fewer classes, or none in training has a weight.

        Shapes:
            -> [num_classes].
        """
        if wanted is None:
            return None
        classes = self.arrays.num_classes
        counts = np.bincount(
            self.targets[self._part("train").numpy()].reshape(-1), minlength=classes
        )
        # A class that does not occur in training has no say in it.
        rare = np.divide(1.0, counts, out=np.zeros(classes), where=counts > 0)
        weights = rare if isinstance(wanted, str) else np.array(wanted, dtype=float)
        if len(weights) != classes:
            raise RequestError(
                f"data.class_weights has {len(weights)} weights, but {self.name} has {classes} "
                "classes; give one for each, or type data.class_weights=balanced.",
                code="data.class_weights",
            )
        mean = float(weights @ counts) / max(int(counts.sum()), 1)
        if not mean:
            raise RequestError(
                f"data.class_weights is {list(weights)}, which leaves no item of the training part "
                "a weight; give a class that occurs a positive one.",
                code="data.class_weights",
            )
        return torch.tensor(weights / mean, dtype=torch.get_default_dtype())

    def target_scale(self) -> tuple[Tensor, Tensor] | None:
        """Return mean and standard deviation of each target over its known values in training.

        None unless `standardize_targets`. A target that is constant there is divided by 1.

        Shapes:
            -> [T], [T].
        """
        if not self.standardize_targets:
            return None
        rows = self.targets[self._part("train").numpy()].astype(np.float64)
        mean, std = np.nanmean(rows, axis=0), np.nanstd(rows, axis=0)
        kind = torch.get_default_dtype()
        return torch.tensor(mean, dtype=kind), torch.tensor(np.where(std == 0, 1, std), dtype=kind)

    @property
    def coefficient_cache(self) -> CoefficientCache:
        """The cache of coefficients."""
        return CoefficientCache(self.root / "coefficients")

    def coefficients(self, spec: CoefficientSpec) -> NDArray[np.float64]:
        """Read coefficients of all edges from the cache, or compute them, [num_edges, C]."""
        union, cache = self.arrays.union, self.coefficient_cache
        if not self.computes and not self.has_coefficients(spec):
            # Both directions of an edge have the same row.
            ends = np.sort(union.edges(), axis=0)
            _, edge = np.unique(ends[0] * union.num_nodes + ends[1], return_inverse=True)
            return np.random.default_rng(0).random((union.num_edges, len(spec.columns)))[edge]
        try:
            values = cache.get_union(
                union,
                spec,
                threads=self.threads,
                progress=self.raw.report("structural coefficients"),
                label=self.name,
                max_hours=self.max_hours,
            )
        except TooLongError:
            raise
        except ValueError as error:
            raise DataError(f"{self.name}: {error}", code="data.coefficients") from error
        if self._note is not None and spec.key not in self._note.read()["entries"]:
            self._note.add_coefficient(spec, cache.union_path(union, spec))
        return values

    def has_coefficients(self, spec: CoefficientSpec) -> bool:
        """Return whether coefficients of all edges are in the cache."""
        return self.coefficient_cache.union_path(self.arrays.union, spec).exists()

    @property
    def encoding_cache(self) -> EncodingCache:
        """The cache of encodings."""
        return EncodingCache(self.root / encoding_cache.FOLDER)

    def encoding(self, name: str, size: int) -> NDArray[Any]:
        """Read an encoding of all graphs from the cache, or compute it, [rows, size]."""
        arrays = self.arrays
        return self.encoding_cache.get(
            name,
            size,
            arrays.edges(),
            arrays.node_slices,
            report=self.raw.report(f"encoding {name}"),
            label=self.name,
        )

    def apply_control(self, control: str, generator: np.random.Generator) -> None:
        """Replace the coefficient rows in batches by those of a control, made from the real rows.

        Call it in each repetition, after setting its split and before fitting statistics.
        The cache of coefficients keeps the real rows.

        Args:
            control: ``none`` (the real rows), ``constant`` (each row the mean of the training
                graphs), ``random`` (rows drawn from the training graphs), ``shuffled`` (permuted
                over the edges of each part of the split) or ``shuffled_within`` (permuted inside
                each graph).
            generator: Source of randomness.

        Raises:
            DataError: if the control needs training edges and there are none.
        """
        if self._real_graphs is None:
            if control == "none":
                return
            self._real_graphs = self.graphs
        real = self._real_graphs._data.edge_coefficient.numpy()
        rows = controlled_rows(
            real, self.arrays, self._graph_parts(), control=control, generator=generator
        )
        self._graphs = with_coefficient(self._real_graphs, torch.from_numpy(rows))
        self._forget_batches()

    def part_coefficient(self, part: str) -> Tensor:
        """Return the coefficient rows of all edges of a part of the split, [num_edges, C]."""
        if self.spec is None:
            raise RequestError(
                "The network has gates, but the data module has no coefficients: make it with "
                "coefficients=True, or the network without gates.",
                code="gate.columns",
            )
        graphs = self._part(part).numpy()
        rows = self.graphs._data.edge_coefficient.numpy()
        slices = self.graphs.slices["edge_coefficient"].numpy()
        counts = np.diff(slices)[graphs]
        ends = counts.cumsum()
        chosen = scratch(
            (int(counts.sum()), rows.shape[1]), rows.dtype, self.coefficient_cache.root
        )
        for begin in range(0, len(graphs), _GRAPHS):
            some = slice(begin, begin + _GRAPHS)
            first, last = ends[begin] - counts[begin], ends[some][-1]
            offset = slices[graphs[some]] - (ends[some] - counts[some])
            places = np.repeat(offset, counts[some]) + np.arange(first, last)
            chosen[first:last] = rows[places]
        return torch.from_numpy(chosen)

    def part_sizes(self, part: str) -> Tensor:
        """Return the number of nodes of each graph of a part of the split, [num_graphs]."""
        sizes = torch.from_numpy(np.diff(self.arrays.node_slices))
        return sizes if self.arrays.level == "node" else sizes[self._part(part)]

    def part_degrees(self, part: str) -> Tensor:
        """Return how many nodes of a part of the split receive 0, 1, 2, ... messages."""
        arrays = self.arrays
        degree = np.bincount(arrays.edges()[1], minlength=arrays.num_nodes)
        if arrays.level != "node":
            chosen = np.zeros(arrays.num_graphs, dtype=bool)
            chosen[self._part(part)] = True
            degree = degree[np.repeat(chosen, np.diff(arrays.node_slices))]
        return torch.from_numpy(np.bincount(degree, minlength=1))

    def prepare_data(self) -> None:
        """Fill the caches; Lightning calls this in one process of each machine."""
        self.graphs  # noqa: B018

    def setup(self, stage: str | None = None) -> None:
        """Draw the split and the order of the training items from `seed`, unless they are given."""
        if self.seed is None:
            return
        if self.split is None:
            generator = np.random.default_rng(np.random.SeedSequence(self.seed))
            self.split = self.default_split(generator)
        if self.generator is None:
            _, order, _ = repetition_seeds(self.seed, self._repetition)
            self.generator = torch.Generator().manual_seed(order)

    def state_dict(self) -> dict[str, Any]:
        """Return what a training goes on with: its split, by digest, and the order of its items."""
        if self.split is None or self.generator is None:
            return {}
        return {"split": split_hash([self.split]), "order": self.generator.get_state()}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on with a training.

        Raises:
            DataError: if it had another split, of which training items may be tested here.
        """
        if self.trainer is None or self.trainer.state.fn != "fit" or self.generator is None:
            return
        if self.split is not None and split_hash([self.split]) != state_dict["split"]:
            raise DataError(
                "The checkpoint was trained on another split of the data, so what it has learned "
                "from may validate or test here: give the data module the same seed, fold or "
                "split.",
                code="checkpoint.split",
            )
        self.generator.set_state(state_dict["order"])

    @property
    def store(self) -> GraphStore:
        """The graphs, ready to be gathered into batches, on `device` if they fit there."""
        if self._store is None:
            self._store = GraphStore(self.graphs).resident(self.device)
        return self._store

    def train_dataloader(self) -> Batches:
        """Return shuffled batches of the training part."""
        return BatchLoader(
            self.store,
            self._part("train"),
            batch_size=self.batch_size,
            max_pairs=self.max_pairs,
            shuffle=True,
            generator=self.generator,
            accumulated=self.accumulated,
            terms=self._terms(),
        )

    def val_dataloader(self) -> Batches:
        """Return batches of the validation part, in order without a limit of pairs."""
        return self._evaluation_loader("validation")

    def test_dataloader(self) -> Batches:
        """Return batches of the test part, in order without a limit of pairs."""
        return self._evaluation_loader("test")

    def _terms(self) -> Tensor | None:
        """Return the number of known targets of each graph; None if each item has one."""
        targets = self.targets
        if targets.dtype == np.int64:
            return None
        known = np.isfinite(targets).reshape(len(targets), -1).sum(axis=1)
        if self.arrays.link_slices is None:
            return torch.from_numpy(known)
        total = np.concatenate([[0], known.cumsum()])[self.arrays.link_slices]
        return torch.from_numpy(np.diff(total))

    # -- internal --------------------------------------------------------------------------

    def _graph_parts(self) -> NDArray[np.int64]:
        """Return the index in `PARTS` of each graph's part; -1 for graphs in no part."""
        places = np.full(self.num_graphs, -1)
        for place, name in enumerate(PARTS):
            places[self._part(name).numpy()] = place
        return places

    def _forget_batches(self) -> None:
        """Drop cached batches of `graphs`."""
        self._store = None

    def _part(self, part: str) -> Tensor:
        return torch.from_numpy(getattr(self._given_split(), part))

    def _given_split(self) -> Split:
        self.setup()
        if self.split is None:
            raise DataError(
                "No split is set: give the data module seed=0, from which it draws one, or assign "
                "data.split.",
                code="data.no_split",
            )
        return self.split

    def _evaluation_loader(self, part: str) -> Batches:
        return BatchLoader(
            self.store, self._part(part), batch_size=self.batch_size, max_pairs=self.max_pairs
        )

    def _check_task(self, arrays: GraphArrays) -> None:
        """Refuse a task that does not fit the targets."""
        level, _, kind = self.task.partition("_")
        classes = arrays.y.dtype == np.int64
        labels = arrays.y if classes else arrays.y[~np.isnan(arrays.y)]
        if arrays.level != level:
            wrong = f"its targets belong to each {arrays.level}"
        elif classes == has_numbers(self.task):
            wrong = f"its targets are {'classes' if classes else 'numbers'}"
        elif kind == "multilabel_classification" and not np.isin(labels, (0, 1)).all():
            other = labels[~np.isin(labels, (0, 1))][0]
            wrong = f"a target is {other:g}, not 0, 1 or missing,"
        elif level == "link" and not np.isin(arrays.y, (0, 1)).all():
            wrong = "a pair of nodes is labelled with another number than 0 and 1"
        elif kind == "binary_classification" and arrays.num_classes != 2:
            wrong = f"it has {arrays.num_classes} classes, not 2"
        else:
            return
        raise DataError(f"data.task is {self.task}, but {wrong} in {self.name}.", code="data.task")
