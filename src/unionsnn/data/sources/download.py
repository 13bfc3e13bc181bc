"""Raw files from the data root, a mirror or upstream, never partial.

A file is written to a temporary name, checked, and then renamed. The hash of the accepted file is
stored next to it and verified whenever the file is used again.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import hashlib
import os
import queue
import re
import shutil
import threading
import time
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO
from urllib.parse import quote, urlsplit
from urllib.request import url2pathname

import pooch
from filelock import FileLock

from unionsnn.base.errors import DataError, DataUnavailableError
from unionsnn.base.files import atomic_write
from unionsnn.base.memory import free_bytes
from unionsnn.base.secrets import is_masked, masked
from unionsnn.base.words import format_bytes

_ATTEMPTS = 3
_RETRY_WAIT = 1.0
_TIMEOUT = 30
# A download that is slower than this, in bytes per second, after so many seconds, is given up.
_SLOWEST = 10_000
_PATIENCE = 60
_LIMIT = 4 << 30
"""Size of the largest file that is fetched if nothing else is known about it."""
_SUMS_LIMIT = 10_000_000
# Text tables and sparse pickles shrink to a twentieth; zip bombs to a thousandth and less.
_LARGEST_RATIO = 100
_ALWAYS_UNPACKED = 100_000_000
_ZIP_SUFFIXES = (".zip", ".npz")
Progress = Callable[[int, int], None]

_BROKEN_ZIP = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError)


def data_root(path: str | Path | None = None) -> Path:
    """Return the data root.

    Args:
        path: The user's choice; by default UNIONSNN_DATA or the platform's user cache.

    Returns:
        An absolute path; nothing is created.
    """
    chosen = path or os.environ.get("UNIONSNN_DATA") or pooch.os_cache("unionsnn")
    return Path(chosen).expanduser().absolute()


def fetch(
    relative_path: str,
    *,
    upstream: str | None,
    root: str | Path,
    mirror: str | Path | None = None,
    offline: bool = False,
    sha256: str | None = None,
    limit: int | None = None,
    progress: Progress | None = None,
) -> Path:
    """Return the path of a raw file, fetching it if it does not exist.

    Tried in this order: `root/raw/<relative_path>`; the mirror; the upstream address. A file that
    fails its checksum or does not match its extension is skipped and not kept.

    Args:
        relative_path: Path of the file in the mirror and in the data root.
        upstream: The file's full address, or None if there is none.
        root: The data root.
        mirror: A folder or a file://, http:// or https:// address with the upstream layout; by
            default UNIONSNN_MIRROR.
        offline: Whether to never access the network.
        sha256: The file's hash, if known beforehand.
        limit: How large it may be, in bytes; by default 4 GiB.
        progress: Called with (bytes done, total) during a download of known length.

    Returns:
        The file in the data root. Concurrent processes fetch it once.

    Raises:
        DataError: The file could not be obtained; names every location, its fault, and the remedy.
    """
    parts = PurePosixPath(relative_path).parts
    if not parts or PurePosixPath(relative_path).is_absolute() or ".." in parts:
        raise DataError(
            f"{relative_path!r} must be a path relative to the data root, without '..'",
            code="data.path",
        )
    target = Path(root) / "raw" / Path(*parts)
    if mirror is None or is_masked(str(mirror)):
        mirror = os.environ.get("UNIONSNN_MIRROR") or mirror
    mirror = mirror or None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(target.with_name(f"{target.name}.lock")):
            # The lock is held, so leftovers of killed processes can be removed.
            remove_parts(target)
            fault = _fault(target, sha256)
            if fault and target.exists():
                warnings.warn(f"{target} {fault}; it is fetched again", stacklevel=3)
            if fault:
                _get(
                    target,
                    relative_path,
                    mirror,
                    upstream,
                    offline=offline,
                    sha256=sha256,
                    limit=limit or _LIMIT,
                    progress=progress,
                )
            elif _accepted_hash(target) is None:
                # Put there by hand, and good.
                _accept(target)
    except OSError as error:
        # A read-only data root is sufficient if the file exists.
        with contextlib.suppress(OSError):
            if _fault(target, sha256) is None:
                return target
        raise DataError(
            f"{target} cannot be written ({error.strerror or error}): free disk space or choose "
            "another data root with paths.data=FOLDER or UNIONSNN_DATA",
            code="data.root",
        ) from error
    return target


def _note(target: Path) -> Path:
    """Return the path of the file with the accepted hash."""
    return target.with_name(f"{target.name}.sha256")


def _accepted_hash(target: Path) -> str | None:
    """Read the hash of the accepted file; None if there is none, or something else is written."""
    note = _note(target)
    content = note.read_text(errors="replace").strip() if note.is_file() else ""
    return content if re.fullmatch(r"[0-9a-f]{64}", content) else None


def _fault(target: Path, sha256: str | None) -> str | None:
    """Say what is wrong with a file of the data root, or None."""
    if not target.exists():
        return "is missing"
    if not target.is_file():
        raise DataError(
            f"{target} is a folder, a pipe or a device, not a file: remove it", code="data.path"
        )
    accepted = _accepted_hash(target)
    fault = _checksum_fault(target, [sha256, accepted])
    return fault if fault or accepted else _content_fault(target, target.name)


def _accept(target: Path) -> None:
    content = f"{_file_hash(target)}\n".encode()
    atomic_write(_note(target), lambda file: file.write(content))


def _file_hash(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _checksum_fault(path: Path, hashes: Iterable[str | None]) -> str | None:
    """Return what is wrong with a file's hash, or None; hashes that are None are ignored."""
    wanted = {value.lower() for value in hashes if value}
    if wanted and wanted != {actual := _file_hash(path)}:
        expected = " and ".join(sorted(value[:12] for value in wanted))
        return f"fails its checksum (sha256 {actual[:12]}..., expected {expected}...)"
    return None


