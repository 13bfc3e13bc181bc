"""Cache of arrays on disk, shared between processes and checked for damage."""

import contextlib
import hashlib
import inspect
import json
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from filelock import FileLock

from unionsnn.base.errors import DamagedEntryError, DamagedFileError
from unionsnn.base.files import atomic_write, open_regular
from unionsnn.base.npz import MAPPED_BYTES, mapped_npz, write_npz

Array = npt.NDArray[Any]

_FORMAT = 1
# Rows that are checked together.
_ROWS = 2**20
_TYPES = ("<f8", "<f4", "|u1", "<i4")

# A marker file instead of a lock would outlive a holder that is killed on another machine.
_LOCK_OPTIONS: dict[str, Any] = (
    {"fallback_to_soft": False}
    if "fallback_to_soft" in inspect.signature(FileLock.__init__).parameters
    else {}
)
_STALE_SECONDS = 24 * 3600.0


class ArrayCache:
    """Folder of arrays, named by keys of their inputs, safe to share.

    An entry is one npz file with a JSON header (label, spec, versions, shape, checksum), read
    without pickle and written under a temporary name. Processes that request the same entry at once
    compute it once.

    Args:
        root: Folder of the entries; created with the first one.
    """

    what = "arrays"
    """Name of the entries in messages."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root)
        self._warned_about_locks = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.root)!r})"

    def entries(self) -> tuple[Path, ...]:
        """Paths of the complete entries, sorted."""
        return tuple(sorted(p for p in self.root.glob("*.npz") if not p.name.startswith(".")))

    def _fetch(self, path: Path, read: Callable[[], Array], make: Callable[[bool], Array]) -> Array:
        """Read an entry, or compute it under its lock.

        Args:
            path: Path of the entry.
            read: Reads it; on FileNotFoundError and `DamagedEntryError` it is computed.
            make: Computes and writes it; its argument says whether the entry is locked.
        """
        with contextlib.suppress(FileNotFoundError, DamagedEntryError):
            return read()
        with self._lock(path) as locked:
            try:
                return read()
            except FileNotFoundError:
                pass
            except DamagedEntryError as error:
                warnings.warn(
                    f"The cached {self.what} {path} are damaged ({error}) and are recomputed.",
                    stacklevel=3,
                )
            _remove_leftovers(path, older_than=0.0 if locked else _STALE_SECONDS)
            return make(locked)

    @contextlib.contextmanager
    def _lock(self, path: Path) -> Iterator[bool]:
        """Hold the entry's lock, or continue without it if the file system has no locks."""
        lock = None
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            lock = new_lock(path)
            lock.acquire()
        except (NotImplementedError, OSError) as error:
            lock = None
            if not self._warned_about_locks:
                self._warned_about_locks = True
                warnings.warn(
                    f"Files in {self.root} cannot be locked ({type(error).__name__}: {error}); "
                    "continuing without: processes that start together may each compute the same "
                    f"{self.what}.",
                    stacklevel=5,
                )
        try:
            yield lock is not None
        finally:
            if lock is not None:
                lock.release()

    def _keep(self, write: Callable[[], None]) -> bool:
        """Write an entry; on failure, warn and continue."""
        try:
            write()
        except OSError as error:
            warnings.warn(
                f"The {self.what} could not be cached in {self.root} ({error}); they will be "
                "recomputed next time.",
                stacklevel=5,
            )
            return False
        return True


def new_lock(path: Path, timeout: float = -1) -> FileLock:
    """Make the lock of an entry; acquiring it fails if files cannot be locked."""
    return FileLock(lock_path(path), timeout, **_LOCK_OPTIONS)


def lock_path(path: Path) -> Path:
    """Return the path of an entry's lock."""
    return path.with_suffix(".lock")


