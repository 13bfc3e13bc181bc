"""Many graphs as one, in parts of bounded size."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]

PART_EDGES = 2**22
"""Directed edges of a part."""


@dataclass(frozen=True, eq=False)
class DisjointUnion:
    """The disjoint union of G graphs, whose edges are numbered anew part by part.

    Args:
        edge_index: Directed edges; nodes are numbered from 0 within each graph.
        node_slices: Where each graph's nodes begin and end.
        edge_slices: Where each graph's edges begin and end.

    Shapes:
        edge_index [2, E]; node_slices, edge_slices [G + 1].
    """

    edge_index: IntArray
    node_slices: IntArray
    edge_slices: IntArray

    @property
    def num_graphs(self) -> int:
        """Number of graphs."""
        return len(self.node_slices) - 1

    @property
    def num_nodes(self) -> int:
        """Number of nodes of all graphs."""
        return int(self.node_slices[-1])

    @property
    def num_edges(self) -> int:
        """Number of directed edges of all graphs."""
        return int(self.edge_slices[-1])

    def parts(self, num_edges: int | None = None) -> Iterator[tuple[int, int]]:
        """Yield the first graph of each part and the one after its last.

        Args:
            num_edges: Directed edges of a part, unless a single graph has more; by default
                `PART_EDGES`.
        """
        begin = 0
        while begin < self.num_graphs:
            bound = self.edge_slices[begin] + (num_edges or PART_EDGES)
            end = int(np.searchsorted(self.edge_slices, bound, side="right")) - 1
            end = max(end, begin + 1)
            yield begin, end
            begin = end

    def edges(self, begin: int = 0, end: int | None = None) -> IntArray:
        """Return the edges of the graphs begin..end-1, whose nodes are numbered from 0.

        Shapes:
            -> [2, number of their edges].
        """
        end = self.num_graphs if end is None else end
        slices = self.edge_slices[begin : end + 1]
        first = self.node_slices[begin:end] - self.node_slices[begin]
        part = self.edge_index[:, slices[0] : slices[-1]]
        renumbered: IntArray = part + np.repeat(first, np.diff(slices))
        return renumbered
