"""Gated graph convolutional network."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor, nn

from unionsnn.models.arguments import encodes_edges
from unionsnn.models.mpnn import MPNN, StackOptions
from unionsnn.models.parts import make_norm
from unionsnn.nn.batch import GraphBatch
from unionsnn.nn.conv.gated_gcn import GatedGCNConv


class GatedGCN(MPNN):
    r"""GatedGCN: U h_v + sum_u eta_vu * V h_u in each layer, eta from edge features.

    "Residual Gated Graph ConvNets" (Bresson and Laurent, 2017), as in "Benchmarking Graph Neural
    Networks" (Dwivedi et al., 2020): normalised gates and a stream of edge features, see
    `GatedGCNConv`. The stream starts from e_vu; without edge features, from one learned vector for
    all edges. The structural gate of a union variant multiplies eta_vu * V h_u.

    Args:
        stack: Arguments of `MPNN`; `norm` also applies to edge features.
    """

    reads_edges = True

    def __init__(self, **stack: Unpack[StackOptions]) -> None:
        norm = stack.get("norm", "batch")
        super().__init__(lambda c: GatedGCNConv(c, make_norm(norm, c)), **stack)
        if not encodes_edges(stack):
            self.edge = nn.Parameter(torch.randn(self.hidden_channels))

    def initial_state(self, h: Tensor, batch: GraphBatch) -> Tensor:
        """Return edge features before the first layer, [num_edges, channels]."""
        edges = self.encoded_edges(batch)
        return self.edge.expand(batch.edge_index.size(1), -1) if edges is None else edges
