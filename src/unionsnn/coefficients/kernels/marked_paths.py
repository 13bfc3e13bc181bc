r"""Columns of the path matrix P of a substructure in which the ends v and u are marked.

As in `quotients` each class of s twins is one row, except that v and u stay nodes of their own.
With D the diagonal matrix of the nodes' weights, w for v and u and 1 for all others, D P D has the
eigenvalues of

    Q_kk = δ_k (s_k - 1),   Q_kl = w_k w_l P_kl √(s_k s_l)

and, for each class of twins, -δ_k with multiplicity s_k - 1.
"""

import math

import numpy as np
import numpy.typing as npt

from unionsnn.coefficients.kernels.arguments import Quotient
from unionsnn.coefficients.kernels.jit import kernel
from unionsnn.coefficients.kernels.quotients import eigenvalues_of, large_enough
from unionsnn.coefficients.kernels.substructures import TRUE_TWINS

FloatArray = npt.NDArray[np.float64]

END = TRUE_TWINS
"""The kind of an end of the edge; other classes of one node are FALSE_TWINS."""

END_WEIGHT = 2.0


@kernel
def extreme_eigenvalues(
    quotient: Quotient, lengths: FloatArray, matrix: FloatArray, values: FloatArray
) -> None:
    """Write the two largest and the two smallest eigenvalues of P, NaN on failure.

    Shapes:
        lengths [m, m] (lower triangle), matrix as in `quotients.path_lengths`, values [4]:
        λ_1, λ_2, λ_n, λ_(n-1).
    """
    _write_spectrum(quotient, lengths, 1.0, matrix, values)


@kernel
def marked_spectrum(
    quotient: Quotient, lengths: FloatArray, matrix: FloatArray, values: FloatArray
) -> None:
    """Write the extreme eigenvalues of D P D and the sum of its singular values, NaN on failure.

    Shapes:
        as in `extreme_eigenvalues`, but values [5]: λ_1, λ_2, λ_n, λ_(n-1), Σ|λ_i|.
    """
    values[4] = _write_spectrum(quotient, lengths, END_WEIGHT, matrix, values)


@kernel
def distance_counts(
    quotient: Quotient, lengths: FloatArray, matrix: FloatArray, values: FloatArray
) -> None:
    """Count the pairs of nodes at distance 1, 2, ...; the last number includes longer ones.

    Shapes:
        lengths [m, m] (lower triangle), matrix (not used), values [number of distances].
    """
    sizes, longest = quotient.sizes, values.shape[0]
    values[:] = 0.0
    for k in range(quotient.classes):
        within = 1 if quotient.kinds[k] == TRUE_TWINS else 2
        values[within - 1] += sizes[k] * (sizes[k] - 1) // 2
        for j in range(k):
            values[min(int(lengths[k, j]), longest) - 1] += sizes[k] * sizes[j]


@kernel
def _write_spectrum(
    quotient: Quotient,
    lengths: FloatArray,
    end_weight: float,
    matrix: FloatArray,
    values: FloatArray,
) -> float:
    """Write the extreme eigenvalues; return the sum of the singular values."""
    sizes, kinds, classes = quotient.sizes, quotient.kinds, quotient.classes
    matrix = large_enough(matrix, classes)
    values[:2], values[2:4] = -np.inf, np.inf
    total = 0.0
    for k in range(classes):
        within = 1.0 if kinds[k] == TRUE_TWINS else 2.0
        matrix[k, k] = within * (sizes[k] - 1)
        weight = end_weight if _is_end(quotient, k) else 1.0
        for j in range(k):
            other = end_weight if _is_end(quotient, j) else 1.0
            matrix[k, j] = weight * other * lengths[k, j] * math.sqrt(sizes[k] * sizes[j])
        total += within * (sizes[k] - 1)
        for _ in range(min(sizes[k] - 1, 2)):
            _insert(-within, values)
    for eigenvalue in eigenvalues_of(matrix, classes):
        if np.isnan(eigenvalue):
            values[:] = np.nan
            return np.nan
        total += abs(eigenvalue)
        _insert(eigenvalue, values)
    return total


@kernel
def _is_end(quotient: Quotient, k: int) -> bool:
    return quotient.sizes[k] == 1 and quotient.kinds[k] == END


@kernel
def _insert(eigenvalue: float, values: FloatArray) -> None:
    """Keep the two largest eigenvalues so far and the two smallest."""
    if eigenvalue > values[0]:
        values[1], values[0] = values[0], eigenvalue
    elif eigenvalue > values[1]:
        values[1] = eigenvalue
    if eigenvalue < values[2]:
        values[3], values[2] = values[2], eigenvalue
    elif eigenvalue < values[3]:
        values[3] = eigenvalue
