"""A small network that reads every encoding, named by its dotted path in tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn


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

    def batch_bytes(
        self, num_graphs: int, largest: int, pairs: int, rows: Mapping[str, int]
    ) -> int:
        """Memory of a batch; half as much when nothing is kept for gradients."""
        return self.bytes_per_pair * num_graphs * largest**2 // (1 if self.training else 2)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        *,
        batch: Tensor,
        num_graphs: int,
        random_walk: Tensor | None = None,
        laplacian: Tensor | None = None,
        distance: Tensor | None = None,
    ) -> Tensor:
        """Logits, one row per graph (or node)."""
        for name, value in {
            "random_walk": random_walk, "laplacian": laplacian, "distance": distance,
        }.items():  # fmt: skip
            if (value is not None) != bool(self.encodings[name]):
                raise ValueError(f"{name} is not what was asked for")
        parts = [x, *(v for v in (random_walk, laplacian) if v is not None)]
        if distance is not None:
            counts = torch.bincount(batch, minlength=num_graphs)
            nodes = torch.arange(len(batch)).repeat_interleave(counts[batch])
            lengths = distance.to(x.dtype)
            parts.append(x.new_zeros(len(batch)).index_add(0, nodes, lengths)[:, None])
        h = torch.cat(parts, dim=1)
        if self.level == "graph":
            h = h.new_zeros(num_graphs, h.size(1)).index_add(0, batch, h)
        return self.head(h)


class OutOfMemory(Encoded):
    """Fails as a CPU's allocator does."""

    def forward(self, *arguments: Any, **options: Any) -> Tensor:
        """Ask for more memory than any machine has."""
        return torch.empty(1 << 60)
