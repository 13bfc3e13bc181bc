"""Coefficients on disk: computed once, whoever asks, and never handed out damaged."""

import contextlib
import hashlib
import inspect
import io
import json
import os
import secrets
import time
import warnings
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from filelock import FileLock

from unionsnn.structure.blocks import BlockFile
from unionsnn.structure.engine import Progress
from unionsnn.structure.graph import IntArray, as_edge_index, check_num_nodes
from unionsnn.structure.spec import ENGINE_VERSION, CoefficientSpec

FloatArray = npt.NDArray[np.float64]

_FORMAT = 1

# A marker in place of a lock would outlive a holder that is killed on another machine.
_LOCK_OPTIONS: dict[str, Any] = (
    {"fallback_to_soft": False}
    if "fallback_to_soft" in inspect.signature(FileLock.__init__).parameters
    else {}
)
_STALE_SECONDS = 24 * 3600.0


class DamagedEntryError(ValueError):
    """An entry of the cache is there but is not what was written."""


class CoefficientCache:
    """Content-addressed store of coefficients, safe to share between processes.

    The key of an entry is a digest of the graph and of the spec's canonical key, so an entry never
    goes stale: another graph, choice or engine version is another entry. An entry is one npz file
    with a JSON header (label, spec, versions, shape, checksum), read without pickle and written
    under a temporary name. Processes that ask for the same entry at once compute it once. What an
    interrupted or killed process had finished of a long computation is kept beside the entries and
    reused by the next.

    Args:
        root: Folder of the entries; made when the first one is written.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root)
        self._warned_about_locks = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.root)!r})"

    def get(
        self,
        edge_index: Any,
        num_nodes: int,
        spec: CoefficientSpec,
        *,
        symmetrize: bool = False,
        threads: int | None = None,
        progress: Progress | None = None,
        label: str | None = None,
    ) -> FloatArray:
        """Read the coefficients of a graph, or compute and keep them.

        A damaged entry is computed anew with one warning. Where the folder cannot be locked or
        written there is one warning too, and the values are returned all the same.

        Args:
            edge_index: Directed edges, anything that numpy reads as integers.
            num_nodes: Number of nodes.
            spec: Which coefficients.
            symmetrize: Add the missing reverse of every edge instead of refusing the input.
            threads: As in `CoefficientSpec.compute`.
            progress: As in `CoefficientSpec.compute`; not called where nothing is computed.
            label: What a listing calls the entry, such as the name of the data set. An entry that
                is there keeps the label it has.

        Shapes:
            edge_index [2, E] -> [E, C], C = len(spec.columns).

        Raises:
            TypeError: edge_index or num_nodes is not of integers.
            ValueError: The graph cannot be used as given.
            FloatingPointError: A coefficient is not finite; nothing is kept.
        """
        edges = as_edge_index(edge_index)
        nodes = check_num_nodes(num_nodes)
        shape = (edges.shape[1], len(spec.columns))
        path = self._path(edges, nodes, spec, symmetrize)
        with contextlib.suppress(FileNotFoundError, DamagedEntryError):
            return read_entry(path, spec, shape)
        with self._lock(path) as locked:
            try:
                return read_entry(path, spec, shape)
            except FileNotFoundError:
                pass
            except DamagedEntryError as error:
                warnings.warn(
                    f"The cached coefficients {path} are damaged ({error}); computing them anew.",
                    stacklevel=2,
                )
            _remove_leftovers(path, older_than=0.0 if locked else _STALE_SECONDS)
            about = {"label": label, "spec": spec.to_dict(), "engine_version": ENGINE_VERSION}
            with BlockFile(blocks_path(path), about) as blocks:
                values = spec.compute(
                    edges,
                    nodes,
                    symmetrize=symmetrize,
                    threads=threads,
                    progress=progress,
                    # Only one process at a time may write there.
                    blocks=blocks if locked else None,
                )
                if not np.isfinite(values).all():
                    raise FloatingPointError(
                        f"{int((~np.isfinite(values)).sum())} of the {values.size} coefficients "
                        "are not finite; nothing was cached."
                    )
                if self._store(path, values, spec, label):
                    blocks.remove()
        return values

    def path(
        self, edge_index: Any, num_nodes: int, spec: CoefficientSpec, *, symmetrize: bool = False
    ) -> Path:
        """Where the entry of a graph is or would be.

        Raises:
            TypeError: edge_index or num_nodes is not of integers.
            ValueError: edge_index or num_nodes cannot be used as given.
        """
        return self._path(as_edge_index(edge_index), check_num_nodes(num_nodes), spec, symmetrize)

    def entries(self) -> tuple[Path, ...]:
        """Paths of the complete entries, sorted."""
        return tuple(sorted(p for p in self.root.glob("*.npz") if not p.name.startswith(".")))

    def size_bytes(self) -> int:
        """Bytes that the complete entries take."""
        return sum(path.stat().st_size for path in self.entries())

    def _path(self, edges: IntArray, nodes: int, spec: CoefficientSpec, symmetrize: bool) -> Path:
        return self.root / f"{entry_key(edges, nodes, spec, symmetrize)}.npz"

    @contextlib.contextmanager
    def _lock(self, path: Path) -> Iterator[bool]:
        """Hold the entry's lock, or go on without where the file system has none."""
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
                    "going on without: processes that start together may each compute the same "
                    "coefficients.",
                    stacklevel=4,
                )
        try:
            yield lock is not None
        finally:
            if lock is not None:
                lock.release()

    def _store(
        self, path: Path, values: FloatArray, spec: CoefficientSpec, label: str | None
    ) -> bool:
        try:
            write_entry(path, values, spec, label)
        except OSError as error:
            warnings.warn(
                f"The coefficients could not be kept in {self.root} ({error}); they will be "
                "computed again next time.",
                stacklevel=3,
            )
            return False
        return True


