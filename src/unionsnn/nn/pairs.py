"""Features of all pairs of nodes of each graph, as padded dense blocks."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn
from torch_geometric.utils import remove_self_loops

from unionsnn.nn.padding import Padding


class PairBlock(nn.Module):
    r"""A block of PPGN: the matrix product of two MLPs of all pairs, concatenated with the pairs.

    .. math::
        X \leftarrow W_1 X + W_2 \big(m_1(X)\, m_2(X)\big) + b, \qquad
        (m_1 m_2)_{vu} = \sum_w m_1(X)_{vw}\, m_2(X)_{wu} \text{ in each channel}

    "Provably Powerful Graph Networks" (Maron et al., NeurIPS 2019), section 6; in the form of
    "Benchmarking Graph Neural Networks" (Dwivedi et al., JMLR 2023), where a linear map of the
    concatenated pair and product replaces a third MLP.

    Args:
        in_channels: Channels of the input pairs.
        out_channels: Channels of the output pairs, and inside.
        mlp_layers: Number of linear maps of each MLP, each followed by a ReLU.

    Shapes:
        - pairs: [num_graphs, in_channels, size, size]
        - taken: [num_graphs, 1, size, size], the mask of pairs of nodes
        - output: [num_graphs, out_channels, size, size]; arbitrary finite values at padding
    """

    def __init__(self, in_channels: int, out_channels: int, *, mlp_layers: int = 2) -> None:
        super().__init__()
        self.left = _mlp(in_channels, out_channels, mlp_layers)
        self.right = _mlp(in_channels, out_channels, mlp_layers)
        self.pair = nn.Conv2d(in_channels, out_channels, 1)
        self.product = nn.Conv2d(out_channels, out_channels, 1, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reinitialise the weights as the published code does."""
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def forward(self, pairs: Tensor, taken: Tensor) -> Tensor:
        """Return new features of all pairs."""
        # The sum over w must exclude padding; one factor of 0 is enough.
        left = torch.relu(self.left(pairs) * taken)
        right = torch.relu(self.right(pairs))
        return self.pair(pairs) + self.product(left @ right)


def _mlp(in_channels: int, out_channels: int, layers: int) -> nn.Sequential:
    """Make an MLP of each pair without the last ReLU, which the block applies after masking."""
    widths = [in_channels, *[out_channels] * layers]
    maps = [nn.Conv2d(one, other, 1) for one, other in pairwise(widths)]
    return nn.Sequential(*[part for each in maps for part in (each, nn.ReLU())][:-1])


def pair_features(
    h: Tensor, edge_index: Tensor, padding: Padding, edges: Tensor | None = None
) -> Tensor:
    """Return the adjacency matrix, diagonal matrices of the node features, and edge features.

    Repeated edges count once, with the mean of their features; self loops are ignored. Rows are
    receivers.

    Shapes:
        - h: [num_nodes, C]
        - edge_index: [2, num_edges]
        - edges: [num_edges, D]; None for none
        - output: [num_graphs, 1 + C + D, size, size]
    """
    size = padding.size
    adjacency = h.new_zeros(padding.num_graphs * size**2)
    adjacency[padding.cells(remove_self_loops(edge_index)[0])] = 1
    nodes = torch.diag_embed(padding.pad(h).transpose(1, 2))
    parts = [adjacency.view(-1, 1, size, size), nodes]
    if edges is not None:
        shared = edges * padding.edge_shares(edge_index).to(edges.dtype).unsqueeze(1)
        cells = edges.new_zeros(padding.num_graphs * size**2, edges.size(1))
        cells = cells.index_add(0, padding.cells(edge_index), shared)
        parts.append(cells.view(-1, size, size, edges.size(1)).permute(0, 3, 1, 2))
    return torch.cat(parts, dim=1)


def node_rows(pairs: Tensor, padding: Padding, kind: Literal["sum", "mean", "max"]) -> Tensor:
    r"""Return for each node its own pair, concatenated with a pool of its other pairs.

    .. math::
        [X_{vv};\ \mathrm{pool}_{u \ne v} X_{vu}]

    The pool is 0 in a graph of one node.

    Args:
        pairs: Features of pairs; padding is ignored.
        padding: The places of the nodes.
        kind: ``sum``, ``mean`` or ``max``.

    Shapes:
        - pairs: [num_graphs, C, size, size]
        - output: [num_nodes, 2 C]
    """
    others = (padding.pairs & (padding.places != padding.places.unsqueeze(1))).unsqueeze(1)
    if kind == "max":
        pooled = pairs.masked_fill(~others, -torch.inf).amax(dim=3)
        pooled = pooled.masked_fill(~others.any(dim=3), 0)
    else:
        pooled = pairs.masked_fill(~others, 0).sum(dim=3)
        if kind == "mean":
            pooled = pooled / others.sum(dim=3).clamp(min=1)
    own = pairs.diagonal(dim1=2, dim2=3)
    return padding.unpad(torch.cat([own, pooled], dim=1).transpose(1, 2))
