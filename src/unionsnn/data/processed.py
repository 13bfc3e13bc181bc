"""The graphs of a source, read once and kept in the data root. Does not import torch."""

from __future__ import annotations

import hashlib
import warnings
from pathlib import Path

from filelock import FileLock

from unionsnn.base.display import stage
from unionsnn.base.errors import DamagedFileError, DataError
from unionsnn.base.files import UNUSABLE_FOLDER_ERRNOS
from unionsnn.base.npz import MAPPED_BYTES
from unionsnn.data.arrays import GraphArrays
from unionsnn.data.inventory import PROCESSED_VERSION, Note
from unionsnn.data.sources.download import remove_parts, set_aside_if_wrong
from unionsnn.data.sources.source import RawFiles, Source


def dataset_id(name: str, arrays: GraphArrays) -> str:
    """Return name and content hash: sets with the same id have the same graphs."""
    return f"{name}-{arrays.content_hash()[:12]}"


def processed_graphs(source: Source, raw: RawFiles, name: str) -> tuple[GraphArrays, Note | None]:
    """Read the graphs of a source: those kept in the data root, or its files, and keep them.

    Args:
        source: Where the graphs come from.
        raw: Access to its files.
        name: Name of the set.

    Returns:
        The graphs, and the note next to their file; None if the source keeps none.

    Raises:
        DataError: A file is wrong, or the data root cannot be used.
    """
    content, fresh = source.processed_key(raw), None
    if content is None:
        fresh = _read(source, raw, name)
        # What some sets depend on is known only when their files are there.
        content = source.processed_key(raw)
        if content is None:
            return fresh, None
    key = hashlib.sha256(f"{PROCESSED_VERSION} {content}".encode()).hexdigest()
    path = raw.root / "processed" / f"{name}-{key[:16]}.npz"
    arrays = _load_known(source, path)
    if arrays is None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Processes that ask at once make them once.
            with FileLock(path.with_suffix(".lock")):
                arrays = _load_known(source, path, warn=False)
                if arrays is None:
                    remove_parts(path)
                    arrays = _read(source, raw, name) if fresh is None else fresh
                    arrays.save(path)
                    if path.stat().st_size > MAPPED_BYTES:
                        arrays = GraphArrays.load(path)
        except OSError as error:
            if error.errno not in UNUSABLE_FOLDER_ERRNOS:
                raise
            raise DataError(
                f"{error.filename or path} cannot be used ({error.strerror}): "
                "free disk space or choose another data root with paths.data=FOLDER or "
                "UNIONSNN_DATA",
                code="data.root",
            ) from error
    note = Note(path)
    note.make()
    return arrays, note


def _load_known(source: Source, path: Path, *, warn: bool = True) -> GraphArrays | None:
    """Load processed graphs; None if they are missing, damaged, or not those of a known set."""
    arrays = _load_intact(path, warn=warn)
    if arrays is not None and source.known is not None:
        try:
            source.known.check(arrays)
        except DataError:
            # Their raw files are read again, and named if they are wrong.
            return None
    return arrays


def _load_intact(path: Path, *, warn: bool = True) -> GraphArrays | None:
    try:
        return GraphArrays.load(path)
    except FileNotFoundError:
        return None
    except DamagedFileError as error:
        if warn:
            warnings.warn(f"{error}; rebuilding it.", stacklevel=4)
        return None


def _read(source: Source, raw: RawFiles, name: str) -> GraphArrays:
    with stage(f"reading {name}"), set_aside_if_wrong(raw.fetched):
        arrays = source.read(raw)
        if source.known is not None:
            source.known.check(arrays)
    arrays.validate()
    return arrays
