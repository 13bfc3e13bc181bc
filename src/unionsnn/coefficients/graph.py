"""The graph behind an edge list: simple and undirected, with sorted rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from unionsnn.base.errors import RequestError
from unionsnn.coefficients.kernels.arguments import Csr

IntArray = npt.NDArray[np.int64]
NodeArray = npt.NDArray[np.int32]
EdgeArray = npt.NDArray[np.signedinteger[Any]]
FloatArray = npt.NDArray[np.float64]

MAX_NODES = np.iinfo(np.int32).max


@dataclass(frozen=True, eq=False)
class SimpleGraph:
    """A simple undirected graph, and the edge of it for each input edge.

    Attributes:
        num_nodes: Number of nodes N.
        indptr: Row starts of the adjacency.
        indices: Neighbours, ascending within a row; both directions of every edge are present.
        edges: Undirected edges (v, u) with v < u, ascending.
        edge_to_undirected: For each directed edge of the input the column of ``edges`` it belongs
            to, or -1 for a self loop.

    Shapes:
        indptr [N + 1] int64, indices [2 M] int32, edges [2, M] int32, edge_to_undirected [E] int32
        (int64 from 2^31 edges).
    """

    num_nodes: int
    indptr: IntArray
    indices: NodeArray
    edges: NodeArray
    edge_to_undirected: EdgeArray

    @property
    def csr(self) -> Csr:
        """The graph in the form that kernels take."""
        return Csr(self.indptr, self.indices, self.edges)

    @property
    def num_undirected_edges(self) -> int:
        """Number of undirected edges M, without loops and duplicates."""
        return int(self.edges.shape[1])

    def to_directed(self, values: FloatArray) -> FloatArray:
        """Give each input edge the row of its undirected edge, and self loops a row of 0.

        Shapes:
            values [>= M, C] -> [E, C].
        """
        result = np.zeros((len(self.edge_to_undirected), values.shape[1]))
        inside = self.edge_to_undirected >= 0
        result[inside] = values[self.edge_to_undirected[inside]]
        return result

    @classmethod
    def from_edge_index(
        cls, edge_index: Any, num_nodes: int, *, symmetrize: bool = False
    ) -> "SimpleGraph":
        """Build the simple graph of a list of directed edges.

        Self loops are dropped and duplicates count once.

        Args:
            edge_index: Directed edges, anything that numpy reads as integers.
            num_nodes: Number of nodes N; nodes may be isolated.
            symmetrize: Add the missing reverse of every edge instead of refusing the input.

        Shapes:
            edge_index [2, E].

        Raises:
            TypeError: edge_index or num_nodes is not an integer type.
            RequestError: Wrong shape, an id outside 0..N-1, or an edge without a reverse edge.
        """
        edges = as_edge_index(edge_index)
        num_nodes = check_num_nodes(num_nodes)
        _check_range(edges, num_nodes)
        given = edges.shape[1]
        if symmetrize:
            edges = np.concatenate([edges, edges[::-1]], axis=1)
        # Edge numbers are half the memory of a large graph.
        number = np.int32 if edges.shape[1] < 2**31 else np.int64
        proper = edges[0] != edges[1]
        # Both ends as one number, in the order of rows. All of this is left to numpy: compiling it
        # takes longer than most graphs do.
        keys = edges[0] * num_nodes + edges[1]
        distinct, slots = _distinct(keys if proper.all() else keys[proper], number)
        rows = distinct // max(1, num_nodes)
        indices = distinct - rows * num_nodes
        up = rows < indices
        forward, backward = distinct[up], (indices * num_nodes + rows)[~up]
        order = np.argsort(backward)
        if not np.array_equal(backward[order], forward):
            lacking = distinct[~np.isin(indices * num_nodes + rows, distinct)]
            v, u = divmod(int(lacking[0]), num_nodes)
            raise RequestError(
                f"edge_index is not symmetric: {len(lacking)} of its {len(distinct)} distinct "
                f"edges lack their reverse, for example {v} -> {u} without {u} -> {v}. Add the "
                "reverse edges, or pass symmetrize=True to have them added (on the command line: "
                "--symmetrize, or data.symmetrize=true for data=folder and data=pyg).",
                code="graph.not_symmetric",
            )
        numbers = np.arange(len(forward), dtype=number)
        reverse = np.empty_like(numbers)
        reverse[order] = numbers
        undirected = np.empty(len(distinct), number)
        undirected[up], undirected[~up] = numbers, reverse
        edge_to_undirected: EdgeArray = np.full(given, -1, number)
        inside = proper[:given]
        edge_to_undirected[inside] = undirected[slots[: np.count_nonzero(inside)]]
        indptr = np.zeros(num_nodes + 1, np.int64)
        np.cumsum(np.bincount(rows, minlength=num_nodes), out=indptr[1:])
        pairs = np.stack([rows[up], indices[up]]).astype(np.int32)
        return cls(num_nodes, indptr, indices.astype(np.int32), pairs, edge_to_undirected)


_INSTEAD = {
    "A = networkx.to_scipy_sparse_array(graph).tocoo(); "
    "structural_coefficients([A.row, A.col], A.shape[0]), whose rows are the edges in both "
    "directions and whose node i is list(graph)[i]": ("nodes", "edges", "adj"),
    "structural_coefficients(data.edge_index, data.num_nodes)": ("edge_index", "num_nodes"),
    "A = A.tocoo(); structural_coefficients([A.row, A.col], A.shape[0])": ("tocoo", "nnz"),
}
"""What to type for a graph of another library, by attributes that tell it."""


def check_num_nodes(num_nodes: Any) -> int:
    """Check num_nodes and return it as an int.

    Raises:
        TypeError: It is not an integer.
        RequestError: It is negative or exceeds 32-bit node ids.
    """
    if isinstance(num_nodes, bool | np.bool_) or not isinstance(num_nodes, int | np.integer):
        raise TypeError(
            f"num_nodes must be an integer, got {num_nodes!r} ({type(num_nodes).__name__})."
        )
    if not 0 <= num_nodes <= MAX_NODES:
        raise RequestError(
            f"num_nodes must lie in 0..{MAX_NODES}, got {num_nodes}.", code="graph.num_nodes"
        )
    return int(num_nodes)


def as_edge_index(edge_index: Any) -> IntArray:
    """Convert an edge list to contiguous int64.

    Args:
        edge_index: Array, nested list or CPU tensor of integers.

    Shapes:
        edge_index [2, E] -> [2, E].

    Raises:
        TypeError: The values are not integers.
        RequestError: The shape is not [2, E].
    """
    for line, attributes in _INSTEAD.items():
        if all(hasattr(edge_index, attribute) for attribute in attributes):
            raise TypeError(
                f"edge_index must be an array [2, num_edges], got a "
                f"{type(edge_index).__name__}; type {line}."
            )
    array = np.asarray(edge_index)
    if array.ndim != 2 or array.shape[0] != 2:
        hint = " Transpose it." if array.ndim == 2 and array.shape[1] == 2 else ""
        raise RequestError(
            f"edge_index must have shape [2, num_edges], got {list(array.shape)}.{hint}",
            code="graph.shape",
        )
    # An empty list is read as float64, which is harmless.
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise TypeError(
            f"edge_index must hold integer node ids, got dtype {array.dtype}. "
            "Convert it first, for example with edge_index.astype('int64')."
        )
    if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
        raise RequestError(
            f"edge_index holds node id {array.max()}, which int64 cannot represent.",
            code="graph.node_id",
        )
    return np.ascontiguousarray(array, dtype=np.int64)


def _check_range(edges: IntArray, num_nodes: int) -> None:
    if edges.size == 0 or (edges.min() >= 0 and edges.max() < num_nodes):
        return
    column = int(np.flatnonzero(((edges < 0) | (edges >= num_nodes)).any(axis=0))[0])
    bad = next(int(node) for node in edges[:, column] if not 0 <= node < num_nodes)
    allowed = f"0..{num_nodes - 1}" if num_nodes else "none, the graph has no nodes"
    advice = (
        "Node ids start at 0 and are never negative."
        if bad < 0
        else f"Pass num_nodes={int(edges.max()) + 1} or more, or renumber the nodes."
    )
    raise RequestError(
        f"edge_index holds node id {bad} in column {column}, "
        f"but num_nodes={num_nodes} (allowed ids: {allowed}). {advice}",
        code="graph.node_id",
    )


def _distinct(keys: IntArray, number: type[np.signedinteger[Any]]) -> tuple[IntArray, EdgeArray]:
    """Return the different keys, ascending, and the position of each given one among them."""
    order = None if (keys[1:] >= keys[:-1]).all() else np.argsort(keys)
    if order is not None:
        keys = keys[order]
    first = np.ones(len(keys), bool)
    np.not_equal(keys[1:], keys[:-1], out=first[1:])
    ascending = np.cumsum(first, dtype=number)
    ascending -= 1
    if order is None:
        return keys[first], ascending
    positions = np.empty_like(ascending)
    positions[order] = ascending
    return keys[first], positions