def entry_key(edges: IntArray, num_nodes: int, spec: CoefficientSpec, symmetrize: bool) -> str:
    """Digest of everything that the values depend on.

    Shapes:
        edges [2, E], contiguous int64.
    """
    digest = hashlib.sha256()
    content = {"num_nodes": num_nodes, "spec": spec.key, "symmetrize": bool(symmetrize)}
    digest.update(json.dumps(content, sort_keys=True).encode())
    digest.update(np.ascontiguousarray(edges, dtype="<i8").data)
    return digest.hexdigest()


def new_lock(path: Path, timeout: float = -1) -> FileLock:
    """Make the lock of an entry; where files cannot be locked, acquiring it says so."""
    return FileLock(lock_path(path), timeout, **_LOCK_OPTIONS)


def lock_path(path: Path) -> Path:
    """Where the lock of an entry is."""
    return path.with_suffix(".lock")


def blocks_path(path: Path) -> Path:
    """Where the finished blocks of an entry that is not complete are."""
    return path.with_name(f".{path.stem}.blocks")


def write_entry(
    path: Path, values: FloatArray, spec: CoefficientSpec, label: str | None = None
) -> None:
    """Write an entry under a temporary name in the same folder, then rename it.

    Shapes:
        values [E, C].

    Raises:
        OSError: The folder cannot be written; no temporary file is left.
    """
    values = np.ascontiguousarray(values, dtype="<f8")
    header = {
        "format": _FORMAT,
        "label": label,
        "spec": spec.to_dict(),
        "spec_key": spec.key,
        "columns": list(spec.columns),
        "engine_version": ENGINE_VERSION,
        "versions": {name: _version(name) for name in ("unionsnn", "numpy", "numba", "scipy")},
        "shape": list(values.shape),
        "sha256": hashlib.sha256(values.data).hexdigest(),
    }
    # Unlike a file of tempfile, others may read it as far as the umask lets them.
    name = path.with_name(f".{path.stem}.{secrets.token_hex(8)}.tmp")
    try:
        with name.open("xb") as file:
            np.savez(
                file, header=np.frombuffer(json.dumps(header).encode(), np.uint8), values=values
            )
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def read_entry(path: Path, spec: CoefficientSpec, shape: tuple[int, int]) -> FloatArray:
    """Read an entry and check it against its header and against what is asked for.

    Shapes:
        -> [E, C], the shape given.

    Raises:
        FileNotFoundError: There is no such entry.
        DamagedEntryError: The entry cannot be read, or is not what was written.
    """
    header, values = read_intact(path)
    faults = [
        name
        for name, right in (
            ("spec", header["spec_key"] == spec.key),
            ("shape", values.shape == shape),
        )
        if not right
    ]
    if faults:
        raise DamagedEntryError(f"wrong {', '.join(faults)}")
    return values


def read_intact(path: Path) -> tuple[dict[str, Any], FloatArray]:
    """Read an entry and check it against its own header.

    Shapes:
        -> the header and the values [E, C].

    Raises:
        FileNotFoundError: There is no such entry.
        DamagedEntryError: The entry cannot be read, or is not what was written.
    """
    try:
        content = path.read_bytes()
    except PermissionError as error:
        raise DamagedEntryError(f"{error.strerror}: it belongs to another user") from error
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            header = json.loads(archive["header"].tobytes())
            values = archive["values"]
        faults = [
            name
            for name, right in (
                ("format", header["format"] == _FORMAT),
                ("spec", isinstance(header["spec_key"], str)),
                ("shape", tuple(header["shape"]) == values.shape and values.ndim == 2),
                ("type", values.dtype == np.dtype("<f8")),
                ("checksum", header["sha256"] == hashlib.sha256(values.data).hexdigest()),
                ("value", bool(np.isfinite(values).all())),
            )
            if not right
        ]
    except Exception as error:  # Damage can surface anywhere between zip, npy and JSON.
        raise DamagedEntryError(f"{type(error).__name__}: {error}") from error
    if faults:
        raise DamagedEntryError(f"wrong {', '.join(faults)}")
    return header, values.astype(np.float64, copy=False)


def read_header(path: Path) -> dict[str, Any]:
    """Read what an entry says of itself, without its values.

    Raises:
        FileNotFoundError: There is no such entry.
        DamagedEntryError: The header cannot be read.
    """
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            header = json.loads(archive["header"].tobytes())
        if header["format"] != _FORMAT or not {"spec", "columns", "shape"} <= header.keys():
            raise DamagedEntryError("wrong format")
    except FileNotFoundError:
        raise
    except Exception as error:
        raise DamagedEntryError(f"{type(error).__name__}: {error}") from error
    return dict(header)


def _remove_leftovers(path: Path, older_than: float) -> None:
    """Remove temporary files that killed writers of this entry left.

    Under the entry's lock every one of them is a leftover; without it, only an old one surely is.
    """
    for leftover in path.parent.glob(f".{path.stem}.*.tmp"):
        with contextlib.suppress(OSError):
            if time.time() - leftover.stat().st_mtime >= older_than:
                leftover.unlink()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
