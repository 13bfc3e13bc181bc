"""Maintenance of a cache folder: list, check and delete its files."""

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from filelock import Timeout

from unionsnn.base.errors import DamagedBlocksError, DamagedEntryError
from unionsnn.coefficients.blocks import survey_blocks
from unionsnn.coefficients.entries import ArrayCache, lock_path, new_lock, read_header, read_intact
from unionsnn.coefficients.spec import ENGINE_VERSION

State = Literal["complete", "old engine", "damaged", "unfinished", "in work", "leftover"]


@dataclass(frozen=True)
class CacheItem:
    """An entry of the cache, or another file in its folder.

    Attributes:
        path: The file.
        state: ``complete``; ``old engine``, intact but never read again; ``damaged``;
            ``unfinished``, blocks from which the next process resumes; ``in work``, locked by a
            process; ``leftover`` of a killed process.
        label: Label of the entry, given when it was computed.
        choices: Substructure, descriptor and encoding.
        columns: Names of the columns.
        edges: Number of directed edges of an entry, or of finished undirected edges of an
            unfinished one; of nodes or pairs of nodes if the rows belong to those.
        num_bytes: Size of the file.
        age: Seconds since it was written.
        detail: What is wrong with it, if anything.
    """

    path: Path
    state: State
    label: str | None
    choices: tuple[str, ...]
    columns: tuple[str, ...]
    edges: int | None
    num_bytes: int
    age: float
    detail: str = ""


def survey(
    root: str | os.PathLike[str], *, checksums: bool = False, version: int = ENGINE_VERSION
) -> list[CacheItem]:
    """List the files of a cache folder, entries first, without changing anything.

    Args:
        root: Folder of the cache.
        checksums: Whether to read and check entire entries instead of their headers.
        version: Engine version whose entries are still read.
    """
    cache = ArrayCache(root)
    entries = cache.entries()
    beside = [*sorted(cache.root.glob(".*.blocks")), *sorted(cache.root.glob(".*.part"))]
    named = {_stem(path) for path in (*entries, *beside)}
    beside += [path for path in sorted(cache.root.glob("*.lock")) if path.stem not in named]
    items = [*(_entry(path, checksums, version) for path in entries), *map(_beside, beside)]
    return [item for item in items if item is not None]


def removable(items: list[CacheItem], *, everything: bool = False) -> list[CacheItem]:
    """Return files that nothing will read again: damaged, leftovers, other engine versions.

    Args:
        items: The items listed by `survey`.
        everything: Whether to return everything except files in work.
    """
    useless = ("damaged", "leftover", "old engine")
    return [i for i in items if i.state in useless or (everything and i.state != "in work")]


def remove(items: list[CacheItem]) -> list[CacheItem]:
    """Remove files under their entries' locks, together with the locks.

    Returns:
        The items that were kept because a process holds their lock.

    Raises:
        OSError: A file cannot be removed.
    """
    kept = []
    for item in items:
        with _lock_if_free(item.path) as free:
            if not free:
                kept.append(item)
                continue
            item.path.unlink(missing_ok=True)
            lock = lock_path(_entry_of(item.path))
            if not any(item.path.parent.glob(f"*{lock.stem}.[!l]*")):
                lock.unlink(missing_ok=True)
    return kept


def _entry(path: Path, checksums: bool, now: int) -> CacheItem | None:
    try:
        size, age = _size_and_age(path)
        header: dict[str, Any] = read_intact(path)[0] if checksums else read_header(path)
        version = header.get("engine_version")
        current = version == now
        return CacheItem(
            path,
            "complete" if current else "old engine",
            header.get("label"),
            _choices(header["spec"]),
            tuple(header["columns"]),
            int(header["shape"][0]),
            size,
            age,
            "" if current else f"engine {version}, now {now}",
        )
    except FileNotFoundError:
        return None
    except (DamagedEntryError, AttributeError, TypeError, ValueError, IndexError) as error:
        return CacheItem(path, "damaged", None, (), (), None, size, age, str(error))


def _beside(path: Path) -> CacheItem | None:
    try:
        size, age = _size_and_age(path)
        with _lock_if_free(path) as free:
            state: State = "leftover" if free else "in work"
        if path.suffix != ".blocks":
            return CacheItem(path, state, None, (), (), None, size, age)
        about, edges = survey_blocks(path)
        if free:
            state = "unfinished" if about["engine_version"] == ENGINE_VERSION else "old engine"
        return CacheItem(path, state, about["label"], _choices(about["spec"]), (), edges, size, age)
    except FileNotFoundError:
        return None
    except (DamagedBlocksError, KeyError, AttributeError) as error:
        return CacheItem(path, state, None, (), (), None, size, age, str(error))


def _size_and_age(path: Path) -> tuple[int, float]:
    status = path.stat()
    return status.st_size, max(0.0, time.time() - status.st_mtime)


def _choices(spec: dict[str, Any]) -> tuple[str, ...]:
    names = (spec.get(key) for key in ("substructure", "descriptor", "encoding"))
    return tuple(str(name) for name in names if name is not None)


def _stem(path: Path) -> str:
    """Return the key of the entry that a file belongs to."""
    return path.name.removeprefix(".").partition(".")[0]


def _entry_of(path: Path) -> Path:
    return path.with_name(f"{_stem(path)}.npz")


@contextlib.contextmanager
def _lock_if_free(path: Path) -> Iterator[bool]:
    """Hold the lock of the entry that a file belongs to, unless a process holds it.

    A missing lock file is free; if files cannot be locked, every lock counts as free.
    """
    entry = _entry_of(path)
    lock = new_lock(entry, timeout=0)
    free = True
    if lock_path(entry).exists():
        try:
            lock.acquire()
        except Timeout:
            free = False
        except (NotImplementedError, OSError):
            pass
    try:
        yield free
    finally:
        if lock.is_locked:
            lock.release()
