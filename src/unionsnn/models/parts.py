"""Parts that networks share: their head, and the MLP and norm of layers."""

from __future__ import annotations

from typing import get_args

from torch import nn

from unionsnn.base.arguments import require_choice
from unionsnn.models.arguments import Level, Norm
from unionsnn.nn.norms import batch_norm


def make_head(
    hidden_channels: int, out_channels: int, dropout: float, level: Level
) -> nn.Sequential:
    """Make the head from embeddings to classes or targets: linear, ReLU, dropout, linear.

    For links it keeps the width, as its rows are what `pair_scores` multiplies.
    """
    return nn.Sequential(
        nn.Linear(hidden_channels, hidden_channels),
        nn.ReLU(),
        nn.Dropout(dropout),
        nn.Linear(hidden_channels, hidden_channels if level == "link" else out_channels),
    )


def two_layer_mlp(channels: int, norm: str = "batch") -> nn.Sequential:
    """Make the MLP of GIN, GraphSNN and UnionSNN layers: linear, norm, ReLU, linear."""
    return nn.Sequential(
        nn.Linear(channels, channels),
        make_norm(norm, channels),
        nn.ReLU(),
        nn.Linear(channels, channels),
    )


def make_norm(kind: str, channels: int) -> nn.Module:
    """Make a normalisation of node features.

    Raises:
        RequestError: if `kind` is unknown.
    """
    require_choice("norm", kind, get_args(Norm))
    if kind == "batch":
        return batch_norm(channels)
    return nn.LayerNorm(channels) if kind == "layer" else nn.Identity()
