"""Safe reading of third-party pickles, without running anything that they name.

Planetoid and ZINC are published as pickles, and a pickle can call any function. Here each name is
looked up in a short list of replacements: numpy's own arrays, plain containers, and our readers
instead of scipy's and torch's.
"""

from __future__ import annotations

import collections
import io
import pickle
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy._core.multiarray import _reconstruct  # what numpy's own pickles call
from numpy.typing import NDArray

from unionsnn.base.errors import MalformedDataError
from unionsnn.base.memory import free_bytes
from unionsnn.base.words import format_bytes

_DTYPES = {
    "ByteStorage": np.uint8,
    "CharStorage": np.int8,
    "ShortStorage": np.int16,
    "IntStorage": np.int32,
    "LongStorage": np.int64,
    "FloatStorage": np.float32,
    "DoubleStorage": np.float64,
}


class SparseRows:
    """Replacement for scipy's csr_matrix: its attributes, with a consistency check."""

    def __init__(self, *arguments: object) -> None:
        self.state: dict[str, Any] = {}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.state = dict(state)

    def dense(self) -> NDArray[np.float32]:
        """Return the dense matrix.

        Shapes:
            -> [rows, columns].

        Raises:
            ValueError: if it is not a valid matrix.
        """
        state = self.state
        rows, columns = (int(size) for size in state.get("_shape", state.get("shape", ())))
        return dense_rows(state["data"], state["indices"], state["indptr"], rows, columns)


class SparseEntries(SparseRows):
    """Replacement for scipy's coo_matrix."""

    def places(self) -> tuple[NDArray[np.int64], int]:
        """Return row and column of each entry of a square matrix, and its number of rows.

        Shapes:
            -> [2, entries].

        Raises:
            ValueError: if it is not a valid square matrix.
        """
        rows, columns = (int(size) for size in self.state["_shape"])
        # The attributes of earlier and later versions of scipy.
        ends = self.state.get("coords") or (self.state["row"], self.state["col"])
        places = np.stack([np.asarray(end) for end in ends])
        sound = rows == columns and places.dtype.kind in "iu" and places.ndim == 2
        if not sound or (places < 0).any() or (places >= rows).any():
            raise ValueError(f"{rows} x {columns}, with entries elsewhere or none")
        return places.astype(np.int64), rows


def dense_rows(
    data: Any, indices: Any, indptr: Any, rows: int, columns: int
) -> NDArray[np.float32]:
    """Make a dense matrix from compressed sparse rows; repeated entries add up.

    Shapes:
        data, indices [M], indptr [rows + 1] -> [rows, columns].

    Raises:
        ValueError: if the arrays do not fit together.
    """
    data = np.asarray(data)
    row, column = row_and_column(indices, indptr, rows, columns)
    if data.dtype.kind not in "biuf" or data.shape != column.shape:
        raise ValueError("the parts of a sparse matrix do not fit together")
    needed = 4 * rows * columns
    if needed > free_bytes() // 2:
        raise ValueError(f"{rows} x {columns} numbers take {format_bytes(needed)}")
    result = np.zeros((rows, columns), dtype=np.float32)
    np.add.at(result, (row, column), data)
    return result


