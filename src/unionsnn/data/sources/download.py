"""Raw files from the data root, a mirror or upstream, never partial.

A file is written to a temporary name, checked, and then renamed. The hash of the accepted file is
stored next to it and verified whenever the file is used again.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import os
import shutil
import time
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import BinaryIO
from urllib.parse import quote, urlsplit
from urllib.request import url2pathname

import pooch
from filelock import FileLock

from unionsnn.base.errors import DataError, DataUnavailableError
from unionsnn.base.files import atomic_write

_ATTEMPTS = 3
_RETRY_WAIT = 1.0
_TIMEOUT = 30
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
        progress: Called with (bytes done, total) during a download.

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
    mirror = mirror or os.environ.get("UNIONSNN_MIRROR") or None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(target.with_name(f"{target.name}.lock")):
            # The lock is held, so leftovers of killed processes can be removed.
            remove_parts(target)
            fault = _fault(target, sha256)
            if fault and target.exists():
                warnings.warn(f"{target} {fault}; it is fetched again", stacklevel=3)
            if fault:
                _get(target, relative_path, mirror, upstream, offline, sha256, progress)
            elif not _note(target).exists():
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


def _fault(target: Path, sha256: str | None) -> str | None:
    """Say what is wrong with a file of the data root, or None."""
    if not target.exists():
        return "is missing"
    note = _note(target)
    accepted = note.read_text().strip() if note.exists() else None
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
                _check_names(path, archive)
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
    offline: bool,
    sha256: str | None,
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
        try:
            hashes = [sha256]
            if kind == "mirror":
                hashes.append(_listed_hash(str(mirror), relative_path, part, offline))
            _copy(place, part, offline, progress)
            fault = _checksum_fault(part, hashes) or _content_fault(part, target.name)
            if fault is None:
                os.replace(part, target)
                _accept(target)
                return
            failures.append(f"  {kind} {place}: {fault}")
            if kind == "mirror" and upstream is not None:
                warnings.warn(f"{place} {fault}; trying {upstream}", stacklevel=4)
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
    """A mirror or server does not respond, or does not have the file."""


def _join(base: str, relative_path: str) -> str:
    if "://" in base:
        return f"{base.rstrip('/')}/{quote(relative_path)}"
    return str(Path(base) / relative_path)


def _copy(place: str, part: Path, offline: bool, progress: Progress | None) -> None:
    scheme, _, path, *_ = urlsplit(place)
    remote = scheme in ("http", "https")
    if remote and offline:
        raise _UnavailableError("not tried, because offline is set")
    if "://" in place and not remote and scheme != "file":
        raise _UnavailableError(
            f"{scheme}:// is not supported, use a folder, file:// or http(s)://"
        )
    local = Path(url2pathname(path)) if scheme == "file" else Path(place).expanduser()
    if not remote and not local.is_file():
        raise _UnavailableError("no such file" if local.parent.is_dir() else "no such folder")
    if not remote and not os.access(local, os.R_OK):
        raise _UnavailableError("cannot be read (no permission)")
    with open(part, "wb") as file:
        if remote:
            _download(place, file, progress)
        else:
            with open(local, "rb") as source:
                shutil.copyfileobj(source, file, 1 << 20)
        file.flush()
        os.fsync(file.fileno())


class _Bar:
    """Adapter from a callback to pooch's progress bar."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.total = 0
        self.done = 0

    def update(self, count: int) -> None:
        self.done = min(self.done + count, self.total)
        self.progress(self.done, self.total)

    def reset(self) -> None:
        self.done = 0

    def close(self) -> None:
        """Do nothing: the display belongs to the caller."""


def _download(url: str, file: BinaryIO, progress: Progress | None) -> None:
    """Download with retries; permanent errors such as 404 fail at once."""
    # Imported late, as in pooch: most runs download nothing.
    import requests

    for attempt in range(1, _ATTEMPTS + 1):
        bar = False if progress is None else _Bar(progress)
        downloader = pooch.HTTPDownloader(progressbar=bar, chunk_size=1 << 16, timeout=_TIMEOUT)
        file.seek(0)
        file.truncate()
        try:
            downloader(url, file, None)
            return
        except requests.RequestException as error:
            status = error.response.status_code if error.response is not None else None
            final = status is not None and 400 <= status < 500 and status not in (408, 429)
            if final or attempt == _ATTEMPTS:
                raise _UnavailableError(_reason(error, status)) from error
            time.sleep(_RETRY_WAIT * attempt)


def _reason(error: Exception, status: int | None) -> str:
    import requests

    if status is not None:
        return f"the server answers {status}"
    if isinstance(error, requests.Timeout):
        return f"no answer within {_TIMEOUT} seconds"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "the connection broke off in the middle"
    if isinstance(error, requests.ConnectionError):
        return "cannot be reached"
    return f"{type(error).__name__}: {error}"


def _listed_hash(mirror: str, relative_path: str, part: Path, offline: bool) -> str | None:
    """Look up a file in the mirror's SHA256SUMS; None if that does not list it."""
    try:
        _copy(_join(mirror, "SHA256SUMS"), part, offline, progress=None)
        lines = part.read_text(encoding="utf-8").splitlines()
    except (_UnavailableError, UnicodeDecodeError):
        return None
    finally:
        part.unlink(missing_ok=True)
    for line in lines:
        checksum, _, name = line.strip().partition(" ")
        if name.strip().lstrip("*").removeprefix("./") == relative_path:
            return checksum
    return None


def _check_names(path: Path, archive: zipfile.ZipFile) -> None:
    for name in archive.namelist():
        plain = name.replace("\\", "/")
        if plain.startswith("/") or ".." in plain.split("/") or plain[1:2] == ":":
            raise DataError(
                f"{path} holds the member {name!r}, which points outside its "
                "folder: it is refused; get the file from a source that you trust",
                code="data.unsafe",
            )


def open_zip(path: str | Path) -> zipfile.ZipFile:
    """Open a zip file for reading, refusing members that point outside their folder.

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
        _check_names(path, archive)
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
