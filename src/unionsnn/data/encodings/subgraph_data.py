"""Graphs that carry the subgraphs around their nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from unionsnn.data.arrays import IntArray
from unionsnn.data.encodings.subgraphs import COUNTS, PackedArray


class SubgraphData(Data):
    """A graph with the subgraphs that are rooted at its nodes.

    A copy is a node as it stands in one of the subgraphs.

    Attributes:
        subgraph_index: Root and node of each copy.
        subgraph_distance: Hops between the two.
        subgraph_edge_index: Senders and receivers of the subgraphs' edges, which are copies.
        subgraph_edge: The edge of the graph that each of those is.

    Shapes:
        - subgraph_index: [2, num_copies]
        - subgraph_distance: [num_copies]
        - subgraph_edge_index: [2, num_subgraph_edges]
        - subgraph_edge: [num_subgraph_edges]
    """

    def __inc__(self, key: str, value: Any, *args: Any, **kwargs: Any) -> Any:
        """What is added to the numbers of the next graph of a batch."""
        counted = COUNTS.get(key)
        if counted is None or counted == "x":
            return super().__inc__(key, value, *args, **kwargs)
        return self[counted].size(1)


@dataclass(frozen=True)
class Subgraphs:
    """The subgraphs of a set, numbers local to each graph.

    Args:
        values: The attributes of `SubgraphData`, all graphs one after another.
        slices: For each of them, where each graph's share begins and ends.
    """

    values: dict[str, Tensor]
    slices: dict[str, Tensor]

    @classmethod
    def of(cls, packed: PackedArray, node_slices: IntArray, edge_slices: IntArray) -> Subgraphs:
        """Take apart what `rooted_subgraphs` made.

        Args:
            packed: Its result.
            node_slices: Where each graph's nodes begin and end.
            edge_slices: Where each graph's edges begin and end.
        """
        num_copies = int(packed[0, 0])
        copies, edges = packed[1 : num_copies + 1], packed[num_copies + 1 :]
        copy_slices = np.searchsorted(copies[:, 0], node_slices)
        slices = np.searchsorted(edges[:, 0], copy_slices)
        index = _local(copies[:, :2], copy_slices, node_slices)
        edge_index = _local(edges[:, :2], slices, copy_slices)
        edge = _local(edges[:, 2:], slices, edge_slices)
        return cls(
            {
                "subgraph_index": torch.from_numpy(index),
                "subgraph_distance": torch.from_numpy(copies[:, 2].copy()),
                "subgraph_edge_index": torch.from_numpy(edge_index),
                "subgraph_edge": torch.from_numpy(edge[0]),
            },
            {
                "subgraph_index": torch.from_numpy(copy_slices),
                "subgraph_distance": torch.from_numpy(copy_slices),
                "subgraph_edge_index": torch.from_numpy(slices),
                "subgraph_edge": torch.from_numpy(slices),
            },
        )


def _local(numbers: PackedArray, slices: IntArray, first: IntArray) -> PackedArray:
    """Numbers counted from the first of each graph, a row for each column."""
    offset = np.repeat(first[:-1], np.diff(slices)).astype(np.int32)
    return np.ascontiguousarray((numbers - offset[:, None]).T)
