"""Routines of BLAS and LAPACK that work in place and let other threads run.

Scipy's wrappers hold the GIL, so that nobody would look at Ctrl-C for minutes; numpy's release it,
but take several times the memory. These are the functions that scipy exports to Cython, called by
ctypes. All matrices are in column order.
"""

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt
from numba.extending import get_cython_function_address
from scipy.linalg import lapack as scipy_lapack

FloatArray = npt.NDArray[np.float64]

_PANEL = 64


def _routine(library: str, name: str, arguments: int) -> Any:
    address = get_cython_function_address(f"scipy.linalg.cython_{library}", name)
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * arguments)(address)


def _call(routine: Any, *arguments: Any) -> None:
    """Call a routine with the addresses of its arguments: ints, floats, letters and arrays."""
    kept: list[Any] = []
    for value in arguments:
        if isinstance(value, np.ndarray):
            kept.append(value.ctypes.data)
        elif isinstance(value, str):
            kept.append(ctypes.create_string_buffer(value.encode()))
        elif isinstance(value, float):
            kept.append(ctypes.pointer(ctypes.c_double(value)))
        else:
            kept.append(ctypes.pointer(ctypes.c_int(value)))
    routine(*(ctypes.cast(k, ctypes.c_void_p) if not isinstance(k, int) else k for k in kept))


def subtract_product(left: FloatArray, right: FloatArray, matrix: FloatArray) -> None:
    """Subtract left @ right.T from a part of a matrix.

    Shapes:
        left [n, k] and right [m, k] (row order, contiguous), matrix [n, m] (columns contiguous).
    """
    (rows, inner), columns = left.shape, len(right)
    stride = matrix.strides[1] // matrix.itemsize
    _call(
        _routine("blas", "dgemm", 13),
        *("T", "N", rows, columns, inner, -1.0, left, inner, right, inner, 1.0, matrix, stride),
    )


def eigh_in_place(matrix: FloatArray) -> FloatArray:
    """Decompose a symmetric matrix in its own memory, which its eigenvectors take.

    As LAPACK's dsyevr, but the reflections that make the matrix tridiagonal are moved to a triangle
    before there are eigenvectors: beside the matrix there is at most half of one.

    Args:
        matrix: In: the matrix, read from its lower triangle. Out: the eigenvectors, in its columns.

    Shapes:
        matrix [n, n] (column order) -> eigenvalues [n] (ascending).
    """
    n = len(matrix)
    info = np.zeros(1, np.int32)
    diagonal, beside, tau = np.empty(n), np.zeros(n), np.empty(max(n - 1, 1))
    work = np.empty(_PANEL * n)
    _call(
        _routine("lapack", "dsytrd", 10),
        *("L", n, matrix, n, diagonal, beside, tau, work, len(work), info),
    )
    # Column j of the triangle has the reflection of the rows from j + 1.
    panels = [matrix[j + 1 :, j : j + _PANEL].copy("F") for j in range(0, n - 1, _PANEL)]
    kept = diagonal.copy(), beside[:-1].copy()
    values, support = np.empty(n), np.empty(2 * n, np.int32)
    found, accurate = np.zeros(1, np.int32), np.ones(1, np.int32)
    work, integers = np.empty(18 * n), np.empty(10 * n, np.int32)
    _call(
        _routine("lapack", "dstemr", 21),
        *("V", "A", n, diagonal, beside, 0.0, 0.0, 0, 0, found, values, matrix, n, n, support),
        *(accurate, work, len(work), integers, len(integers), info),
    )
    if info[0] or found[0] != n:
        values, matrix[:] = np.linalg.eigh(np.diag(kept[0]) + np.diag(kept[1], -1))
    while panels:
        first = _PANEL * (len(panels) - 1)
        panel = panels.pop()
        # The last column of the triangle is the last but one of the matrix.
        reflections, factor = compact(panel[:, : n - 1 - first], tau[first : first + _PANEL])
        below = matrix[first + 1 :]
        subtract_product(
            np.ascontiguousarray(reflections @ factor),
            np.ascontiguousarray(below.T @ reflections),
            below,
        )
    return values


def compact(packed: FloatArray, tau: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return V and T of a product of reflections, I - V T Vᵀ.

    Shapes:
        packed [p, >= q] (vectors below the diagonal, which is 1), tau [q] -> V [p, q], T [q, q].
    """
    count = len(tau)
    vectors = np.tril(packed[:, :count], -1)
    vectors[np.arange(count), np.arange(count)] = 1.0
    inverse = np.triu(vectors.T @ vectors, 1)
    # A reflection by 0 is none.
    none = tau == 0.0
    inverse[np.arange(count), np.arange(count)] = 1.0 / np.where(none, 1.0, tau)
    factor, _ = scipy_lapack.dtrtri(inverse)
    if none.any():
        vectors[:, none] = 0.0
        factor[none] = 0.0
        factor[:, none] = 0.0
    return np.ascontiguousarray(vectors), factor


def band_eigenvalues(band: FloatArray) -> FloatArray:
    """Return the eigenvalues of a symmetric band matrix, which is destroyed.

    Shapes:
        band [b + 1, n] (column order; entry [i, j] is that of row i + j and column j) -> [n].

    Raises:
        RuntimeError: The iteration did not converge.
    """
    height, n = band.shape
    values, info = np.empty(n), np.zeros(1, np.int32)
    unused, work, whole = np.empty(1), np.empty(max(2 * n, 2)), np.empty(1, np.int32)
    _call(
        _routine("lapack", "dsbevd", 14),
        *("N", "L", n, height - 1, band, height, values, unused, 1),
        *(work, len(work), whole, 1, info),
    )
    if info[0]:
        raise RuntimeError(f"LAPACK's dsbevd failed with status {info[0]}.")
    return values
