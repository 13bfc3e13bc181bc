"""The folder of one experiment: held against others, claimed, its repetitions and failures."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Generic, TypeVar

from filelock import FileLock, Timeout

from unionsnn.base.environment import environment
from unionsnn.base.errors import (
    DamagedFileError,
    DataError,
    FolderInUseError,
    RequestError,
    RunFolderError,
)
from unionsnn.base.files import (
    UNUSABLE_FOLDER_ERRNOS,
    open_regular,
    read_mapping,
    set_aside,
    write_json,
)
from unionsnn.config.identity import config_hash, differing_keys, run_folder
from unionsnn.config.pairs import PairConfig
from unionsnn.config.schema import METRICS, Config
from unionsnn.data.splits import Split, load_splits, split_hash
from unionsnn.training.records import Repetition, Result, Row, read_record

_Config = TypeVar("_Config", Config, PairConfig)

# What a run folder has before anything is trained.
_OF_A_REQUEST = {".lock", "holder.json", "config.json", "splits.json"}

# A copy that a cloud drive or a person made is called otherwise.
_RECORD = re.compile(r"(\d\d|[1-9]\d{2,})\.json")


class RunFolder(Generic[_Config]):
    """The folder of one experiment.

    Args:
        path: Its path; created when it is locked.
        config: The experiment's configuration.
        tested: Whether its repetitions are tested; those of a trial are not.
    """

    def __init__(self, path: Path, config: _Config, *, tested: bool = True) -> None:
        self.path = path
        self.tested = tested
        self.config: _Config = config

    @classmethod
    def of(cls, config: _Config, *, tested: bool = True) -> RunFolder[_Config]:
        """Return the run folder of a configuration."""
        path = run_folder(config)
        if isinstance(config, Config):
            # What a request accepts is no part of the experiment.
            config = config.replace({"accept_code": False})
        return cls(path, config, tested=tested)

    @contextmanager
    def locked(self) -> Iterator[RunFolder[_Config]]:
        """Lock the folder against other processes.

        With ``force`` an existing folder is renamed to ``NAME.old-N`` and a new one takes its name,
        so that a request without ``force`` reads the newest results. A new folder of a request that
        is refused before it has any result is deleted.

        Raises:
            RunFolderError: if another process holds the lock (named by its pid), or the folder is
                damaged or cannot be written, initially or later.
            RequestError: if the folder belongs to another configuration.
        """
        holder = self.path / "holder.json"
        absent = [path for path in (self.path, *self.path.parents) if not path.exists()]
        with ExitStack() as stack:
            try:
                self._refuse_a_parent()
                if self.config.force and (self.path / "config.json").exists():
                    # Held to the end: a process that opened the lock before the move must fail.
                    stack.enter_context(self._lock())
                    self._refuse_another(read_mapping(self.path / "config.json"))
                    self._move_away()
                self.path.mkdir(parents=True, exist_ok=True)
                stack.enter_context(self._lock())
                # Before the lock is released and another process may take it.
                stack.callback(holder.unlink, missing_ok=True)
                stack.callback(self._delete_empty)
                now = time.strftime("%Y-%m-%dT%H:%M:%S")
                write_json(holder, {"pid": os.getpid(), "since": now})
                self._claim()
                self._set_damaged_aside()
                self._delete_leftovers()
                yield self
            except (RequestError, DataError):
                if absent and {path.name for path in self.path.glob("*")} <= _OF_A_REQUEST:
                    stack.callback(_delete, absent)
                raise
            except Timeout:
                raise FolderInUseError(
                    f"{self.path} is in use by process {_pid(holder)}. Wait for it, stop it, or "
                    "type run_dir=FOLDER for another folder."
                ) from None
            except OSError as error:
                if error.errno not in UNUSABLE_FOLDER_ERRNOS:
                    raise
                raise RunFolderError(
                    f"{error.filename or self.path} cannot be written ({error.strerror}). Free "
                    "disk space, or type paths.output=FOLDER or run_dir=FOLDER for another folder; "
                    "finished repetitions are kept."
                ) from error

    def _lock(self) -> FileLock:
        return FileLock(self.path / ".lock", timeout=0)

    def _refuse_a_parent(self) -> None:
        """Raise RequestError for a folder that contains run folders, or for what is none."""
        files = [p for p in (self.path, *self.path.parents) if p.exists() and not p.is_dir()]
        if files:
            raise RequestError(
                f"{files[0]} is not a folder, so no run can be written there; type run_dir=FOLDER "
                "or paths.output=FOLDER with another name."
            )
        if (self.path / "config.json").exists():
            return
        depths = ("*", "*/*", "*/*/*")
        inside = [found for depth in depths for found in self.path.glob(f"{depth}/config.json")]
        if inside:
            raise RequestError(
                f"run_dir is {self.path}, which holds other runs, such as {inside[0].parent}; "
                "choose a separate folder, or leave run_dir out."
            )

    def _refuse_another(self, held: Mapping[str, Any] | None) -> None:
        """Raise RequestError if the folder belongs to another experiment."""
        if held is None or not self.config.to_dict().keys() <= held.keys():
            return
        if config_hash(held) != config_hash(self.config):
            keys = ", ".join(differing_keys(held, self.config))
            raise RequestError(
                f"{self.path} holds another experiment; it differs in {keys}. Give another "
                "run_dir, or leave it out."
            )

    def _move_away(self) -> None:
        path, number = self.path.absolute(), 1
        while (old := path.with_name(f"{path.name}.old-{number}")).exists():
            number += 1
        path.rename(old)

    def _claim(self) -> None:
        """Write the configuration, or check that the folder has the same one."""
        path = self.path / "config.json"
        parts = ("unfinished/*.ckpt", "cells/*/*.json")
        started = self._record_paths() or [p for part in parts for p in self.path.glob(part)]
        if not (path.exists() and started):
            if path.exists():
                # A request that failed before its first result does not claim the folder.
                (self.path / "splits.json").unlink(missing_ok=True)
                for left in ("failed", "cells"):
                    shutil.rmtree(self.path / left, ignore_errors=True)
            self.config = self.config.replace({"force": False})
            write_json(path, self.config.to_dict())
            return
        if not self.adopt():
            self._restore(path)

    def is_read_only(self) -> bool:
        """Return whether the folder is there and cannot be written."""
        return self.path.is_dir() and not os.access(self.path, os.W_OK)

    def adopt(self) -> bool:
        """Take the configuration of the folder; return whether it could be read.

        The first request's file is kept: a later one may differ in keys that do not matter.

        Raises:
            RequestError: if the folder belongs to another experiment.
        """
        held = read_mapping(self.path / "config.json")
        if held is None or not self.config.to_dict().keys() <= held.keys():
            return False
        self._refuse_another(held)
        self.config = type(self.config).from_dict(held)
        return True

    def _restore(self, path: Path) -> None:
        """Write a damaged configuration anew if the results next to it are those requested.

        Raises:
            RunFolderError: if they cannot be identified.
        """
        merged = read_mapping(self.results_path) or {}
        requested = config_hash(self.config)
        named = self.path == run_folder(self.config.replace({"run_dir": None}))
        if merged.get("config_hash", requested if named else None) != requested:
            raise RunFolderError(
                f"{path} is damaged, so the results next to it cannot be identified. Type "
                "force=true to train in a new folder; this one is kept under another name."
            )
        self.config = self.config.replace({"force": False})
        write_json(path, self.config.to_dict())
        warnings.warn(f"{path} was damaged; it is written anew from the request.", stacklevel=5)

    def _record_paths(self) -> list[Path]:
        paths = (self.path / "repetitions").glob("*.json")
        return sorted(path for path in paths if _RECORD.fullmatch(path.name))

    def _records(self) -> dict[Path, Repetition | DamagedFileError]:
        """Read and check each repetition's record; the fault of a damaged one."""
        paths = self._record_paths()
        splits = self._splits() if paths else None
        return {path: self._read_record(path, splits) for path in paths}

    def _splits(self) -> list[Split] | None:
        try:
            return load_splits(self.path / "splits.json")
        except (FileNotFoundError, DataError):
            # Who needs it says so.
            return None

    def _read_record(
        self, path: Path, splits: Sequence[Split] | None
    ) -> Repetition | DamagedFileError:
        try:
            record = read_record(Repetition, path)
            self._check_record(int(path.stem), record, splits)
        except FileNotFoundError:
            # Moved meanwhile, or a link to nothing.
            return DamagedFileError("it is gone")
        except DamagedFileError as error:
            return error
        return record

    def _check_record(self, index: int, record: Repetition, splits: Sequence[Split] | None) -> None:
        """Compare a record with the name of its file, the folder's splits and its configuration.

        Raises:
            DamagedFileError: It is not the record of this repetition.
        """
        if record.index != index:
            raise DamagedFileError(f"it is the record of repetition {record.index}")
        if not isinstance(self.config, Config):
            return
        record.refuse_another(self.config)
        if splits is not None and index < len(splits):
            sizes = {name: len(part) for name, part in splits[index].parts().items()}
            if record.split_hash != split_hash([splits[index]]) or record.sizes != sizes:
                raise DamagedFileError("its split is not the one of splits.json")
        protocol, limit = self.config.protocol, self.config.trainer.max_epochs
        # The mean curve is over all epochs.
        whole = protocol.keeps_test_curve and protocol.stop_on is None
        if record.epochs > limit or (whole and record.epochs < limit):
            raise DamagedFileError(f"it has {record.epochs} epochs of {limit}")
        rows, needed = [record.metrics], {protocol.report}
        if protocol.keeps_test_curve:
            rows, needed = record.curves, {protocol.report, protocol.mean_curve}
        if self.tested and any(not needed <= row.keys() for row in rows):
            raise DamagedFileError(f"it lacks {' or '.join(sorted(needed))}")
        kinds = {key.rpartition("_")[2] for key in record.metrics} & METRICS.keys()
        if others := kinds - {"loss", self.config.data.metric}:
            raise DamagedFileError(
                f"it has {', '.join(sorted(others))}, while the data's metric is "
                f"{self.config.data.metric}"
            )

    def _set_damaged_aside(self) -> None:
        """Rename damaged records, and name every file that is not what was written."""
        self.warn_of_the_merged_record()
        if self.results_path.is_dir():
            # A file could not replace it.
            set_aside(self.results_path)
        records, altered = self._records(), []
        damaged = {path: str(r) for path, r in records.items() if not isinstance(r, Repetition)}
        written = self.digests()
        for index, digests in written.items():
            path = self.repetition_path(index)
            for name, digest in digests.items():
                file = self.path / name
                if not records.get(path) or not file.exists() or _sha256(file) == digest:
                    continue
                if file == path:
                    damaged.setdefault(path, "it is not what was written")
                else:
                    altered.append(file)
        for path in damaged:
            set_aside(path)
        if damaged:
            names = ", ".join(f"{path} ({fault.rstrip('.')})" for path, fault in damaged.items())
            warnings.warn(
                f"Damaged, renamed to *.damaged, and trained again: {names}", stacklevel=4
            )
        if altered:
            names = ", ".join(map(str, altered))
            warnings.warn(f"Not what was written when it was trained: {names}", stacklevel=4)
        stray = [p for p in (self.path / "repetitions").glob("*") if p not in records]
        stray = [p for p in stray if not p.name.startswith(".") and ".damaged" not in p.name]
        if stray:
            names = ", ".join(map(str, sorted(stray)))
            warnings.warn(f"Ignored, because a record is called NN.json: {names}", stacklevel=4)
        if any(not self.repetition_path(index).exists() for index in written):
            # It describes files that are gone; it is merged anew with the next record.
            self.results_path.unlink(missing_ok=True)

    def warn_of_the_merged_record(self) -> None:
        """Say that the merged record is not what was written; it is made from the repetitions."""
        held = self._merged()
        if isinstance(held, DamagedFileError):
            fault = str(held).rstrip(".")
            warnings.warn(
                f"{self.results_path} is damaged ({fault}); it is merged anew from the records of "
                "the repetitions.",
                stacklevel=5,
            )

    def digests(self) -> dict[int, dict[str, str]]:
        """Return the digests of each repetition's files in the merged record."""
        held = self._merged()
        if not isinstance(held, Result):
            return {}
        return {row.index: row.digests for row in held.repetitions if row.digests}

    def _merged(self) -> Result | DamagedFileError | None:
        """Read and check the merged record; None without one, the fault of a damaged one."""
        if not self.results_path.exists() or not isinstance(self.config, Config):
            return None
        try:
            return read_record(Result, self.results_path)
        except DamagedFileError as error:
            return error

    def row(self, record: Repetition, written: Mapping[int, Mapping[str, str]]) -> Row:
        """Return what the merged record keeps of a repetition.

        Args:
            record: The repetition.
            written: What `digests` returned: a file that changed since keeps the first digest.
        """
        name = f"{record.index:02d}"
        own = self.repetition_path(record.index)
        digests = {own.relative_to(self.path).as_posix(): _sha256(own)}
        before = written.get(record.index, {})
        # Those of a repetition that was trained again are of other files.
        known = before if digests.items() <= before.items() else {}
        others = ("checkpoints/{}.ckpt", "predictions/{}.npz", "logs/{}/metrics.csv")
        for path in (other.format(name) for other in others):
            if path in known:
                digests[path] = known[path]
            elif (self.path / path).exists():
                digests[path] = _sha256(self.path / path)
        return Row.of(record, digests)

    def _delete_leftovers(self) -> None:
        """Delete what a killed process left: half-written files, points of what is recorded."""
        for depth in (".*.part", "*/.*.part", "*/*/.*.part"):
            for path in self.path.glob(depth):
                path.unlink(missing_ok=True)
        for point in self.path.glob("unfinished/*.ckpt"):
            index = point.stem.partition("-")[0]
            if (self.path / "repetitions" / f"{index}.json").exists():
                point.unlink(missing_ok=True)

    def _delete_empty(self) -> None:
        """Delete the folders of intermediate files that hold none."""
        for name in ("unfinished", "failed", "cells"):
            # One that holds a file is not deleted.
            with suppress(OSError):
                (self.path / name).rmdir()

    def repetition_path(self, index: int) -> Path:
        """Return the path of a repetition's record."""
        return self.path / "repetitions" / f"{index:02d}.json"

    def finished(self) -> dict[int, Repetition]:
        """Return the records of finished, undamaged repetitions by index."""
        return {r.index: r for r in self._records().values() if isinstance(r, Repetition)}

    def save_repetition(self, index: int, record: Repetition) -> None:
        """Write a finished repetition once, and delete its intermediate files."""
        write_json(self.repetition_path(index), record.to_json())
        self._failure_path(index).unlink(missing_ok=True)
        for name in (f"{index:02d}.ckpt", f"{index:02d}-*.ckpt"):
            for point in self.path.glob(f"unfinished/{name}"):
                point.unlink(missing_ok=True)
        shutil.rmtree(self.path / "cells" / f"{index:02d}", ignore_errors=True)

    def _failure_path(self, index: int) -> Path:
        return self.path / "failed" / f"{index:02d}.json"

    def save_failure(self, index: int, kind: str, reason: str) -> None:
        """Write how a repetition failed; the file is deleted when the repetition finishes."""
        content = {"index": index, "kind": kind, "reason": reason, **environment()}
        write_json(self._failure_path(index), content)

    def failures(self, indices: Iterable[int]) -> list[dict[str, Any]]:
        """Return how repetitions failed; a damaged file only says that there was a failure."""
        paths = {index: self._failure_path(index) for index in indices}
        held = {i: read_mapping(path) or {} for i, path in paths.items() if path.exists()}
        keys = ("kind", "reason")
        return [
            {"index": i, **{k: str(h.get(k, "unknown")) for k in keys}} for i, h in held.items()
        ]

    @property
    def results_path(self) -> Path:
        """Path of the merged record."""
        return self.path / "results.json"


