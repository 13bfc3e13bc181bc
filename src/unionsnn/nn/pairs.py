"""Features of all pairs of nodes of each graph, as padded dense blocks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Literal

import torch
from torch import Tensor, nn

from unionsnn.nn.padding import edge_shares, ranked, read_sizes, similar_sizes


class PairPadding:
    """The places of nodes and of their pairs in square matrices, one for each graph.

    Graphs of similar size (`similar_sizes`) form a group and are padded to a common size. The
    matrices of all groups lie one after another, so that one scatter fills them.

    Args:
        batch: Graph of each node, in any order.
        num_graphs: Number of graphs.
        sizes: Number of nodes of each graph; None to read it from `batch`, for which a GPU waits.

    Attributes:
        shapes: For each group the number of its graphs and their common size, at least 1.
        rows: Row of each node among those of all matrices.
        diagonal: Cell of the pair of each node with itself among those of all matrices.

    Shapes:
        - batch, rows, diagonal: [num_nodes]
    """

    def __init__(self, batch: Tensor, num_graphs: int, sizes: Sequence[int] | None = None) -> None:
        counts, self._rank = ranked(batch, num_graphs)
        sizes = read_sizes(counts, len(batch)) if sizes is None else sizes
        groups = similar_sizes(sizes)
        self.shapes = [
            (len(group), max([1, *(sizes[graph] for graph in group)])) for group in groups
        ]
        common = [size for number, size in self.shapes for _ in range(number)]
        of_graph = zip(
            (graph for group in groups for graph in group),
            common,
            accumulate(common, initial=0),
            accumulate((size**2 for size in common), initial=0),
            strict=False,
        )
        table = torch.tensor([numbers for _, *numbers in sorted(of_graph)], dtype=torch.long)
        # The copy is taken before the call returns; a GPU does not wait for it.
        table = table.view(-1, 3).to(batch.device, non_blocking=True)
        size, row, cell = table.index_select(0, batch).unbind(1)
        self.rows = row + self._rank
        self._begin = cell + self._rank * size
        self.diagonal = self._begin + self._rank

    @property
    def num_cells(self) -> int:
        """Number of cells of all matrices."""
        return sum(number * size**2 for number, size in self.shapes)

    def cells(self, edge_index: Tensor) -> Tensor:
        """Return the cell of each edge: row is the receiver, column the sender, [num_edges]."""
        sender, receiver = edge_index
        return self._begin.index_select(0, receiver) + self._rank.index_select(0, sender)

    def matrices(self, cells: Tensor) -> list[Tensor]:
        """Return the cells of each group as matrices.

        Shapes:
            - cells: [num_cells, C]
            - output: [number of graphs, C, size, size] of each group
        """
        parts = torch.split(cells, [number * size**2 for number, size in self.shapes])
        return [
            part.view(number, size, size, -1).permute(0, 3, 1, 2)
            for part, (number, size) in zip(parts, self.shapes, strict=True)
        ]

    def unpad(self, rows: Sequence[Tensor]) -> Tensor:
        """Return the row of each node, [num_nodes, C], from [number of graphs, C, size]."""
        padded = [part.transpose(1, 2).flatten(0, 1) for part in rows]
        return torch.cat(padded).index_select(0, self.rows)

    @cached_property
    def taken(self) -> list[Tensor]:
        """Masks of the pairs of nodes, [number of graphs, 1, size, size] of each group."""
        lengths = [number * size for number, size in self.shapes]
        held = torch.zeros(sum(lengths), dtype=torch.bool, device=self.rows.device)
        parts = torch.split(held.index_fill_(0, self.rows, True), lengths)
        nodes = [part.view(shape) for part, shape in zip(parts, self.shapes, strict=True)]
        return [(part.unsqueeze(2) & part.unsqueeze(1)).unsqueeze(1) for part in nodes]

    @cached_property
    def others(self) -> list[Tensor]:
        """The same without the pair of a node with itself."""
        return [
            mask & ~torch.eye(mask.size(2), dtype=torch.bool, device=mask.device)
            for mask in self.taken
        ]


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
    h: Tensor, edge_index: Tensor, padding: PairPadding, edges: Tensor | None = None
) -> list[Tensor]:
    """Return the adjacency matrix, diagonal matrices of the node features, and edge features.

    Repeated edges count once, with the mean of their features; self loops are ignored. Rows are
    receivers.

    Shapes:
        - h: [num_nodes, C]
        - edge_index: [2, num_edges]
        - edges: [num_edges, D]; None for none
        - output: [number of graphs, 1 + C + D, size, size] of each group
    """
    cells = padding.cells(edge_index)
    proper = (edge_index[0] != edge_index[1]).to(h.dtype)
    adjacency = h.new_zeros(padding.num_cells).index_add(0, cells, proper).clamp(max=1)
    nodes = h.new_zeros(padding.num_cells, h.size(1)).index_copy(0, padding.diagonal, h)
    parts = [padding.matrices(adjacency.unsqueeze(1)), padding.matrices(nodes)]
    if edges is not None:
        shares = edge_shares(edge_index, cells, padding.num_cells)
        shared = edges * shares.to(edges.dtype).unsqueeze(1)
        summed = edges.new_zeros(padding.num_cells, edges.size(1)).index_add(0, cells, shared)
        parts.append(padding.matrices(summed))
    # Contiguous, as products of matrices with channels last would keep copies.
    return [torch.cat(group, dim=1).contiguous() for group in zip(*parts, strict=True)]


def node_rows(
    pairs: Sequence[Tensor], padding: PairPadding, kind: Literal["sum", "mean", "max"]
) -> Tensor:
    r"""Return for each node its own pair, concatenated with a pool of its other pairs.

    .. math::
        [X_{vv};\ \mathrm{pool}_{u \ne v} X_{vu}]

    The pool is 0 in a graph of one node.

    Args:
        pairs: Features of pairs; padding is ignored.
        padding: The places of the nodes.
        kind: ``sum``, ``mean`` or ``max``.

    Shapes:
        - pairs: [number of graphs, C, size, size] of each group
        - output: [num_nodes, 2 C]
    """
    pooled = [_pooled(each, mask, kind) for each, mask in zip(pairs, padding.others, strict=True)]
    return padding.unpad(pooled)


def _pooled(pairs: Tensor, others: Tensor, kind: Literal["sum", "mean", "max"]) -> Tensor:
    """Return own pairs and the pool of others of one group, [number of graphs, 2 C, size]."""
    if kind == "max":
        pooled = pairs.masked_fill(~others, -torch.inf).amax(dim=3)
        pooled = pooled.masked_fill(~others.any(dim=3), 0)
    else:
        pooled = pairs.masked_fill(~others, 0).sum(dim=3)
        if kind == "mean":
            pooled = pooled / others.sum(dim=3).clamp(min=1)
    return torch.cat([pairs.diagonal(dim1=2, dim2=3), pooled], dim=1)
