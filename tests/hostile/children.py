"""Commands in forked processes: what they print, how they end, what memory they take."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SECONDS = 60.0
"""No command on a small input takes longer, whatever the input says."""

MEMORY = 1 << 30
"""Bytes that such a command may take beyond what this process has."""

_ADDRESS_SPACE = 6 << 30


@dataclass(frozen=True)
class Ended:
    """How a command ended.

    Attributes:
        status: Its exit status; negative for a signal, None if it was killed after `SECONDS`.
        memory: Bytes that it took beyond those of this process at its peak.
    """

    status: int | None
    stdout: str
    stderr: str
    memory: int

    @property
    def faults(self) -> list[str]:
        """What no input may bring about."""
        said = self.stdout + self.stderr
        found = []
        if self.status is None:
            found.append(f"no end within {SECONDS:.0f} s")
        elif self.status not in (0, 1, 2):
            found.append(f"ended with {self.status}")
        # The command line puts the traceback of what nothing foresaw into a file.
        if "Traceback (most recent call last)" in said or "[unexpected]" in self.stderr:
            found.append("traceback")
        if self.memory > MEMORY or "[memory" in self.stderr:
            found.append(f"memory: {self.memory >> 20} MiB")
        if self.status in (1, 2) and not self.stderr.strip():
            found.append("failed without a word")
        if any(ord(c) < 32 and c not in "\n\r\t\x1b" for c in said):
            found.append("control characters on the terminal")
        return found


def begin(words: Sequence[str], folder: Path, out: Path | None = None) -> int:
    """Start a command in a folder, in a process that has imported what this one has.

    Args:
        words: What stands after ``unionsnn``.
        folder: Its working folder.
        out: Prefix of the files of what it prints, which is dropped otherwise.

    Returns:
        Its process id.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    status = 70
    try:
        os.setsid()
        os.chdir(folder)
        for stream in (1, 2):
            name = os.devnull if out is None else f"{out}.{stream}"
            target = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(target, stream)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        if out is not None:
            # The peak of a forked process begins at what it shares with its parent.
            Path(f"{out}.memory").write_text(str(_resident()))
        status = _command(list(words))
    finally:
        os._exit(status)


def _command(words: list[str]) -> int:
    import torch

    from unionsnn.cli import main

    signal.signal(signal.SIGINT, signal.default_int_handler)
    # As on the command line: in tests a warning is an error.
    warnings.resetwarnings()
    for kind in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
        warnings.simplefilter("ignore", kind)
    torch.set_num_threads(1)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limit = used + _ADDRESS_SPACE
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.argv = ["unionsnn", *words]
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()


def ended(words: Sequence[str], folder: Path) -> Ended:
    """Run a command to its end, or kill it after `SECONDS`."""
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "out"
        pid = begin(words, folder, out)
        status, peak = _wait(pid)
        before = int(Path(f"{out}.memory").read_text())
        printed = [
            path.read_text("utf-8", "replace") if path.exists() else ""
            for path in (Path(f"{out}.1"), Path(f"{out}.2"))
        ]
    return Ended(status, printed[0], printed[1], max(0, peak - before))


def _wait(pid: int) -> tuple[int | None, int]:
    limit = time.monotonic() + SECONDS
    pause = 0.001
    while time.monotonic() < limit:
        found, state, usage = os.wait4(pid, os.WNOHANG)
        if found:
            kill_group(pid)
            return os.waitstatus_to_exitcode(state), usage.ru_maxrss * 1024
        time.sleep(pause)
        pause = min(2 * pause, 0.02)
    kill_group(pid)
    _, _, usage = os.wait4(pid, 0)
    return None, usage.ru_maxrss * 1024


def kill_group(pid: int) -> None:
    """Kill a command and the processes that it has started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def ready() -> None:
    """Import what commands import, so that a forked one begins at once."""
    import networkx
    import optuna
    import pytorch_lightning
    import torch_geometric.data

    import unionsnn.cli
    import unionsnn.data.datamodules
    import unionsnn.expressivity.bench
    import unionsnn.models.gin
    import unionsnn.models.unionsnn
    import unionsnn.runs.pending
    import unionsnn.runs.prediction
    import unionsnn.search.driver
    from unionsnn.coefficients import structural_coefficients

    del networkx, optuna, pytorch_lightning, torch_geometric, unionsnn
    edges = [[0, 1, 1, 2], [1, 0, 2, 1]]
    structural_coefficients(edges, 3, threads=1, quantities=("a", "a_tree", "nodes", "edges"))
    structural_coefficients(edges, 3, threads=1, radius=(1, 2))