def _content_fault(path: Path, name: str) -> str | None:
    """Return what is wrong with a file's content given its name, or None."""
    with open(path, "rb") as file:
        beginning = file.read(512).lstrip(b"\xef\xbb\xbf \t\r\n")
    if not beginning:
        return "is empty"
    if beginning.startswith(b"<"):
        return "is a web page, not the file (a login or error page?)"
    if name.endswith(_ZIP_SUFFIXES):
        try:
            with zipfile.ZipFile(path) as archive:
                _check_members(path, archive)
                if damaged := archive.testzip():
                    raise zipfile.BadZipFile(f"bad checksum of {damaged}")
        except (DataError, *_BROKEN_ZIP) as error:
            return f"is not a valid zip file ({error})"
    return None


def _get(
    target: Path,
    relative_path: str,
    mirror: str | Path | None,
    upstream: str | None,
    *,
    offline: bool,
    sha256: str | None,
    limit: int,
    progress: Progress | None,
) -> None:
    """Try the mirror, then upstream; the caller holds the lock."""
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    failures = []
    places = {
        "mirror": None if mirror is None else _join(str(mirror), relative_path),
        "upstream": upstream,
    }
    for kind, place in places.items():
        if place is None:
            continue
        if is_masked(place):
            failures.append(
                f"  {kind} {place}: records do not keep its password; set UNIONSNN_MIRROR"
            )
            continue
        try:
            hashes = [sha256]
            if kind == "mirror":
                hashes.append(_listed_hash(str(mirror), relative_path, part, offline))
            _copy(place, part, offline, limit, progress)
            fault = _checksum_fault(part, hashes) or _content_fault(part, target.name)
            if fault is None:
                os.replace(part, target)
                _accept(target)
                return
            failures.append(f"  {kind} {place}: {fault}")
            if kind == "mirror" and upstream is not None:
                warnings.warn(masked(f"{place} {fault}; trying {upstream}"), stacklevel=4)
        except _UnavailableError as error:
            failures.append(f"  {kind} {place}: {error}")
        finally:
            part.unlink(missing_ok=True)
    tried = "\n".join(failures) or "  no mirror is set, and there is no upstream address"
    raise DataUnavailableError(
        f"{relative_path} could not be obtained. Tried:\n{tried}\n"
        "Name a folder or an address that has it with data.mirror=... or UNIONSNN_MIRROR, or put "
        f"the file at {target}"
    )


class _UnavailableError(Exception):
    """A mirror or server does not respond, or what it sends is refused."""


class _MissingError(_UnavailableError):
    """A mirror or server does not have the file."""


def _join(base: str, relative_path: str) -> str:
    if "://" in base:
        return f"{base.rstrip('/')}/{quote(relative_path)}"
    return str(Path(base) / relative_path)


def _copy(place: str, part: Path, offline: bool, limit: int, progress: Progress | None) -> None:
    try:
        scheme, _, path, *_ = urlsplit(place)
    except ValueError as error:
        raise _UnavailableError(f"it is not a URL ({error})") from None
    remote = scheme in ("http", "https")
    if remote and offline:
        raise _UnavailableError("not tried, because offline is set")
    if "://" in place and not remote and scheme != "file":
        raise _UnavailableError(
            f"{scheme}:// is not supported, use a folder, file:// or http(s)://"
        )
    local = Path(url2pathname(path)) if scheme == "file" else Path(place).expanduser()
    if not remote and not local.exists():
        raise _MissingError("no such file" if local.parent.is_dir() else "no such folder")
    if not remote and not local.is_file():
        raise _UnavailableError("is a folder, a pipe or a device, not a file")
    if not remote and not os.access(local, os.R_OK):
        raise _UnavailableError("cannot be read (no permission)")
    with open(part, "wb") as file:
        if remote:
            _download(place, file, limit, progress)
        else:
            with open(local, "rb") as source:
                _check_size(os.fstat(source.fileno()).st_size, limit, file)
                shutil.copyfileobj(source, file, 1 << 20)
        file.flush()
        os.fsync(file.fileno())


