"""Free memory, what a batch holds that takes it, and sizes in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

_OWN_GROUPS = Path("/proc/self/cgroup")
_GROUPS = Path("/sys/fs/cgroup")
# Names of bound and use in version 2 of control groups, and in version 1.
_FILES = {
    "": ("memory.max", "memory.current"),
    "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes"),
}


@dataclass(frozen=True)
class Extent:
    """Upper bounds of what a batch holds.

    Args:
        num_graphs: Its graphs.
        largest: Nodes of the largest one.
        pairs: Pairs of nodes of the same graph, each node with itself included.
        rows: Entries of each attribute in the whole batch: of ``x`` its nodes, of ``edge_index``
            its edges.
    """

    num_graphs: int
    largest: int
    pairs: int
    rows: Mapping[str, int]


def free_bytes() -> int:
    """Free memory of this machine, no more than a container or batch system leaves the process."""
    return min([int(psutil.virtual_memory().available), *_left_to_groups()])


def _left_to_groups() -> Iterator[int]:
    """Memory left to each control group around this process; psutil knows nothing of them."""
    try:
        lines = [line.split(":", 2) for line in _OWN_GROUPS.read_text().splitlines()]
    except OSError:
        return
    for _, controllers, path in (line for line in lines if len(line) == 3):
        kind = "memory" if "memory" in controllers.split(",") else controllers
        if kind not in _FILES:
            continue
        root = _GROUPS / kind
        group = root / path.lstrip("/")
        for folder in (group, *group.parents):
            left = _left(folder, *_FILES[kind])
            if left is not None:
                yield left
            if folder == root:
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
