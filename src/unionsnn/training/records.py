"""Records: one JSON file a repetition, their merge, and the folder that holds them."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from unionsnn import __version__
from unionsnn.data.arrays import atomic_write
from unionsnn.training.config import RequestError, config_hash, differing_keys

PACKAGES = ("torch", "pytorch-lightning", "torch-geometric", "numpy", "numba", "networkx", "scipy")


class RunFolderError(RuntimeError):
    """A run folder that cannot be used: in use by another process, or not writable."""


def write_json(path: Path, content: Any) -> None:
    """Write JSON so that others see either all of it or nothing."""
    text = json.dumps(content, indent=1, allow_nan=False).encode()
    atomic_write(path, lambda file: file.write(text) and None)


@cache
def environment() -> dict[str, Any]:
    """Versions and platform that a record carries."""
    versions = {"python": platform.python_version(), "unionsnn": __version__}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "absent"
    return {"versions": versions, "platform": platform.platform(), "git_revision": git_revision()}


def git_revision() -> str | None:
    """Revision of the source checkout, with ``-dirty`` after it if files differ; None elsewhere."""
    folder = Path(__file__).parent
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    inside = any((parent / ".git").exists() for parent in folder.parents[:3])
    return done.stdout.strip() if inside else None


class RunFolder:
    """The folder of one experiment.

    Args:
        path: Its path; made when it is locked.
        config: The experiment's configuration.
    """

    def __init__(self, path: Path, config: Mapping[str, Any]) -> None:
        self.path = path
        self.config = config

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> RunFolder:
        """Return the folder that a configuration names, or its own below ``paths.output``.

        With ``force`` an existing folder is left alone and a number is added to the name.
        """
        if config["run_dir"] is not None:
            path = Path(config["run_dir"]).expanduser()
        else:
            name = f"{config['protocol']['name']}-{config_hash(config)}"
            model = config["model"]["name"]
            path = Path(config["paths"]["output"]) / config["data"]["name"] / model / name
        if config["force"]:
            fresh, number = path, 1
            while fresh.exists():
                number += 1
                fresh = path.with_name(f"{path.name}-{number}")
            path = fresh
        return cls(path, config)

    @contextmanager
    def locked(self) -> Iterator[RunFolder]:
        """Hold the folder against other processes.

        Raises:
            RunFolderError: if another process holds it (named by its pid) or it is not writable.
            RequestError: if the folder belongs to another configuration.
        """
        holder = self.path / "holder.json"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.path / ".lock")
            lock.acquire(timeout=0)
        except Timeout:
            raise RunFolderError(
                f"{self.path} is in use by process {_pid(holder)}. Wait for it, stop it, or give "
                "run_dir=<another folder>."
            ) from None
        except OSError as error:
            raise RunFolderError(
                f"{self.path} cannot be written ({error.strerror}). Give paths.output=<a folder of "
                "yours> or run_dir=<folder>."
            ) from None
        try:
            write_json(holder, {"pid": os.getpid(), "since": time.strftime("%Y-%m-%dT%H:%M:%S")})
            self._claim()
            yield self
        finally:
            holder.unlink(missing_ok=True)
            lock.release()

    def _claim(self) -> None:
        """Write the configuration, or check that the folder holds the same one."""
        path = self.path / "config.json"
        if path.exists():
            held = json.loads(path.read_text())
            started = self.finished() or list((self.path / "unfinished").glob("*.ckpt"))
            if not started:
                # A request that failed before its first result does not keep the folder.
                (self.path / "splits.json").unlink(missing_ok=True)
                write_json(path, self.config)
                return
            if config_hash(held) != config_hash(self.config):
                keys = ", ".join(differing_keys(held, self.config))
                raise RequestError(
                    [
                        f"{self.path} holds another experiment; it differs in {keys}. Give another "
                        "run_dir, or leave it out."
                    ]
                )
            # Results are the folder's: a second request may differ in what does not matter.
            self.config = held
        else:
            write_json(path, self.config)

    def repetition_path(self, index: int) -> Path:
        """File of a repetition's record."""
        return self.path / "repetitions" / f"{index:02d}.json"

    def finished(self) -> dict[int, dict[str, Any]]:
        """Records of the finished repetitions, by index."""
        paths = sorted((self.path / "repetitions").glob("[0-9]*.json"))
        return {int(p.stem): json.loads(p.read_text()) for p in paths}

    def save_repetition(self, index: int, record: Mapping[str, Any]) -> None:
        """Write a finished repetition, once."""
        write_json(self.repetition_path(index), record)

    @property
    def results_path(self) -> Path:
        """File of the merged record."""
        return self.path / "results.json"


def _pid(holder: Path) -> str:
    try:
        return str(json.loads(holder.read_text())["pid"])
    except (OSError, ValueError, KeyError):
        return "unknown"
