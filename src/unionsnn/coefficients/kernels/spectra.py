"""Exact sums of positive eigenvalues of small symmetric matrices, without a call into LAPACK."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from unionsnn.coefficients.kernels.jit import kernel

FloatArray = npt.NDArray[np.float64]

OWN_SOLVER_LIMIT = 64
"""Order up to which our solver is faster than LAPACK through its interface."""

_EPSILON = 2.0**-53
_MAX_SWEEPS = 60

# Eigenvalues below this share of the norm are rounding errors.
_NEGLIGIBLE = 1e-14
_TINY = 1e-150
# Laguerre's iteration beats QL while the order is above this multiple of the number of roots; roots
# closer to the previous one than this are left to QL.
_ORDER_PER_ROOT = 3
_SEPARATED = 0.999
_MAX_STEPS = 40


@kernel
def positive_eigenvalue_sum(
    matrix: FloatArray, order: int, diagonal: FloatArray, squared: FloatArray
) -> float:
    """Sum the positive eigenvalues of a symmetric matrix: Σ max(λ_i, 0).

    For a symmetric matrix with zero trace the sum of singular values, Σ|λ_i|, is twice this.
    Householder reduction to tridiagonal form; then Laguerre's iteration if few eigenvalues are
    positive, as in most path matrices, otherwise the root-free QL iteration of Pal, Walker and
    Kahan, eigenvalues only.

    Args:
        matrix: Symmetric matrix, read from its lower triangle; destroyed.
        order: Number n of rows and columns in use.
        diagonal: Work space.
        squared: Work space.

    Shapes:
        matrix [>= n, >= n], diagonal [>= n], squared [>= n].

    Returns:
        The sum, or NaN if the iteration did not converge.
    """
    if order <= 1:
        return max(matrix[0, 0], 0.0) if order == 1 else 0.0
    tridiagonalize(matrix, order, diagonal, squared)
    total = few_positive_eigenvalues(diagonal, squared, order, matrix[0])
    if total >= 0.0:
        return total
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
    """Reduce a symmetric matrix to tridiagonal form, with squared off-diagonal entries.

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
def few_positive_eigenvalues(
    diagonal: FloatArray, squared: FloatArray, order: int, roots: FloatArray
) -> float:
    """Sum the positive eigenvalues of a tridiagonal matrix, if they are few.

    Starting above, Laguerre's iteration converges cubically to the largest root of a polynomial
    with real roots. The remaining sum of squares bounds the next root.

    Shapes:
        diagonal [>= n], squared [>= n] (squares of the off-diagonal entries), both kept; roots
        [>= n] (work space).

    Returns:
        The sum; -1 if they are too many or too close together.
    """
    squares = diagonal[order - 1] * diagonal[order - 1]
    for i in range(order - 1):
        squares += diagonal[i] * diagonal[i] + 2.0 * squared[i]
    scale = math.sqrt(squares)
    positive = _count_above(diagonal, squared, order, _NEGLIGIBLE * scale)
    if _ORDER_PER_ROOT * positive >= order:
        return -1.0
    total = 0.0
    for found in range(positive):
        root = _largest_root(diagonal, squared, order, math.sqrt(squares), roots, found, scale)
        if root < 0.0:
            return -1.0
        roots[found] = root
        total += root
        squares = max(squares - root * root, 0.0)
    return total


@kernel
def _count_above(diagonal: FloatArray, squared: FloatArray, order: int, x: float) -> int:
    """Count the eigenvalues above x: the negative pivots of x - T."""
    count = 0
    pivot = x - diagonal[0]
    for i in range(1, order):
        count += pivot < 0.0
        if pivot == 0.0:
            pivot = _TINY
        pivot = x - diagonal[i] - squared[i - 1] / pivot
    return count + (pivot < 0.0)


@kernel
def _largest_root(
    diagonal: FloatArray,
    squared: FloatArray,
    order: int,
    bound: float,
    roots: FloatArray,
    found: int,
    scale: float,
) -> float:
    """Find the largest remaining eigenvalue from an upper bound; -1 if that fails.

    With p the characteristic polynomial over the roots found, n its degree, f = p'/p and
    g = -f', the step down is n / (f + √((n - 1)(n g - f²))).
    """
    x = bound
    if found > 0 and x > _SEPARATED * roots[found - 1]:
        return -1.0
    degree = order - found
    before = _TINY
    for _ in range(_MAX_STEPS):
        f, g = _logarithmic_derivatives(diagonal, squared, order, x)
        for k in range(found):
            inverse = 1.0 / (x - roots[k])
            f -= inverse
            g -= inverse * inverse
        radicand = (degree - 1.0) * (degree * g - f * f)
        step = degree / (f + math.sqrt(max(radicand, 0.0)))
        if not step > -_NEGLIGIBLE * scale:
            return -1.0
        x -= step
        # The steps shrink cubically, or by a factor if roots are close together.
        if step * (step / before) * (step / before) <= _EPSILON * scale:
            return x
        before = step
    return -1.0


@kernel
def _logarithmic_derivatives(
    diagonal: FloatArray, squared: FloatArray, order: int, x: float
) -> tuple[float, float]:
    """Return p'/p and -(p'/p)' of the characteristic polynomial, by ratios of leading minors."""
    ratio = x - diagonal[0]
    inverse = 1.0 / ratio if ratio != 0.0 else 1.0 / _TINY
    first, second = inverse, 0.0
    f, g = first, first * first
    for i in range(1, order):
        t = squared[i - 1] * inverse
        second = t * (second - 2.0 * first * first)
        first = 1.0 + t * first
        ratio = x - diagonal[i] - t
        inverse = 1.0 / ratio if ratio != 0.0 else 1.0 / _TINY
        first *= inverse
        second *= inverse
        f += first
        g += first * first - second
    return f, g


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
    # Not a literal, which would be a type of its own.
    low: Any = np.int64(0)
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
