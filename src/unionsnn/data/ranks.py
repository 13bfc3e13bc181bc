"""Which of the processes that train one network together this one is."""

from __future__ import annotations

import torch


def rank() -> int:
    """Number of this process among those that train together; 0 if it is alone."""
    return torch.distributed.get_rank() if _in_group() else 0


def world_size() -> int:
    """How many processes train together."""
    return torch.distributed.get_world_size() if _in_group() else 1


def _in_group() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()
