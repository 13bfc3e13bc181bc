"""The input of networks: a batch of graphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from unionsnn.base.errors import RequestError
from unionsnn.base.rows import noted_loops


@dataclass(frozen=True, slots=True)
class GraphBatch:
    """The input of a network: a batch of graphs whose nodes are numbered consecutively.

    Args:
        x: Node features.
        edge_index: Senders, then receivers.
        batch: Graph of each node.
        num_graphs: Number of graphs; not derived from `batch`, whose last graphs may be empty.
        edge_attr: Edge features.
        edge_coefficient: Coefficients read by gates and encoders of edges.
        layer_coefficient: The coefficient read by layers without a gate.
        random_walk: Landing probabilities of a random walk.
        laplacian: Eigenvectors of the Laplacian.
        distance: Distance matrices of the graphs one after another, row by row; 255 if there is no
            path.
        subgraph_index: Root and node of each copy of a node in a rooted subgraph.
        subgraph_distance: Hops between the two.
        subgraph_edge_index: Senders and receivers inside the subgraphs, as copies.
        subgraph_edge: The original edge of each of those.
        edge_label_index: Pairs of nodes of the same graph to score, which need not be edges.
        sizes: Number of nodes of each graph, known on the CPU; None to be read from `batch`.
        loops: Number of edges from a node to itself, known on the CPU; None if unknown.

    Shapes:
        - x: [num_nodes, in_channels], or [num_nodes, len(in_channels)] integers
        - edge_index: [2, num_edges]
        - batch: [num_nodes]
        - edge_attr: [num_edges, edge_channels], or [num_edges, len(edge_channels)] integers
        - edge_coefficient: [num_edges, C]
        - layer_coefficient: [num_edges, 1]
        - random_walk, laplacian: [num_nodes, k]
        - distance: [number of pairs of nodes of the same graph]
        - subgraph_index: [2, num_copies]
        - subgraph_distance: [num_copies]
        - subgraph_edge_index: [2, num_subgraph_edges]
        - subgraph_edge: [num_subgraph_edges]
        - edge_label_index: [2, num_pairs]
    """

    x: Tensor
    edge_index: Tensor
    batch: Tensor
    num_graphs: int
    edge_attr: Tensor | None = None
    edge_coefficient: Tensor | None = None
    layer_coefficient: Tensor | None = None
    random_walk: Tensor | None = None
    laplacian: Tensor | None = None
    distance: Tensor | None = None
    subgraph_index: Tensor | None = None
    subgraph_distance: Tensor | None = None
    subgraph_edge_index: Tensor | None = None
    subgraph_edge: Tensor | None = None
    edge_label_index: Tensor | None = None
    sizes: tuple[int, ...] | None = None
    loops: int | None = None

    @classmethod
    def of(cls, data: Data) -> GraphBatch:
        """Make a batch from a PyG batch or a single graph."""
        attributes: dict[str, Any] = {n: data[n] for n in ATTRIBUTES if n in data}
        if data.batch is None:
            return cls.single(data.x, data.edge_index, **attributes)
        sizes: tuple[int, ...] | None = getattr(data, "_sizes", None)
        # Nodes may have been added or removed since the batch was gathered.
        if sizes is not None and (len(sizes), sum(sizes)) != (data.num_graphs, data.x.size(0)):
            sizes = None
        return cls(
            data.x,
            data.edge_index,
            data.batch,
            data.num_graphs,
            **attributes,
            sizes=sizes,
            loops=noted_loops(data.edge_index),
        )

    @classmethod
    def single(cls, x: Tensor, edge_index: Tensor, **attributes: Tensor) -> GraphBatch:
        """Make a batch of one graph."""
        batch = x.new_zeros(x.size(0), dtype=torch.long)
        known: dict[str, Any] = {"sizes": (x.size(0),), "loops": noted_loops(edge_index)}
        known.update(attributes)
        return cls(x, edge_index, batch, 1, **known)


_ON_CPU = ("sizes", "loops")

ATTRIBUTES = tuple(
    field.name
    for field in fields(GraphBatch)
    if field.default is None and field.name not in _ON_CPU
)
"""Optional tensors of a batch."""


def required(
    name: str, value: Tensor | None, shape: Sequence[int], *, reader: str, remedy: str
) -> Tensor:
    """Return an attribute of a batch that a network requires.

    Args:
        name: Its name.
        value: Its value in the batch, None if missing.
        shape: The required shape.
        reader: What reads it, for the message.
        remedy: What to do about it, for the message.

    Raises:
        RequestError: if it is missing or has another shape.
    """
    if value is None or list(value.shape) != list(shape):
        given = "nothing" if value is None else list(value.shape)
        raise RequestError(
            f"{reader} needs {name} of the shape {list(shape)}, but got {given}: {remedy}",
            code="batch.attribute",
        )
    return value
