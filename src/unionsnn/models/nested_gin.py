"""Nested GIN."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Unpack

from torch import Tensor, nn

from unionsnn.models.gin import GIN
from unionsnn.models.mpnn import StackOptions
from unionsnn.models.network import Encodings, sole_encoding
from unionsnn.nn.gates import given_coefficient
from unionsnn.nn.readout import READOUTS, readout

SUBGRAPH_ATTRIBUTES = (
    "subgraph_index",
    "subgraph_distance",
    "subgraph_edge_index",
    "subgraph_edge",
)


class NestedGIN(GIN):
    r"""GIN inside the subgraph that is rooted at each node, pooled to the root, then to the graph.

    .. math::
        h^{(0)}_{vw} = E x_v + D_{d(v, w)}, \qquad
        h^{(l)}_{\cdot w} = \mathrm{GIN}_l(h^{(l-1)}_{\cdot w}; G_w), \qquad
        h_w = R_0(\{ h^{(L)}_{vw} : v \in G_w \})

    "Nested Graph Neural Networks" (Zhang and Li, NeurIPS 2021), section 3: G_w is induced on the
    nodes within h hops of w, D embeds the distance to the root, and the h_w are read out as node
    embeddings are. With a gate it is UnionNestedGIN: the messages inside the subgraphs are gated by
    the coefficients of the graph's edges.

    Args:
        encodings: Must have ``subgraph``, the number of hops h, and nothing else.
        subgraph_readout: R_0: ``sum``, ``mean`` or ``max``.
        options: Arguments of `GIN`.

    Shapes:
        - x, edge_index, batch, edge_coefficient, output: as for `MPNN`
        - subgraph_index: [2, num_copies], root and node of each copy of a node in a subgraph
        - subgraph_distance: [num_copies], hops between the two
        - subgraph_edge_index: [2, num_subgraph_edges], senders and receivers, which are copies
        - subgraph_edge: [num_subgraph_edges], the edge of the graph that each of those is

    Raises:
        ValueError: if a choice is not allowed, or the subgraphs are not given.
    """

    memory_choices = (*GIN.memory_choices, "encodings.subgraph")

    def __init__(
        self,
        *,
        encodings: Encodings | None,
        subgraph_readout: Literal["sum", "mean", "max"] = "mean",
        train_eps: bool = True,
        **options: Unpack[StackOptions],
    ) -> None:
        if subgraph_readout not in READOUTS:
            raise ValueError(
                f"subgraph_readout is {subgraph_readout!r}; allowed are {', '.join(READOUTS)}."
            )
        super().__init__(train_eps=train_eps, **options)
        self.encodings = sole_encoding(type(self).__name__, "subgraph", encodings)
        self.subgraph_readout = subgraph_readout
        self.distance = nn.Embedding(self.encodings["subgraph"] + 1, self.hidden_channels)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        *,
        edge_coefficient: Tensor | None = None,
        layer_coefficient: Tensor | None = None,
        subgraph_index: Tensor | None = None,
        subgraph_distance: Tensor | None = None,
        subgraph_edge_index: Tensor | None = None,
        subgraph_edge: Tensor | None = None,
        batch: Tensor | None = None,
        num_graphs: int | None = None,
    ) -> Tensor:
        """Logits or targets, one row per graph (or node); `layer_coefficient` is not read."""
        if (
            subgraph_index is None
            or subgraph_distance is None
            or subgraph_edge_index is None
            or subgraph_edge is None
        ):
            hops = self.encodings["subgraph"]
            raise ValueError(
                f"{type(self).__name__} needs the subgraphs that are rooted at the nodes: data "
                f"loaded with model.encodings.subgraph={hops}, or RootedSubgraphs({hops}), have "
                f"them; pass {', '.join(f'{name}=data.{name}' for name in SUBGRAPH_ATTRIBUTES)}."
            )
        root, node = subgraph_index.long()
        if self.gated:
            edge_coefficient = given_coefficient(edge_coefficient)[subgraph_edge.long()]
        h = self.encoder(x).index_select(0, node) + self.distance(subgraph_distance.long())
        h, _ = self.convolve(h, subgraph_edge_index.long(), None, edge_coefficient)
        h = readout(h, root, x.size(0), self.subgraph_readout)
        return self.finish(h, batch, num_graphs)

    def batch_bytes(
        self, num_graphs: int, largest: int, pairs: int, rows: Mapping[str, int]
    ) -> int:
        """Estimate what a batch needs: the layers' rows of the subgraphs' nodes and edges.

        Args:
            num_graphs: Graphs of the batch.
            largest: Nodes of its largest graph.
            pairs: Pairs of nodes of the same graph.
            rows: Entries of each attribute of the batch, by name.
        """
        return self.layer_bytes(rows["subgraph_index"], rows["subgraph_edge_index"])
