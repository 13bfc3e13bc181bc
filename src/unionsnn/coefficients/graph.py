"""The graph behind an edge list: simple and undirected, with sorted rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from unionsnn.base.errors import RequestError
from unionsnn.coefficients.kernels.arguments import Csr
from unionsnn.coefficients.kernels.jit import kernel

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
        return _spread(values, self.edge_to_undirected)

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
        slots: EdgeArray = np.full(edges.shape[1], -1, number)
        indptr, indices = _sorted_rows(edges[0], edges[1], num_nodes, slots)
        undirected, pairs, missing, example = _pair_directions(indptr, indices, slots[:0])
        if missing:
            v, u = edges[:, np.flatnonzero(slots == example)[0]]
            raise RequestError(
                f"edge_index is not symmetric: {missing} of its {len(indices)} distinct edges lack "
                f"their reverse, for example {v} -> {u} without {u} -> {v}. Add the reverse edges, "
                "or pass symmetrize=True to have them added (on the command line: --symmetrize, or "
                "data.symmetrize=true for data=folder and data=pyg).",
                code="graph.not_symmetric",
            )
        return cls(num_nodes, indptr, indices, pairs, _assign(slots[:given], undirected))


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


@kernel
def _sorted_rows(
    source: IntArray, target: IntArray, num_nodes: int, slots: EdgeArray
) -> tuple[IntArray, NodeArray]:
    """Sort edges by (source, target) and merge duplicates.

    Shapes:
        slots [E] (in: -1; out: slot of each edge, -1 for loops).
    """
    start = _row_starts(source, num_nodes)
    order = np.empty(source.shape[0], slots.dtype)
    if _is_sorted(source, target):
        for i in range(source.shape[0]):
            order[i] = i
        return _merge_duplicates(source, target, start, order, slots)
    # Two stable counting sorts, minor key first. The slots are not needed yet.
    by_target = slots
    cursor = _row_starts(target, num_nodes)
    for i in range(source.shape[0]):
        by_target[cursor[target[i]]] = i
        cursor[target[i]] += 1
    cursor = start.copy()
    for edge in by_target:
        order[cursor[source[edge]]] = edge
        cursor[source[edge]] += 1
    slots[:] = -1
    return _merge_duplicates(source, target, start, order, slots)


@kernel
def _row_starts(nodes: IntArray, num_nodes: int) -> IntArray:
    start = np.empty(num_nodes + 1, np.int64)
    for node in range(num_nodes + 1):
        start[node] = 0
    for node in nodes:
        start[node + 1] += 1
    for node in range(num_nodes):
        start[node + 1] += start[node]
    return start


@kernel
def _is_sorted(source: IntArray, target: IntArray) -> bool:
    for i in range(1, source.shape[0]):
        if source[i - 1] > source[i]:
            return False
        if source[i - 1] == source[i] and target[i - 1] > target[i]:
            return False
    return True


@kernel
def _merge_duplicates(
    source: IntArray, target: IntArray, start: IntArray, order: EdgeArray, slots: EdgeArray
) -> tuple[IntArray, NodeArray]:
    num_nodes = start.shape[0] - 1
    indices = np.empty(order.shape[0], np.int32)
    indptr = np.empty(num_nodes + 1, np.int64)
    filled = 0
    for node in range(num_nodes):
        indptr[node] = filled
        last = -1
        for k in range(start[node], start[node + 1]):
            i = order[k]
            if target[i] == node:
                continue
            if target[i] != last:
                last = target[i]
                indices[filled] = last
                filled += 1
            slots[i] = filled - 1
    indptr[num_nodes] = filled
    return indptr, indices[:filled].copy()


@kernel
def _pair_directions(
    indptr: IntArray, indices: NodeArray, like: EdgeArray
) -> tuple[EdgeArray, NodeArray, int, int]:
    """Number the undirected edges; count the slots without a reverse and return one of them.

    The numbers are of the type of ``like``.

    Rows are visited in ascending order, so the reverse of (v, u) is met in row u in ascending
    order too: one cursor per row replaces any search.
    """
    num_nodes = indptr.shape[0] - 1
    undirected = np.empty(indices.shape[0], like.dtype)
    pairs = np.empty((2, indices.shape[0] // 2 + 1), np.int32)
    cursor = indptr[:num_nodes].copy()
    count, missing, example = 0, 0, -1
    for v in range(num_nodes):
        for slot in range(indptr[v], indptr[v + 1]):
            u = indices[slot]
            while cursor[u] < indptr[u + 1] and indices[cursor[u]] < v:
                cursor[u] += 1
            if cursor[u] == indptr[u + 1] or indices[cursor[u]] != v:
                if missing == 0:
                    example = slot
                missing += 1
                undirected[slot] = -1
            elif v < u:
                undirected[slot] = count
                pairs[0, count] = v
                pairs[1, count] = u
                count += 1
            else:
                undirected[slot] = undirected[cursor[u]]
    return undirected, pairs[:, :count].copy(), missing, example


@kernel
def _spread(values: FloatArray, places: EdgeArray) -> FloatArray:
    # Entry by entry: assigning rows takes numba two seconds to compile.
    count, width = places.shape[0], values.shape[1]
    result = np.empty((count, width))
    for i in range(count):
        for k in range(width):
            result[i, k] = values[places[i], k] if places[i] >= 0 else 0.0
    return result


@kernel
def _assign(slots: EdgeArray, undirected: EdgeArray) -> EdgeArray:
    """Replace slots by undirected edges, keeping -1 for loops."""
    result = np.empty(slots.shape[0], slots.dtype)
    for i in range(slots.shape[0]):
        result[i] = undirected[slots[i]] if slots[i] >= 0 else -1
    return result
