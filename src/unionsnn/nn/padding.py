"""Conversion between the consecutive nodes of a batch and one padded matrix per graph."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

SPREAD = 2
"""Maximum size ratio of the matrices of graphs that are padded to the same size."""


def similar_sizes(sizes: Sequence[int]) -> list[list[int]]:
    """Group the graphs of a batch so that padding at most doubles a graph's matrix.

    Args:
        sizes: Number of nodes of each graph.

    Returns:
        The graphs of each group, largest first; a single group if sizes are similar.
    """
    groups: list[list[int]] = []
    for graph in sorted(range(len(sizes)), key=lambda each: -sizes[each]):
        if groups and SPREAD * max(sizes[graph], 1) ** 2 >= max(sizes[groups[-1][0]], 1) ** 2:
            groups[-1].append(graph)
        else:
            groups.append([graph])
    return groups or [[]]


def ranked(batch: Tensor, num_graphs: int) -> tuple[Tensor, Tensor]:
    """Return the number of nodes of each graph, and the number of each node in its graph.

    Shapes:
        - batch: [num_nodes], in any order
        - output: [num_graphs] and [num_nodes]
    """
    # Not bincount, which waits for a GPU to find the largest value.
    counts = batch.new_zeros(num_graphs).index_add_(0, batch, torch.ones_like(batch))
    order = torch.argsort(batch, stable=True)
    rank = torch.empty_like(order)
    rank.scatter_(0, order, torch.arange(len(order), device=batch.device))
    return counts, rank - (counts.cumsum(0) - counts).index_select(0, batch)


def edge_shares(edge_index: Tensor, cells: Tensor, num_cells: int) -> Tensor:
    """Return a factor for each edge, so that repeated edges count once.

    It is 1 over the number of times that an edge occurs, and 0 for self loops.

    Args:
        edge_index: Senders, then receivers.
        cells: Cell of each edge in the matrices of the graphs.
        num_cells: Number of cells.

    Shapes:
        - edge_index: [2, num_edges]
        - cells: [num_edges]
        - output: [num_edges], float32
    """
    ones = torch.ones_like(cells, dtype=torch.float32)
    occurs = ones.new_zeros(num_cells).index_add(0, cells, ones)
    return (edge_index[0] != edge_index[1]) / occurs.index_select(0, cells)


def read_sizes(counts: Tensor, num_nodes: int) -> list[int]:
    """Read the number of nodes of each graph; a single graph has all of them."""
    return [num_nodes] if len(counts) == 1 else counts.tolist()


class Padding:
    """The places of nodes in a padded batch, and which places are taken.

    Nodes keep their order in the batch. With a token, each graph has one more place before its
    nodes; in unpadded rows the tokens come after all nodes.

    Args:
        batch: Graph of each node, in any order.
        num_graphs: Number of graphs; the last ones may be empty.
        token: Whether each graph has a token.
        sizes: Number of nodes of each graph; None to read it from `batch`, for which a GPU waits.

    Attributes:
        counts: Number of nodes of each graph.
        node_counts: The same on the device of the batch.
        size: Places per graph: the largest number of nodes, plus the token; at least 1.
        slots: Place of each row among all places.

    Shapes:
        - batch: [num_nodes]
        - rows: [num_nodes, C], with a token [num_nodes + num_graphs, C]
        - padded: [num_graphs, size, C]
    """

    def __init__(
        self,
        batch: Tensor,
        num_graphs: int,
        *,
        token: bool = False,
        sizes: Sequence[int] | None = None,
    ) -> None:
        self.num_graphs = num_graphs
        self.num_nodes = batch.size(0)
        self.tokens = int(token)
        counts, rank = ranked(batch, num_graphs)
        self.counts = read_sizes(counts, len(batch)) if sizes is None else sizes
        self.size = max(1, max(self.counts, default=0) + self.tokens)
        self.node_counts = counts
        self._taken = counts + self.tokens
        self.slots = self._node_slots = batch * self.size + self.tokens + rank
        if token:
            first = torch.arange(num_graphs, device=batch.device) * self.size
            self.slots = torch.cat([self.slots, first])

    def pad(self, rows: Tensor) -> Tensor:
        """Put rows into their places; other places are 0."""
        places = rows.new_zeros(self.num_graphs * self.size, rows.size(1))
        padded = places.index_copy(0, self.slots, rows)
        return padded.view(self.num_graphs, self.size, rows.size(1))

    def unpad(self, padded: Tensor) -> Tensor:
        """Take rows out of their places."""
        return padded.flatten(0, 1).index_select(0, self.slots)

    @cached_property
    def places(self) -> Tensor:
        """Return 0, 1, ..., size - 1."""
        return torch.arange(self.size, device=self.slots.device)

    @cached_property
    def taken(self) -> Tensor:
        """Mask of places with a row, [num_graphs, size]."""
        return self.places < self._taken.unsqueeze(1)

    @cached_property
    def keys(self) -> Tensor:
        """Mask of places to attend to, [num_graphs, size].

        These are the taken places; for an empty graph the first place, so that no softmax is empty.
        """
        return self.places < self._taken.clamp(min=1).unsqueeze(1)

    @cached_property
    def pairs(self) -> Tensor:
        """Mask of pairs of places that both hold nodes, [num_graphs, size, size]."""
        nodes = self.taken & (self.places >= self.tokens)
        return nodes.unsqueeze(2) & nodes.unsqueeze(1)

    @property
    def num_pairs(self) -> int:
        """Number of pairs of nodes of the same graph, including each node with itself."""
        return sum(count * count for count in self.counts)

    def locate(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Return the graph of each node, and its number in the graph, in the shape of `nodes`."""
        slots = self._node_slots[nodes]
        return slots // self.size, slots % self.size - self.tokens

    def on_pairs(self, values: Tensor) -> Tensor:
        """Put values of pairs of nodes into matrices with their places; other places are 0.

        Shapes:
            - values: [num_pairs, C], graph by graph, row by row
            - output: [num_graphs, C, size, size]
        """
        places = values.new_zeros(self.pairs.numel(), values.size(1))
        # Of known size, for which no GPU waits.
        pairs = torch.nonzero_static(self.pairs.flatten(), size=self.num_pairs).squeeze(1)
        places = places.index_copy(0, pairs, values)
        return places.view(*self.pairs.shape, values.size(1)).permute(0, 3, 1, 2)

    def cells(self, edge_index: Tensor) -> Tensor:
        """Return the flat cell of each edge: row is the receiver, column the sender.

        Shapes:
            - edge_index: [2, num_edges]
            - output: [num_edges], numbers below num_graphs * size * size
        """
        sender, receiver = self._node_slots[edge_index]
        return receiver * self.size + sender % self.size

    def edge_shares(self, edge_index: Tensor) -> Tensor:
        """Return a factor for each edge, so that repeated edges count once.

        It is 1 over the number of times that an edge occurs, and 0 for self loops.

        Shapes:
            - edge_index: [2, num_edges]
            - output: [num_edges], float32
        """
        return edge_shares(edge_index, self.cells(edge_index), self.num_graphs * self.size**2)
