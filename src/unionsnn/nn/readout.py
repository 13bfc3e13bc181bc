"""Readout from node embeddings to one row per graph, or to a score per pair of nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import Tensor
from torch_geometric.nn import global_add_pool, global_max_pool, global_mean_pool

from unionsnn.base.arguments import require_choice

READOUTS: Mapping[str, Callable[..., Tensor]] = {
    "sum": global_add_pool,
    "mean": global_mean_pool,
    "max": global_max_pool,
}


def readout(x: Tensor, batch: Tensor, num_graphs: int, kind: str) -> Tensor:
    """Pool the node embeddings of each graph; a graph without nodes gets a row of zeros.

    Args:
        x: Node embeddings.
        batch: Graph of each node.
        num_graphs: Number of graphs; not derived from `batch`, whose last graphs may be empty.
        kind: ``sum``, ``mean`` or ``max``.

    Shapes:
        - x: [num_nodes, channels]
        - batch: [num_nodes]
        - output: [num_graphs, channels]

    Raises:
        RequestError: if `kind` is unknown.
    """
    require_choice("readout", kind, READOUTS)
    return READOUTS[kind](x, batch, size=num_graphs)


def pair_scores(h: Tensor, pairs: Tensor) -> Tensor:
    r"""Score pairs of nodes, \(s_{uv} = \langle h_u, h_v \rangle\), the same in both orders.

    The ``dot`` decoding of the Long Range Graph Benchmark (Dwivedi et al. 2022).

    Args:
        h: Node embeddings, of one or several runs.
        pairs: Pairs of nodes.

    Shapes:
        - h: [..., num_nodes, channels]
        - pairs: [2, num_pairs]
        - output: [..., num_pairs, 1]
    """
    first, second = (h.index_select(-2, nodes) for nodes in pairs)
    return (first * second).sum(dim=-1, keepdim=True)
