"""Counts around an edge: nodes and edges of its substructure, cycles of the graph."""

import numpy as np
import numpy.typing as npt

from unionsnn.coefficients.kernels.arguments import Csr, Memory, Numbers, Subgraph
from unionsnn.coefficients.kernels.jit import kernel
from unionsnn.coefficients.kernels.substructures import Word, contains

IntArray = npt.NDArray[np.int64]
NodeArray = npt.NDArray[np.int32]
MarkArray = npt.NDArray[np.uint8]

_OF_V, _OF_U = np.uint8(1), np.uint8(2)


@kernel
def node_edge_count(subgraph: Subgraph, numbers: Numbers, memory: Memory) -> float:
    r"""Return the count |E_S| / (|V_S| |V_S - 1|) |V_S|^λ (Xu et al., AAAI 2024, eq. 8)."""
    size = subgraph.size
    density = 0.5 * subgraph.ends / (size * (size - 1.0))
    return density * float(size) ** numbers.exponent


@kernel
def cycle_count(graph: Csr, v: int, u: int, numbers: Numbers, memory: Memory) -> float:
    """Count the simple cycles of length 3 to 6 in the whole graph that contain the edge (v, u)."""
    return float(_cycle_count(graph.indptr, graph.indices, v, u, memory.depth, memory.mark))


@kernel
def _cycle_count(
    indptr: IntArray, indices: NodeArray, v: int, u: int, common: NodeArray, mark: MarkArray
) -> Word:
    """Count the cycles of length 3 to 6 through (v, u).

    Each is the edge and a simple path of 2 to 5 edges from v to u. The path is enumerated up to its
    third-last node; w(x) = |N(x) ∩ N(u)| counts its completions, minus visited nodes:

        v-d-u       w(v)
        v-a-d-u     w(a) - 1                                (d = v)
        v-a-b-d-u   w(b) - [v ~ b] - [a ~ u]                (d = v, a)
        v-a-b-c-d-u w(c) - [v ~ c] - [a ~ c, u] - [b ~ u]   (d = v, a, b)

    Shapes:
        common [N] (-1 on entry and on return), mark [N] (0 on entry and on return).
    """
    for k in range(indptr[v], indptr[v + 1]):
        mark[indices[k]] |= _OF_V
    for k in range(indptr[u], indptr[u + 1]):
        d = indices[k]
        mark[d] |= _OF_U
        for j in range(indptr[d], indptr[d + 1]):
            common[indices[j]] += 1
    cycles: Word = np.int64(common[v] + 1)
    for k in range(indptr[v], indptr[v + 1]):
        a = indices[k]
        if a == u:
            continue
        cycles += common[a]
        for j in range(indptr[a], indptr[a + 1]):
            b = indices[j]
            if b in (v, u):
                continue
            ways = np.int64(common[b] + 1)
            if ways != 0:
                cycles += ways - (mark[b] & _OF_V != 0) - (mark[a] & _OF_U != 0)
            for i in range(indptr[b], indptr[b + 1]):
                c = indices[i]
                ways = np.int64(common[c] + 1)
                if ways == 0 or c in (v, a, u):
                    continue
                ways -= np.int64(mark[c] & _OF_V != 0) + np.int64(mark[b] & _OF_U != 0)
                if mark[a] & _OF_U != 0:
                    ways -= np.int64(contains(indices, indptr[c], indptr[c + 1], a))
                cycles += ways
    for k in range(indptr[v], indptr[v + 1]):
        mark[indices[k]] = 0
    for k in range(indptr[u], indptr[u + 1]):
        d = indices[k]
        mark[d] = 0
        for j in range(indptr[d], indptr[d + 1]):
            common[indices[j]] = -1
    return cycles
