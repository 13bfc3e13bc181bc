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

import itertools
import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from unionsnn.coefficients.kernels.hub_borders import (
    border,
    combine,
    few_entries,
    neighborhood,
    schur_complements,
    transpose,
)
from unionsnn.coefficients.kernels.lapack import eigh_in_place
from unionsnn.coefficients.kernels.routes import sparse_limit
from unionsnn.coefficients.kernels.substructures import FALSE_TWINS, TRUE_TWINS

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
NodeArray = npt.NDArray[np.int32]
SmallArray = npt.NDArray[np.int8]

# Range of the rule, in multiples of the scale of P; its steps widen like sinh towards both ends,
# where a log matters less.
_LOWEST, _HIGHEST = 1e-11, 1000.0
_STEP, _SPREAD, _CENTER = 0.08, 5.0, -3.0

MOST_SUMS = 25 << 20
"""Entries of the sums over eigenvalues at once; 200 megabytes."""

# Number of entries of products of rows at once; 32 megabytes.
_SUM_BLOCK = 1 << 22

# Number of eigenvalues in a part, ratio of the largest to the smallest from which it is cut, and
# what is left out of their responses, relative to the largest response of an eigenvalue.
_SMALL_PART = 192
_RATIO = 1.4
_NEGLIGIBLE = 1e-12


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


