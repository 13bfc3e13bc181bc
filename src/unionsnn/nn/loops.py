"""An edge from each node to itself, for layers in which a node is its own neighbour."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch_geometric.utils import scatter


class SelfLoops:
    """The edges of a batch without its loops, then one from each node to itself.

    PyG's layers with ``add_self_loops=True`` send messages along the same edges, but find them anew
    in each pass, for which a GPU waits. Here they are found once a batch, without waiting where the
    number of loops is known.

    Args:
        edge_index: Edges.
        num_nodes: Number of nodes.
        count: How many of the edges are loops; None to read it.

    Attributes:
        edge_index: The edges with the new loops.

    Shapes:
        - edge_index: [2, num_edges]
        - self.edge_index: [2, num_edges - count + num_nodes]
    """

    def __init__(self, edge_index: Tensor, num_nodes: int, count: int | None = None) -> None:
        self.num_nodes = num_nodes
        self._kept: Tensor | None = None
        if count != 0:
            proper = edge_index[0] != edge_index[1]
            if count is None:
                self._kept = proper.nonzero().squeeze(1)
            else:
                self._kept = torch.nonzero_static(proper, size=proper.size(0) - count).squeeze(1)
            edge_index = edge_index.index_select(1, self._kept)
        nodes = torch.arange(num_nodes, device=edge_index.device)
        self.edge_index = torch.cat([edge_index, nodes.expand(2, -1)], dim=1)

    def append(self, rows: Tensor, fill: Literal["zeros", "mean"] = "zeros") -> Tensor:
        """Return rows of the edges, then of the loops.

        Args:
            rows: Rows of the edges that were given.
            fill: The row of a loop: ``zeros``, or the ``mean`` of the edges that the node receives.

        Shapes:
            - rows: [num_edges, ...]
            - output: [num_edges - count + num_nodes, ...]
        """
        if self._kept is not None:
            rows = rows.index_select(0, self._kept)
        if fill == "mean":
            receiver = self.edge_index[1, : rows.size(0)]
            loops = scatter(rows, receiver, dim_size=self.num_nodes, reduce="mean")
        else:
            loops = rows.new_zeros(self.num_nodes, *rows.shape[1:])
        return torch.cat([rows, loops])
