"""The group of processes that train one network: rank and communication."""

from __future__ import annotations

from typing import Any

import torch


def rank() -> int:
    """Return the rank of this process; 0 if it trains alone."""
    return torch.distributed.get_rank() if _in_group() else 0


def world_size() -> int:
    """Return the number of processes that train together."""
    return torch.distributed.get_world_size() if _in_group() else 1


def agreed(value: Any) -> Any:
    """Return the value of process 0 in all processes."""
    if world_size() == 1:
        return value
    box = [value]
    torch.distributed.broadcast_object_list(box, src=0)
    return box[0]


def gathered(value: Any) -> list[Any]:
    """Return the values of all processes in all processes."""
    values = [value] * world_size()
    if world_size() > 1:
        torch.distributed.all_gather_object(values, value)
    return values


def _in_group() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()
