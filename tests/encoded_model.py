"""A small network that reads every encoding, named by its dotted path in tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from unionsnn.base.memory import Extent
from unionsnn.nn.batch import GraphBatch


class Encoded(nn.Module):
    """Sums over nodes of features and encodings, and of distances over pairs, then one layer.

    Args:
        encodings: The section of the configuration.
        bytes_per_pair: What a pair of nodes in a batch is said to take.
        options: Everything else that a network is given.
    """

    def __init__(
        self,
        *,
        in_channels: int,
        out_channels: int,
        encodings: Mapping[str, int | bool],
        hidden_channels: int,
        bytes_per_pair: int = 1,
        **options: Any,
    ) -> None:
        super().__init__()
        self.hidden_channels = hidden_channels
        self.encodings = dict(encodings)
        self.level = options["level"]
        self.bytes_per_pair = bytes_per_pair
        sizes = [int(size) for size in encodings.values()]
        self.head = nn.Sequential(
            nn.Linear(in_channels + sum(sizes), hidden_channels),
            nn.ReLU(),
            nn.Linear(hidden_channels, out_channels),
        )

    def batch_bytes(self, extent: Extent) -> int:
        """Memory of a batch; half as much when nothing is kept for gradients."""
        padded = extent.num_graphs * extent.largest**2
        return self.bytes_per_pair * padded // (1 if self.training else 2)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Logits, one row per graph (or node)."""
        x, graph = batch.x, batch.batch
        for name in ("random_walk", "laplacian", "distance"):
            if (getattr(batch, name) is not None) != bool(self.encodings[name]):
                raise ValueError(f"{name} is not what was asked for")
        parts = [x, *(v for v in (batch.random_walk, batch.laplacian) if v is not None)]
        if batch.distance is not None:
            counts = torch.bincount(graph, minlength=batch.num_graphs)
            nodes = torch.arange(len(graph)).repeat_interleave(counts[graph])
            lengths = batch.distance.to(x.dtype)
            parts.append(x.new_zeros(len(graph)).index_add(0, nodes, lengths)[:, None])
        h = torch.cat(parts, dim=1)
        if self.level == "graph":
            h = h.new_zeros(batch.num_graphs, h.size(1)).index_add(0, graph, h)
        return self.head(h)


class OutOfMemory(Encoded):
    """Fails as a CPU's allocator does."""

    def forward(self, batch: GraphBatch) -> Tensor:
        """Ask for more memory than any machine has."""
        return torch.empty(1 << 60)
