"""A set of graphs as plain numpy arrays, as returned by readers and stored in caches."""

from __future__ import annotations

import hashlib
import struct
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from unionsnn.base.errors import DamagedFileError, MalformedDataError
from unionsnn.base.files import atomic_write, open_regular
from unionsnn.base.npz import MAPPED_BYTES, mapped_npz, write_npz
from unionsnn.base.union import DisjointUnion

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float32]

NPZ_ERRORS = (
    OSError,
    EOFError,
    KeyError,
    ValueError,
    NotImplementedError,
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    # A header may claim any shape.
    MemoryError,
    OverflowError,
)
"""What reading a damaged npz file may raise."""

_FORMAT = "unionsnn-graphs-1"
_REQUIRED = {"edge_index": np.int64, "node_slices": np.int64, "edge_slices": np.int64}
_OPTIONAL = {
    "node_labels": np.int64,
    "node_attributes": np.float32,
    "edge_labels": np.int64,
    "edge_attributes": np.float32,
    "link_index": np.int64,
    "link_slices": np.int64,
    "part": np.int64,
}
PARTS = ("train", "validation", "test")
"""The names of the three parts of a split, in their usual order."""


@dataclass(frozen=True, eq=False)
class GraphArrays(DisjointUnion):
    """G concatenated graphs; the slices give the half-open ranges of each graph.

    Args:
        edge_index: Directed edges (sender, receiver), both directions of each undirected edge;
            nodes are numbered from 0 within each graph.
        node_slices: Where each graph's nodes begin and end.
        edge_slices: Where each graph's edges begin and end.
        y: One class number per graph, or T targets (numbers of a regression, or labels 0 and 1),
            NaN where missing; per node if `level` says so, where -1 is a node without a class; per
            link, T = 1, 1 where there is one.
        node_labels: Categorical node features, with values from 0 in each column.
        node_attributes: Real node features.
        edge_labels: Categorical edge features, with values from 0 in each column.
        edge_attributes: Real edge features.
        link_index: Labelled pairs of nodes of a graph, which are no edges; nodes are numbered from
            0 within each graph. Only for links.
        link_slices: Where each graph's labelled pairs begin and end.
        part: The split prescribed by the source: for each graph (or node) its index in `PARTS`, or
            3 for none. Of S splits, one a column.
        class_names: The source's labels of classes 0, 1, ...; empty if there are none.
        level: What the targets belong to, ``graph``, ``node`` or ``link``; parts are of graphs, or
            of nodes.
        unread: What the source knows of edges but did not read, in words. For messages only: it is
            stored, but not hashed.

    Shapes:
        edge_index [2, E]; node_slices, edge_slices, link_slices [G + 1]; y int64 [G] (or [N]) or
        float32 [G, T] (or [N, T], [L, 1]); node_labels int64 [N, k]; node_attributes
        float32 [N, d]; edge_labels int64 [E, k]; edge_attributes float32 [E, d]; link_index [2, L];
        part int64 [G] (or [N]), or [G, S] (or [N, S]).
    """

    y: NDArray[Any]
    node_labels: IntArray | None = None
    node_attributes: FloatArray | None = None
    edge_labels: IntArray | None = None
    edge_attributes: FloatArray | None = None
    link_index: IntArray | None = None
    link_slices: IntArray | None = None
    part: IntArray | None = None
    class_names: tuple[str, ...] = ()
    level: Literal["graph", "node", "link"] = "graph"
    unread: str = ""

    @property
    def num_items(self) -> int:
        """Number of items that a split divides: graphs or nodes."""
        return self.num_nodes if self.level == "node" else self.num_graphs

    @property
    def target_slices(self) -> IntArray:
        """Where the rows of y of each graph begin and end, [G + 1]."""
        if self.level == "graph":
            return np.arange(self.num_graphs + 1)
        if self.link_slices is not None:
            return self.link_slices
        return self.node_slices

    @property
    def num_targets(self) -> int:
        """Number of rows of y: graphs, nodes, or labelled pairs of nodes."""
        return int(self.target_slices[-1])

    def targets_of(self, items: IntArray) -> NDArray[Any]:
        """Return the rows of y of some items, of a graph with links those of its pairs."""
        if self.link_slices is None:
            return self.y[items]
        chosen = np.zeros(self.num_graphs, dtype=bool)
        chosen[items] = True
        return self.y[np.repeat(chosen, np.diff(self.link_slices))]

    def with_pairs(self, pairs: Sequence[IntArray] | None = None) -> GraphArrays:
        """Return the graphs with pairs of nodes to score, without labels.

        Args:
            pairs: Those of each graph; None for each pair of different nodes once.

        Shapes:
            pairs G times [2, L_g].
        """
        if pairs is None:
            sizes = np.diff(self.node_slices)
            every = {n: np.stack(np.triu_indices(n, 1)) for n in np.unique(sizes).tolist()}
            pairs = [every[n] for n in sizes.tolist()]
        counts = np.array([each.shape[1] for each in pairs], dtype=np.int64)
        return replace(
            self,
            link_index=np.concatenate([*pairs, np.empty((2, 0))], axis=1).astype(np.int64),
            link_slices=np.concatenate([[0], counts.cumsum()]).astype(np.int64),
            y=np.zeros((int(counts.sum()), 1), dtype=np.float32),
            level="link",
        )

    @property
    def num_classes(self) -> int:
        """Number of classes; 0 for regression targets."""
        if self.y.dtype != np.int64:
            return 0
        return len(self.class_names) or int(self.y.max(initial=-1)) + 1

    @property
    def union(self) -> DisjointUnion:
        """The graphs alone."""
        return DisjointUnion(self.edge_index, self.node_slices, self.edge_slices)

    def validate(self) -> None:
        """Check types, shapes, ranges and finiteness.

        Raises:
            DataError: An array is wrong; names it and its first wrong entry.
        """
        for name, dtype in (_REQUIRED | _OPTIONAL).items():
            array = getattr(self, name)
            if array is None and name in _OPTIONAL:
                continue
            if not isinstance(array, np.ndarray) or array.dtype != dtype:
                given = getattr(array, "dtype", type(array).__name__)
                raise MalformedDataError(
                    f"{name} must be a numpy array of {np.dtype(dtype)}, not {given}"
                )
        if self.y.dtype not in (np.dtype(np.int64), np.dtype(np.float32)):
            raise MalformedDataError(
                f"y must be int64 (class numbers) or float32 (targets), not {self.y.dtype}"
            )
        self._check_slices("node_slices", self.num_graphs)
        self._check_slices("edge_slices", self.num_graphs)
        if (self.level == "link") != (self.link_index is not None and self.link_slices is not None):
            raise MalformedDataError(
                f"level is {self.level}, but link_index and link_slices are for level link, which "
                "needs both"
            )
        if self.link_slices is not None:
            self._check_slices("link_slices", self.num_graphs)
        if self.edge_index.ndim != 2 or self.edge_index.shape != (2, self.num_edges):
            raise MalformedDataError(
                f"edge_index has shape {self.edge_index.shape}, but edge_slices end at "
                f"{self.num_edges}: it must be (2, {self.num_edges})"
            )
        rows = {"y": self.num_targets, "part": self.num_items}
        rows |= dict.fromkeys(("node_labels", "node_attributes"), self.num_nodes)
        rows |= dict.fromkeys(("edge_labels", "edge_attributes"), self.num_edges)
        for name, count in rows.items():
            self._check_rows(name, count)
        self._check_index("edge", self.edge_index, self.edge_slices)
        if self.link_index is not None and self.link_slices is not None:
            if self.link_index.shape != (2, self.num_targets):
                raise MalformedDataError(
                    f"link_index has shape {self.link_index.shape}, but link_slices end at "
                    f"{self.num_targets}: it must be (2, {self.num_targets})"
                )
            self._check_index("link", self.link_index, self.link_slices)

    def _check_index(self, kind: str, index: IntArray, all_slices: IntArray) -> None:
        for begin, end in self.parts():
            slices = all_slices[begin : end + 1]
            limit = np.repeat(np.diff(self.node_slices[begin : end + 1]), np.diff(slices))
            pairs = index[:, slices[0] : slices[-1]]
            wrong = ((pairs < 0) | (pairs >= limit)).any(axis=0)
            if wrong.any():
                place = int(np.argmax(wrong))
                number = int(slices[0]) + place
                graph = int(np.searchsorted(all_slices, number, side="right")) - 1
                raise MalformedDataError(
                    f"{kind}_index names node {pairs[:, place].tolist()} in {kind} {number}, "
                    f"but its graph {graph} has only nodes 0..{limit[place] - 1}"
                )

    def _check_slices(self, name: str, num_graphs: int) -> None:
        slices = getattr(self, name)
        if slices.ndim != 1 or len(slices) != num_graphs + 1 or len(slices) == 0:
            raise MalformedDataError(
                f"{name} has shape {slices.shape}, but must be ({num_graphs + 1},)"
            )
        if slices[0] != 0 or (np.diff(slices) < 0).any():
            raise MalformedDataError(f"{name} must start with 0 and never decrease")

    def _check_rows(self, name: str, count: int) -> None:
        array = getattr(self, name)
        if array is None:
            return
        dims = 1 if name == "y" and array.dtype == np.int64 else 2
        if name == "part":
            dims = min(array.ndim, 2) or 1
        if array.ndim != dims or len(array) != count:
            raise MalformedDataError(
                f"{name} has shape {array.shape}, but must have {dims} dimension(s) and "
                f"{count} rows"
            )
        if array.dtype == np.float32:
            # Not a number is a missing target.
            wrong = np.isinf(array) if name == "y" else ~np.isfinite(array)
            if wrong.any():
                row = int(np.argwhere(wrong)[0][0])
                raise MalformedDataError(f"{name} has a value that is not finite in row {row}")
        least = -1 if name == "y" and self.level == "node" else 0
        if array.dtype == np.int64 and array.size and array.min() < least:
            row = int(np.argwhere(array < least)[0][0])
            raise MalformedDataError(f"{name} has a negative value in row {row}")
        if name == "part" and array.max(initial=0) > len(PARTS):
            raise MalformedDataError(
                f"part has the value {array.max()}, but must be 0..{len(PARTS)}"
            )

    def _arrays(self) -> dict[str, NDArray[Any]]:
        arrays = {name: getattr(self, name) for name in (*_REQUIRED, "y", *_OPTIONAL)}
        arrays["class_names"] = np.array(self.class_names, dtype=np.str_)
        arrays["level"] = None if self.level == "graph" else np.array(self.level)
        return {name: array for name, array in arrays.items() if array is not None}

    def content_hash(self) -> str:
        """Hash all arrays in one canonical form (fixed order, little-endian, row-major).

        Returns:
            64 hexadecimal digits of SHA-256; equal for equal content on every platform.
        """
        return self._digest

    @cached_property
    def _digest(self) -> str:
        # Once for the check of a known set, its file and the names of its runs.
        digest = hashlib.sha256(_FORMAT.encode())
        for name, array in self._arrays().items():
            if name == "class_names":
                digest.update(repr(self.class_names).encode())
                continue
            if name == "level":
                digest.update(f"level {self.level};".encode())
                continue
            plain = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
            digest.update(f"{name} {plain.dtype.str} {plain.shape};".encode())
            digest.update(plain.reshape(-1).view(np.uint8).data)
        return digest.hexdigest()

    def save(self, path: str | Path) -> None:
        """Write one npz file atomically, without pickles and with a checksum.

        Args:
            path: The file's path; missing folders are created.
        """
        header = np.array([_FORMAT, self.content_hash()])
        arrays: dict[str, Any] = self._arrays() | {"unread": np.array(self.unread)}
        atomic_write(Path(path), lambda file: write_npz(file, {"header": header, **arrays}))

    @classmethod
    def load(cls, path: str | Path) -> GraphArrays:
        """Read a file written by `save` and verify its checksum.

        A file of more than `MAPPED_BYTES` is mapped into memory: its arrays are read from disk when
        they are used, and changes to them stay in memory.

        Args:
            path: The file's path.

        Returns:
            The saved graphs.

        Raises:
            FileNotFoundError: There is no such file.
            DamagedFileError: The file is truncated, altered or of another kind: rebuild it.
        """
        try:
            if Path(path).stat().st_size > MAPPED_BYTES:
                content = mapped_npz(Path(path))
            else:
                with open_regular(path) as file, np.load(file, allow_pickle=False) as archive:
                    content = {name: archive[name] for name in archive.files}
            kind, checksum = (str(value) for value in content.pop("header"))
            names = tuple(str(name) for name in content.pop("class_names"))
            level, unread = str(content.pop("level", "graph")), str(content.pop("unread", ""))
            graphs = cls(
                **content,
                class_names=names,
                level=level,  # type: ignore[arg-type]
                unread=unread,
            )
            intact = kind == _FORMAT and graphs.content_hash() == checksum
        except FileNotFoundError:
            raise
        except (*NPZ_ERRORS, DamagedFileError, TypeError, AttributeError) as error:
            raise DamagedFileError(f"{path} cannot be read ({error})") from error
        if not intact:
            raise DamagedFileError(f"{path} fails its checksum")
        return graphs
