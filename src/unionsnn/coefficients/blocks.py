"""Finished blocks of a long computation, kept on disk until its entry is complete."""

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

from unionsnn.base.errors import DamagedBlocksError

FloatArray = npt.NDArray[np.float64]
Block = tuple[int, int, FloatArray]
"""First edge, end of the edges and their values."""

_MAGIC = b"unionsnn-blocks-1\n"
_LENGTH = struct.Struct("<I")
_RECORD = struct.Struct("<qqqq32s")


class BlockFile:
    """The blocks of one computation that are done, in a file that only ever grows.

    A block is the values of the undirected edges begin..end-1. Each is one record with a checksum
    of its own, and what a killed writer left at the end is cut off when the file is read next.
    Blocks are written in batches, at most one batch an interval, so that short work writes
    nothing. One process at a time may use a file: hold the entry's lock.

    Used as a context manager, what is pending is written at the end, an interrupt included.

    Args:
        path: The file, named by what its values depend on; made when the first batch is written.
        about: What the blocks belong to, for listings; plain types.
        interval: Seconds between batches, at the least.
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
        """Return the blocks that are whole and cut off what follows them.

        A file whose beginning is damaged is removed.

        Args:
            part: Which part of a computation in several passes.

        Shapes:
            values of a block [end - begin, C].
        """
        found: list[Block] = []
        try:
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
        """Keep a block; it is on disk after the interval at the latest.

        Values that are not finite are no result and are not kept.

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
        """Write what is pending; after a failure nothing more is kept, with one warning."""
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
    """Read the beginning of a file of blocks: what they belong to.

    Raises:
        DamagedBlocksError: It is not what was written.
    """
    if file.read(len(_MAGIC)) != _MAGIC:
        raise DamagedBlocksError("not a file of blocks")
    length = file.read(_LENGTH.size)
    try:
        about = json.loads(file.read(_LENGTH.unpack(length)[0]))
    except (struct.error, ValueError) as error:
        raise DamagedBlocksError(f"the header cannot be read ({error})") from error
    if not isinstance(about, dict):
        raise DamagedBlocksError("the header is not a mapping")
    return about


def survey_blocks(path: Path) -> tuple[dict[str, Any], int]:
    """Tell what the blocks of a file belong to and how many edges they cover.

    Raises:
        DamagedBlocksError: The beginning of the file is not what was written.
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        return read_about(file), sum(end - begin for _, begin, end, _ in _records(file))


def _records(file: BinaryIO) -> Iterator[tuple[int, int, int, FloatArray]]:
    """Yield part, begin, end and values of whole records until one is not."""
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
