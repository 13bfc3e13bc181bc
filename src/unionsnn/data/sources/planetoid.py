"""The Planetoid citation graphs: Cora, Citeseer and PubMed with their public split."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unionsnn.base.errors import MalformedDataError
from unionsnn.base.memory import free_bytes
from unionsnn.base.words import format_bytes
from unionsnn.data.arrays import GraphArrays, IntArray
from unionsnn.data.edges import one_way_edges, simple_edges
from unionsnn.data.sources.download import files_hash
from unionsnn.data.sources.pickles import PLANETOID_NAMES, SparseRows, read_pickle
from unionsnn.data.sources.source import NodeSource, RawFiles
from unionsnn.data.sources.text_tables import read_table

URL = "https://github.com/kimiyoung/planetoid/raw/master/data"
"""Upstream address of the citation graphs."""
FILES = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
VALIDATION = 500
"""Number of public validation nodes, which follow the training nodes."""


class Planetoid(NodeSource):
    """A citation graph with its public split.

    "Revisiting Semi-Supervised Learning with Graph Embeddings" (Yang et al., ICML 2016).

    Args:
        planetoid_name: cora, citeseer or pubmed.
    """

    planetoid_name: str

    def _files(self, raw: RawFiles) -> dict[str, Path]:
        names = {part: f"ind.{self.planetoid_name}.{part}" for part in FILES}
        return {p: raw.fetch(f"planetoid/{name}", f"{URL}/{name}") for p, name in names.items()}

    def processed_key(self, raw: RawFiles) -> str:
        """Return the hash of the raw files."""
        return f"planetoid {files_hash([*self._files(raw).values()])}"

    def read(self, raw: RawFiles) -> GraphArrays:
        """Read the raw files."""
        return read_planetoid(self._files(raw))


def read_planetoid(paths: Mapping[str, Path]) -> GraphArrays:
    """Read one graph with a class per node, as Planetoid publishes it.

    Source: Yang et al. (2016), "Revisiting Semi-Supervised Learning with Graph Embeddings".
    Loops and repeats of the lists are dropped. Test nodes that have no row in the files
    (Citeseer's isolated ones) get features of 0 and class 0, and are in no part of the split.

    Args:
        paths: The files by the last part of their names, see `FILES`.

    Raises:
        DataError: A file is wrong; names the fault.
    """
    objects = {
        key: read_pickle(path.read_bytes(), PLANETOID_NAMES, str(path))
        for key, path in paths.items()
        if key != "test.index"
    }
    test = read_table(paths["test.index"], 1)[:, 0]
    if not len(test) or test.min() < 0 or len(np.unique(test)) != len(test):
        raise MalformedDataError(
            f"{paths['test.index']} must name different nodes, one a line, counted from 0"
        )
    allx, tx = (_features(paths[key], objects[key]) for key in ("allx", "tx"))
    ally, ty = (_one_hot(paths[key], objects[key]) for key in ("ally", "ty"))
    train = len(_one_hot(paths["y"], objects["y"]))
    first, end = int(test.min()), int(test.max()) + 1
    same = (len(allx), len(tx), allx.shape[1]) == (len(ally), len(ty), tx.shape[1])
    if not same or len(tx) != len(test) or first != len(allx) or ally.shape[1] != ty.shape[1]:
        raise MalformedDataError(
            f"{paths['tx'].parent}: the files do not belong together (allx {allx.shape}, ally "
            f"{ally.shape}, tx {tx.shape}, ty {ty.shape}, {len(test)} test nodes from {first} on)"
        )
    needed = 4 * end * (allx.shape[1] + ally.shape[1])
    if needed > free_bytes() // 2:
        raise MalformedDataError(
            f"{paths['test.index']} names node {end - 1}; a graph of so many nodes takes "
            f"{format_bytes(needed)}"
        )
    x = np.zeros((end, allx.shape[1]), dtype=np.float32)
    hot = np.zeros((end, ally.shape[1]), dtype=np.float32)
    x[:first], hot[:first] = allx, ally
    x[test], hot[test] = tx, ty
    edge_index = _edges(paths["graph"], objects["graph"], end)
    part = np.full(end, 3, dtype=np.int64)
    part[:train] = 0
    part[train : train + VALIDATION] = 1
    part[test] = 2
    return GraphArrays(
        edge_index=edge_index,
        node_slices=np.array([0, end]),
        edge_slices=np.array([0, edge_index.shape[1]]),
        y=hot.argmax(axis=1).astype(np.int64),
        node_attributes=x,
        part=part,
        class_names=tuple(str(i) for i in range(hot.shape[1])),
        level="node",
    )


def _features(path: Path, content: Any) -> NDArray[np.float32]:
    try:
        return content.dense() if isinstance(content, SparseRows) else _matrix(content)
    except (ValueError, KeyError, TypeError) as error:
        raise MalformedDataError(f"{path} is not a matrix of features ({error})") from error


def _one_hot(path: Path, content: Any) -> NDArray[np.float32]:
    try:
        matrix = _matrix(content)
    except (ValueError, TypeError) as error:
        raise MalformedDataError(f"{path} is not a matrix of classes ({error})") from error
    # Citeseer has rows of zeros: nodes without a class.
    if not np.isin(matrix, (0, 1)).all() or (matrix.sum(axis=1) > 1).any():
        raise MalformedDataError(f"{path} has a row that is not one-hot")
    return matrix


def _matrix(content: Any) -> NDArray[np.float32]:
    matrix = np.asarray(content)
    if matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
        raise ValueError(f"{matrix.dtype} of shape {matrix.shape}")
    return matrix.astype(np.float32)


def _edges(path: Path, content: Any, num_nodes: int) -> IntArray:
    try:
        degrees = [len(neighbors) for neighbors in content.values()]
        rows = np.repeat(np.array(list(content), dtype=np.int64), degrees)
        columns = np.array([u for neighbors in content.values() for u in neighbors], dtype=np.int64)
    except (AttributeError, TypeError, ValueError, OverflowError) as error:
        raise MalformedDataError(f"{path} is not a dictionary of neighbours ({error})") from error
    both = np.stack([rows, columns])
    if both.size and (both.min() < 0 or both.max() >= num_nodes):
        raise MalformedDataError(f"{path} names a node outside of 0..{num_nodes - 1}")
    edges, _ = simple_edges(both, num_nodes)
    lonely = one_way_edges(edges, num_nodes)
    if len(lonely):
        raise MalformedDataError(f"{path}: edge {edges[:, lonely[0]].tolist()} has no edge back")
    # Sorted by receiver, as in PyG.
    return np.ascontiguousarray(edges[::-1])
