"""How a process was started, and what that means for its end; without torch."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import dataclass


@dataclass(frozen=True)
class Launch:
    """The processes that torchrun started.

    Args:
        number: Which one this is.
        processes: How many there are on all machines.
        on_machine: How many there are on this one.
    """

    number: int
    processes: int
    on_machine: int


def started_by_torchrun() -> Launch | None:
    """Return what torchrun's variables say; None where it started this process alone, or not."""
    names = ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
    if not all(os.environ.get(name, "").isdigit() for name in names):
        return None
    launch = Launch(*(int(os.environ[name]) for name in names))
    return launch if launch.processes > 1 else None


def end_with_parent(parent: int) -> None:
    """Let this process end when its parent does, and not by a signal meant for the parent."""
    # Ctrl-C reaches all processes of a terminal; the parent alone decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
