"""What of each data set is on disk: raw files, processed graphs, coefficients; and its removal."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from unionsnn.base.errors import DataError
from unionsnn.base.files import atomic_write
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
"""How far a set has come, in this order."""


class Note:
    """A small file beside a processed one: its version, and which coefficients are cached for it.

    Args:
        processed: The processed file.
    """

    def __init__(self, processed: Path) -> None:
        self.processed = processed
        self.path = processed.with_suffix(".json")

    def read(self) -> dict[str, Any]:
        """Return the content; an empty one where there is none, or a damaged one."""
        try:
            content = json.loads(self.path.read_bytes())
            sound = isinstance(content["version"], int) and isinstance(content["entries"], dict)
        except (OSError, ValueError, KeyError, TypeError):
            sound = False
        return content if sound else {"version": PROCESSED_VERSION, "entries": {}}

    def make(self) -> None:
        """Write the file if there is none."""
        if not self.path.exists():
            self._update({})

    def add_coefficient(self, spec: CoefficientSpec, entry: Path) -> None:
        """Note which entry of the coefficient cache belongs to the processed file."""
        self._update({spec.key: {"entry": entry.name, "spec": spec.to_dict()}})

    def entries(self, folder: Path) -> dict[str, dict[str, Any]]:
        """Cached coefficients of the processed file that are still there, by the spec's key."""
        noted: dict[str, dict[str, Any]] = self.read()["entries"]
        return {key: value for key, value in noted.items() if (folder / value["entry"]).exists()}

    def _update(self, entries: dict[str, Any]) -> None:
        # A note is a comfort: where it cannot be written, the data work all the same.
        with contextlib.suppress(OSError), FileLock(self.processed.with_suffix(".lock")):
            remove_parts(self.path)
            content = self.read()
            content["entries"].update(entries)
            text = json.dumps(content, indent=1).encode()
            atomic_write(self.path, lambda file: file.write(text))


@dataclass(frozen=True)
class OnDisk:
    """What of one set is in the data root.

    Args:
        raw: Its raw files that are there.
        processed: Its processed files, of the current version.
        coefficients: The spec of each cached set of coefficients.
        complete: Whether all raw files are there that the set is read from.
    """

    raw: tuple[Path, ...]
    processed: tuple[Path, ...]
    coefficients: tuple[dict[str, Any], ...]
    complete: bool

    @property
    def state(self) -> str:
        """How far the set has come, one of `STATES`."""
        if self.coefficients:
            return STATES[3]
        if self.processed:
            return STATES[2]
        return STATES[1] if self.complete else STATES[0]


def on_disk(entry: CatalogEntry, root: Path) -> OnDisk:
    """Look for a set's files in the data root; reads no data."""
    wanted = [[root / "raw" / path for path in files] for files in entry.files]
    there = [path for files in wanted for path in files if path.exists()]
    # Names end in 16 hex digits: "zinc" must not find what belongs to "zinc-full".
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
        folder: Where they are.
        files: All files below it, locks and leftovers included.
        size: Their bytes.
    """

    kind: str
    folder: Path
    files: tuple[Path, ...]
    size: int


def removals(root: Path, kinds: Sequence[str] = KINDS) -> list[Removal]:
    """List what `remove` would delete; kinds of which there is nothing are left out."""
    listed = []
    for kind in kinds:
        folder = root / kind
        # A folder that is a link belongs to someone else: what it points to is left alone.
        inside = [] if folder.is_symlink() else sorted(folder.rglob("*"))
        files = tuple(path for path in inside if path.is_symlink() or path.is_file())
        if files:
            size = sum(path.lstat().st_size for path in files)
            listed.append(Removal(kind, folder, files, size))
    return listed


def remove(listed: Sequence[Removal]) -> None:
    """Delete files and the folders that they leave empty.

    Raises:
        DataError: Another process is at work on one of them; nothing is deleted then.
    """
    files = [path for each in listed for path in each.files]
    with contextlib.ExitStack() as locks:
        for path in files:
            try:
                if path.suffix == ".lock":
                    locks.enter_context(FileLock(path, timeout=0))
            except Timeout:
                raise DataError(
                    f"another process is at work on {path.with_suffix('')}; nothing is deleted. "
                    "Wait for it, then type the same command",
                    code="data.busy",
                ) from None
        for path in files:
            path.unlink(missing_ok=True)
    for each in listed:
        folders = sorted((p for p in each.folder.rglob("*") if p.is_dir()), reverse=True)
        for folder in (*folders, each.folder):
            with contextlib.suppress(OSError):
                folder.rmdir()
