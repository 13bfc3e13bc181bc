r"""Coefficients around a hub: one eigendecomposition per hub, a few rows per edge.

Inside N[v] any two nodes have distance 1 or 2, for v joins them. The path matrix P of the union
subgraph S of an edge (v, u) therefore holds the same block M_v for every u, bordered by the rows
of the k nodes of N[u] \ N[v]:

    P = | M   Bᵀ |      Σ|λ(P)| - Σ|λ(M)| from   det(iy - P) / det(iy - M) = det S(iy),
        | B   C  |      S(iy) = iy - C - B (iy - M)⁻¹ Bᵀ   [k, k].

Coulson's integral |x| = 1/π ∫ log(1 + x²/y²) dy over y > 0, by the trapezoid rule after y = eᵗ, in
which all singularities lie on |Im t| = π/2 however small x is, gives |x| as a fixed sum of
logarithms (`absolute_value_rule`), hence the change of the nuclear norm as a sum of log|det S|.
The eigenvectors of M diagonalise (iy - M)⁻¹; twins in N[v] are merged before, and so are nodes of
N[u] \ N[v] with the same distances. The functions -1 / (iy - μ) at all y span a space of about 50
dimensions to machine precision, in which the sums over the eigenvalues μ are computed.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from unionsnn.coefficients.kernels.jit import kernel
from unionsnn.coefficients.kernels.lapack import eigh
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

# Range of the rule, in multiples of the scale of P; its steps widen like sinh towards both ends,
# where a log matters less.
_LOWEST, _HIGHEST = 1e-11, 1000.0
_STEP, _SPREAD, _CENTER = 0.08, 5.0, -3.0

# Number of entries of a block of pairwise products multiplied at once; about a megabyte.
_PAIR_BLOCK = 1 << 17

# Number of entries of a block of Schur complements; about 16 megabytes.
_SCHUR_BLOCK = 1 << 20

# Order from which it pays to find the space that the responses span, and what is left out of it,
# relative to the largest response of an eigenvalue.
_MANY_EIGENVALUES = 160
_NEGLIGIBLE = 1e-13


class Rule(NamedTuple):
    """|x| ≈ constant + square x² + Σ_j weights_j log(x² + nodes_j²), for |x| up to the scale.

    Shapes:
        nodes [J], weights [J].
    """

    nodes: FloatArray
    weights: FloatArray
    constant: float
    square: float


def absolute_value_rule(scale: float) -> Rule:
    """Approximate the absolute value by logarithms to about 1e-10 of the scale.

    Trapezoid rule for 1/π ∫ log(1 + x²/y²) dy with y = scale exp(5 sinh(s) - 3). Above the highest
    node log(1 + x²/y²) is x²/y²; below the lowest it is left out. The constant makes the rule
    exact on average where most eigenvalues are.
    """
    first = math.asinh((math.log(_LOWEST) - _CENTER) / _SPREAD)
    last = math.asinh((math.log(_HIGHEST) - _CENTER) / _SPREAD)
    begin, end = math.ceil(first / _STEP), math.floor(last / _STEP) + 1
    s = _STEP * np.arange(begin, end + 20)
    nodes = np.exp(_SPREAD * np.sinh(s) + _CENTER)
    weights = _STEP / np.pi * nodes * _SPREAD * np.cosh(s)
    tail = end - begin
    square = float((weights[tail:] / nodes[tail:] ** 2).sum())
    nodes, weights = nodes[:tail], weights[:tail]
    x = np.logspace(-4.0, -1.0, 64)
    logarithms = np.log(x[:, None] ** 2 + nodes**2) @ weights
    constant = float(np.mean(x - square * x * x - logarithms))
    constant -= 2.0 * math.log(scale) * float(weights.sum())
    return Rule(scale * nodes, scale * weights, scale * constant, square / scale)


class Hub:
    """Decomposition of the part of the path matrix that all edges of a node share.

    Args:
        indptr: Row starts of the simple graph.
        indices: Neighbours.
        v: The hub.
        position: Work space filled with -1; in use until `close`.

    Shapes:
        indptr [N + 1], indices [2 M], position [N].
    """

    def __init__(self, indptr: IntArray, indices: NodeArray, v: int, position: NodeArray) -> None:
        self._indptr, self._indices = indptr, indices
        self._position = position
        nodes, sizes, kinds, self._rows, quotient = _neighborhood(indptr, indices, v, position)
        self._nodes = nodes
        # Columns of B are ordered class by class, with each kind of twins contiguous.
        self._starts = np.cumsum(sizes) - sizes
        self._roots = np.sqrt(sizes)
        false = int(((sizes > 1) & (kinds == FALSE_TWINS)).sum())
        true = int(((sizes > 1) & (kinds == TRUE_TWINS)).sum())
        m = len(sizes)
        self._twins = ((m - true - false, m - true), (m - true, m))
        # In place, with one matrix more at the peak; numpy takes four more.
        # In place, with one matrix more at the peak; numpy takes four more.
        eigenvalues, self._vectors = eigh(quotient.T)
        self._norm = 2.0 * float(np.maximum(eigenvalues, 0.0).sum())
        self._rule = absolute_value_rule(2.0 * len(nodes))
        self._basis, weights = _spanned(_response(eigenvalues, self._rule.nodes))
        of_twins = _response(np.array([-2.0, -1.0]), self._rule.nodes)
        self._weights = np.concatenate([weights, of_twins])

    def close(self) -> None:
        """Restore the work space."""
        self._position[self._nodes] = -1

    def coefficient(self, u: int) -> float:
        """Return the sum of the singular values of the path matrix of the edge (v, u)."""
        B, C = _border(self._indptr, self._indices, u, self._position, self._rows)
        if len(B) == 0:
            return self._norm
        B, C, of_twins = _merge_border(B, C)
        k = len(B)
        folded = B
        if len(self._nodes) > len(self._starts):
            folded = np.add.reduceat(B, self._starts, axis=1) / self._roots
        sums = np.empty((k * (k + 1) // 2, len(self._weights)))
        _fill_pair_sums(folded @ self._vectors, self._basis, sums[:, :-2])
        self._fill_twin_sums(B, folded, sums[:, -2:])
        logarithms = np.empty(len(self._rule.nodes))
        step = max(1, _SCHUR_BLOCK // (k * k))
        for begin in range(0, len(logarithms), step):
            nodes = self._rule.nodes[begin : begin + step]
            real = sums @ self._weights[:, begin : begin + len(nodes)]
            middle = len(logarithms) + begin
            imaginary = sums @ self._weights[:, middle : middle + len(nodes)]
            schur = _schur_complements(C, real, imaginary, nodes)
            logarithms[begin : begin + len(nodes)] = np.linalg.slogdet(schur)[1]
        squares = 2.0 * float((B * B).sum()) + float((C * C).sum())
        change = self._rule.constant * k + self._rule.square * squares
        change += 2.0 * float((self._rule.weights * logarithms).sum())
        return self._norm + of_twins + change

    def _fill_twin_sums(self, B: FloatArray, folded: FloatArray, sums: FloatArray) -> None:
        """Write the part of the eigenvalues -2 and -1 inside classes: B_c (I - 11ᵀ/s) B_cᵀ.

        Shapes:
            B [k, n], folded [k, m], sums [k (k + 1) / 2, 2] (out).
        """
        lower = np.tril_indices(len(B))
        for column, (first, last) in enumerate(self._twins):
            begin = self._starts[first] if first < last else 0
            end = self._starts[last] if last < len(self._starts) else B.shape[1]
            members = B[:, begin : end if first < last else 0]
            classes = folded[:, first:last]
            sums[:, column] = (members @ members.T - classes @ classes.T)[lower]


def _merge_border(B: FloatArray, C: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """Merge nodes outside the hub's neighbourhood that have the same distances to all others.

    As twins in `path_matrices`: s nodes at mutual distance δ give the eigenvalue -δ s - 1 times.

    Shapes:
        B [k, n], C [k, k] -> B [q, n], C [q, q], and the sum of the eigenvalues' absolute values.
    """
    small_B, small_C = B.astype(np.int8), C.astype(np.int8)
    chosen: list[int] = []
    sizes: list[int] = []
    within: list[float] = []
    left = list(range(len(B)))
    for distance in (2, 1):
        np.fill_diagonal(small_C, distance)
        classes: dict[bytes, list[int]] = {}
        for a in left:
            classes.setdefault(small_B[a].tobytes() + small_C[a].tobytes(), []).append(a)
        left = [members[0] for members in classes.values() if len(members) == 1]
        merged = [members for members in classes.values() if len(members) > 1]
        chosen += [members[0] for members in merged]
        sizes += [len(members) for members in merged]
        within += [float(distance)] * len(merged)
    if not chosen:
        return B, C, 0.0
    order = np.array([*chosen, *left])
    size = np.array([*sizes, *([1] * len(left))], np.float64)
    inside = np.array([*within, *([0.0] * len(left))]) * (size - 1.0)
    roots = np.sqrt(size)
    merged_C = C[np.ix_(order, order)] * np.outer(roots, roots)
    np.fill_diagonal(merged_C, inside)
    return B[order] * roots[:, None], merged_C, float(inside.sum())


def _spanned(response: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Factor the responses of many eigenvalues: response ≈ basis @ weights.

    Shapes:
        response [m, 2 J] -> basis [m, r], weights [r, 2 J].
    """
    if len(response) < _MANY_EIGENVALUES:
        return response, np.eye(response.shape[1])
    # An eigenvalue near 0 must not blur the others.
    largest = np.abs(response).max(axis=1, keepdims=True)
    left, scale, right = np.linalg.svd(response / largest, full_matrices=False)
    rank = int((scale > _NEGLIGIBLE).sum())
    return largest * left[:, :rank] * scale[:rank], right[:rank]


