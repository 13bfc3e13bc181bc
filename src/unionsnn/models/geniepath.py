"""GeniePath."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor

from unionsnn.models.arguments import encodes_edges
from unionsnn.models.mpnn import MPNN, StackOptions, State
from unionsnn.nn.batch import GraphBatch
from unionsnn.nn.conv.geniepath import GeniePathConv
from unionsnn.nn.loops import SelfLoops


class GeniePath(MPNN):
    r"""GeniePath: attention over N[v], then the gates of an LSTM along the layers.

    "GeniePath: Graph Neural Networks with Adaptive Receptive Paths" (Liu et al., AAAI 2019), see
    `GeniePathConv`. The memory is 0 before the first layer. Norm, ReLU and residual connection
    around each layer are those of the stack; the paper has none (with ``norm=none`` and
    ``residual=false``, only the ReLU remains).
    With edge features, the attention reads e_vu (an extension).

    Args:
        stack: Arguments of `MPNN`.
    """

    reads_edges = True
    adds_loops = True

    def __init__(self, **stack: Unpack[StackOptions]) -> None:
        with_edges = encodes_edges(stack)
        super().__init__(
            lambda c: GeniePathConv(c, edge_dim=c if with_edges else None, add_self_loops=False),
            **stack,
        )

    def initial_state(self, h: Tensor, batch: GraphBatch) -> State:
        """Return the memory before the first layer, [num_nodes, channels], and encoded edges."""
        memory, edges = torch.zeros_like(h), self.encoded_edges(batch)
        return memory if edges is None else (memory, edges)

    def looped(self, state: State, loops: SelfLoops) -> State:
        """Return the memory, and encoded edges with rows of zeros for loops."""
        if not isinstance(state, tuple):
            return state
        memory, edges = state
        return memory, loops.append(edges)
