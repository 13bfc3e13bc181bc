"""Batch norms whose batches are counted together at the end of a pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch_geometric.nn import BatchNorm


def batch_norm(channels: int) -> BatchNorm:
    """Make a batch norm, which leaves a single row to its running statistics.

    Args:
        channels: Width of the features.

    Shapes:
        - x: [num_nodes, channels]
        - output: [num_nodes, channels]
    """
    # A training batch may consist of a single node.
    norm = BatchNorm(channels, allow_single_element=True)
    norm.module = _BatchNorm1d(channels)
    return norm


class _BatchNorm1d(nn.BatchNorm1d):
    """torch's batch norm, whose batches `BatchCounts` counts."""

    counts: BatchCounts | None = None

    def forward(self, input: Tensor) -> Tensor:
        # Without a momentum, the count is a factor of the statistics. Compiled code fuses counts.
        if self.momentum is None or torch.compiler.is_compiling() or self.counts is None:
            return super().forward(input)
        if self.training and not self.counts.note(self):
            return super().forward(input)
        self._check_input_dim(input)
        return nn.functional.batch_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training,
            self.momentum,
            self.eps,
        )


class BatchCounts:
    """The numbers of batches that the batch norms of a network have seen, added to in one launch.

    Args:
        network: The network; outside `of_a_pass` its norms count themselves.
    """

    def __init__(self, network: nn.Module) -> None:
        self._noted: list[Tensor] | None = None
        for module in network.modules():
            if isinstance(module, _BatchNorm1d):
                module.counts = self

    def note(self, norm: _BatchNorm1d) -> bool:
        """Take over the count of a norm; False outside a pass."""
        if self._noted is None or norm.num_batches_tracked is None:
            return False
        self._noted.append(norm.num_batches_tracked)
        return True

    @contextmanager
    def of_a_pass(self) -> Iterator[None]:
        """Add at the end what the norms have seen."""
        self._noted = []
        try:
            yield
        finally:
            noted, self._noted = self._noted, None
            once = len({id(count) for count in noted}) == len(noted)
            for some in [noted] if noted and once else [[count] for count in noted]:
                torch._foreach_add_(some, 1)
