"""Encodings of nodes, pairs of nodes and subgraphs, computed for a whole set at once.

Every function takes the edges of all graphs as one graph, with global node numbers, and the slices
of the graphs' nodes. The graph is taken as simple: repeated edges count once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse.csgraph import dijkstra

from unionsnn.base.errors import RequestError
from unionsnn.data.arrays import IntArray
from unionsnn.data.encodings import subgraphs

FloatArray = NDArray[np.float32]
ByteArray = NDArray[np.uint8]
Report = Callable[[int, int], None]
"""Called with graphs done and the total number of graphs."""

FARTHEST = 254
"""Maximum distance; longer shortest paths are truncated to it."""
UNREACHABLE = 255
"""Distance value of two nodes without a path between them."""

# For larger graphs, a sparse product is cheaper than one with the dense matrix.
_DENSE_NODES = 256
# Number of entries in one stack of matrices.
_STACK = 1 << 21


@dataclass(frozen=True)
class Encodings:
    """The encodings in batches.

    Args:
        random_walk: Number of steps of the random walk; 0 for none.
        laplacian: Number of eigenvectors of the Laplacian; 0 for none.
        distance: Whether to add the lengths of all shortest paths.
        subgraph: Hops of the subgraph rooted at each node; 0 for none.

    Raises:
        RequestError: A number is negative.
    """

    random_walk: int = 0
    laplacian: int = 0
    distance: bool = False
    subgraph: int = 0

    def __post_init__(self) -> None:
        for name, value in self.sizes().items():
            if value < 0:
                raise RequestError(
                    f"encodings.{name} is {value}; it must be at least 0.", code="data.encodings"
                )

    def sizes(self) -> dict[str, int]:
        """Return the size of each encoding: values per node or pair of nodes, or hops."""
        return {field.name: int(getattr(self, field.name)) for field in fields(self)}

    def wanted(self) -> dict[str, int]:
        """Return the nonzero sizes."""
        return {name: size for name, size in self.sizes().items() if size}

    def to_dict(self) -> dict[str, int | bool]:
        """Return the choices as plain types."""
        return asdict(self)


def random_walk(
    edge_index: IntArray, node_slices: IntArray, steps: int, report: Report | None = None
) -> FloatArray:
    r"""Return the probabilities that a random walk has returned to its start.

    .. math::
        p_v = [P_{vv}, (P^2)_{vv}, \ldots, (P^K)_{vv}], \qquad P = D^{-1} A

    Section 3.2 of "Graph Neural Networks with Learnable Structural and Positional Representations"
    (Dwivedi et al., ICLR 2022); the values of PyG's `AddRandomWalkPE`. A node without edges has
    zeros.

    Args:
        edge_index: Edges of all graphs, with global node numbers.
        node_slices: Where each graph's nodes begin and end.
        steps: K.
        report: Called as graphs are done.

    Shapes:
        edge_index [2, E]; node_slices [G + 1] -> [N, K].
    """
    adjacency = _adjacency(edge_index, node_slices)
    degree = np.diff(adjacency.indptr)
    adjacency.data = 1.0 / np.repeat(np.maximum(degree, 1), degree)
    result = np.zeros((adjacency.shape[0], steps), dtype=np.float32)
    small, large = _by_size(node_slices, report)
    for first, size in small:
        walk = _stack(adjacency, first, size)
        nodes = first[:, None] + np.arange(size)
        power = walk
        for step in range(steps):
            result[nodes, step] = np.diagonal(power, axis1=1, axis2=2)
            power = power @ walk
    for low, high in large:
        walk = _matrix_of_one(adjacency, low, high)
        for begin, end in _blocks(high - low):
            columns = np.arange(end - begin)
            power = np.zeros((high - low, end - begin))
            power[begin + columns, columns] = 1
            for step in range(steps):
                power = walk @ power
                result[low + begin : low + end, step] = power[begin + columns, columns]
    return result


def laplacian(
    edge_index: IntArray, node_slices: IntArray, count: int, report: Report | None = None
) -> FloatArray:
    r"""Return eigenvectors of the symmetric normalised Laplacian to its smallest eigenvalues.

    .. math::
        L = D^{-1/2} (D - A) D^{-1/2}

    Section 3.1 of "Benchmarking Graph Neural Networks" (Dwivedi et al., 2020), with zero for the
    inverse square root of the degree of a node without edges. The eigenvectors are those of each
    graph's Laplacian, of length 1, by increasing eigenvalue, without the first one, which is
    trivial for a connected graph. A graph of n nodes has n - 1 of them; further columns are 0. The
    first entry of largest absolute value is positive. For a repeated eigenvalue, such as 0 for a
    graph of several components, the vectors are an arbitrary basis of the eigenspace, but the same
    one for the same input and version of LAPACK.

    Args:
        edge_index: Edges of all graphs in both directions, with global node numbers.
        node_slices: Where each graph's nodes begin and end.
        count: Number of eigenvectors.
        report: Called as graphs are done.

    Shapes:
        edge_index [2, E]; node_slices [G + 1] -> [N, count].
    """
    proper = edge_index[0] != edge_index[1]
    adjacency = _adjacency(edge_index[:, proper], node_slices)
    degree = np.diff(adjacency.indptr)
    scale = 1.0 / np.sqrt(np.maximum(degree, 1))
    adjacency.data = -scale[adjacency.indices] * np.repeat(scale, degree)
    connected = (degree > 0).astype(np.float64)
    result = np.zeros((adjacency.shape[0], count), dtype=np.float32)
    small, large = _by_size(node_slices, report)
    for first, size in small:
        matrix = _stack(adjacency, first, size)
        nodes = first[:, None] + np.arange(size)
        matrix[:, np.arange(size), np.arange(size)] = connected[nodes]
        vectors = np.linalg.eigh(matrix)[1][:, :, 1 : count + 1]
        result[nodes, : vectors.shape[2]] = _signed(vectors)
    for low, high in large:
        matrix = _matrix_of_one(adjacency, low, high).toarray()
        np.fill_diagonal(matrix, connected[low:high])
        last = min(count, high - low - 1)
        vectors = scipy.linalg.eigh(matrix, subset_by_index=(1, last), overwrite_a=True)[1]
        result[low:high, :last] = _signed(vectors[None])[0]
    return result


def distance(
    edge_index: IntArray, node_slices: IntArray, report: Report | None = None
) -> ByteArray:
    """Return the lengths of all shortest paths within each graph.

    The spatial encoding of section 3.1.2 of "Do Transformers Really Perform Bad for Graph
    Representation?" (Ying et al., NeurIPS 2021): `FARTHEST` for longer paths, `UNREACHABLE` without
    a path.

    Args:
        edge_index: Edges of all graphs in both directions, with global node numbers.
        node_slices: Where each graph's nodes begin and end.
        report: Called as graphs are done.

    Shapes:
        edge_index [2, E]; node_slices [G + 1] -> [sum of n_g^2], each graph's matrix row by row.
    """
    adjacency = _adjacency(edge_index, node_slices)
    slices = pair_slices(node_slices)
    result = np.full(slices[-1], UNREACHABLE, dtype=np.uint8)
    count = len(node_slices) - 1
    for graph in range(count):
        low, high = node_slices[graph], node_slices[graph + 1]
        rows = result[slices[graph] : slices[graph + 1]].reshape(high - low, high - low)
        matrix = _matrix_of_one(adjacency, low, high)
        for begin, end in _blocks(high - low):
            lengths = dijkstra(matrix, unweighted=True, indices=np.arange(begin, end))
            reached = np.isfinite(lengths)
            rows[begin:end][reached] = np.minimum(lengths[reached], FARTHEST)
        if report and ((graph + 1) % 1000 == 0 or graph + 1 == count):
            report(graph + 1, count)
    return result


ENCODINGS: Mapping[str, Callable[[IntArray, IntArray, int, Report | None], NDArray[Any]]] = {
    "random_walk": random_walk,
    "laplacian": laplacian,
    "distance": lambda edges, slices, size, report: distance(edges, slices, report)[:, None],
    "subgraph": subgraphs.rooted_subgraphs,
}
"""Functions that compute the encodings, by name in `Encodings`."""


def shape_of(name: str, node_slices: IntArray, size: int) -> tuple[int | None, int]:
    """Return rows and columns of an encoding; the rows are None if not known in advance.

    There is a row for each node or for each pair of nodes of a graph; subgraphs vary.
    """
    if name == "subgraph":
        return None, subgraphs.COLUMNS
    return int(pair_slices(node_slices)[-1] if name == "distance" else node_slices[-1]), size


def peak_bytes(name: str, edge_index: IntArray, node_slices: IntArray, size: int) -> int:
    """Estimate the peak memory of computing or reading an encoding."""
    rows, _ = shape_of(name, node_slices, size)
    if rows is None:
        return subgraphs.peak_bytes(edge_index, node_slices, size)
    # A file is read entirely before its values are extracted.
    values = 2 * rows * size * (1 if name == "distance" else 4)
    largest = int(np.diff(node_slices).max(initial=0))
    blocks = max(_STACK, largest) if name != "laplacian" else max(_STACK, largest**2)
    return values + 3 * 8 * blocks


def pair_slices(node_slices: IntArray) -> IntArray:
    """Return the slices of the graphs' distances.

    Shapes:
        node_slices [G + 1] -> [G + 1].
    """
    return np.concatenate([[0], np.cumsum(np.diff(node_slices) ** 2)]).astype(np.int64)


def _adjacency(edge_index: IntArray, node_slices: IntArray) -> scipy.sparse.csr_array:
    """Return the 0/1 adjacency of all graphs as one, with sorted rows."""
    count = int(node_slices[-1])
    ones = np.ones(edge_index.shape[1])
    adjacency = scipy.sparse.coo_array((ones, tuple(edge_index)), shape=(count, count)).tocsr()
    adjacency.sum_duplicates()
    adjacency.data[:] = 1
    return adjacency


def _matrix_of_one(
    adjacency: scipy.sparse.csr_array, low: int, high: int
) -> scipy.sparse.csr_array:
    """Return the matrix of one graph: rows and columns from `low` to `high`."""
    # Slicing both dimensions would visit every entry.
    indptr = adjacency.indptr[low : high + 1]
    entries = slice(indptr[0], indptr[-1])
    content = (adjacency.data[entries], adjacency.indices[entries] - low, indptr - indptr[0])
    return scipy.sparse.csr_array(content, shape=(high - low, high - low))


def _stack(adjacency: scipy.sparse.csr_array, first: IntArray, size: int) -> NDArray[np.float64]:
    """Return the dense matrices of graphs of one size that start at the nodes `first`."""
    nodes = (first[:, None] + np.arange(size)).ravel()
    counts = adjacency.indptr[nodes + 1] - adjacency.indptr[nodes]
    rows = np.repeat(np.arange(len(nodes)), counts)
    begin = np.cumsum(counts) - counts
    entries = np.arange(len(rows)) + np.repeat(adjacency.indptr[nodes] - begin, counts)
    columns = adjacency.indices[entries] - first[rows // max(size, 1)]
    stack = np.zeros((len(nodes), size))
    stack[rows, columns] = adjacency.data[entries]
    return stack.reshape(len(first), size, size)


def _by_size(
    node_slices: IntArray, report: Report | None
) -> tuple[Iterator[tuple[IntArray, int]], Iterator[tuple[int, int]]]:
    """Group small graphs of equal size as (first nodes, size), large ones as (begin, end)."""
    sizes = np.diff(node_slices)
    order = np.argsort(sizes, kind="stable")
    order = order[sizes[order] > 0]
    small, large = np.split(order, [np.searchsorted(sizes[order], _DENSE_NODES, side="right")])
    total = len(sizes)

    def stacks() -> Iterator[tuple[IntArray, int]]:
        done = 0
        while done < len(small):
            size = int(sizes[small[done]])
            end = int(np.searchsorted(sizes[small], size, side="right"))
            graphs = small[done : min(end, done + max(1, _STACK // size**2))]
            yield node_slices[graphs], size
            done += len(graphs)
            if report:
                report(done, total)

    def single() -> Iterator[tuple[int, int]]:
        for done, graph in enumerate(large, len(small) + 1):
            yield int(node_slices[graph]), int(node_slices[graph + 1])
            if report:
                report(done, total)

    return stacks(), single()


def _blocks(size: int) -> Iterator[tuple[int, int]]:
    """Yield begin and end of blocks of columns of a large matrix."""
    step = max(1, _STACK // max(size, 1))
    for begin in range(0, size, step):
        yield begin, min(begin + step, size)


def _signed(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Make the first entry of largest absolute value positive in each vector.

    Shapes:
        vectors [B, n, K] -> [B, n, K].
    """
    size = np.abs(vectors)
    # Entries that are equal by symmetry differ by rounding.
    largest = size >= (1 - 1e-6) * size.max(axis=1, keepdims=True, initial=0)
    first = largest.argmax(axis=1, keepdims=True)
    return vectors * np.where(np.take_along_axis(vectors, first, axis=1) < 0, -1, 1)
