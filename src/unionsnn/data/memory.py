"""How much memory there is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

_MEMINFO = Path("/proc/meminfo")


def free_bytes(device: torch.device | None = None) -> int | None:
    """Memory of a device, by default of the CPU, that is free; None where nobody can tell."""
    if device is not None and device.type == "cuda":
        import torch

        return torch.cuda.mem_get_info(device)[0]
    if device is not None and device.type != "cpu":
        return None
    try:
        lines = dict(line.split(":", 1) for line in _MEMINFO.read_text().splitlines())
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return None


def format_gigabytes(number: int) -> str:
    """Write a size in GB, with the digits that count."""
    return f"{number / 1e9:.3g} GB"