def row_and_column(
    indices: Any, indptr: Any, rows: int, columns: int
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return the place of each entry of compressed sparse rows.

    Shapes:
        indices [M], indptr [rows + 1] -> [M], [M].

    Raises:
        ValueError: if the arrays do not fit together.
    """
    indices, indptr = np.asarray(indices), np.asarray(indptr)
    sound = (
        indices.dtype.kind in "iu"
        and indptr.dtype.kind in "iu"
        and indices.ndim == 1
        and indptr.shape == (rows + 1,)
        and (indptr[0], indptr[-1]) == (0, len(indices))
        and bool((indptr[1:] >= indptr[:-1]).all())
        and (len(indices) == 0 or (indices.min() >= 0 and indices.max() < columns))
    )
    if not sound:
        raise ValueError("the parts of a sparse matrix do not fit together")
    return np.repeat(np.arange(rows), np.diff(indptr.astype(np.int64))), indices


def _storage(content: bytes) -> NDArray[Any]:
    """Read a pickled torch storage: five pickles and the bytes."""
    file = io.BytesIO(content)
    for _ in range(3):
        # A magic number, a version, and sizes of types, which do not affect the bytes.
        _Restricted(file, {}).load()
    dtype, count = _StorageReader(file, _STORAGES).load()
    _Restricted(file, {}).load()
    return np.frombuffer(content, dtype, int(count), offset=file.tell() + 8)


class _Restricted(pickle.Unpickler):
    """An unpickler that allows only given names."""

    def __init__(self, file: io.BytesIO, names: Mapping[str, Any], encoding: str = "ASCII") -> None:
        super().__init__(file, encoding=encoding)
        self.names = names

    def find_class(self, module: str, name: str) -> Any:
        try:
            return self.names[f"{module}.{name}"]
        except KeyError:
            raise pickle.UnpicklingError(
                f"it names {module}.{name}, which such a file does not need"
            ) from None


class _StorageReader(_Restricted):
    def persistent_load(self, pid: Any) -> tuple[Any, int]:
        kind, dtype, _, _, count, *_ = pid
        if kind != "storage" or dtype not in _DTYPES.values():
            raise pickle.UnpicklingError(f"it holds {kind!r} instead of a storage")
        return dtype, count


def _tensor(
    storage: NDArray[Any], offset: int, size: tuple[int, ...], stride: tuple[int, ...], *_: object
) -> NDArray[Any]:
    """Make an array from the arguments of a torch tensor; only contiguous ones are supported."""
    contiguous = tuple(int(np.prod(size[i + 1 :])) for i in range(len(size)))
    if stride != contiguous and 0 not in size and any(n > 1 for n in size):
        raise pickle.UnpicklingError("it holds a tensor that is not contiguous")
    return storage[offset : offset + int(np.prod(size))].reshape(size)


def _encoded(text: str, encoding: str) -> bytes:
    """Convert text to bytes, as Python 3 does for arrays in pickles in Python 2 format."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"it encodes bytes as {encoding!r}")
    return text.encode("latin1")


_STORAGES = {f"torch.{name}": dtype for name, dtype in _DTYPES.items()}

_NUMPY: Mapping[str, Any] = {
    "numpy.ndarray": np.ndarray,
    "numpy.dtype": np.dtype,
    "_codecs.encode": _encoded,
    "numpy.core.multiarray._reconstruct": _reconstruct,
    "numpy._core.multiarray._reconstruct": _reconstruct,
}

PLANETOID_NAMES: Mapping[str, Any] = {
    **_NUMPY,
    "scipy.sparse.csr.csr_matrix": SparseRows,
    "scipy.sparse._csr.csr_matrix": SparseRows,
    "collections.defaultdict": collections.defaultdict,
    "__builtin__.list": list,
    "builtins.list": list,
}
"""Names in the files of Planetoid."""

CSL_NAMES: Mapping[str, Any] = {
    **_NUMPY,
    "scipy.sparse.coo.coo_matrix": SparseEntries,
    "scipy.sparse._coo.coo_matrix": SparseEntries,
}
"""Names in the files of CSL."""

ZINC_NAMES: Mapping[str, Any] = {
    **_NUMPY,
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch.storage._load_from_bytes": _storage,
    "collections.OrderedDict": collections.OrderedDict,
}
"""Names in the files of ZINC."""


def read_pickle(content: bytes, names: Mapping[str, Any], where: str) -> Any:
    """Read a pickle in which only the given names may occur.

    Args:
        content: The pickle; Python 2 strings are read as Latin-1, as numpy requires.
        names: Replacement for each allowed name, by dotted path.
        where: What errors call the file.

    Raises:
        DataError: Another name occurs, or the file is damaged; nothing that it names has been run.
    """
    try:
        return _Restricted(io.BytesIO(content), names, encoding="latin1").load()
    except Exception as error:  # A damaged pickle can raise anything at all.
        raise MalformedDataError(
            f"{where} is not a pickle that can be read safely ({error}): download it again from a "
            "source that you trust"
        ) from error
