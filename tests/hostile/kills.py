"""Commands killed at random moments, then typed again: what they come to and leave."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import shutil
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from hostile.attacks import RUN, SMALL, timeless
from hostile.children import SECONDS, begin, ended, kill_group
from hostile.mutations import Random
from tu_files import write_tu

_STUDY = {
    "overrides": [*SMALL, "data.mirror=null"],
    "space": {"optimizer.lr": "choice(0.1, 0.01)", "optimizer.weight_decay": "choice(0, 0.1)"},
    "objective": "val_loss",
    "sampler": {"name": "grid"},
    "heartbeat": 1,
}

COMMANDS: dict[str, Sequence[str]] = {
    "train": ["train", *RUN, "run_dir=killed", "paths.data=cache", "--json"],
    "sweep": ["sweep", "study.yaml", "paths.data=cache", "--workers", "2", "--json"],
    "reproduce": [
        *("reproduce", "table6", "--datasets", "4cycles", "--models", "gin,gcn", "--json", "--"),
        *(w for w in SMALL if not w.startswith(("model.", "data.batch"))),
        *("protocol.seeds=2", "data.batch_size=8", "paths.data=cache"),
    ],
    "precompute": [
        *("precompute", "data=tu", "data.name=SET", "data.mirror=mirror", "data.offline=true"),
        *("paths.data=cache", "--json"),
    ],
    "predict": ["predict", "run", "graphs", "--out", "table.csv", "--json"],
}


@dataclass(frozen=True)
class Left:
    """What a command has come to, times excepted.

    Attributes:
        printed: Its JSON.
        files: The files it has left, and what those hold that are records.
    """

    printed: Any
    files: dict[str, Any]


def prepared(kind: str, folder: Path) -> None:
    """Make the inputs of a command in an empty folder."""
    match kind:
        case "sweep":
            (folder / "study.yaml").write_text(yaml.safe_dump(_STUDY))
        case "precompute" if not (folder / "mirror").exists():
            write_tu(folder / "mirror", "SET", 40)
        case "predict":
            (folder / "graphs").mkdir()
            for i in range(20):
                lines = [f"{v},{(v + 1) % (i + 3)}\n" for v in range(i + 3)]
                lines += [f"{(v + 1) % (i + 3)},{v}\n" for v in range(i + 3)]
                (folder / "graphs" / f"{i:02d}.csv").write_text("".join(lines))


def undisturbed(kind: str, folder: Path) -> tuple[Left, float]:
    """Run a command to its end; return what it has come to and its seconds."""
    prepared(kind, folder)
    if kind == "predict":
        done = ended(["train", *RUN, "run_dir=run", "paths.data=cache"], folder)
        assert done.status == 0, done
    began = time.monotonic()
    left, faults = finish(kind, folder)
    assert not faults, faults
    assert left is not None
    return left, time.monotonic() - began


def finish(kind: str, folder: Path) -> tuple[Left | None, list[str]]:
    """Run a command to its end; return what it has come to, and faults."""
    with forking():
        done = ended(COMMANDS[kind], folder)
    if done.status != 0 or done.faults:
        return None, [*done.faults, f"ended with {done.status}: {done.stderr[-600:]}"]
    return Left(_plain(json.loads(done.stdout)), dict(_files(folder))), []


def killed(kind: str, folder: Path, rng: Random, seconds: float) -> bool:
    """Kill a command at a random moment; return whether it was still running.

    In one of three cases its workers are left, as where memory runs out, and have to end by
    themselves.
    """
    with forking():
        pid = begin(COMMANDS[kind], folder)
    end = time.monotonic() + rng.uniform(0.0, seconds)
    while time.monotonic() < end:
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            os.waitpid(pid, 0)
            return False
        time.sleep(0.001)
    if rng.random() < 1 / 3:
        os.kill(pid, signal.SIGKILL)
    else:
        kill_group(pid)
    os.waitpid(pid, 0)
    limit = time.monotonic() + SECONDS
    with contextlib.suppress(ProcessLookupError):
        while time.monotonic() < limit:
            os.killpg(pid, 0)
            time.sleep(0.01)
        kill_group(pid)
        raise AssertionError(f"workers of a killed {kind} still run after {SECONDS:.0f} s")
    return True


def disturbed(
    kind: str, folder: Path, rng: Random, right: Left, seconds: float, most: int = 3
) -> tuple[int, list[str]]:
    """Kill a command once or a few times, then run it to its end.

    Args:
        kind: A key of `COMMANDS`.
        folder: An empty folder; for predict with a finished run.
        rng: Draws the moments.
        right: What it must come to.
        seconds: How long it takes.
        most: Maximum number of kills.

    Returns:
        The number of kills, and findings.
    """
    if kind != "predict":
        prepared(kind, folder)
    kills = sum(killed(kind, folder, rng, seconds) for _ in range(int(rng.integers(1, most + 1))))
    left, faults = finish(kind, folder)
    if left is None:
        return kills, faults
    if left.printed != right.printed:
        faults.append(f"another result: {difference(left.printed, right.printed)}")
    stray, lost = left.files.keys() - right.files.keys(), right.files.keys() - left.files.keys()
    if stray:
        faults.append(f"stray files: {sorted(stray)}")
    if lost:
        faults.append(f"lost files: {sorted(lost)}")
    for name in sorted(left.files.keys() & right.files.keys()):
        if left.files[name] != right.files[name]:
            faults.append(f"{name}: {difference(left.files[name], right.files[name])}")
    return kills, faults


def difference(one: Any, other: Any, place: str = "") -> str:
    """Name the first place where two records differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys(), key=str):
            if one.get(key) != other.get(key):
                return difference(one.get(key), other.get(key), f"{place}.{key}")
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for i, (a, b) in enumerate(zip(one, other, strict=True)):
            if a != b:
                return difference(a, b, f"{place}[{i}]")
    return f"{place}: {str(one)[:200]} for {str(other)[:200]}"


@contextlib.contextmanager
def forking() -> Iterator[None]:
    """Let pools fork: spawned workers would import torch again, which takes most of their time."""
    original = multiprocessing.get_context
    multiprocessing.get_context = lambda method=None: original("fork")  # type: ignore[assignment]
    try:
        yield
    finally:
        multiprocessing.get_context = original


# Times, and the number of a trial, which counts those that were killed.
_VOLATILE = {
    "trial",
    "computed",
    "entry",
    "finished",
    "started",
    "seconds_per_epoch",
    "written",
    "digest",
    "digests",
}


def _plain(content: Any) -> Any:
    if isinstance(content, dict):
        return {
            k: _plain(v)
            for k, v in timeless(content).items()
            if k not in _VOLATILE and "seconds" not in k
        }
    return [_plain(each) for each in content] if isinstance(content, list) else content


def _files(folder: Path) -> Iterator[tuple[str, Any]]:
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_dir() or path.name.endswith((".lock", "-wal", "-shm", "-journal")):
            continue
        held: Any = None
        if path.suffix == ".json":
            held = _plain(json.loads(path.read_bytes()))
        elif path.suffix == ".npz":
            with np.load(path) as arrays:
                held = {key: arrays[key].tolist() for key in arrays.files}
        elif path.name == "table.csv":
            held = path.read_text()
        yield name, held


def copy_run(one: Path, other: Path) -> None:
    """Give another folder the inputs that take time, or hold it as zip files do."""
    names = ("run", "graphs", "cache") if (one / "run").exists() else ("mirror",)
    for name in names:
        if (one / name).exists():
            shutil.copytree(one / name, other / name)
