r"""Edge betweenness of (v, u) inside a subgraph: the share of shortest paths that use the edge.

    b(v, u) = Σ_{\{s, t\}} σ_st(v, u) / σ_st

over unordered pairs of nodes; σ_st counts the shortest paths between s and t, σ_st(v, u) those
through the edge (Xu et al., AAAI 2024, eq. 7, which sums over ordered pairs: twice this).
"""

import numpy as np
import numpy.typing as npt

from unionsnn.coefficients.kernels.arguments import Memory, Numbers, Subgraph
from unionsnn.coefficients.kernels.jit import kernel
from unionsnn.coefficients.kernels.substructures import ROWS, WORD, popcount

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
NodeArray = npt.NDArray[np.int32]


@kernel
def edge_betweenness(subgraph: Subgraph, numbers: Numbers, memory: Memory) -> float:
    """Return the edge betweenness of (v, u) in a substructure."""
    v, u = subgraph.v, subgraph.u
    if subgraph.radius > 1 or subgraph.size > WORD:
        return _betweenness_of_lists(subgraph.starts, subgraph.neighbors, v, u)
    if subgraph.ends == 2 * subgraph.size - 2:
        # In a tree every shortest path between the two sides uses the edge.
        of_v, of_u = popcount(memory.scratch[ROWS, v]), popcount(memory.scratch[ROWS, u])
        return float(of_v * of_u)
    return _betweenness_of_rows(memory.scratch[ROWS], v, u)


@kernel
def _betweenness_of_rows(rows: IntArray, v: int, u: int) -> float:
    r"""Return the edge betweenness in a subgraph of at most 64 nodes, all adjacent to v or u.

    With X_v the nodes adjacent to v only, X_u to u only, a pair uses the edge if it is (v, u)
    itself; (v, t), t ∈ X_u; (s, u), s ∈ X_v; or (s, t) at distance 3:

        b = 1 + Σ_t 1/|N(v) ∩ N(t)| + Σ_s 1/|N(u) ∩ N(s)| + Σ_{d(s,t)=3} 1/Σ_{x∈N(s)} |N(x) ∩ N(t)|

    Shapes:
        rows [>= n] (bit rows of the adjacency).
    """
    row_v, row_u = rows[v], rows[u]
    only_v = row_v & ~(row_u | (np.int64(1) << u))
    only_u = row_u & ~(row_v | (np.int64(1) << v))
    total = 1.0
    left = only_u
    while left != 0:
        total += 1.0 / popcount(row_v & rows[popcount((left & -left) - 1)])
        left &= left - 1
    outer = only_v
    while outer != 0:
        row_s = rows[popcount((outer & -outer) - 1)]
        total += 1.0 / popcount(row_u & row_s)
        outer &= outer - 1
        # At distance 1 or 2 from s no shortest path uses the edge.
        inner = only_u & ~row_s
        while inner != 0:
            row_t = rows[popcount((inner & -inner) - 1)]
            inner &= inner - 1
            if row_s & row_t == 0:
                paths = np.int64(0)
                left = row_s
                while left != 0:
                    paths += popcount(rows[popcount((left & -left) - 1)] & row_t)
                    left &= left - 1
                total += 1.0 / paths
    return total


@kernel
def _betweenness_of_lists(starts: IntArray, neighbors: NodeArray, v: int, u: int) -> float:
    """Return the edge betweenness in any connected subgraph.

    Brandes' search, but only from the nodes on one side of the edge, and without the backward
    pass: the shortest paths s .. v - u .. t are counted by σ_vs σ_ut.

    Shapes:
        starts [n + 1], neighbors [2 |E_S|].
    """
    size = starts.shape[0] - 1
    queue = np.empty(size, np.int32)
    depth = np.empty((3, size), np.int64)
    paths = np.empty((3, size))
    _count_paths(starts, neighbors, v, depth[0], paths[0], queue)
    _count_paths(starts, neighbors, u, depth[1], paths[1], queue)
    near, far = 0, 1
    sides = np.int64(0)
    for s in range(size):
        sides += depth[1, s] - depth[0, s]
    if sides > 0:
        near, far = 1, 0
    total = 0.0
    for s in range(size):
        if depth[far, s] != depth[near, s] + 1:
            continue
        _count_paths(starts, neighbors, s, depth[2], paths[2], queue)
        for t in range(size):
            through = depth[near, s] + 1 + depth[far, t]
            if depth[near, t] == depth[far, t] + 1 and depth[2, t] == through:
                total += paths[near, s] * paths[far, t] / paths[2, t]
    return total


@kernel
def _count_paths(
    starts: IntArray,
    neighbors: NodeArray,
    source: int,
    depth: IntArray,
    paths: FloatArray,
    queue: NodeArray,
) -> None:
    """Compute distances from a node and numbers of shortest paths, by breadth-first search."""
    depth[:] = -1
    paths[:] = 0.0
    depth[source] = 0
    paths[source] = 1.0
    queue[0] = source
    count, at = 1, 0
    while at < count:
        node = queue[at]
        at += 1
        for k in range(starts[node], starts[node + 1]):
            neighbor = neighbors[k]
            if depth[neighbor] < 0:
                depth[neighbor] = depth[node] + 1
                queue[count] = neighbor
                count += 1
            if depth[neighbor] == depth[node] + 1:
                paths[neighbor] += paths[node]
