"""Exact sums of positive eigenvalues of small symmetric matrices, without a call into LAPACK."""

import math

import numpy as np
import numpy.typing as npt

from unionsnn.structure._jit import kernel

FloatArray = npt.NDArray[np.float64]

OWN_SOLVER_LIMIT = 64
"""Order up to which the own solver is faster than LAPACK through its interface."""

_EPSILON = 2.0**-53
_MAX_SWEEPS = 60


@kernel
def positive_eigenvalue_sum(
    matrix: FloatArray, order: int, diagonal: FloatArray, squared: FloatArray
) -> float:
    """Sum the positive eigenvalues of a symmetric matrix: Σ max(λ_i, 0).

    For a symmetric matrix with zero trace the sum of singular values, Σ|λ_i|, is twice this.
    Householder reduction to tridiagonal form, then the root-free QL iteration of Pal, Walker and
    Kahan, eigenvalues only.

    Args:
        matrix: Symmetric matrix, of which the lower triangle is read; destroyed.
        order: Rows and columns in use, n.
        diagonal: Work space.
        squared: Work space.

    Shapes:
        matrix [>= n, >= n], diagonal [>= n], squared [>= n].

    Returns:
        The sum, or NaN where the iteration did not converge.
    """
    if order <= 1:
        return max(matrix[0, 0], 0.0) if order == 1 else 0.0
    tridiagonalize(matrix, order, diagonal, squared)
    if not diagonalize(diagonal, squared, order):
        return np.nan
    total = 0.0
    for i in range(order):
        total += max(diagonal[i], 0.0)
    return total


@kernel
def tridiagonalize(
    matrix: FloatArray, order: int, diagonal: FloatArray, squared: FloatArray
) -> None:
    """Reduce a symmetric matrix to tridiagonal form; off-diagonal entries come squared.

    Shapes:
        matrix [>= n, >= n] (lower triangle read and destroyed), diagonal [>= n], squared [>= n].
    """
    for i in range(order - 1, 1, -1):
        norm = 0.0
        for k in range(i - 1):
            norm += matrix[i, k] * matrix[i, k]
        last = matrix[i, i - 1]
        length = norm + last * last
        squared[i - 1] = length
        if norm == 0.0:
            continue
        reflected = -math.copysign(math.sqrt(length), last)
        matrix[i, i - 1] = last - reflected
        _reflect(matrix, i, length - last * reflected, diagonal)
    squared[0] = matrix[1, 0] * matrix[1, 0]
    for i in range(order):
        diagonal[i] = matrix[i, i]


@kernel
def _reflect(matrix: FloatArray, i: int, half_norm: float, product: FloatArray) -> None:
    """Apply the reflection by the vector matrix[i, :i] to the leading block of order i."""
    for j in range(i):
        product[j] = 0.0
    for j in range(i):
        v_j = matrix[i, j]
        total = matrix[j, j] * v_j
        for k in range(j):
            total += matrix[j, k] * matrix[i, k]
            product[k] += matrix[j, k] * v_j
        product[j] += total
    overlap = 0.0
    for j in range(i):
        product[j] /= half_norm
        overlap += product[j] * matrix[i, j]
    overlap /= 2.0 * half_norm
    for j in range(i):
        product[j] -= overlap * matrix[i, j]
    for j in range(i):
        v_j = matrix[i, j]
        q_j = product[j]
        for k in range(j + 1):
            matrix[j, k] -= v_j * product[k] + q_j * matrix[i, k]


@kernel
def diagonalize(diagonal: FloatArray, squared: FloatArray, order: int) -> bool:
    """Turn the diagonal of a tridiagonal matrix into its eigenvalues, in no particular order.

    Off-diagonal entries are dropped once they are below the rounding error of the largest entry:
    a sum of eigenvalues needs absolute accuracy only.

    Shapes:
        diagonal [>= n], squared [>= n] (squares of the off-diagonal entries, destroyed).

    Returns:
        Whether the iteration converged.
    """
    squared[order - 1] = 0.0
    scale = 0.0
    for i in range(order):
        scale = max(scale, diagonal[i] * diagonal[i], squared[i])
    threshold = _EPSILON * _EPSILON * scale
    low = 0
    sweeps = 0
    while low < order:
        high = low
        while high < order - 1 and squared[high] > threshold:
            high += 1
        if high == low:
            low += 1
            sweeps = 0
        elif high == low + 1:
            mean = 0.5 * (diagonal[low] + diagonal[high])
            half = 0.5 * (diagonal[low] - diagonal[high])
            radius = math.sqrt(half * half + squared[low])
            diagonal[low] = mean - radius
            diagonal[high] = mean + radius
            low += 2
            sweeps = 0
        elif sweeps == _MAX_SWEEPS:
            return False
        else:
            sweeps += 1
            _ql_sweep(diagonal, squared, low, high)
    return True


@kernel
def _ql_sweep(diagonal: FloatArray, squared: FloatArray, low: int, high: int) -> None:
    root = math.sqrt(squared[low])
    shift = (diagonal[low + 1] - diagonal[low]) / (2.0 * root)
    shift = diagonal[low] - root / (shift + math.copysign(math.sqrt(shift * shift + 1.0), shift))
    cosine, sine = 1.0, 0.0
    gamma = diagonal[high] - shift
    p = gamma * gamma
    for i in range(high - 1, low - 1, -1):
        b = squared[i]
        r = p + b
        if i != high - 1:
            squared[i + 1] = sine * r
        previous_cosine, previous_gamma = cosine, gamma
        cosine = p / r
        sine = b / r
        gamma = cosine * (diagonal[i] - shift) - sine * previous_gamma
        diagonal[i + 1] = previous_gamma + (diagonal[i] - gamma)
        p = gamma * gamma / cosine if cosine != 0.0 else previous_cosine * b
    squared[low] = sine * p
    diagonal[low] = shift + gamma
