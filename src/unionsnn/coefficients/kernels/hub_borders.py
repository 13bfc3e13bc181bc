"""What is around a hub, read from the graph: N[v], the nodes beyond it, and their distances.

Also the sums over entries of those distances that are too irregular for products of matrices. The
mathematics is in `hubs`.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from unionsnn.coefficients.kernels.jit import kernel
from unionsnn.coefficients.kernels.path_matrices import fill_path_quotient
from unionsnn.coefficients.kernels.substructures import (
    FALSE_TWINS,
    TRUE_TWINS,
    WORD,
    first_twins,
    induced_lists,
    popcount,
)

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
NodeArray = npt.NDArray[np.int32]
SmallArray = npt.NDArray[np.int8]

# Number of eigenvectors in which entries of B are added up at once.
_PANEL = 128


@kernel
def neighborhood(
    indptr: IntArray, indices: NodeArray, v: int, position: NodeArray
) -> tuple[NodeArray, IntArray, IntArray, IntArray, FloatArray]:
    """Describe the subgraph induced on N[v], with its twins merged.

    Classes come in the order: single nodes, false twins, true twins; nodes class by class.

    Shapes:
        position [N] (out: place of a node in that order).

    Returns:
        nodes [n], sizes [m], kinds [m], adjacency as bit rows [n, ceil(n / 64)], quotient [m, m].
    """
    count = indptr[v + 1] - indptr[v] + 1
    nodes = np.empty(count, np.int32)
    k = 0
    while k < count - 1 and indices[indptr[v] + k] < v:
        nodes[k] = indices[indptr[v] + k]
        k += 1
    nodes[k] = v
    # Node by node: numba takes seconds to compile assignments of slices.
    for at in range(k + 1, count):
        nodes[at] = indices[indptr[v] + at - 1]
    for k in range(count):
        position[nodes[k]] = k
    starts, neighbors = induced_lists(indptr, indices, nodes, count, position)
    first, kind = first_twins(starts, neighbors)
    members, sizes, place = _order_classes(first, kind)
    classes, words = members.shape[0], (count + WORD - 1) // WORD
    rows = np.zeros((count, words), np.int64)
    for k in range(count):
        for at in range(starts[k], starts[k + 1]):
            j = place[neighbors[at]]
            rows[place[k], j // WORD] |= np.int64(1) << (j % WORD)
    reduced = np.zeros((classes, (classes + WORD - 1) // WORD), np.int64)
    for k in range(classes):
        for j in range(classes):
            p = place[members[j]]
            bit = (rows[place[members[k]], p // WORD] >> (p % WORD)) & 1
            reduced[k, j // WORD] |= bit << (j % WORD)
    quotient = np.empty((classes, classes))
    kinds = np.empty(classes, np.int64)
    for k in range(classes):
        kinds[k] = kind[members[k]]
    fill_path_quotient(reduced, sizes, kinds, classes, quotient)
    ordered = np.empty(count, np.int32)
    for k in range(count):
        ordered[place[k]] = nodes[k]
        position[nodes[k]] = place[k]
    return ordered, sizes, kinds, rows, quotient


@kernel
def _order_classes(first: IntArray, kind: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Order classes of twins: single nodes, false twins, true twins.

    Shapes:
        first [n], kind [n] (of `first_twins`).

    Returns:
        members [m] (first node of each class), sizes [m], and the place of each node [n], with
        classes contiguous.
    """
    count = first.shape[0]
    size = np.zeros(count, np.int64)
    for k in range(count):
        size[first[k]] += 1
    members = np.empty(count, np.int64)
    start = np.empty(count, np.int64)
    classes, filled = 0, 0
    for group in (-1, FALSE_TWINS, TRUE_TWINS):
        for k in range(count):
            belongs = group == -1 if size[k] == 1 else group == kind[k]
            if first[k] == k and belongs:
                members[classes] = k
                start[k] = filled
                classes += 1
                filled += size[k]
    place = np.empty(count, np.int64)
    for k in range(count):
        place[k] = start[first[k]]
        start[first[k]] += 1
    sizes = np.empty(classes, np.int64)
    for k in range(classes):
        sizes[k] = size[members[k]]
    return members[:classes], sizes, place


