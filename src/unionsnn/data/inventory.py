"""Inventory of the data root: raw files, processed graphs, coefficients; and their removal."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from unionsnn.base.errors import DamagedFileError, DataError
from unionsnn.base.files import atomic_write, read_json
from unionsnn.data.catalog import CatalogEntry
from unionsnn.data.sources.download import remove_parts

if TYPE_CHECKING:
    from unionsnn.coefficients import CoefficientSpec

PROCESSED_VERSION = 1
"""Part of the name of every processed file. Raise it when a reader or generator changes what it
returns for the same input."""

KINDS = ("raw", "processed", "coefficients", "encodings")
"""The folders of the data root, in the order in which they are filled."""

STATES = ("absent", "raw", "processed", "coefficients cached")
"""States of a set, in order of progress."""


class Note:
    """A small file next to a processed one: its version and its cached coefficients.

    Args:
        processed: The processed file.
    """

    def __init__(self, processed: Path) -> None:
        self.processed = processed
        self.path = processed.with_suffix(".json")

    def read(self) -> dict[str, Any]:
        """Return the content; empty if the file is missing or damaged."""
        try:
            content = read_json(self.path)
            sound = isinstance(content["version"], int) and isinstance(content["entries"], dict)
        except (OSError, DamagedFileError, KeyError, TypeError):
            sound = False
        return content if sound else {"version": PROCESSED_VERSION, "entries": {}}

    def make(self) -> None:
        """Write the file if there is none."""
        if not self.path.exists():
            self._update({})

    def add_coefficient(self, spec: CoefficientSpec, entry: Path) -> None:
        """Record which entry of the coefficient cache belongs to the processed file."""
        self._update({spec.key: {"entry": entry.name, "spec": spec.to_dict()}})

    def entries(self, folder: Path) -> dict[str, dict[str, Any]]:
        """Return the still existing cached coefficients of the processed file, by spec key."""
        noted: dict[str, dict[str, Any]] = self.read()["entries"]
        return {key: value for key, value in noted.items() if (folder / value["entry"]).exists()}

    def _update(self, entries: dict[str, Any]) -> None:
        # The note is optional: the data works without it.
        with contextlib.suppress(OSError), FileLock(self.processed.with_suffix(".lock")):
            remove_parts(self.path)
            content = self.read()
            content["entries"].update(entries)
            text = json.dumps(content, indent=1).encode()
            atomic_write(self.path, lambda file: file.write(text))


@dataclass(frozen=True)
class OnDisk:
    """The files of one set in the data root.

    Args:
        raw: Its existing raw files.
        processed: Its processed files of the current version.
        coefficients: The spec of each cached set of coefficients.
        complete: Whether all raw files of the set exist.
    """

    raw: tuple[Path, ...]
    processed: tuple[Path, ...]
    coefficients: tuple[dict[str, Any], ...]
    complete: bool

    @property
    def state(self) -> str:
        """State of the set, one of `STATES`."""
        if self.coefficients:
            return STATES[3]
        if self.processed:
            return STATES[2]
        return STATES[1] if self.complete else STATES[0]


def on_disk(entry: CatalogEntry, root: Path) -> OnDisk:
    """Find a set's files in the data root, without reading data."""
    wanted = [[root / "raw" / path for path in files] for files in entry.files]
    there = [path for files in wanted for path in files if path.exists()]
    # Names end in 16 hex digits, so that "zinc" does not match files of "zinc-full".
    pattern = f"{entry.name}-{'[0-9a-f]' * 16}.npz"
    processed = [
        path
        for path in sorted((root / "processed").glob(pattern))
        if Note(path).read()["version"] == PROCESSED_VERSION
    ]
    specs = [
        value["spec"]
        for path in processed
        for value in Note(path).entries(root / "coefficients").values()
    ]
    complete = any(files and all(path.exists() for path in files) for files in wanted)
    return OnDisk(tuple(there), tuple(processed), tuple(specs), complete)


@dataclass(frozen=True)
class Removal:
    """Files of one kind that may be deleted from the data root.

    Args:
        kind: One of `KINDS`.
        folder: Their folder.
        files: All files in it, including locks and leftovers.
        size: Their total size in bytes.
    """

    kind: str
    folder: Path
    files: tuple[Path, ...]
    size: int


def removals(root: Path, kinds: Sequence[str] = KINDS) -> list[Removal]:
    """List what `remove` would delete, without kinds that have no files."""
    listed = []
    for kind in kinds:
        folder = root / kind
        # A symbolic link may point to someone else's files, which are not touched.
        inside = [] if folder.is_symlink() else sorted(folder.rglob("*"))
        files = tuple(path for path in inside if path.is_symlink() or path.is_file())
        if files:
            size = sum(path.lstat().st_size for path in files)
            listed.append(Removal(kind, folder, files, size))
    return listed


def remove(listed: Sequence[Removal]) -> None:
    """Delete files, and folders that become empty.

    Raises:
        DataError: Another process is using one of them; nothing is deleted.
    """
    files = [path for each in listed for path in each.files]
    with contextlib.ExitStack() as locks:
        for path in files:
            try:
                if path.suffix == ".lock":
                    locks.enter_context(FileLock(path, timeout=0))
            except Timeout:
                raise DataError(
                    f"another process is using {path.with_suffix('')}; nothing was deleted. "
                    "Wait for it, then rerun the command",
                    code="data.busy",
                ) from None
        for path in files:
            path.unlink(missing_ok=True)
    for each in listed:
        folders = sorted((p for p in each.folder.rglob("*") if p.is_dir()), reverse=True)
        for folder in (*folders, each.folder):
            with contextlib.suppress(OSError):
                folder.rmdir()
