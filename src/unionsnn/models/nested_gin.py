"""Nested GIN."""

from __future__ import annotations

from typing import Unpack

from torch import Tensor, nn

from unionsnn.base.arguments import require_choice
from unionsnn.base.errors import RequestError
from unionsnn.base.memory import Extent
from unionsnn.models.arguments import Encodings, Readout, sole_encoding
from unionsnn.models.gin import GIN
from unionsnn.models.mpnn import StackOptions
from unionsnn.nn.batch import GraphBatch
from unionsnn.nn.gates import given_coefficient
from unionsnn.nn.readout import READOUTS, readout


class NestedGIN(GIN):
    r"""GIN inside the subgraph rooted at each node, pooled to the root, then to the graph.

    .. math::
        h^{(0)}_{vw} = E x_v + D_{d(v, w)}, \qquad
        h^{(l)}_{\cdot w} = \mathrm{GIN}_l(h^{(l-1)}_{\cdot w}; G_w), \qquad
        h_w = R_0(\{ h^{(L)}_{vw} : v \in G_w \})

    "Nested Graph Neural Networks" (Zhang and Li, NeurIPS 2021), section 3: G_w is induced on the
    nodes within h hops of w, D embeds the distance to the root, and the h_w are read out like node
    embeddings. With a gate it is UnionNestedGIN: the messages inside the subgraphs are gated by the
    coefficients of the graph's edges.

    Args:
        encodings: Must be ``subgraph``, the number of hops h, alone.
        subgraph_readout: R_0: ``sum``, ``mean`` or ``max``.
        options: Arguments of `GIN`.

    Shapes:
        - batch: as for `MPNN`, with all attributes `subgraph...`
        - output: as for `MPNN`

    Raises:
        RequestError: if a choice is not allowed, or the subgraphs are missing.
    """

    reads_encodings = ("subgraph",)
    memory_choices = (*GIN.memory_choices, "encodings.subgraph")

    not_exported = "the number of copies in its subgraphs depends on the data"

    def __init__(
        self,
        *,
        encodings: Encodings | None,
        subgraph_readout: Readout = "mean",
        train_eps: bool = True,
        **options: Unpack[StackOptions],
    ) -> None:
        require_choice("subgraph_readout", subgraph_readout, READOUTS)
        super().__init__(train_eps=train_eps, **options)
        self.encodings = sole_encoding(type(self).__name__, "subgraph", encodings)
        self.subgraph_readout = subgraph_readout
        self.distance = nn.Embedding(self.encodings["subgraph"] + 1, self.hidden_channels)

    def embed(self, batch: GraphBatch) -> Tensor:
        """Encode nodes, convolve inside the subgraphs, pool to their roots, and read out."""
        if (
            batch.subgraph_index is None
            or batch.subgraph_distance is None
            or batch.subgraph_edge_index is None
            or batch.subgraph_edge is None
        ):
            hops = self.encodings["subgraph"]
            raise RequestError(
                f"{type(self).__name__} needs the subgraphs rooted at the nodes: load the data "
                f"with model.encodings.subgraph={hops}, or apply RootedSubgraphs({hops}).",
                code="batch.attribute",
            )
        root, node = batch.subgraph_index.long()
        edge_coefficient = batch.edge_coefficient
        if self.gated:
            edge_coefficient = given_coefficient(edge_coefficient)[batch.subgraph_edge.long()]
        distance = self.distance(batch.subgraph_distance.long())
        h = self.encoder(batch.x).index_select(0, node) + distance
        edges = self.encoded_edges(batch)
        if edges is not None:
            edges = edges.index_select(0, batch.subgraph_edge.long())
        h, _ = self.convolve(h, batch.subgraph_edge_index.long(), edges, edge_coefficient)
        return self.pool(readout(h, root, batch.x.size(0), self.subgraph_readout), batch)

    def batch_bytes(self, extent: Extent) -> int:
        """Estimate the memory of the layers' rows of the subgraphs' nodes and edges."""
        rows = extent.rows
        return self.layer_bytes(rows["subgraph_index"], rows["subgraph_edge_index"])