@kernel
def border(
    indptr: IntArray, indices: NodeArray, u: int, position: NodeArray, rows: IntArray
) -> tuple[SmallArray, FloatArray, IntArray]:
    r"""Compute the distances of the nodes of N[u] \ N[v] to N[v] and to each other.

    Any two of them have the common neighbour u. One of them and a node of N[v] may have a common
    neighbour anywhere in the union subgraph.

    Shapes:
        position [N] (place in N[v] or -1), rows [n, W] -> B [k, n], C [k, k], and the
        neighbours in N[v] as bit rows [k, W].
    """
    count, words = rows.shape
    outside = np.empty(indptr[u + 1] - indptr[u], np.int32)
    k = 0
    for at in range(indptr[u], indptr[u + 1]):
        if position[indices[at]] < 0:
            outside[k] = indices[at]
            k += 1
    for a in range(k):
        position[outside[a]] = count + a
    adjacent = np.zeros((k, words), np.int64)
    C = np.empty((k, k))
    for a in range(k):
        for b in range(k):
            C[a, b] = 2.0 if a != b else 0.0
    for a in range(k):
        x = outside[a]
        for at in range(indptr[x], indptr[x + 1]):
            p = position[indices[at]]
            if p >= count:
                C[a, p - count] = 1.0
            elif p >= 0:
                adjacent[a, p // WORD] |= np.int64(1) << np.int64(p % WORD)
    for a in range(k):
        position[outside[a]] = -1
    B = np.empty((k, count), np.int8)
    near = np.empty(words, np.int64)
    for a in range(k):
        for word in range(words):
            near[word] = adjacent[a, word]
        for b in range(k):
            if C[a, b] == 1.0:
                for word in range(words):
                    near[word] |= adjacent[b, word]
        for word in range(words):
            left = adjacent[a, word]
            while left != 0:
                row = word * WORD + popcount((left & -left) - 1)
                for other in range(words):
                    near[other] |= rows[row, other]
                left &= left - 1
        for i in range(count):
            beyond = ((near[i // WORD] >> (i % WORD)) & 1) + (
                (adjacent[a, i // WORD] >> (i % WORD)) & 1
            )
            B[a, i] = 3 - beyond
    return B, C, adjacent


class Entries(NamedTuple):
    """Rows of B as 3 - 2 h + Σ_c (M_c + 2 e_c) / √s_c over h neighbours, in classes c, + Σ_e x_e.

    Shapes:
        starts [k + 1] (the last -1 if there are too many), classes and values [>= starts[-1]];
        ends [k + 1], neighbors [ends[-1]] (classes of the neighbours).
    """

    starts: IntArray
    classes: NodeArray
    values: FloatArray
    ends: IntArray
    neighbors: NodeArray


@kernel
def few_entries(
    B: SmallArray,
    adjacent: IntArray,
    rows: IntArray,
    class_of: IntArray,
    first_of: IntArray,
    roots: FloatArray,
    capacity: int,
) -> Entries:
    """Find what B has beyond 3 minus the rows of neighbours; give up beyond the capacity.

    Shapes:
        B [k, n], adjacent [k, W] and rows [n, W] (bit rows), class_of [n], first_of [m] (first
        node of each class), roots [m] (of their sizes).
    """
    k, count = B.shape
    words, m = rows.shape[1], roots.shape[0]
    starts, ends = np.zeros(k + 1, np.int64), np.zeros(k + 1, np.int64)
    classes, values = np.empty(capacity, np.int32), np.empty(capacity)
    for a in range(k):
        ends[a + 1] = ends[a]
        for word in range(words):
            ends[a + 1] += popcount(adjacent[a, word])
    neighbors = np.empty(ends[k], np.int32)
    seen = np.empty(words * WORD, np.int32)
    filled = 0
    for a in range(k):
        for i in range(count):
            seen[i] = B[a, i] - 3
        at = ends[a]
        for word in range(words):
            left = adjacent[a, word]
            while left != 0:
                h = word * WORD + popcount((left & -left) - 1)
                left &= left - 1
                neighbors[at] = class_of[h]
                at += 1
                for other in range(words):
                    row = rows[h, other]
                    while row != 0:
                        seen[other * WORD + popcount((row & -row) - 1)] += 1
                        row &= row - 1
        for c in range(m):
            total = np.int64(0)
            last = first_of[c + 1] if c + 1 < m else count
            for i in range(first_of[c], last):
                total += seen[i]
            if total != 0:
                if filled == capacity:
                    starts[k] = -1
                    return Entries(starts, classes, values, ends, neighbors)
                classes[filled], values[filled] = c, total / roots[c]
                filled += 1
        starts[a + 1] = filled
    return Entries(starts, classes, values, ends, neighbors)


@kernel
def combine(
    few: Entries,
    vectors: FloatArray,
    eigenvalues: FloatArray,
    of_ones: FloatArray,
    class_roots: FloatArray,
    roots: FloatArray,
    W: FloatArray,
) -> None:
    """Write the rows of B, each times a root, in the eigenbasis of M.

    Shapes:
        vectors [m, m] (of a class in each row), eigenvalues [m], of_ones [m] (√s in that basis),
        class_roots [m] (√s), roots [k], W [k, m] (out).
    """
    k, m = W.shape
    at_neighbors = np.empty(_PANEL)
    for first in range(0, m, _PANEL):
        width = min(_PANEL, m - first)
        for a in range(k):
            row = W[a, first : first + width]
            of_neighbors = few.ends[a + 1] - few.ends[a]
            for j in range(width):
                at_neighbors[j] = 0.0
            for at in range(few.ends[a], few.ends[a + 1]):
                c = few.neighbors[at]
                vector, factor = vectors[c, first : first + width], 1.0 / class_roots[c]
                for j in range(width):
                    at_neighbors[j] += factor * vector[j]
            for j in range(width):
                row[j] = (3.0 - 2.0 * of_neighbors) * of_ones[first + j]
                row[j] += at_neighbors[j] * (eigenvalues[first + j] + 2.0)
            for at in range(few.starts[a], few.starts[a + 1]):
                vector, factor = vectors[few.classes[at], first : first + width], few.values[at]
                for j in range(width):
                    row[j] += factor * vector[j]
            for j in range(width):
                row[j] *= roots[a]


@kernel
def transpose(matrix: FloatArray) -> None:
    """Transpose a square matrix in place."""
    n = matrix.shape[0]
    for i in range(0, n, 32):
        for j in range(0, i + 1, 32):
            for a in range(i, min(i + 32, n)):
                for b in range(j, min(j + 32, a)):
                    matrix[a, b], matrix[b, a] = matrix[b, a], matrix[a, b]


@kernel
def schur_complements(
    C: FloatArray, sums: FloatArray, starts: IntArray, nodes: FloatArray, first: int, last: int
) -> Any:
    """Return S(iy) = iy - C - B (iy - M)⁻¹ Bᵀ at the nodes first..last-1.

    Shapes:
        C [k, k], sums [2 J, L] and starts [k] (of `Hub._sums`), nodes [J] -> [last - first, k, k].
    """
    count, k = nodes.shape[0], C.shape[0]
    result = np.empty((last - first, k, k), np.complex128)
    for j in range(first, last):
        for a in range(k):
            for b in range(a + 1):
                pair = starts[a] + b
                entry = complex(sums[j, pair] - C[a, b], sums[count + j, pair])
                result[j - first, a, b] = entry
                result[j - first, b, a] = entry
            result[j - first, a, a] += complex(0.0, nodes[j])
    return result
