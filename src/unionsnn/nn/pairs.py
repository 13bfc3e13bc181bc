"""Features of all pairs of nodes of each graph, as padded dense blocks."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn
from torch_geometric.utils import remove_self_loops

from unionsnn.nn.padding import Padding


class PairBlock(nn.Module):
    r"""A block of PPGN: two MLPs of each pair, multiplied as matrices, beside the pair itself.

    .. math::
        X \leftarrow W_1 X + W_2 \big(m_1(X)\, m_2(X)\big) + b, \qquad
        (m_1 m_2)_{vu} = \sum_w m_1(X)_{vw}\, m_2(X)_{wu} \text{ in each channel}

    "Provably Powerful Graph Networks" (Maron et al., NeurIPS 2019), section 6; in the form of
    "Benchmarking Graph Neural Networks" (Dwivedi et al., JMLR 2023), where a linear map of the pair
    and the product side by side takes the place of a third MLP.

    Args:
        in_channels: Channels of a pair that is given.
        out_channels: Channels of a pair that is returned, and inside.
        mlp_layers: Linear maps of each MLP, with a ReLU after each.

    Shapes:
        - pairs: [num_graphs, in_channels, size, size]
        - taken: [num_graphs, 1, size, size], which pairs are pairs of nodes
        - output: [num_graphs, out_channels, size, size]; of the other pairs anything finite
    """

    def __init__(self, in_channels: int, out_channels: int, *, mlp_layers: int = 2) -> None:
        super().__init__()
        self.left = _mlp(in_channels, out_channels, mlp_layers)
        self.right = _mlp(in_channels, out_channels, mlp_layers)
        self.pair = nn.Conv2d(in_channels, out_channels, 1)
        self.product = nn.Conv2d(out_channels, out_channels, 1, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights as the published code does."""
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def forward(self, pairs: Tensor, taken: Tensor) -> Tensor:
        """Multiply, then mix with what there was."""
        # The sum over w must leave padding out; one factor that is 0 there is enough.
        left = torch.relu(self.left(pairs) * taken)
        right = torch.relu(self.right(pairs))
        return self.pair(pairs) + self.product(left @ right)


def _mlp(in_channels: int, out_channels: int, layers: int) -> nn.Sequential:
    """Linear maps of each pair; the last ReLU is left to the block, which masks before it."""
    widths = [in_channels, *[out_channels] * layers]
    maps = [nn.Conv2d(one, other, 1) for one, other in pairwise(widths)]
    return nn.Sequential(*[part for each in maps for part in (each, nn.ReLU())][:-1])


def pair_features(h: Tensor, edge_index: Tensor, padding: Padding) -> Tensor:
    """Return the adjacency matrix, and the features of the nodes on diagonals.

    An edge counts once, one from a node to itself not at all. The receiver is the row.

    Shapes:
        - h: [num_nodes, C]
        - edge_index: [2, num_edges]
        - output: [num_graphs, 1 + C, size, size]
    """
    size = padding.size
    adjacency = h.new_zeros(padding.num_graphs * size**2)
    adjacency[padding.cells(remove_self_loops(edge_index)[0])] = 1
    nodes = torch.diag_embed(padding.pad(h).transpose(1, 2))
    return torch.cat([adjacency.view(-1, 1, size, size), nodes], dim=1)


def node_rows(pairs: Tensor, padding: Padding, kind: Literal["sum", "mean", "max"]) -> Tensor:
    r"""Return of each node its own pair beside a pool of those with the others.

    .. math::
        [X_{vv};\ \mathrm{pool}_{u \ne v} X_{vu}]

    0 stands for the pool of a node that is alone in its graph.

    Args:
        pairs: Features of pairs; those of padding are not looked at.
        padding: Where the nodes stand.
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