def _delete(folders: Sequence[Path]) -> None:
    """Delete a run folder, and those of the folders around it that are empty then."""
    shutil.rmtree(folders[0], ignore_errors=True)
    for folder in folders[1:]:
        try:
            folder.rmdir()
        except OSError:
            return


def _pid(holder: Path) -> str:
    return str((read_mapping(holder) or {}).get("pid", "unknown"))


def altered(folder: Path, record: Result) -> list[str]:
    """Say which records, predictions and curves of a run folder are not those that were merged.

    Args:
        folder: The run folder.
        record: Its merged record; files without a digest in it are not judged.
    """
    lines = []
    for row in record.repetitions:
        for name, digest in (row.digests or {}).items():
            path = folder / name
            if name.startswith("checkpoints/") or not path.exists():
                continue
            if _sha256(path) != digest:
                lines.append(f"{path}: is not what was written when it was trained")
            elif name.startswith("repetitions/"):
                whole = read_record(Repetition, path)
                if Row.of(whole, row.digests or {}) != row:
                    lines.append(
                        f"{folder / 'results.json'}: repetition {row.index} is not that of {path}"
                    )
    return lines


def recorded_checkpoints(paths: Sequence[Path]) -> tuple[list[Path], list[str]]:
    """Compare the checkpoints of a run folder with those that were merged.

    Args:
        paths: Checkpoints of one folder; nothing is said without a merged record next to it.

    Returns:
        Those of the record's repetitions, or all if there are none of these; and what is wrong.
    """
    results = paths[0].absolute().parent.parent / "results.json"
    if paths[0].absolute().parent.name != "checkpoints" or not results.exists():
        return list(paths), []
    try:
        record = read_record(Result, results)
    except (OSError, DamagedFileError) as error:
        fault = f"{results}: is damaged ({error}), so no checkpoint was compared with it"
        return list(paths), [fault]
    digests = {f"{row.index:02d}.ckpt": row.digests for row in record.repetitions}
    kept = [path for path in paths if path.name in digests] or list(paths)
    notes = []
    for path in paths:
        written = (digests.get(path.name) or {}).get(f"checkpoints/{path.name}")
        if path.name not in digests:
            out = "" if path in kept else "; it was left out"
            notes.append(f"{path}: is of no repetition of {results}{out}")
        elif written is not None and _sha256(path) != written:
            notes.append(f"{path}: is not what was written when it was trained")
    return kept, notes


def _sha256(path: Path) -> str:
    """Return the digest of a file, and a word that is no digest for what is not a regular one."""
    try:
        with open_regular(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except DamagedFileError:
        return "none"