def _response(eigenvalues: FloatArray, nodes: FloatArray) -> FloatArray:
    """Return the real and the negative imaginary part of -1 / (iy - μ).

    Shapes:
        eigenvalues [m], nodes [J] -> [m, 2 J].
    """
    mu, y = eigenvalues[:, None], nodes[None, :]
    squares = mu * mu + y * y
    return np.concatenate([mu / squares, y / squares], axis=1)


def _fill_pair_sums(W: FloatArray, basis: FloatArray, sums: FloatArray) -> None:
    """Write Σ_i W_ai W_bi basis_i for all b <= a, in the order of the lower triangle.

    Shapes:
        W [k, m], basis [m, r], sums [k (k + 1) / 2, r] (out).
    """
    m, pairs = W.shape[1], len(sums)
    step = max(1, _PAIR_BLOCK // m)
    products = np.empty((min(step, pairs), m))
    for begin in range(0, pairs, step):
        end = min(begin + step, pairs)
        _fill_products(W, begin, end, products)
        np.matmul(products[: end - begin], basis, out=sums[begin:end])


@kernel
def _fill_products(W: FloatArray, begin: int, end: int, products: FloatArray) -> None:
    a = 0
    while (a + 1) * (a + 2) // 2 <= begin:
        a += 1
    b = begin - a * (a + 1) // 2
    for row in range(end - begin):
        for i in range(W.shape[1]):
            products[row, i] = W[a, i] * W[b, i]
        b += 1
        if b > a:
            a += 1
            b = 0


@kernel
def _schur_complements(
    C: FloatArray, real: FloatArray, imaginary: FloatArray, nodes: FloatArray
) -> Any:
    """Return S(iy) = iy - C - B (iy - M)⁻¹ Bᵀ at some nodes.

    Shapes:
        C [k, k], real and imaginary [k (k + 1) / 2, J], nodes [J] -> [J, k, k].
    """
    count, k = nodes.shape[0], C.shape[0]
    result = np.empty((count, k, k), np.complex128)
    for j in range(count):
        pair = 0
        for a in range(k):
            for b in range(a + 1):
                entry = complex(real[pair, j] - C[a, b], imaginary[pair, j])
                result[j, a, b] = entry
                result[j, b, a] = entry
                pair += 1
            result[j, a, a] += complex(0.0, nodes[j])
    return result


@kernel
def _neighborhood(
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
def _border(
    indptr: IntArray, indices: NodeArray, u: int, position: NodeArray, rows: IntArray
) -> tuple[FloatArray, FloatArray]:
    r"""Compute the distances of the nodes of N[u] \ N[v] to N[v] and to each other.

    Any two of them have the common neighbour u. One of them and a node of N[v] may have a common
    neighbour anywhere in the union subgraph.

    Shapes:
        position [N] (place in N[v] or -1), rows [n, W] -> B [k, n], C [k, k].
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
    B = np.empty((k, count))
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
            B[a, i] = 3.0 - beyond
    return B, C
