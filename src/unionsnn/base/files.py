"""Files that are written atomically."""

from __future__ import annotations

import errno
import json
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

UNUSABLE_FOLDER_ERRNOS = {errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS}
"""System errors that free disk space or another folder would fix."""


def atomic_write(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file atomically: readers see either all of it or nothing.

    Args:
        path: The final name; missing folders are created.
        write: Called once with the open temporary file.

    Raises:
        OSError: The file cannot be written; ``filename`` is set.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        with open(temporary, "xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        if error.errno is not None:
            # A full disk is reported for a descriptor, which has no name.
            error.filename = str(path)
        raise
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: Path, content: Any) -> None:
    """Write JSON atomically."""
    text = json.dumps(content, indent=1, allow_nan=False).encode()
    atomic_write(path, lambda file: file.write(text) and None)


def read_mapping(path: Path) -> dict[str, Any] | None:
    """Read a JSON mapping; None if the file is missing or holds none."""
    try:
        content = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def set_aside(path: Path) -> Path:
    """Rename a damaged file, so that it is out of the way but can be inspected."""
    return path.replace(path.with_name(f"{path.name}.damaged"))
