"""Networks, one per file; `mpnn` is the stack that most of them share."""

from typing import TYPE_CHECKING

from unionsnn.base.lazy import on_first_use

if TYPE_CHECKING:
    from unionsnn.models.curvgn import CurvGN
    from unionsnn.models.drop_gin import DropGIN
    from unionsnn.models.gat import GAT
    from unionsnn.models.gated_gcn import GatedGCN
    from unionsnn.models.gated_gcn_lspe import GatedGCNLSPE
    from unionsnn.models.gcn import GCN
    from unionsnn.models.geniepath import GeniePath
    from unionsnn.models.gin import GIN
    from unionsnn.models.gps import GPS
    from unionsnn.models.graphormer import Graphormer
    from unionsnn.models.graphsnn import GraphSNN
    from unionsnn.models.mewispool import MEWISPoolNet
    from unionsnn.models.mpnn import MPNN
    from unionsnn.models.nested_gin import NestedGIN
    from unionsnn.models.network import Network
    from unionsnn.models.pna import PNA
    from unionsnn.models.ppgn import PPGN
    from unionsnn.models.sage import SAGE, GraphSAGE
    from unionsnn.models.transformer import GraphTransformer
    from unionsnn.models.ugformer import UGformer
    from unionsnn.models.unionsnn import UnionSNN

__getattr__ = on_first_use(
    __name__,
    {
        "unionsnn.models.curvgn": "CurvGN",
        "unionsnn.models.drop_gin": "DropGIN",
        "unionsnn.models.gat": "GAT",
        "unionsnn.models.gated_gcn": "GatedGCN",
        "unionsnn.models.gated_gcn_lspe": "GatedGCNLSPE",
        "unionsnn.models.gcn": "GCN",
        "unionsnn.models.geniepath": "GeniePath",
        "unionsnn.models.gin": "GIN",
        "unionsnn.models.gps": "GPS",
        "unionsnn.models.graphormer": "Graphormer",
        "unionsnn.models.graphsnn": "GraphSNN",
        "unionsnn.models.mewispool": "MEWISPoolNet",
        "unionsnn.models.mpnn": "MPNN",
        "unionsnn.models.nested_gin": "NestedGIN",
        "unionsnn.models.network": "Network",
        "unionsnn.models.pna": "PNA",
        "unionsnn.models.ppgn": "PPGN",
        "unionsnn.models.sage": "GraphSAGE SAGE",
        "unionsnn.models.transformer": "GraphTransformer",
        "unionsnn.models.ugformer": "UGformer",
        "unionsnn.models.unionsnn": "UnionSNN",
    },
)

__all__ = [
    "GAT",
    "GCN",
    "GIN",
    "GPS",
    "MPNN",
    "PNA",
    "PPGN",
    "SAGE",
    "CurvGN",
    "DropGIN",
    "GatedGCN",
    "GatedGCNLSPE",
    "GeniePath",
    "GraphSAGE",
    "GraphSNN",
    "GraphTransformer",
    "Graphormer",
    "MEWISPoolNet",
    "NestedGIN",
    "Network",
    "UGformer",
    "UnionSNN",
]


def __dir__() -> list[str]:
    return sorted(__all__)
