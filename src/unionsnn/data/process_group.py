"""The processes that train one network together: this one's rank, and what they tell each other."""

from __future__ import annotations

from typing import Any

import torch


def rank() -> int:
    """Number of this process among those that train together; 0 if it is alone."""
    return torch.distributed.get_rank() if _in_group() else 0


def world_size() -> int:
    """How many processes train together."""
    return torch.distributed.get_world_size() if _in_group() else 1


def agreed(value: Any) -> Any:
    """What process 0 gives, in all processes; the value itself where there is one."""
    if world_size() == 1:
        return value
    box = [value]
    torch.distributed.broadcast_object_list(box, src=0)
    return box[0]


def gathered(value: Any) -> list[Any]:
    """What each process gives, in all processes."""
    values = [value] * world_size()
    if world_size() > 1:
        torch.distributed.all_gather_object(values, value)
    return values


def _in_group() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()
