"""GraphSAGE."""

from __future__ import annotations

from typing import Literal, Unpack

from torch_geometric.nn import MessagePassing, SAGEConv

from unionsnn.base.arguments import require_choice
from unionsnn.models.arguments import encodes_edges
from unionsnn.models.mpnn import MPNN, StackOptions
from unionsnn.nn.conv.edge_sage import EdgeSAGEConv


class GraphSAGE(MPNN):
    r"""GraphSAGE: W1 h_v + W2 mean_u h_u in each layer.

    "Inductive Representation Learning on Large Graphs" (Hamilton et al., NeurIPS 2017), with the
    mean of the neighbours separate from the node itself, as in their code. All neighbours are used,
    without sampling. With edge features, the message is ReLU(h_u + e_vu), see `EdgeSAGEConv`. With
    a gate it is UnionSAGE, equation 5 of "Union Subgraph Neural Networks".

    Args:
        aggregation: ``mean`` or ``max`` over the neighbours.
        normalize: Whether to normalise each layer's output rows to length 1.
        stack: Arguments of `MPNN`.

    Raises:
        RequestError: if `aggregation` is neither.
    """

    reads_edges = True

    def __init__(
        self,
        *,
        aggregation: Literal["mean", "max"] = "mean",
        normalize: bool = False,
        **stack: Unpack[StackOptions],
    ) -> None:
        require_choice("aggregation", aggregation, ("mean", "max"))

        def conv(channels: int) -> MessagePassing:
            if encodes_edges(stack):
                return EdgeSAGEConv(channels, aggregation=aggregation, normalize=normalize)
            return SAGEConv(channels, channels, aggr=aggregation, normalize=normalize)

        super().__init__(conv, **stack)


SAGE = GraphSAGE
"""Its name on the command line."""
