"""Base class of data set formats: arguments, raw files, reading and split.

A format is one file of this folder with a subclass of `Source`, named by ``data._target_``. Nothing
here needs torch, so that requests are checked before it is imported.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, model_validator

from unionsnn.base.errors import DataError, RequestError
from unionsnn.base.words import nearest
from unionsnn.data.arrays import GraphArrays
from unionsnn.data.catalog import CATALOG, CatalogEntry, size_limit
from unionsnn.data.sources.download import fetch
from unionsnn.data.splits import (
    Split,
    random_holdout,
    stratified_holdout,
    stratified_k_fold,
    with_validation,
)

Unlabelled = Literal["drop", "class", "mask"]
"""What a missing label means: its item is left out, it is a class like any other, or of several
targets of an item it is in no loss and no metric."""

EdgeFeatures = Literal["none", "labels", "attributes", "both"]
"""Which features of edges are read: categories, real numbers, or both."""

Task = Literal[
    "graph_classification",
    "graph_binary_classification",
    "graph_multilabel_classification",
    "graph_regression",
    "node_classification",
    "link_prediction",
]


Progress = Callable[[str, int, int], None]
"""Called with a description of the work, steps done and total steps."""


def has_numbers(task: str) -> bool:
    """Return whether the targets of a task are numbers, NaN where missing, and not classes."""
    return task in ("graph_regression", "graph_multilabel_classification", "link_prediction")


@dataclass(frozen=True)
class RawFiles:
    """Access to raw files: from the data root, a mirror or upstream.

    Args:
        root: The data root.
        mirror: Folder or URL to try before the upstream address.
        offline: Whether to never access the network.
        progress: Called with a description of the work, steps done and total steps.

    Attributes:
        fetched: The files requested so far.
    """

    root: Path
    mirror: str | None = None
    offline: bool = False
    progress: Progress | None = None
    fetched: list[Path] = field(default_factory=list)

    def fetch(self, relative_path: str, upstream: str | None, label: str | None = None) -> Path:
        """Return a raw file, fetching it if it does not exist.

        Args:
            relative_path: Its path in a mirror and in the data root.
            upstream: Its full address; None if there is none.
            label: Its name in progress displays; by default its file name.

        Raises:
            DataUnavailableError: It could not be obtained.
        """
        path = fetch(
            relative_path,
            upstream=upstream,
            root=self.root,
            mirror=self.mirror,
            offline=self.offline,
            limit=size_limit(relative_path),
            progress=self.report(f"download {label or Path(relative_path).name}"),
        )
        if path not in self.fetched:
            self.fetched.append(path)
        return path

    def report(self, what: str) -> Callable[[int, int], None] | None:
        """Return a progress callback for one piece of work, called with steps done and total."""
        progress = self.progress
        if progress is None:
            return None
        return lambda done, total: progress(what, done, total)


class Source(BaseModel, ABC):
    """A format of data sets; its fields are the arguments from the configuration.

    Args:
        task: The task.
        edge_features: The features of edges that are wanted. Of a set without wanted ones, a reader
            may leave them out, and say so in `GraphArrays.unread`: TU and OGB, whose sets had them
            from the start, always read them, the others only if they are wanted. So hashes and ids
            of sets are those of what is read.

    Attributes:
        categories: Cardinality of each column of node labels, if known beforehand.
        edge_categories: Cardinality of each column of edge labels, if known beforehand.
        has_folds: Whether the splits that the set prescribes are the folds of a cross-validation.
        has_links: Whether its graphs have labelled pairs of nodes.
        belongs_to_user: Whether the files are the user's own and may change from one run to the
            next.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    task: Task = "graph_classification"
    edge_features: EdgeFeatures = "none"

    categories: ClassVar[tuple[int, ...] | None] = None
    edge_categories: ClassVar[tuple[int, ...] | None] = None
    has_folds: ClassVar[bool] = False
    has_links: ClassVar[bool] = False
    belongs_to_user: ClassVar[bool] = False

    @model_validator(mode="after")
    def _links(self) -> Self:
        """Refuse link prediction on graphs without labelled pairs, before they are read."""
        if self.task == "link_prediction" and not self.has_links:
            raise RequestError(
                f"data.task is link_prediction, but {type(self).__name__} reads no labelled pairs "
                "of nodes; type data=pcqm_contact, or data=pyg_links for a set of your own.",
                code="data.task",
            )
        return self

    @abstractmethod
    def processed_key(self, raw: RawFiles) -> str | None:
        """Return all that the graphs depend on, as text; None to keep no processed graphs."""

    @abstractmethod
    def read(self, raw: RawFiles) -> GraphArrays:
        """Read or generate the graphs, without caching.

        Raises:
            DataError: A file is wrong; fetched files are then set aside.
        """

    @property
    def reads_edges(self) -> bool:
        """Whether features of edges are wanted."""
        return self.edge_features != "none"

    @property
    def known(self) -> CatalogEntry | None:
        """Return the entry of the set given by the arguments, checked on each read; or None."""
        formats = {kind.__name__ for kind in type(self).__mro__}
        for entry in CATALOG.values():
            same_targets = has_numbers(self.task) == has_numbers(entry.task)
            if (
                entry.format in formats
                and same_targets
                and all(getattr(self, name) == value for name, value in entry.arguments.items())
            ):
                return entry
        return None

    @classmethod
    def task_of(cls, name: str) -> tuple[str, str]:
        """Return task and metric of a published set of this format, by its name at the source.

        Raises:
            RequestError: It is not a known one.
        """
        known = {e.source_name: e for e in CATALOG.values() if e.format == cls.__name__}
        if name not in known:
            raise RequestError(
                f"data.name is {name!r}; allowed are {', '.join(known)}.{nearest(name, known)}",
                code="data.unknown",
            )
        return known[name].task, known[name].metric

    @property
    def split_name(self) -> str | None:
        """Return the set's name in published split files; None for that in the configuration."""
        return None

    def default_split(self, arrays: GraphArrays, generator: np.random.Generator) -> Split:
        """Return the split prescribed by the set, or draw 8:1:1, stratified by class.

        Raises:
            DataError: The set prescribes several splits, of which one repetition cannot choose.
        """
        if arrays.part is not None:
            if arrays.part.ndim == 2:
                count = arrays.part.shape[1]
                raise DataError(
                    f"the set prescribes {count} splits, one for each repetition; type "
                    f"protocol=repeated_seeds protocol.seeds={count}, or fewer for the first of "
                    "them (at least 2)",
                    code="data.several_splits",
                )
            return with_validation(Split.from_parts(arrays.part), arrays.y, generator=generator)
        if has_numbers(self.task):
            return random_holdout(arrays.num_items, generator=generator)
        return stratified_holdout(arrays.y, generator=generator)

    def default_splits(
        self, arrays: GraphArrays, count: int, generator: np.random.Generator
    ) -> list[Split]:
        """Return a split for each repetition: the same one, or one of several prescribed."""
        part = arrays.part
        if part is None or part.ndim == 1 or not 2 <= count <= part.shape[1]:
            return [self.default_split(arrays, generator)] * count
        return [
            with_validation(Split.from_parts(column), arrays.y, generator=generator)
            for column in part.T[:count]
        ]

    def folds(self, arrays: GraphArrays, count: int, generator: np.random.Generator) -> list[Split]:
        """Return the folds of a cross-validation: those of the set, or stratified by class.

        Raises:
            DataError: if the set has another number of folds of its own, or they cannot be drawn.
        """
        if not self.has_folds:
            return stratified_k_fold(arrays.y, count, generator=generator)
        # Drawn for none but the set's own number of folds.
        given = 0 if arrays.part is None else arrays.part.shape[1]
        if given != count:
            raise DataError(
                f"the set prescribes {given} folds, but protocol.folds is {count}; type "
                f"protocol.folds={given}.",
                code="protocol.folds",
            )
        return self.default_splits(arrays, given, generator)


class NodeSource(Source):
    """A format of single graphs for node classification.

    Args:
        normalize_features: Whether to divide each node's features by their sum.
    """

    task: Task = "node_classification"
    normalize_features: bool = False


class InMemory(Source):
    """Graphs already in memory; only coefficients and encodings are cached.

    Args:
        graphs: The graphs.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    graphs: GraphArrays

    has_links: ClassVar[bool] = True

    def processed_key(self, raw: RawFiles) -> None:
        """Return None: nothing is stored."""

    def read(self, raw: RawFiles) -> GraphArrays:
        """Return the graphs."""
        return self.graphs