def write_array(path: Path, values: Array, about: Mapping[str, Any]) -> None:
    """Write an entry atomically.

    Args:
        path: The entry.
        values: Array of float64, float32, uint8 or int32.
        about: Fields of the header in addition to format, versions, shape, type and checksum:
            label, spec, spec_key, columns and engine_version.

    Shapes:
        values [rows, columns].

    Raises:
        OSError: The folder cannot be written; no temporary file remains.
    """
    values = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))
    header = {
        "format": _FORMAT,
        **about,
        "versions": {name: _version(name) for name in ("unionsnn", "numpy", "numba", "scipy")},
        "shape": list(values.shape),
        "type": values.dtype.str,
        "sha256": hashlib.sha256(values.data).hexdigest(),
    }
    note = np.frombuffer(json.dumps(header).encode(), np.uint8)
    atomic_write(path, lambda file: write_npz(file, {"header": note, "values": values}))


def read_array(path: Path, spec_key: str, shape: tuple[int | None, int]) -> Array:
    """Read an entry and check it against its header and the request.

    The number of rows is not checked if None.

    Raises:
        FileNotFoundError: There is no such entry.
        DamagedEntryError: The entry cannot be read or is damaged.
    """
    header, values = read_intact(path)
    rows, columns = shape
    as_asked = rows in (None, len(values)) and values.shape[1] == columns
    _refuse({"spec": header["spec_key"] == spec_key, "shape": as_asked})
    return values


def read_intact(path: Path) -> tuple[dict[str, Any], Array]:
    """Read an entry and check it against its own header.

    Shapes:
        -> the header and the values [rows, columns].

    Raises:
        FileNotFoundError: There is no such entry.
        DamagedEntryError: The entry cannot be read or is damaged.
    """
    try:
        file = open_regular(path)
    except PermissionError as error:
        raise DamagedEntryError(f"{error.strerror}: it belongs to another user") from error
    except DamagedFileError as error:
        raise DamagedEntryError(str(error)) from error
    try:
        with file:
            if os.fstat(file.fileno()).st_size > MAPPED_BYTES:
                content = mapped_npz(path)
            else:
                with np.load(file, allow_pickle=False) as archive:
                    content = {name: archive[name] for name in archive.files}
        header, values = json.loads(content["header"].tobytes()), content["values"]
        # Entries of earlier releases have no type: all were float64.
        written = header.get("type", "<f8")
        checks = {
            "format": header["format"] == _FORMAT,
            "spec": isinstance(header["spec_key"], str),
            "shape": tuple(header["shape"]) == values.shape and values.ndim == 2,
            "type": written in _TYPES and values.dtype == np.dtype(written),
            "checksum": header["sha256"] == hashlib.sha256(values.data).hexdigest(),
            "value": all(bool(np.isfinite(values[rows]).all()) for rows in _blocks(len(values))),
        }
    except Exception as error:  # Damage can surface anywhere between zip, npy and JSON.
        raise DamagedEntryError(f"{type(error).__name__}: {error}") from error
    _refuse(checks)
    return header, values.astype(values.dtype.newbyteorder("="), copy=False)


def _blocks(num_rows: int) -> Iterator[slice]:
    """Yield slices of rows."""
    return (slice(begin, begin + _ROWS) for begin in range(0, num_rows, _ROWS))


def _refuse(checks: Mapping[str, bool]) -> None:
    faults = [name for name, right in checks.items() if not right]
    if faults:
        raise DamagedEntryError(f"wrong {', '.join(faults)}")


def read_header(path: Path) -> dict[str, Any]:
    """Read the header of an entry, without its values.

    Raises:
        FileNotFoundError: There is no such entry.
        DamagedEntryError: The header cannot be read.
    """
    try:
        with open_regular(path) as file, np.load(file, allow_pickle=False) as archive:
            header = json.loads(archive["header"].tobytes())
        if header["format"] != _FORMAT or not {"spec", "columns", "shape"} <= header.keys():
            raise DamagedEntryError("wrong format")
    except FileNotFoundError:
        raise
    except Exception as error:
        raise DamagedEntryError(f"{type(error).__name__}: {error}") from error
    return dict(header)


def _remove_leftovers(path: Path, older_than: float) -> None:
    """Remove temporary files left by killed writers of this entry.

    Under the entry's lock all of them are leftovers; without it, only old ones certainly are.
    """
    for leftover in path.parent.glob(f".{path.stem}.*.part"):
        with contextlib.suppress(OSError):
            if time.time() - leftover.stat().st_mtime >= older_than:
                leftover.unlink()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
