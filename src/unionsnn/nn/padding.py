"""Between the nodes of a batch, one after another, and one padded matrix for each graph."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

SPREAD = 2
"""Factor by which matrices of graphs that are padded to the same size differ at most."""


def similar_sizes(batch: Tensor, num_graphs: int) -> list[Tensor]:
    """Divide the graphs of a batch so that padding at most doubles a graph's matrix.

    Args:
        batch: Graph of each node.
        num_graphs: Number of graphs.

    Returns:
        Numbers of the graphs of each group; one group of all if they are alike.

    Shapes:
        - batch: [num_nodes]
    """
    if num_graphs < 2:
        return [torch.arange(num_graphs, device=batch.device)]
    counts = torch.bincount(batch, minlength=num_graphs)
    order = torch.argsort(counts, descending=True, stable=True)
    lengths: list[int] = []
    first = 0
    for count in counts[order].clamp(min=1).tolist():
        if lengths and SPREAD * count**2 >= first**2:
            lengths[-1] += 1
        else:
            lengths.append(1)
            first = count
    return list(torch.split(order, lengths))


class Padding:
    """Where the nodes of each graph stand in a padded batch, and which places are taken.

    Nodes keep the order that they have in the batch. With a token, each graph has one more row, in
    front of its nodes; the tokens' rows come after all nodes where rows are not padded.

    Args:
        batch: Graph of each node, in any order.
        num_graphs: Number of graphs; the last ones may be empty.
        token: Whether each graph has a token.

    Attributes:
        counts: Number of nodes of each graph.
        size: Places of a graph: the largest number of nodes, and the token; at least 1.
        slots: Place of each row among all places.

    Shapes:
        - batch: [num_nodes]
        - rows: [num_nodes, C], with a token [num_nodes + num_graphs, C]
        - padded: [num_graphs, size, C]
    """

    def __init__(self, batch: Tensor, num_graphs: int, *, token: bool = False) -> None:
        self.num_graphs = num_graphs
        self.num_nodes = batch.size(0)
        self.tokens = int(token)
        counts = torch.bincount(batch, minlength=num_graphs)
        # All nodes are those of a single graph: nothing is read back from a device for it.
        self.counts: list[int] = [batch.size(0)] if num_graphs == 1 else counts.tolist()
        self.size = max(1, max(self.counts, default=0) + self.tokens)
        order = torch.argsort(batch, stable=True)
        rank = torch.empty_like(order)
        rank[order] = torch.arange(len(order), device=batch.device)
        start = counts.cumsum(0) - counts
        self._taken = counts + self.tokens
        self.slots = batch * self.size + self.tokens + rank - start[batch]
        self._node_slots = self.slots
        if token:
            first = torch.arange(num_graphs, device=batch.device) * self.size
            self.slots = torch.cat([self.slots, first])

    def pad(self, rows: Tensor) -> Tensor:
        """Put the rows into their places; the others are 0."""
        places = rows.new_zeros(self.num_graphs * self.size, rows.size(1))
        padded = places.index_copy(0, self.slots, rows)
        return padded.view(self.num_graphs, self.size, rows.size(1))

    def unpad(self, padded: Tensor) -> Tensor:
        """Take the rows out of their places."""
        return padded.flatten(0, 1).index_select(0, self.slots)

    @cached_property
    def places(self) -> Tensor:
        """0, 1, ..., size - 1."""
        return torch.arange(self.size, device=self.slots.device)

    @cached_property
    def taken(self) -> Tensor:
        """Places that hold a row, [num_graphs, size]."""
        return self.places < self._taken.unsqueeze(1)

    @cached_property
    def keys(self) -> Tensor:
        """Places that may be attended to, [num_graphs, size].

        Those that are taken; of a graph without any, the first place, so that no softmax runs over
        nothing.
        """
        return self.places < self._taken.clamp(min=1).unsqueeze(1)

    @cached_property
    def pairs(self) -> Tensor:
        """Pairs of places that both hold nodes, [num_graphs, size, size]."""
        nodes = self.taken & (self.places >= self.tokens)
        return nodes.unsqueeze(2) & nodes.unsqueeze(1)

    @property
    def num_pairs(self) -> int:
        """Number of pairs of nodes of the same graph, each node with itself included."""
        return sum(count * count for count in self.counts)

    def cells(self, edge_index: Tensor) -> Tensor:
        """Cell of each edge among those of all graphs: row the receiver, column the sender.

        Shapes:
            - edge_index: [2, num_edges]
            - output: [num_edges], numbers below num_graphs * size * size
        """
        sender, receiver = self._node_slots[edge_index]
        return receiver * self.size + sender % self.size

    def edge_shares(self, edge_index: Tensor) -> Tensor:
        """What each edge counts for, so that edges which occur several times count once.

        1 divided by the number of times that an edge occurs; 0 for an edge from a node to itself.

        Shapes:
            - edge_index: [2, num_edges]
            - output: [num_edges], float32
        """
        cells = self.cells(edge_index)
        ones = torch.ones_like(cells, dtype=torch.float32)
        occurs = ones.new_zeros(self.num_graphs * self.size**2).index_add(0, cells, ones)
        return (edge_index[0] != edge_index[1]) / occurs[cells]
