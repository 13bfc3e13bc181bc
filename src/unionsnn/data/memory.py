"""How much memory there is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

_MEMINFO = Path("/proc/meminfo")
_OWN_GROUPS = Path("/proc/self/cgroup")
_GROUPS = Path("/sys/fs/cgroup")
# Names of bound and use in version 2 of control groups, and in version 1.
_FILES = {
    "": ("memory.max", "memory.current"),
    "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes"),
}


def free_bytes(device: torch.device | None = None) -> int | None:
    """Memory of a device, by default of the CPU, that is free; None where nobody can tell.

    Of the CPU's, no more than is left to the process where a container or batch system bounds it.
    """
    if device is not None and device.type == "cuda":
        import torch

        return torch.cuda.mem_get_info(device)[0]
    if device is not None and device.type != "cpu":
        return None
    machine = _free_on_the_machine()
    return min((each for each in (machine, *_left_to_groups()) if each is not None), default=None)


def _free_on_the_machine() -> int | None:
    try:
        lines = dict(line.split(":", 1) for line in _MEMINFO.read_text().splitlines())
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return None


def _left_to_groups() -> Iterator[int]:
    """What is left to each control group around this process that has a bound."""
    try:
        groups = [line.split(":", 2) for line in _OWN_GROUPS.read_text().splitlines()]
    except OSError:
        return
    for _, controllers, path in (group for group in groups if len(group) == 3):
        kind = "memory" if "memory" in controllers.split(",") else controllers
        if kind not in _FILES:
            continue
        base = _GROUPS / kind
        own = base / path.lstrip("/")
        for folder in (own, *own.parents):
            left = _left(folder, *_FILES[kind])
            if left is not None:
                yield left
            if folder == base:
                break


def _left(folder: Path, bound: str, use: str) -> int | None:
    try:
        limit, used = (int((folder / name).read_text()) for name in (bound, use))
        words = (folder / "memory.stat").read_text().split()
        # Files that were read and can be read again are counted, but make way.
        reclaimable = int(dict(zip(words[::2], words[1::2], strict=False))["inactive_file"])
    except (OSError, ValueError, KeyError):  # "max" is no bound.
        return None
    return max(limit - used + reclaimable, 0)


def format_gigabytes(number: int) -> str:
    """Write a size in GB, with the digits that count."""
    gigabytes = number / 1e9
    return f"{gigabytes:,.0f} GB" if gigabytes >= 100 else f"{gigabytes:.3g} GB"
