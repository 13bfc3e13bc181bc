"""GeniePath."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor

from unionsnn.models.mpnn import MPNN, StackOptions
from unionsnn.nn.batch import GraphBatch
from unionsnn.nn.conv.geniepath import GeniePathConv


class GeniePath(MPNN):
    r"""GeniePath: attention over N[v], then the gates of an LSTM along the layers.

    "GeniePath: Graph Neural Networks with Adaptive Receptive Paths" (Liu et al., AAAI 2019), see
    `GeniePathConv`. The memory is 0 before the first layer. Norm, ReLU and residual connection
    around each layer are those of the stack; the paper has none (with ``norm=none`` and
    ``residual=false``, only the ReLU remains).

    Args:
        stack: Arguments of `MPNN`.
    """

    def __init__(self, **stack: Unpack[StackOptions]) -> None:
        super().__init__(GeniePathConv, **stack)

    def initial_state(self, h: Tensor, batch: GraphBatch) -> Tensor:
        """Return the memory before the first layer, [num_nodes, channels]."""
        return torch.zeros_like(h)
