"""Arrays in files: npz archives that can be mapped into memory, and room for what exceeds it."""

from __future__ import annotations

import os
import struct
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from unionsnn.base.files import open_regular
from unionsnn.base.memory import free_bytes

MAPPED_BYTES = 256 * 2**20
"""A larger file of arrays is mapped into memory, and not read into it."""

_ALIGNMENT = 64
# Header of a file in a zip archive, its fixed part; and what zipfile adds to its extra fields.
_LOCAL_HEADER, _ZIP64_FIELD = 30, 20
# Marks an extra field that only pads, as Android's zipalign does.
_PADDING = 0xD935
# An array that takes more than this share of the free memory is put into a file.
_SCRATCH_SHARE = 0.02


def scratch(shape: tuple[int, ...], dtype: DTypeLike, folder: Path) -> NDArray[Any]:
    """Return an array of zeros, in a file without a name if it is large for the free memory.

    The file is gone with the array. Where the folder has no room for it, the array is in memory.

    Args:
        shape: Shape.
        dtype: Type.
        folder: Where the file is; created if missing.
    """
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    if size > max(MAPPED_BYTES, _SCRATCH_SHARE * free_bytes()):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder) as file:
                # Writing to a mapped file on a full disk would end the process.
                os.posix_fallocate(file.fileno(), 0, size)
                return np.memmap(file, dtype, "r+", shape=shape).view(np.ndarray)
        except (OSError, AttributeError):
            pass
    return np.zeros(shape, dtype)


def write_npz(file: BinaryIO, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write what `np.savez` writes, with each array at an address that can be mapped."""
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            info = zipfile.ZipInfo(f"{name}.npy")
            begin = file.tell() + _LOCAL_HEADER + len(info.filename) + _ZIP64_FIELD + 4
            padding = -begin % _ALIGNMENT
            info.extra = struct.pack(f"<HH{padding}x", _PADDING, padding)
            with archive.open(info, "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def mapped_npz(path: Path) -> dict[str, NDArray[Any]]:
    """Map the arrays of an npz file into memory; read those that are packed or not aligned."""
    arrays = {}
    with open_regular(path) as file, np.load(file, allow_pickle=False) as archive:
        for info in archive.zip.infolist():
            name = info.filename.removesuffix(".npy")
            if info.compress_type != zipfile.ZIP_STORED:
                arrays[name] = archive[name]
                continue
            file.seek(info.header_offset)
            local = file.read(_LOCAL_HEADER)
            file.seek(sum(struct.unpack("<HH", local[-4:])), 1)
            version = np.lib.format.read_magic(file)
            read = (
                np.lib.format.read_array_header_1_0
                if version == (1, 0)
                else np.lib.format.read_array_header_2_0
            )
            shape, by_column, dtype = read(file)
            begin = file.tell()
            if dtype.hasobject:
                raise ValueError(f"{name} holds objects")
            if 0 in shape or begin % max(dtype.alignment, 1):
                arrays[name] = archive[name]
                continue
            order: Literal["F", "C"] = "F" if by_column else "C"
            # Copied when written to: torch takes no array that cannot be written to.
            arrays[name] = np.memmap(path, dtype, "c", begin, shape, order).view(np.ndarray)
    return arrays
