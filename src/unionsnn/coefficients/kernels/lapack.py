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

FloatArray = npt.NDArray[np.float64]


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


def eigh(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Decompose a symmetric matrix, read from its lower triangle and destroyed.

    Shapes:
        matrix [n, n] (column order) -> eigenvalues [n], eigenvectors [n, n] (column order).

    Raises:
        RuntimeError: The iteration did not converge.
    """
    n = len(matrix)
    values, vectors = np.empty(n), np.empty((n, n), order="F")
    support, found, info = np.empty(2 * n, np.int32), np.zeros(1, np.int32), np.zeros(1, np.int32)
    work, whole = np.empty(1), np.empty(1, np.int32)
    routine = _routine("lapack", "dsyevr", 21)
    for size, whole_size in ((-1, -1), (None, None)):
        if size is None:
            work, whole = np.empty(int(work[0])), np.empty(int(whole[0]), np.int32)
        _call(
            routine,
            *("V", "A", "L", n, matrix, n, 0.0, 0.0, 0, 0, 0.0, found, values, vectors, n, support),
            *(work, size or len(work), whole, whole_size or len(whole), info),
        )
    if info[0] or found[0] != n:
        raise RuntimeError(f"LAPACK's dsyevr failed with status {info[0]}.")
    return values, vectors


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