def _download(url: str, file: BinaryIO, limit: int, progress: Progress | None) -> None:
    """Download with retries; permanent errors such as 404 fail at once."""
    # Imported late: most runs download nothing.
    import requests
    from urllib3.exceptions import HTTPError

    for attempt in range(1, _ATTEMPTS + 1):
        file.seek(0)
        file.truncate()
        try:
            with _answer(url) as response:
                response.raise_for_status()
                _receive(response, file, limit, progress)
            return
        except (requests.RequestException, HTTPError) as error:
            answer = getattr(error, "response", None)
            status = None if answer is None else answer.status_code
            if status in (404, 410):
                raise _MissingError(f"the server answers {status}") from error
            final = status is not None and 400 <= status < 500 and status not in (408, 429)
            if final or attempt == _ATTEMPTS:
                raise _UnavailableError(_reason(error, status)) from error
            time.sleep(_RETRY_WAIT * attempt)


def _answer(url: str) -> Any:
    """Return the answer of a server once its head is there.

    The timeout of requests is that of each byte, so a head that trickles is waited for in a thread.
    """
    import requests

    answers: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def ask() -> None:
        try:
            answers.put(requests.get(url, stream=True, timeout=_TIMEOUT))
        except Exception as error:
            answers.put(error)

    threading.Thread(target=ask, daemon=True).start()
    try:
        answer = answers.get(timeout=_PATIENCE)
    except queue.Empty:
        raise _UnavailableError(f"no whole answer within {_PATIENCE} seconds") from None
    if isinstance(answer, Exception):
        raise answer
    return answer


def _receive(response: Any, file: BinaryIO, limit: int, progress: Progress | None) -> None:
    """Write the body of an answer, within bounds of size, time and disk space."""
    length = response.headers.get("Content-Length", "")
    total = int(length) if length.isdigit() else 0
    _check_size(total, limit, file)
    raw, done, started = response.raw, 0, time.monotonic()
    # As much as has arrived, so that a server that trickles is noticed; urllib3 1 waits for all.
    read = getattr(raw, "read1", raw.read)
    while chunk := read(1 << 16, decode_content=True):
        done += len(chunk)
        _check_size(done, limit)
        file.write(chunk)
        seconds = time.monotonic() - started
        if seconds > _PATIENCE and done < _SLOWEST * seconds:
            raise _UnavailableError(
                f"it sent {done:,} bytes in {seconds:.0f} seconds, which is too slow"
            )
        if progress is not None and total:
            progress(min(done, total), total)
    if done < total and "Content-Encoding" not in response.headers:
        raise _UnavailableError("the connection broke off in the middle")


def _check_size(size: int, limit: int, file: BinaryIO | None = None) -> None:
    """Refuse a file beyond its limit, or for which the disk of the open file has no room."""
    if size > limit:
        raise _UnavailableError(
            f"it has {format_bytes(size)} or more, but at most {format_bytes(limit)} belong there"
        )
    if file is not None and size > shutil.disk_usage(os.path.dirname(file.name)).free:
        raise OSError(errno.ENOSPC, f"no room for {format_bytes(size)}", file.name)


def _reason(error: Exception, status: int | None) -> str:
    import requests
    from urllib3 import exceptions

    if status is not None:
        return f"the server answers {status}"
    if isinstance(error, requests.Timeout | exceptions.TimeoutError):
        return f"no answer within {_TIMEOUT} seconds"
    if isinstance(error, requests.exceptions.ChunkedEncodingError | exceptions.ProtocolError):
        return "the connection broke off in the middle"
    if isinstance(error, requests.ConnectionError):
        return "cannot be reached"
    return f"{type(error).__name__}: {error}"


def _listed_hash(mirror: str, relative_path: str, part: Path, offline: bool) -> str | None:
    """Look up a file in the mirror's SHA256SUMS; None if that is absent or does not list it.

    Raises:
        _UnavailableError: There is a list, but it cannot be read.
    """
    place = _join(mirror, "SHA256SUMS")
    try:
        _copy(place, part, offline, _SUMS_LIMIT, progress=None)
        lines = part.read_text(encoding="utf-8-sig").splitlines()
    except _MissingError:
        return None
    except (_UnavailableError, UnicodeDecodeError) as error:
        raise _UnavailableError(f"its list of hashes, {place}, cannot be read: {error}") from error
    finally:
        part.unlink(missing_ok=True)
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("#"):
            continue
        match = re.fullmatch(r"\s*([0-9a-fA-F]{64})\s+\*?(?:\./)?(.+?)\s*", line)
        if match is None:
            raise _UnavailableError(
                f"its list of hashes, {place}, cannot be read: line {number} is not a SHA-256 and "
                "a file name"
            )
        if match[2] == relative_path:
            return match[1]
    return None


