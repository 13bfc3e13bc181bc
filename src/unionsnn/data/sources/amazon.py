"""The Amazon co-purchase graphs: Computers and Photo."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from unionsnn.base.errors import MalformedDataError
from unionsnn.data.arrays import NPZ_ERRORS, GraphArrays, IntArray
from unionsnn.data.edges import both_ways, simple_edges
from unionsnn.data.sources.download import files_hash, open_zip
from unionsnn.data.sources.pickles import dense_rows, row_and_column
from unionsnn.data.sources.source import NodeSource, RawFiles
from unionsnn.data.splits import Split, stratified_shares

URL = "https://github.com/shchur/gnn-benchmark/raw/master/data/npz"
"""Upstream address of the co-purchase graphs."""

_Share = Annotated[float, Field(gt=0, lt=1)]
_MATRICES = ("adj", "attr")
_KEYS = tuple(f"{m}_{key}" for m in _MATRICES for key in ("data", "indices", "indptr", "shape"))


class Amazon(NodeSource):
    """The largest connected component of a co-purchase graph, with a drawn split.

    "Pitfalls of Graph Neural Network Evaluation" (Shchur et al., 2018). The source has no split.

    Args:
        amazon_name: computers or photo.
        train_share: Share of training nodes, stratified by class.
        validation_share: Share of validation nodes; the rest is the test part.
    """

    amazon_name: str
    train_share: _Share = 0.1
    validation_share: _Share = 0.1

    def _file(self, raw: RawFiles) -> Path:
        name = f"amazon_electronics_{self.amazon_name}.npz"
        return raw.fetch(f"amazon/{name}", f"{URL}/{name}")

    def processed_key(self, raw: RawFiles) -> str:
        """Return the hash of the raw file."""
        return f"amazon {files_hash([self._file(raw)])}"

    def read(self, raw: RawFiles) -> GraphArrays:
        """Read the raw file."""
        return read_amazon(self._file(raw))

    def default_split(self, arrays: GraphArrays, generator: np.random.Generator) -> Split:
        """Draw training nodes stratified by class and validation nodes; the rest is for testing."""
        shares = self.train_share, self.validation_share
        return stratified_shares(arrays.y, *shares, generator=generator)


def read_amazon(path: Path) -> GraphArrays:
    """Read the largest connected component with its nodes in order and a class per node.

    Source: Shchur et al. (2018), "Pitfalls of Graph Neural Network Evaluation". Edges count both
    ways; loops and repeats are dropped.

    Args:
        path: An npz file with sparse matrices adj_* and attr_*, and labels.

    Raises:
        DataError: The file is wrong; names the fault.
    """
    # Refuses archives that unpack to far more than they are.
    open_zip(path).close()
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in (*_KEYS, "labels")}
        rows, columns = (int(size) for size in arrays["attr_shape"])
        data, places, ends = (arrays[f"attr_{key}"] for key in ("data", "indices", "indptr"))
        x = dense_rows(data, places, ends, rows, columns)
        y = arrays["labels"].astype(np.int64)
        if tuple(arrays["adj_shape"]) != (rows, rows) or y.shape != (rows,):
            raise ValueError(f"{rows} rows of features, {y.shape} labels")
        senders, receivers = row_and_column(arrays["adj_indices"], arrays["adj_indptr"], rows, rows)
    except NPZ_ERRORS as error:
        raise MalformedDataError(f"{path} is not a graph as of gnn-benchmark ({error})") from error
    edges, _ = simple_edges(both_ways(np.stack([senders, receivers])), rows)
    keep = largest_component(edges, rows)
    number = np.cumsum(keep) - 1
    edges = number[edges[:, keep[edges[0]]]]
    return GraphArrays(
        edge_index=edges,
        node_slices=np.array([0, len(x[keep])]),
        edge_slices=np.array([0, edges.shape[1]]),
        y=y[keep],
        node_attributes=x[keep],
        class_names=tuple(str(i) for i in range(int(y.max()) + 1)),
        level="node",
    )


def largest_component(edge_index: IntArray, num_nodes: int) -> NDArray[np.bool_]:
    """Return the mask of the largest connected component; of equal ones, the first.

    Shapes:
        edge_index [2, E] -> [num_nodes].
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    ones = np.ones(edge_index.shape[1], dtype=np.int8)
    adjacency = coo_array((ones, (edge_index[0], edge_index[1])), shape=(num_nodes, num_nodes))
    _, component = connected_components(adjacency, directed=False)
    largest: NDArray[np.bool_] = component == np.bincount(component).argmax()
    return largest
