"""Graph structural neural network."""

from __future__ import annotations

from typing import Unpack

from unionsnn.models.mpnn import CoefficientMPNN, StackOptions
from unionsnn.models.parts import two_layer_mlp
from unionsnn.nn.conv.graphsnn import GraphSNNConv


class GraphSNN(CoefficientMPNN):
    r"""GraphSNN: MLP(gamma (sum_u a_vu + 1) h_v + sum_u (a_vu + 1) h_u) in each layer.

    "A New Perspective on 'How Graph Neural Networks Go Beyond Weisfeiler-Lehman?'" (Wijesinghe
    and Wang, ICLR 2022), see `GraphSNNConv`. a is the model's own coefficient
    (`layer_coefficient`), divided by its sum over the neighbours: in the paper the node/edge count
    of the overlap subgraph. UnionGraphSNN keeps it, and the structural gate multiplies the
    message (a_vu + 1) h_u. With edge features, ReLU(h_u + e_vu) is in the place of h_u, as in
    GINE.

    Args:
        stack: Arguments of `MPNN`.
    """

    reads_edges = True

    def __init__(self, **stack: Unpack[StackOptions]) -> None:
        norm = stack.get("norm", "batch")
        super().__init__(lambda c: GraphSNNConv(c, two_layer_mlp(c, norm)), **stack)
