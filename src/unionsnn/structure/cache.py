"""Coefficients on disk: computed once, whoever asks, and never handed out damaged."""

import contextlib
import hashlib
import io
import json
import os
import tempfile
import time
import warnings
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from filelock import FileLock

from unionsnn.structure.engine import Progress
from unionsnn.structure.graph import IntArray, as_edge_index, check_num_nodes
from unionsnn.structure.spec import ENGINE_VERSION, CoefficientSpec

FloatArray = npt.NDArray[np.float64]

_FORMAT = 1
_STALE_SECONDS = 24 * 3600.0


class DamagedEntryError(ValueError):
    """An entry of the cache is there but is not what was written."""


class CoefficientCache:
    """Content-addressed store of coefficients, safe to share between processes.

    The key of an entry is a digest of the graph and of the spec's canonical key, so an entry never
    goes stale: another graph, choice or engine version is another entry. An entry is one npz file
    with a JSON header (spec, versions, shape, checksum), read without pickle and written under a
    temporary name. Processes that ask for the same entry at once compute it once.

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
        path = self.root / f"{entry_key(edges, nodes, spec, symmetrize)}.npz"
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
            values = spec.compute(
                edges, nodes, symmetrize=symmetrize, threads=threads, progress=progress
            )
            if not np.isfinite(values).all():
                raise FloatingPointError(
                    f"{int((~np.isfinite(values)).sum())} of the {values.size} coefficients are "
                    "not finite; nothing was cached."
                )
            self._store(path, values, spec)
        return values

    def entries(self) -> tuple[Path, ...]:
        """Paths of the complete entries, sorted."""
        return tuple(sorted(p for p in self.root.glob("*.npz") if not p.name.startswith(".")))

    def size_bytes(self) -> int:
        """Bytes that the complete entries take."""
        return sum(path.stat().st_size for path in self.entries())

    @contextlib.contextmanager
    def _lock(self, path: Path) -> Iterator[bool]:
        """Hold the entry's lock, or go on without where the file system has none."""
        lock = None
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            lock = FileLock(path.with_suffix(".lock"))
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

    def _store(self, path: Path, values: FloatArray, spec: CoefficientSpec) -> None:
        try:
            write_entry(path, values, spec)
        except OSError as error:
            warnings.warn(
                f"The coefficients could not be kept in {self.root} ({error}); they will be "
                "computed again next time.",
                stacklevel=3,
            )


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


def write_entry(path: Path, values: FloatArray, spec: CoefficientSpec) -> None:
    """Write an entry under a temporary name in the same folder, then rename it.

    Shapes:
        values [E, C].

    Raises:
        OSError: The folder cannot be written; no temporary file is left.
    """
    values = np.ascontiguousarray(values, dtype="<f8")
    header = {
        "format": _FORMAT,
        "spec": spec.to_dict(),
        "spec_key": spec.key,
        "columns": list(spec.columns),
        "engine_version": ENGINE_VERSION,
        "versions": {name: _version(name) for name in ("unionsnn", "numpy", "numba", "scipy")},
        "shape": list(values.shape),
        "sha256": hashlib.sha256(values.data).hexdigest(),
    }
    handle, name = tempfile.mkstemp(prefix=f".{path.stem}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
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
    content = path.read_bytes()
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            header = json.loads(archive["header"].tobytes())
            values = archive["values"]
        faults = [
            name
            for name, right in (
                ("format", header["format"] == _FORMAT),
                ("spec", header["spec_key"] == spec.key),
                ("shape", tuple(header["shape"]) == shape == values.shape),
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
    return values.astype(np.float64, copy=False)


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
