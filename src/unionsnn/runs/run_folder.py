"""The folder of one experiment: held against others, claimed, its repetitions and failures."""

from __future__ import annotations

import os
import shutil
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar

from filelock import FileLock, Timeout

from unionsnn.base.environment import environment
from unionsnn.base.errors import FolderInUseError, RequestError, RunFolderError
from unionsnn.base.files import UNUSABLE_FOLDER_ERRNOS, read_mapping, set_aside, write_json
from unionsnn.config.identity import config_hash, differing_keys, run_folder
from unionsnn.config.pairs import PairConfig
from unionsnn.config.schema import Config
from unionsnn.training.records import Repetition

# What a repetition contributes to the merged record as it is; what must be equal in all.
PER_REPETITION = (
    "index",
    "seed",
    "split_hash",
    "sizes",
    "metrics",
    "best_epoch",
    "epochs",
    "device",
    "seconds",
)
# What only some have: test metrics with other draws, of networks that draw in evaluation; the code
# of the user's own classes.
OPTIONAL = ("other_evaluations", "grid", "code")
SHARED = (
    "dataset",
    "coefficient",
    "layer_coefficient",
    "parameters",
    "hidden_channels",
    "versions",
    "git_revision",
)
# Without these a file is damaged; what else it lacks, the version that wrote it did not know.
NEEDED = ("curves", "dataset", "versions")


_Config = TypeVar("_Config", Config, PairConfig)


class RunFolder(Generic[_Config]):
    """The folder of one experiment.

    Args:
        path: Its path; created when it is locked.
        config: The experiment's configuration.
    """

    def __init__(self, path: Path, config: _Config) -> None:
        self.path = path
        self.config: _Config = config

    @classmethod
    def of(cls, config: _Config) -> RunFolder[_Config]:
        """Return the run folder of a configuration."""
        return cls(run_folder(config), config)

    @contextmanager
    def locked(self) -> Iterator[RunFolder[_Config]]:
        """Lock the folder against other processes.

        With ``force`` an existing folder is renamed to ``NAME.old-N`` and a new one takes its name,
        so that a request without ``force`` reads the newest results.

        Raises:
            RunFolderError: if another process holds the lock (named by its pid), or the folder is
                damaged or cannot be written, initially or later.
            RequestError: if the folder belongs to another configuration.
        """
        holder = self.path / "holder.json"
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
                now = time.strftime("%Y-%m-%dT%H:%M:%S")
                write_json(holder, {"pid": os.getpid(), "since": now})
                self._claim()
                self._set_damaged_aside()
                self._delete_leftovers()
                yield self
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
        """Raise RequestError for a folder that contains run folders."""
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
        held = read_mapping(path)
        if held is None or not self.config.to_dict().keys() <= held.keys():
            raise RunFolderError(
                f"{path} is damaged, so the results next to it cannot be identified. Type "
                "force=true to train in a new folder; this one is kept under another name."
            )
        self._refuse_another(held)
        # The first request's file is kept: a later one may differ in keys that do not matter.
        self.config = type(self.config).from_dict(held)

    def _record_paths(self) -> list[Path]:
        return sorted((self.path / "repetitions").glob("[0-9]*.json"))

    def _records(self) -> dict[Path, Repetition | None]:
        """Read each repetition file; None for a damaged one."""
        return {path: _read_repetition(path) for path in self._record_paths()}

    def _set_damaged_aside(self) -> None:
        damaged = [path for path, record in self._records().items() if record is None]
        for path in damaged:
            set_aside(path)
        if damaged:
            names = ", ".join(str(path) for path in damaged)
            warnings.warn(
                f"Damaged, renamed to *.damaged, and trained again: {names}", stacklevel=4
            )

    def _delete_leftovers(self) -> None:
        """Delete what a killed process left: half-written files, points of what is recorded."""
        for depth in (".*.part", "*/.*.part", "*/*/.*.part"):
            for path in self.path.glob(depth):
                path.unlink(missing_ok=True)
        for point in self.path.glob("unfinished/*.ckpt"):
            index = point.stem.partition("-")[0]
            if (self.path / "repetitions" / f"{index}.json").exists():
                point.unlink(missing_ok=True)

    def repetition_path(self, index: int) -> Path:
        """Return the path of a repetition's record."""
        return self.path / "repetitions" / f"{index:02d}.json"

    def finished(self) -> dict[int, Repetition]:
        """Return the records of finished, undamaged repetitions by index."""
        return {int(path.stem): r for path, r in self._records().items() if r is not None}

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


def _pid(holder: Path) -> str:
    return str((read_mapping(holder) or {}).get("pid", "unknown"))


def _read_repetition(path: Path) -> Repetition | None:
    content = read_mapping(path)
    if content is None or not {*PER_REPETITION, *NEEDED} <= content.keys():
        return None
    return Repetition.from_json(content)
