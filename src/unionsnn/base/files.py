"""Files: written atomically, and read only if they are regular."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import os
import platform
import re
import secrets
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from unionsnn.base.errors import DamagedFileError

# Others that share the folder have processes of the same numbers.
_MACHINE = hashlib.sha256(platform.node().encode()).hexdigest()[:8]

RECORD_BYTES = 2**26
"""Size up to which a file of JSON is read; a record of ten thousand epochs is far below it."""

UNUSABLE_FOLDER_ERRNOS = {errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS}
"""System errors that free disk space or another folder would fix."""


def atomic_write(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file atomically: readers see either all of it or nothing.

    What a killed process of this machine left of an earlier try is deleted.

    Args:
        path: The final name; missing folders are created.
        write: Called once with the open temporary file.

    Raises:
        OSError: The file cannot be written; ``filename`` is set.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    _delete_leftovers(path)
    writer = f"{_MACHINE}-{os.getpid()}-{secrets.token_hex(4)}"
    temporary = path.with_name(f".{path.name}.{writer}.part")
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


def _delete_leftovers(path: Path) -> None:
    name = re.compile(rf"\.{re.escape(path.name)}\.{_MACHINE}-(\d+)-[0-9a-f]+\.part")
    # They do no harm where they cannot be listed.
    with contextlib.suppress(OSError):
        for left in os.listdir(path.parent):
            if (found := name.fullmatch(left)) and not _runs(int(found[1])):
                path.with_name(left).unlink(missing_ok=True)


def _runs(pid: int) -> bool:
    if os.name != "posix":
        # There, the question would end the process.
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def write_json(path: Path, content: Any) -> None:
    """Write JSON atomically."""
    text = json.dumps(content, indent=1, allow_nan=False).encode()
    atomic_write(path, lambda file: file.write(text) and None)


def open_regular(path: str | Path, limit: int | None = None) -> io.BufferedReader:
    """Open a regular file for reading: a pipe would be waited for, and a device has no end.

    Args:
        path: The file, or a link to it.
        limit: Largest accepted size in bytes.

    Raises:
        OSError: It cannot be opened.
        DamagedFileError: It is not a regular file, or larger.
    """
    flags = getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    descriptor = os.open(path, os.O_RDONLY | flags)
    status = os.fstat(descriptor)
    fault = None
    if not stat.S_ISREG(status.st_mode):
        fault = "it is not a regular file"
    elif limit is not None and status.st_size > limit:
        fault = f"it has {status.st_size} bytes, more than the {limit} that are read"
    if fault is not None:
        os.close(descriptor)
        raise DamagedFileError(fault)
    return os.fdopen(descriptor, "rb")


def read_json(path: str | Path, limit: int = RECORD_BYTES) -> Any:
    """Read a file of JSON.

    Raises:
        OSError: It cannot be opened.
        DamagedFileError: It is not a regular file, larger than the limit, or no JSON.
    """
    with open_regular(path, limit) as file:
        try:
            return json.loads(file.read().decode("utf-8-sig"))
        except (ValueError, RecursionError) as error:
            raise DamagedFileError(f"it is not JSON ({error})") from None


def read_mapping(path: Path) -> dict[str, Any] | None:
    """Read a JSON mapping; None if the file is missing or holds none."""
    try:
        content = read_json(path)
    except (FileNotFoundError, DamagedFileError):
        return None
    return content if isinstance(content, dict) else None


def set_aside(path: Path) -> Path:
    """Rename a damaged file, so that it is out of the way but can be inspected."""
    return path.replace(path.with_name(f"{path.name}.damaged"))
