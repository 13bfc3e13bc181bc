"""Finished blocks of a long computation, kept on disk until the cache entry is complete."""

import contextlib
import hashlib
import json
import os
import struct
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import numpy as np
import numpy.typing as npt

from unionsnn.base.errors import DamagedBlocksError, DamagedFileError
from unionsnn.base.files import open_regular

FloatArray = npt.NDArray[np.float64]
Block = tuple[int, int, FloatArray]
"""Begin and end of a range of edges, and their values."""

_MAGIC = b"unionsnn-blocks-1\n"
_LENGTH = struct.Struct("<I")
_RECORD = struct.Struct("<qqqq32s")


class BlockFile:
    """The finished blocks of one computation, in an append-only file.

    A block holds the values of the undirected edges begin..end-1, as a record with its own
    checksum; a partial record left by a killed writer is truncated on the next read. Blocks are
    written in batches, at most one per interval, so that short computations write nothing. Only one
    process at a time may use a file: acquire the entry's lock.

    As a context manager, it writes pending blocks on exit, even on an interrupt.

    Args:
        path: The file, named by what its values depend on; created with the first batch.
        about: Description of the computation for listings; plain types.
        interval: Minimum number of seconds between batches.
    """

    def __init__(self, path: Path, about: Mapping[str, Any], *, interval: float = 1.0) -> None:
        self.path = path
        self.about = dict(about)
        self.interval = interval
        self._pending: list[bytes] = []
        self._last_write = time.monotonic()
        self._given_up = False
        self._tail_is_whole = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self.flush()

    def read(self, part: int = 0) -> list[Block]:
        """Return the intact blocks and truncate the file after them.

        A file with a damaged header is removed.

        Args:
            part: Index of the pass, of a computation in several passes.

        Shapes:
            values of a block [end - begin, C].
        """
        found: list[Block] = []
        try:
            # Nothing but a regular file is opened for writing.
            _opened(self.path).close()
            with self.path.open("r+b") as file:
                read_about(file)
                whole = file.tell()
                for number, begin, end, values in _records(file):
                    if number == part:
                        found.append((begin, end, values))
                    whole = file.tell()
                file.truncate(whole)
        except DamagedBlocksError:
            self.path.unlink(missing_ok=True)
        except OSError:
            return []
        self._tail_is_whole = True
        return found

    def add(self, begin: int, end: int, values: FloatArray, part: int = 0) -> None:
        """Add a block; it is written within the interval.

        Blocks with non-finite values are not kept.

        Shapes:
            values [end - begin, C].
        """
        values = np.ascontiguousarray(values, dtype="<f8")
        if self._given_up or end <= begin or not np.isfinite(values).all():
            return
        payload = values.tobytes()
        measures = (part, begin, end, values.shape[1])
        self._pending.append(_RECORD.pack(*measures, _digest(measures, payload)) + payload)
        if time.monotonic() - self._last_write >= self.interval:
            self.flush()

    def flush(self) -> None:
        """Write pending blocks; after a failure, warn once and keep nothing more."""
        if not self._pending or self._given_up:
            return
        if not self._tail_is_whole:
            self.read()
        content = b"".join(self._pending)
        self._pending.clear()
        try:
            with self.path.open("ab") as file:
                if file.tell() == 0:
                    header = json.dumps(self.about, sort_keys=True).encode()
                    content = _MAGIC + _LENGTH.pack(len(header)) + header + content
                file.write(content)
        except OSError as error:
            self._given_up = True
            warnings.warn(
                f"Finished blocks cannot be kept in {self.path.parent} ({error}); an interrupt "
                "will lose them.",
                stacklevel=4,
            )
        self._last_write = time.monotonic()

    def remove(self) -> None:
        """Remove the file, if there is one."""
        self._pending.clear()
        with contextlib.suppress(OSError):
            self.path.unlink()


def read_about(file: BinaryIO) -> dict[str, Any]:
    """Read the header of a file of blocks: the description of the computation.

    Raises:
        DamagedBlocksError: The header is damaged.
    """
    if file.read(len(_MAGIC)) != _MAGIC:
        raise DamagedBlocksError("not a file of blocks")
    length = file.read(_LENGTH.size)
    try:
        about = json.loads(file.read(_LENGTH.unpack(length)[0]))
    except (struct.error, ValueError, RecursionError) as error:
        raise DamagedBlocksError(f"the header cannot be read ({error})") from error
    if not isinstance(about, dict):
        raise DamagedBlocksError("the header is not a mapping")
    return about


def survey_blocks(path: Path) -> tuple[dict[str, Any], int]:
    """Return the description of a file of blocks and the number of edges they cover.

    Raises:
        DamagedBlocksError: The header is damaged.
        OSError: The file cannot be read.
    """
    with _opened(path) as file:
        return read_about(file), sum(end - begin for _, begin, end, _ in _records(file))


def _opened(path: Path) -> BinaryIO:
    try:
        return open_regular(path)
    except DamagedFileError as error:
        raise DamagedBlocksError(str(error)) from error


def _records(file: BinaryIO) -> Iterator[tuple[int, int, int, FloatArray]]:
    """Yield part, begin, end and values of records until one is damaged."""
    limit = os.fstat(file.fileno()).st_size
    while len(head := file.read(_RECORD.size)) == _RECORD.size:
        *measures, digest = _RECORD.unpack(head)
        part, begin, end, columns = measures
        size = 8 * (end - begin) * columns
        if begin < 0 or end <= begin or not 0 < size <= limit:
            return
        payload = file.read(size)
        if len(payload) != size or _digest(measures, payload) != digest:
            return
        values = np.frombuffer(payload, dtype="<f8").reshape(end - begin, columns)
        yield part, begin, end, values.astype(np.float64, copy=False)


def _digest(measures: Sequence[int], payload: bytes) -> bytes:
    return hashlib.sha256(b"%d %d %d %d " % tuple(measures) + payload).digest()