class _Part(NamedTuple):
    """Eigenvalues begin..end-1 and their responses, factored: response = basis @ weights.

    Shapes:
        basis [p, end - begin], weights [p, 2 J].
    """

    begin: int
    end: int
    basis: FloatArray
    weights: FloatArray


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
        nodes, sizes, kinds, self._rows, quotient = neighborhood(indptr, indices, v, position)
        self._nodes = nodes
        # Columns of B are ordered class by class, with each kind of twins contiguous.
        self._starts = np.cumsum(sizes) - sizes
        self._class_of = np.repeat(np.arange(len(sizes)), sizes)
        self._roots = np.sqrt(sizes)
        false = int(((sizes > 1) & (kinds == FALSE_TWINS)).sum())
        true = int(((sizes > 1) & (kinds == TRUE_TWINS)).sum())
        m = len(sizes)
        self._twins = ((m - true - false, m - true), (m - true, m))
        # Symmetric: its rows are its columns. Eigenvectors take their place.
        self._eigenvalues = eigh_in_place(quotient.T)
        # Rows of the same class are read together: row k is now class k.
        transpose(quotient)
        self._vectors = quotient
        self._of_ones = self._roots @ self._vectors
        self._norm = 2.0 * float(np.maximum(self._eigenvalues, 0.0).sum())
        self._rule = absolute_value_rule(2.0 * len(nodes))
        self._bounds = _part_bounds(self._eigenvalues)
        self._parts: dict[tuple[int, int], list[_Part]] = {}

    def close(self) -> None:
        """Restore the work space."""
        self._position[self._nodes] = -1

    def coefficient(self, u: int) -> float:
        """Return the sum of the singular values of the path matrix of the edge (v, u)."""
        B, C, adjacent = border(self._indptr, self._indices, u, self._position, self._rows)
        if len(B) == 0:
            return self._norm
        order, sizes, C, of_twins = _merge_border(B, C)
        B, adjacent, roots = B[order], adjacent[order], np.sqrt(sizes)
        k, nodes = len(B), self._rule.nodes
        W = self._in_eigenbasis(B, adjacent, roots)
        inside = self._inside_classes(B, roots)
        logarithms = np.empty(len(nodes))
        step = max(1, MOST_SUMS // (k * (k + 1)))
        for begin in range(0, len(nodes), step):
            end = min(begin + step, len(nodes))
            sums, starts = self._sums(W, inside, begin, end)
            few = max(1, MOST_SUMS // (8 * k * k))
            for first in range(begin, end, few):
                last = min(first + few, end)
                schur = schur_complements(
                    C, sums, starts, nodes[begin:end], first - begin, last - begin
                )
                logarithms[first:last] = np.linalg.slogdet(schur)[1]
        of_rows = (B * B).sum(axis=1, dtype=np.int64)
        squares = 2.0 * float((of_rows * sizes).sum()) + float((C * C).sum())
        change = self._rule.constant * k + self._rule.square * squares
        change += 2.0 * float((self._rule.weights * logarithms).sum())
        return self._norm + of_twins + change

    def _in_eigenbasis(self, B: SmallArray, adjacent: IntArray, roots: FloatArray) -> FloatArray:
        """Return the rows of B, twins folded, in the basis of the eigenvectors.

        A row of B is 3 minus the rows of the neighbours in N[v], but for few entries. The matrix
        M = 2 (J - I) - A knows the latter rows in its eigenbasis.

        Shapes:
            B [k, n], adjacent [k, W], roots [k] -> [k, m].
        """
        k, m = len(B), len(self._starts)
        capacity = int(sparse_limit(float(m), float(k)))
        few = few_entries(
            B, adjacent, self._rows, self._class_of, self._starts, self._roots, capacity
        )
        if few.starts[-1] < 0:
            folded = B.astype(np.float64)
            if B.shape[1] > m:
                folded = np.add.reduceat(folded, self._starts, axis=1) / self._roots
            folded *= roots[:, None]
            return folded @ self._vectors
        W = np.empty((k, m))
        combine(few, self._vectors, self._eigenvalues, self._of_ones, self._roots, roots, W)
        return W

    def _inside_classes(
        self, B: SmallArray, roots: FloatArray
    ) -> list[tuple[FloatArray, FloatArray]]:
        """Return the entries of B in classes of twins, of each kind, and the same folded.

        Shapes:
            B [k, n], roots [k] -> each [k, number of nodes] and [k, number of classes].
        """
        pairs = []
        for first, last in self._twins:
            begin = self._starts[first] if first < last else 0
            end = self._starts[last] if last < len(self._starts) else B.shape[1]
            members = B[:, begin : end if first < last else 0] * roots[:, None]
            classes = np.empty((len(B), 0))
            if first < last:
                classes = np.add.reduceat(members, self._starts[first:last] - begin, axis=1)
                classes /= self._roots[first:last]
            pairs.append((members, classes))
        return pairs

    def _sums(
        self,
        W: FloatArray,
        inside: list[tuple[FloatArray, FloatArray]],
        begin: int,
        end: int,
    ) -> tuple[FloatArray, IntArray]:
        """Compute the real and imaginary parts of -B (iy - M)⁻¹ Bᵀ at the nodes begin..end-1.

        Row a begins at starts[a] and has at least the entries up to the diagonal.

        Shapes:
            W [k, m] -> [2 (end - begin), L], starts [k].
        """
        if (begin, end) not in self._parts:
            nodes = self._rule.nodes[begin:end]
            self._parts[begin, end] = [
                _Part(low, high, *_factored(_response(self._eigenvalues[low:high], nodes)))
                for low, high in itertools.pairwise(self._bounds)
            ]
        parts = self._parts[begin, end]
        of_twins = _response(np.array([-2.0, -1.0]), self._rule.nodes[begin:end])
        weights = np.concatenate([*(part.weights for part in parts), of_twins]).T.copy()
        k, starts = len(W), np.empty(len(W), np.int64)
        height = max(1, min(max(16, k // 4), _SUM_BLOCK // (k * weights.shape[1])))
        length = sum((min(a + height, k) - a) * min(a + height, k) for a in range(0, k, height))
        sums, filled = np.empty((len(weights), length)), 0
        for first in range(0, k, height):
            last = min(first + height, k)
            rows = last - first
            starts[first:last] = filled + last * np.arange(rows)
            products = np.empty((weights.shape[1], rows * last))
            at = 0
            for part in parts:
                rank, some = len(part.basis), W[:, part.begin : part.end]
                left = some[first:last] * part.basis[:, None, :]
                into = products[at : at + rank].reshape(rank * rows, last)
                np.matmul(left.reshape(rank * rows, -1), some[:last].T, out=into)
                at += rank
            for members, classes in inside:
                within = members[first:last] @ members[:last].T
                within -= classes[first:last] @ classes[:last].T
                products[at] = within.ravel()
                at += 1
            # A part of the columns, hence not in place.
            sums[:, filled : filled + rows * last] = weights @ products
            filled += rows * last
        return sums, starts


def _merge_border(B: SmallArray, C: FloatArray) -> tuple[IntArray, FloatArray, FloatArray, float]:
    """Merge nodes outside the hub's neighbourhood that have the same distances to all others.

    As twins in `path_matrices`: s nodes at mutual distance δ give the eigenvalue -δ s - 1 times.

    Shapes:
        B [k, n], C [k, k] -> the row of each class [q], sizes [q], C [q, q], and the sum of the
        absolute values of the eigenvalues of twins.
    """
    small_C = C.astype(np.int8)
    chosen: list[int] = []
    sizes: list[int] = []
    within: list[float] = []
    left = list(range(len(B)))
    for distance in (2, 1):
        np.fill_diagonal(small_C, distance)
        classes: dict[bytes, list[int]] = {}
        for a in left:
            classes.setdefault(B[a].tobytes() + small_C[a].tobytes(), []).append(a)
        left = [members[0] for members in classes.values() if len(members) == 1]
        merged = [members for members in classes.values() if len(members) > 1]
        chosen += [members[0] for members in merged]
        sizes += [len(members) for members in merged]
        within += [float(distance)] * len(merged)
    order = np.array([*chosen, *left])
    size = np.array([*sizes, *([1] * len(left))], np.float64)
    if not chosen:
        return order, size, C, 0.0
    inside = np.array([*within, *([0.0] * len(left))]) * (size - 1.0)
    roots = np.sqrt(size)
    merged_C = C[np.ix_(order, order)] * np.outer(roots, roots)
    np.fill_diagonal(merged_C, inside)
    return order, size, merged_C, float(inside.sum())


def _part_bounds(eigenvalues: FloatArray) -> list[int]:
    """Cut ascending eigenvalues where their responses stop being alike.

    On a part that is short compared to its distance from 0 the responses span few dimensions, but
    each part costs something for each pair.
    """
    bounds = [0]
    for at in range(_SMALL_PART, len(eigenvalues) - _SMALL_PART):
        first, here = eigenvalues[bounds[-1]], eigenvalues[at]
        if at - bounds[-1] >= _SMALL_PART:
            near, far = sorted((abs(first), abs(here)))
            if first * here < 0.0 or far > _RATIO * near:
                bounds.append(at)
    return [*bounds, len(eigenvalues)]


def _factored(response: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Factor the responses of some eigenvalues: response ≈ basis.T @ weights.

    Shapes:
        response [m, 2 J] -> basis [p, m], weights [p, 2 J].
    """
    # An eigenvalue near 0 must not blur the others.
    largest = np.abs(response).max(axis=1, keepdims=True)
    left, scale, right = np.linalg.svd(response / largest, full_matrices=False)
    rank = int((scale > _NEGLIGIBLE).sum())
    basis = largest * left[:, :rank] * scale[:rank]
    return np.ascontiguousarray(basis.T), right[:rank]


def _response(eigenvalues: FloatArray, nodes: FloatArray) -> FloatArray:
    """Return the real and the negative imaginary part of -1 / (iy - μ).

    Shapes:
        eigenvalues [m], nodes [J] -> [m, 2 J].
    """
    mu, y = eigenvalues[:, None], nodes[None, :]
    squares = mu * mu + y * y
    return np.concatenate([mu / squares, y / squares], axis=1)
