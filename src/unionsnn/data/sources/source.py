"""What a format of data sets is: its arguments, its raw files, how they are read, and the split.

A format is one file of this folder with a subclass of `Source`; ``data._target_`` names it. Nothing
here needs torch, so that requests are checked before it is imported.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from unionsnn.data.arrays import GraphArrays
from unionsnn.data.catalog import CATALOG, CatalogEntry
from unionsnn.data.sources.download import fetch
from unionsnn.data.splits import Split, random_holdout, stratified_holdout

Task = Literal[
    "graph_classification",
    "graph_binary_classification",
    "graph_regression",
    "node_classification",
]


@dataclass(frozen=True)
class RawFiles:
    """Where raw files come from: the data root, then a mirror, then upstream.

    Args:
        root: The data root.
        mirror: Folder or URL that is tried before the upstream address.
        offline: Whether never to access the internet.
        progress: Called with what is being done, steps done and steps in all.

    Attributes:
        fetched: The files that were asked for so far.
    """

    root: Path
    mirror: str | None = None
    offline: bool = False
    progress: Callable[[str, int, int], None] | None = None
    fetched: list[Path] = field(default_factory=list)

    def fetch(self, relative_path: str, upstream: str | None, label: str | None = None) -> Path:
        """Return a raw file, getting it first if it is not there.

        Args:
            relative_path: Where it is in a mirror and in the data root.
            upstream: Its full address; None if there is none.
            label: What progress calls it; its name unless given.

        Raises:
            DataUnavailableError: It could not be obtained.
        """
        path = fetch(
            relative_path,
            upstream=upstream,
            root=self.root,
            mirror=self.mirror,
            offline=self.offline,
            progress=self.report(f"download {label or Path(relative_path).name}"),
        )
        self.fetched.append(path)
        return path

    def report(self, what: str) -> Callable[[int, int], None] | None:
        """Return a callback of one piece of work, called with steps done and steps in all."""
        progress = self.progress
        if progress is None:
            return None
        return lambda done, total: progress(what, done, total)


class Source(BaseModel, ABC):
    """A format of data sets; its fields are the arguments that a configuration gives.

    Args:
        task: What is predicted.

    Attributes:
        categories: How many values each column of labels can take, where that is known beforehand.
        belongs_to_user: Whether the files are the user's own and may change from one run to the
            next.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    task: Task = "graph_classification"

    categories: ClassVar[tuple[int, ...] | None] = None
    belongs_to_user: ClassVar[bool] = False

    @abstractmethod
    def processed_key(self, raw: RawFiles) -> str | None:
        """Return all that the graphs depend on, as text; None to keep no processed graphs."""

    @abstractmethod
    def read(self, raw: RawFiles) -> GraphArrays:
        """Read or make the graphs, without any cache.

        Raises:
            DataError: A file is wrong; what was fetched is then set aside.
        """

    @property
    def known(self) -> CatalogEntry | None:
        """What is known about the set that the arguments name; it is checked on each reading."""
        formats = {kind.__name__ for kind in type(self).__mro__}
        for entry in CATALOG.values():
            if entry.format in formats and all(
                getattr(self, name) == value for name, value in entry.arguments.items()
            ):
                return entry
        return None

    @property
    def split_name(self) -> str | None:
        """Name of the set in published split files; None for that of the configuration."""
        return None

    def default_split(self, arrays: GraphArrays, generator: np.random.Generator) -> Split:
        """Return the split that the set prescribes, or draw 8:1:1, stratified by class."""
        if arrays.part is not None:
            return Split.from_parts(arrays.part)
        if self.task == "graph_regression":
            return random_holdout(arrays.num_items, generator=generator)
        return stratified_holdout(arrays.y, generator=generator)


class NodeSource(Source):
    """A format of single graphs whose nodes are classified.

    Args:
        normalize_features: Whether each node's features are divided by their sum.
    """

    task: Task = "node_classification"
    normalize_features: bool = False


class InMemory(Source):
    """Graphs that are in memory already; of them, only coefficients and encodings are cached.

    Args:
        graphs: The graphs.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    graphs: GraphArrays

    def processed_key(self, raw: RawFiles) -> None:
        """Nothing is kept."""

    def read(self, raw: RawFiles) -> GraphArrays:
        """Return the graphs."""
        return self.graphs
