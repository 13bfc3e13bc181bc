r"""Path matrix and Laplacian of a connected subgraph at any radius, with one row per twin class.

As in `path_matrices`, where the radius is 1: with A the adjacency between classes, s_k the size of
a class, P the shortest-path lengths between classes and δ_k = 1 (true twins) or 2 (false twins),

    path:       Q_kk = δ_k (s_k - 1),     Q_kl = P_kl √(s_k s_l);   P has also -δ_k, s_k - 1 times
    Laplacian:  Q_kk = Σ_{l≠k} A_kl s_l,  Q_kl = -A_kl √(s_k s_l);  L has also, s_k - 1 times, the
                degree of class k (false twins) or the degree plus 1 (true twins)

L = D - A is positive semidefinite, so the sum of its singular values is its trace, 2 |E_S|: no
matrix is needed for that. The sum of the entries of P is twice the Wiener index, an integer.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from unionsnn.coefficients.kernels.arguments import Memory, Numbers, Quotient, Subgraph
from unionsnn.coefficients.kernels.jit import inlined, kernel, variant
from unionsnn.coefficients.kernels.spectra import OWN_SOLVER_LIMIT, diagonalize, tridiagonalize
from unionsnn.coefficients.kernels.substructures import TRUE_TWINS, WORD, mix, popcount

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_ROUNDS = 3


@inlined
def path_singular_value_sum(quotient: Quotient, numbers: Numbers, memory: Memory) -> float:
    """Return the sum of singular values of P, or NaN if the eigenvalue iteration did not converge.

    The trace of P is 0: the negative eigenvalues weigh as much as the positive ones.
    """
    total = 0.0
    for eigenvalue in _path_eigenvalues(quotient, memory.matrix):
        if np.isnan(eigenvalue):
            return np.nan
        total += max(eigenvalue, 0.0)
    return 2.0 * total


@kernel
def path_largest_eigenvalue(quotient: Quotient, numbers: Numbers, memory: Memory) -> float:
    """Largest eigenvalue of P, or NaN.

    The eigenvalues of twins are negative.
    """
    return _largest(_path_eigenvalues(quotient, memory.matrix), 0.0)


@kernel
def path_entry_sum(quotient: Quotient, numbers: Numbers, memory: Memory) -> float:
    """Sum of the entries of P."""
    lengths = path_lengths(quotient, memory.matrix)
    sizes, total = quotient.sizes, 0.0
    for k in range(quotient.classes):
        within = 1.0 if quotient.kinds[k] == TRUE_TWINS else 2.0
        total += within * sizes[k] * (sizes[k] - 1)
        for j in range(k):
            total += 2.0 * lengths[k, j] * sizes[k] * sizes[j]
    return total


@kernel
def laplacian_largest_eigenvalue(quotient: Quotient, numbers: Numbers, memory: Memory) -> float:
    """Largest eigenvalue of L, or NaN."""
    matrix = large_enough(memory.matrix, quotient.classes)
    of_twins = _fill_laplacian_quotient(quotient, matrix)
    return _largest(eigenvalues_of(matrix, quotient.classes), of_twins)


@kernel
def laplacian_singular_value_sum(subgraph: Subgraph, numbers: Numbers, memory: Memory) -> float:
    """Return the sum of the singular values of L: its trace, 2 |E_S|."""
    return float(subgraph.ends)


@kernel
def large_enough(matrix: FloatArray, classes: int) -> FloatArray:
    """Return the matrix if the own solver takes that many classes, else a new one."""
    if classes > OWN_SOLVER_LIMIT:
        return np.empty((classes, classes), np.float64)
    return matrix


@kernel
def _largest(eigenvalues: FloatArray, other: float) -> float:
    largest = other
    for eigenvalue in eigenvalues:
        if np.isnan(eigenvalue):
            return np.nan
        largest = max(largest, eigenvalue)
    return largest


@inlined
def _path_eigenvalues(quotient: Quotient, matrix: FloatArray) -> FloatArray:
    """Return the eigenvalues of the quotient path matrix, NaN on failure."""
    matrix = path_lengths(quotient, matrix)
    for k in range(quotient.classes):
        within = 1.0 if quotient.kinds[k] == TRUE_TWINS else 2.0
        matrix[k, k] = within * (quotient.sizes[k] - 1)
        for j in range(k):
            pairs = quotient.sizes[k] * quotient.sizes[j]
            if pairs != 1:
                matrix[k, j] *= math.sqrt(pairs)
    return eigenvalues_of(matrix, quotient.classes)


@kernel
def eigenvalues_of(matrix: FloatArray, order: int) -> FloatArray:
    """Return the eigenvalues of a symmetric matrix from its lower triangle; NaN on failure.

    Up to the limit of our solver they are in the second-last row of the matrix.
    """
    if order > OWN_SOLVER_LIMIT:
        # LAPACK's wrapper also reads the unused triangle.
        for k in range(order):
            for j in range(k):
                matrix[j, k] = matrix[k, j]
        large: Any = np.linalg.eigvalsh(matrix)
        return large
    return _eigenvalues_of_few(matrix, order)


@inlined
def _eigenvalues_of_few(matrix: FloatArray, order: int) -> FloatArray:
    """Return the eigenvalues of a symmetric matrix within the limit of our solver."""
    diagonal, squared = matrix[-2], matrix[-1]
    if order == 1:
        diagonal[0] = matrix[0, 0]
        return diagonal[:1]
    tridiagonalize(matrix, order, diagonal, squared)
    if not diagonalize(diagonal, squared, order):
        diagonal[:order] = np.nan
    return diagonal[:order]


@cache
def path_singular_value_sum_of_few() -> Callable[..., Any]:
    """Return `path_singular_value_sum` for at most as many classes as our solver takes.

    It is compiled without LAPACK's interface, which takes a second.
    """
    eigenvalues = variant(_path_eigenvalues, "of_few", eigenvalues_of=_eigenvalues_of_few)
    return variant(path_singular_value_sum, "of_few", _path_eigenvalues=eigenvalues)


@kernel
def path_lengths(quotient: Quotient, matrix: FloatArray) -> FloatArray:
    """Write shortest-path lengths between classes below the diagonal.

    Breadth-first search from all classes in lockstep: k reaches in d steps what its neighbours
    reach in d - 1.

    Shapes:
        matrix [>= L + 2, >= L] (work space), L the limit of our solver.

    Returns:
        The matrix written to, which is a new one beyond the limit.
    """
    rows, classes = quotient.rows, quotient.classes
    matrix = large_enough(matrix, classes)
    words = rows.shape[1]
    before = np.empty((classes, words), np.int64)
    after = np.empty((classes, words), np.int64)
    for k in range(classes):
        for word in range(words):
            before[k, word] = 0
            after[k, word] = rows[k, word]
        before[k, k // WORD] = np.int64(1) << (k % WORD)
        after[k, k // WORD] |= before[k, k // WORD]
    distance = 1.0
    grown = True
    while grown:
        grown = False
        for k in range(classes):
            for word in range(k // WORD + 1):
                fresh = after[k, word] & ~before[k, word]
                while fresh != 0:
                    j = word * WORD + popcount((fresh & -fresh) - 1)
                    fresh &= fresh - 1
                    if j < k:
                        matrix[k, j] = distance
                        grown = True
        if not grown:
            break
        before, after = after, before
        for k in range(classes):
            for word in range(words):
                after[k, word] = before[k, word]
            for word in range(words):
                row = rows[k, word]
                while row != 0:
                    j = word * WORD + popcount((row & -row) - 1)
                    row &= row - 1
                    for other in range(words):
                        after[k, other] |= before[j, other]
        distance += 1.0
    return matrix


@kernel
def _fill_laplacian_quotient(quotient: Quotient, matrix: FloatArray) -> float:
    """Write the quotient of L; return the largest eigenvalue due to twins, or 0."""
    rows, sizes, of_twins = quotient.rows, quotient.sizes, 0.0
    for k in range(quotient.classes):
        outside = np.int64(0)
        for j in range(quotient.classes):
            adjacent = (rows[k, j // WORD] >> (j % WORD)) & 1 != 0
            outside += sizes[j] if adjacent else 0
            if j < k:
                matrix[k, j] = -math.sqrt(sizes[k] * sizes[j]) if adjacent else 0.0
        matrix[k, k] = outside
        if sizes[k] > 1:
            # A true twin is also adjacent to the s - 1 others, and its eigenvalue is one larger.
            of_class = outside + (sizes[k] if quotient.kinds[k] == TRUE_TWINS else 0)
            of_twins = max(of_twins, float(of_class))
    return of_twins


@kernel
def refine_colors(
    rows: IntArray, sizes: IntArray, kinds: IntArray, classes: int, colors: IntArray
) -> int:
    """Colour classes by their own and their neighbours' structure, to make equal keys likely.

    A few rounds of colour refinement; ties may cost a hit, never correctness.

    Shapes:
        rows [>= m] (single words), sizes [>= m], kinds [>= m], colors [2, >= m].

    Returns:
        The row of ``colors`` that holds them.
    """
    now = 0
    for k in range(classes):
        colors[now, k] = mix((popcount(rows[k]) << 8) | (sizes[k] << 1) | kinds[k])
    for _ in range(_ROUNDS):
        for k in range(classes):
            color = 3 * colors[now, k]
            row = rows[k]
            while row != 0:
                color += colors[now, popcount((row & -row) - 1)]
                row &= row - 1
            colors[1 - now, k] = mix(color)
        now = 1 - now
    return now
