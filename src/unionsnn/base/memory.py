"""Free memory, the extent of a batch, and formatting of sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

_OWN_GROUPS = Path("/proc/self/cgroup")
_GROUPS = Path("/sys/fs/cgroup")
# Files with the limit and the usage, in version 2 of control groups and in version 1.
_FILES = {
    "": ("memory.max", "memory.current"),
    "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes"),
}


@dataclass(frozen=True)
class Extent:
    """Upper bounds on the contents of a batch.

    Args:
        num_graphs: Number of graphs.
        largest: Number of nodes of the largest graph.
        pairs: Pairs of nodes of the same graph, including each node with itself.
        rows: Number of entries of each attribute in the whole batch: nodes for ``x``, edges for
            ``edge_index``.
    """

    num_graphs: int
    largest: int
    pairs: int
    rows: Mapping[str, int]


def free_bytes() -> int:
    """Return the free memory, as limited by the machine and any container or batch system."""
    return min([int(psutil.virtual_memory().available), *_left_to_groups()])


def _left_to_groups() -> Iterator[int]:
    """Yield the memory left to each control group of this process, which psutil ignores."""
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
        # Cached file pages are counted as used, but can be reclaimed.
        reclaimable = int(dict(zip(words[::2], words[1::2], strict=False))["inactive_file"])
    except (OSError, ValueError, KeyError):  # "max" means no limit.
        return None
    return max(limit - used + reclaimable, 0)
