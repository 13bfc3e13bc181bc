r"""Exact fingerprints of union subgraphs: determinants of integer matrices modulo a prime.

A determinant does not change when rows and columns are permuted alike, and modulo a prime it is
computed without rounding: isomorphic subgraphs get exactly the same number, without tolerance or
signed zeros. The entries are indeterminates, each with one random value x, so two subgraphs with
different polynomials get the same number with probability at most n / p, n the order and
p = 2^31 - 1 (Schwartz 1980, Zippel 1979): an error can only hide a difference.

- spectrum: det(x I - P), the characteristic polynomial of the path matrix, which the spectrum
  determines and which determines the spectrum.
- rooted: det(M) with M_ij = x_P(i,j) for i ≠ j, an indeterminate for each distance, and M_ii an
  indeterminate for each unordered pair of distances of i to the two ends of the edge. It determines
  the spectra of all matrices that are made of distances alone, of P, of the adjacency and of the
  Laplacian of a regular graph among them, whatever marks the two ends on the diagonal.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from unionsnn.coefficients.engine import Progress
from unionsnn.coefficients.graph import SimpleGraph
from unionsnn.coefficients.kernels.any_radius import one_substructure
from unionsnn.coefficients.kernels.arguments import Csr, Workspace, new_workspace
from unionsnn.coefficients.kernels.jit import kernel
from unionsnn.coefficients.kernels.neighborhoods import UNION
from unionsnn.coefficients.kernels.substructures import Word

IntArray = npt.NDArray[np.int64]
NodeArray = npt.NDArray[np.int32]

PRIME = 2**31 - 1
FINGERPRINTS = ("spectrum", "rooted")

_SPECTRUM, _ROOTED = range(2)
_CHUNK = 256


def fingerprints(
    graph: SimpleGraph, kind: str, radii: Sequence[int], *, progress: Progress | None = None
) -> IntArray:
    """Compute a fingerprint of the union subgraph of every undirected edge.

    Args:
        graph: The graph.
        kind: "spectrum" or "rooted".
        radii: Radii of the union subgraphs.
        progress: Called with (edges done, total), each edge once for each radius.

    Shapes:
        -> [M, R], residues modulo `PRIME`.
    """
    num_edges = graph.num_undirected_edges
    values = np.empty((num_edges, len(radii)), np.int64)
    work = new_workspace(graph.num_nodes, 1)
    for column, radius in enumerate(radii):
        # Distances inside are at most 2 radius + 1; the values do not depend on the radii.
        points = np.random.default_rng(radius).integers(1, PRIME, (2 * radius + 3, 2 * radius + 3))
        for begin in range(0, num_edges, _CHUNK):
            end = min(begin + _CHUNK, num_edges)
            _compute(
                graph.csr,
                begin,
                end,
                radius,
                FINGERPRINTS.index(kind),
                points,
                work,
                values[:, column],
            )
            if progress is not None:
                progress(column * num_edges + end, num_edges * len(radii))
    return values


@kernel
def _compute(
    graph: Csr,
    begin: int,
    end: int,
    radius: int,
    kind: int,
    points: IntArray,
    work: Workspace,
    values: IntArray,
) -> None:
    """Write the fingerprints of the edges begin..end-1.

    Shapes:
        points [>= 2 r + 2, >= 2 r + 2], values [M].
    """
    for i in range(begin, end):
        starts, neighbors, ends = one_substructure(
            graph, graph.edges[0, i], graph.edges[1, i], radius, UNION, work
        )
        matrix = distances(starts, neighbors)
        v, u = ends
        to_v, to_u = matrix[v].copy(), matrix[u].copy()
        size = matrix.shape[0]
        for j in range(size):
            for k in range(size):
                distance = matrix[j, k]
                if kind == _SPECTRUM:
                    matrix[j, k] = PRIME - distance if distance else points[0, 0]
                elif j == k:
                    near, far = min(to_v[j], to_u[j]), max(to_v[j], to_u[j])
                    matrix[j, k] = points[1 + near, far]
                else:
                    matrix[j, k] = points[0, distance]
        values[i] = determinant(matrix)


@kernel
def distances(starts: IntArray, neighbors: NodeArray) -> IntArray:
    """Return the lengths of shortest paths between all nodes of a connected graph.

    Shapes:
        starts [n + 1], neighbors [2 |E|] -> [n, n].
    """
    size = starts.shape[0] - 1
    result = np.full((size, size), -1, np.int64)
    queue = np.empty(size, np.int64)
    for source in range(size):
        row = result[source]
        row[source] = 0
        queue[0] = source
        count, at = 1, 0
        while at < count:
            node = queue[at]
            at += 1
            for k in range(starts[node], starts[node + 1]):
                if row[neighbors[k]] < 0:
                    row[neighbors[k]] = row[node] + 1
                    queue[count] = neighbors[k]
                    count += 1
    return result


@kernel
def determinant(matrix: IntArray) -> Word:
    """Return the determinant modulo `PRIME`, by elimination; the matrix is destroyed.

    Shapes:
        matrix [n, n], residues.
    """
    size = matrix.shape[0]
    result = np.int64(1)
    for k in range(size):
        pivot = k
        while pivot < size and matrix[pivot, k] == 0:
            pivot += 1
        if pivot == size:
            return 0
        if pivot != k:
            for j in range(k, size):
                matrix[k, j], matrix[pivot, j] = matrix[pivot, j], matrix[k, j]
            result = PRIME - result
        result = result * matrix[k, k] % PRIME
        inverse = _inverse(matrix[k, k])
        for i in range(k + 1, size):
            if matrix[i, k] == 0:
                continue
            factor = PRIME - matrix[i, k] * inverse % PRIME
            for j in range(k + 1, size):
                matrix[i, j] = (matrix[i, j] + factor * matrix[k, j]) % PRIME
    return result


@kernel
def _inverse(value: Word) -> Word:
    """Return the inverse modulo `PRIME`: value^(PRIME - 2)."""
    result, power, exponent = np.int64(1), np.int64(value), PRIME - 2
    while exponent:
        if exponent & 1:
            result = result * power % PRIME
        power = power * power % PRIME
        exponent >>= 1
    return result