def _check_members(path: Path, archive: zipfile.ZipFile) -> None:
    """Refuse members outside of the folder, and archives that unpack to far more than they are."""
    for name in archive.namelist():
        plain = name.replace("\\", "/")
        if plain.startswith("/") or ".." in plain.split("/") or plain[1:2] == ":":
            raise DataError(
                f"{path} holds the member {name!r}, which points outside its "
                "folder: it is refused; get the file from a source that you trust",
                code="data.unsafe",
            )
    size = sum(member.file_size for member in archive.infolist())
    if size > unpacked_limit(path.stat().st_size):
        raise DataError(
            f"{path} has {format_bytes(path.stat().st_size)}, but unpacks to {format_bytes(size)}: "
            "it is refused; get the file from a source that you trust",
            code="data.unsafe",
        )


def unpacked_limit(packed: int) -> int:
    """Return to how many bytes a sound archive of a given size may unpack at most."""
    return min(max(_LARGEST_RATIO * packed, _ALWAYS_UNPACKED), free_bytes())


def open_zip(path: str | Path) -> zipfile.ZipFile:
    """Open a zip file for reading, refusing zip bombs and members that point outside their folder.

    Args:
        path: The file.

    Returns:
        The open archive, to be closed by the caller.

    Raises:
        DataError: The file is missing, truncated or unsafe. A file written by `fetch` is removed,
            so that the next call fetches it again; a user's own file is kept.
    """
    path = Path(path)
    try:
        archive = zipfile.ZipFile(path)
    except FileNotFoundError:
        raise DataError(f"{path} does not exist", code="data.missing") from None
    except _BROKEN_ZIP as error:
        raise _discard(path, str(error)) from error
    try:
        _check_members(path, archive)
    except DataError:
        archive.close()
        raise
    return archive


def read_members(path: str | Path, members: Iterable[str]) -> dict[str, bytes]:
    """Read some members of a zip file, checksums verified.

    Args:
        path: The zip file.
        members: Full names inside it.

    Returns:
        Content by name.

    Raises:
        DataError: As for `open_zip`, or a member is missing or damaged.
    """
    path = Path(path)
    contents = {}
    with open_zip(path) as archive:
        for name in members:
            try:
                contents[name] = archive.read(name)
            except KeyError:
                raise DataError(
                    f"{path} has no member {name}; it holds {', '.join(archive.namelist()[:20])}",
                    code="data.damaged",
                ) from None
            except _BROKEN_ZIP as error:
                raise _discard(path, f"{name}: {error}") from error
    return contents


@contextlib.contextmanager
def set_aside_if_wrong(paths: Iterable[Path]) -> Iterator[None]:
    """Set raw files aside if reading them fails, so that the next call fetches them again.

    Otherwise the copies would shadow a repaired mirror forever.

    Args:
        paths: The files returned by `fetch` so far.

    Raises:
        DataError: The reader's error, with the new names added.
    """
    try:
        yield
    except DataUnavailableError:
        raise
    except DataError as error:
        # A file that `fetch` has not written stays where it is.
        aside = [
            path.replace(path.with_name(f"{path.name}.rejected"))
            for path in paths
            if _note(path).exists()
        ]
        if not aside:
            raise
        for path in paths:
            _note(path).unlink(missing_ok=True)
        if len(aside) == 1:
            where = f" It was set aside as {aside[0]}; the next call fetches it again."
        else:
            where = f" Its {len(aside)} files were set aside in {aside[0].parent}, with the file "
            where += "extension .rejected; the next call fetches them again."
        raise DataError(f"{error}.{where}", code=error.codes[0]) from error


def files_hash(paths: Sequence[Path]) -> str:
    """Hash the contents of files, in their order; 64 hexadecimal digits."""
    return hashlib.sha256("".join(_file_hash(path) for path in paths).encode()).hexdigest()


def remove_parts(target: Path) -> None:
    """Remove leftovers of killed writers of a file; the caller holds the file's lock."""
    for stale in target.parent.glob(f".{glob.escape(target.name)}.*.part"):
        stale.unlink(missing_ok=True)


def _discard(path: Path, reason: str) -> DataError:
    note = _note(path)
    if not note.exists():
        return DataError(
            f"{path} is not a valid zip file ({reason}): replace it", code="data.damaged"
        )
    for file in (path, note):
        with contextlib.suppress(FileNotFoundError):
            file.unlink()
    return DataError(
        f"{path} is not a valid zip file ({reason}). It has been removed: rerun the "
        "command to fetch it again",
        code="data.damaged",
    )
