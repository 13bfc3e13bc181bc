r"""Sums of absolute eigenvalues of large symmetric matrices, in half of their memory.

LAPACK's reduction to tridiagonal form reads the whole matrix for each column. Here it is reduced to
a band first, b columns at a time: with Q = I - V T Vᵀ from the QR decomposition of the part of b
columns below the band, and A the rest of the matrix,

    Qᵀ A Q = A - V Wᵀ - W Vᵀ,   W = X - V (Tᵀ Vᵀ X) / 2,   X = A V T

(Bischof, Lang and Sun, 2000). All of it is products of matrices. Only the lower triangle is kept,
in blocks of columns.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.linalg import lapack

from unionsnn.coefficients.kernels.jit import kernel
from unionsnn.coefficients.kernels.lapack import band_eigenvalues, compact, subtract_product
from unionsnn.coefficients.kernels.substructures import TRUE_TWINS, WORD

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

BAND = 32
"""Columns below the diagonal that the reduction leaves."""

BLOCK = 8 * BAND
"""Columns of a block."""


def new_blocks(order: int) -> list[FloatArray]:
    """Allocate the lower triangle: block i has the columns from i BLOCK, and the rows from there.

    Shapes:
        -> each [order - i BLOCK, <= BLOCK], in column order.
    """
    starts = range(0, order, BLOCK)
    return [np.empty((order - s, min(BLOCK, order - s)), order="F") for s in starts]


def path_blocks(rows: IntArray, sizes: IntArray, kinds: IntArray) -> list[FloatArray]:
    """Write the quotient path matrix Q of `path_matrices` in blocks.

    Shapes:
        rows [m, W], sizes [m], kinds [m].
    """
    blocks = new_blocks(len(sizes))
    for number, block in enumerate(blocks):
        _fill_block(rows, sizes, kinds, number * BLOCK, block)
    return blocks


@kernel
def _fill_block(
    rows: IntArray, sizes: IntArray, kinds: IntArray, first: int, block: FloatArray
) -> None:
    for j in range(block.shape[1]):
        for k in range(j, block.shape[0]):
            a, b = first + k, first + j
            adjacent = (rows[a, b // WORD] >> (b % WORD)) & 1
            common = rows[a, 0] & rows[b, 0]
            for word in range(1, rows.shape[1]):
                common |= rows[a, word] & rows[b, word]
            distance = 3 - np.int64(common != 0) * (1 - adjacent) - 2 * adjacent
            block[k, j] = distance * math.sqrt(sizes[a] * sizes[b])
            if k < block.shape[1]:
                block[j, k] = block[k, j]
        within = 1.0 if kinds[first + j] == TRUE_TWINS else 2.0
        block[j, j] = within * (sizes[first + j] - 1)


def absolute_eigenvalue_sum(blocks: Sequence[FloatArray]) -> float:
    """Return Σ|λ| of a symmetric matrix.

    Args:
        blocks: Its lower triangle as in `new_blocks`, with both triangles of the square at the top
            of each; destroyed.
    """
    order = len(blocks[0])
    band = np.zeros((BAND + 1, order), order="F")
    for start in range(0, order, BAND):
        block, at = blocks[start // BLOCK], start % BLOCK
        width = min(BAND, order - start)
        columns = block[at:, at : at + width]
        if order - start > BAND + 1:
            vectors, factor, upper = _reflections(columns[BAND:])
            columns[BAND : 2 * BAND] = 0.0
            columns[BAND : BAND + len(upper)] = upper
            _reflect(blocks, start + BAND, vectors, factor)
        for k in range(width):
            entries = columns[k : k + BAND + 1, k]
            band[: len(entries), start + k] = entries
    return float(np.abs(band_eigenvalues(band)).sum())


def _reflections(below: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Decompose below = (I - V T Vᵀ) [R; 0].

    Shapes:
        below [p, b] -> V [p, q], T [q, q], R [q, b], q = min(p, b).
    """
    packed, tau, _, _ = lapack.dgeqrf(below)
    vectors, factor = compact(packed, tau)
    return vectors, factor, np.triu(packed[: len(tau)])


def _reflect(blocks: Sequence[FloatArray], begin: int, V: FloatArray, T: FloatArray) -> None:
    """Apply the reflections from both sides to the rows and columns from `begin`."""
    VT = V @ T
    X = np.zeros_like(V)
    parts = []
    for number in range(begin // BLOCK, len(blocks)):
        block, first = blocks[number], number * BLOCK
        skipped = max(0, begin - first)
        part, row = block[skipped:, skipped:], first + skipped - begin
        width = part.shape[1]
        X[row:] += part @ VT[row : row + width]
        X[row : row + width] += part[width:].T @ VT[row + width :]
        parts.append((part, row, width))
    W = X - 0.5 * (V @ (T.T @ (V.T @ X)))
    left, right = np.hstack([V, W]), np.hstack([W, V])
    for part, row, width in parts:
        subtract_product(left[row:], right[row : row + width], part)
