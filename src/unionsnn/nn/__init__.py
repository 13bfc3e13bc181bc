"""Neural building blocks: gates, the plug-in, convolutions, encoders, readouts."""

from typing import TYPE_CHECKING

from unionsnn.base.lazy import on_first_use

if TYPE_CHECKING:
    from unionsnn.nn.batch import GraphBatch
    from unionsnn.nn.conv.curvgn import CurvGNConv
    from unionsnn.nn.conv.edge_gcn import EdgeGCNConv
    from unionsnn.nn.conv.edge_sage import EdgeSAGEConv
    from unionsnn.nn.conv.gated_gcn import GatedGCNConv
    from unionsnn.nn.conv.gated_gcn_lspe import GatedGCNLSPEConv
    from unionsnn.nn.conv.geniepath import GeniePathConv
    from unionsnn.nn.conv.graphsnn import GraphSNNConv
    from unionsnn.nn.conv.pna import FittedPNAConv
    from unionsnn.nn.conv.union import UnionConv
    from unionsnn.nn.encoders import (
        CategoricalEncoder,
        LaplacianEncoder,
        RandomWalkEncoder,
        StructuralEdgeEncoder,
    )
    from unionsnn.nn.gates import StructuralGate
    from unionsnn.nn.mewis import MEWISPool
    from unionsnn.nn.plugin import UnionPlugin, fit_statistics
    from unionsnn.nn.whole_network import plug_in

__getattr__ = on_first_use(
    __name__,
    {
        "unionsnn.nn.batch": "GraphBatch",
        "unionsnn.nn.conv.curvgn": "CurvGNConv",
        "unionsnn.nn.conv.edge_gcn": "EdgeGCNConv",
        "unionsnn.nn.conv.edge_sage": "EdgeSAGEConv",
        "unionsnn.nn.conv.gated_gcn": "GatedGCNConv",
        "unionsnn.nn.conv.gated_gcn_lspe": "GatedGCNLSPEConv",
        "unionsnn.nn.conv.geniepath": "GeniePathConv",
        "unionsnn.nn.conv.graphsnn": "GraphSNNConv",
        "unionsnn.nn.conv.pna": "FittedPNAConv",
        "unionsnn.nn.conv.union": "UnionConv",
        "unionsnn.nn.encoders": (
            "CategoricalEncoder LaplacianEncoder RandomWalkEncoder StructuralEdgeEncoder"
        ),
        "unionsnn.nn.gates": "StructuralGate",
        "unionsnn.nn.mewis": "MEWISPool",
        "unionsnn.nn.plugin": "UnionPlugin fit_statistics",
        "unionsnn.nn.whole_network": "plug_in",
    },
)

__all__ = [
    "CategoricalEncoder",
    "CurvGNConv",
    "EdgeGCNConv",
    "EdgeSAGEConv",
    "FittedPNAConv",
    "GatedGCNConv",
    "GatedGCNLSPEConv",
    "GeniePathConv",
    "GraphBatch",
    "GraphSNNConv",
    "LaplacianEncoder",
    "MEWISPool",
    "RandomWalkEncoder",
    "StructuralEdgeEncoder",
    "StructuralGate",
    "UnionConv",
    "UnionPlugin",
    "fit_statistics",
    "plug_in",
]


def __dir__() -> list[str]:
    return sorted(__all__)
