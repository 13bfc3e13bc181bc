r"""Ollivier-Ricci curvature of an edge, exactly.

    κ(v, u) = 1 - W1(μ_v, μ_u) / d(v, u)

d(v, u) = 1 on an edge; μ_v puts α on v and (1 - α) / d_v on each neighbour; W1 is the least cost
of moving one to the other over shortest paths (Xu et al., AAAI 2024, eqs. 9-11; Ollivier, 2009).
Distances between a neighbour of v and one of u are at most 3. For α = p / q all masses are
multiples of 1 / (q lcm(d_v, d_u)), and the transport is solved in integers. For any other α,
scipy's linear programming solves one edge at a time.
"""

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from unionsnn.coefficients.kernels.arguments import Csr, Memory, Numbers, Subgraph
from unionsnn.coefficients.kernels.jit import kernel
from unionsnn.coefficients.kernels.transport import transport

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
NodeArray = npt.NDArray[np.int32]
MarkArray = npt.NDArray[np.uint8]

_MAX_DENOMINATOR = 1000


def as_ratio(alpha: float) -> tuple[int, int] | None:
    """Return p and q with exactly α = p / q and q at most 1000, or None."""
    ratio = Fraction(alpha).limit_denominator(_MAX_DENOMINATOR)
    return (ratio.numerator, ratio.denominator) if float(ratio) == alpha else None


@kernel
def curvature_inside(subgraph: Subgraph, numbers: Numbers, memory: Memory) -> float:
    """Return the curvature of (v, u) in a substructure."""
    return curvature(
        subgraph.starts,
        subgraph.neighbors,
        subgraph.v,
        subgraph.u,
        numbers.p,
        numbers.q,
        memory.mark,
    )


@kernel
def curvature_in_graph(graph: Csr, v: int, u: int, numbers: Numbers, memory: Memory) -> float:
    """Return the curvature of (v, u) in the whole graph."""
    return curvature(graph.indptr, graph.indices, v, u, numbers.p, numbers.q, memory.mark)


@kernel
def curvature(
    starts: IntArray, neighbors: NodeArray, v: int, u: int, p: int, q: int, mark: MarkArray
) -> float:
    """Return the curvature of the edge (v, u) for α = p / q, in the graph of the lists.

    Mass that both measures place on a node stays there.

    Shapes:
        starts [n + 1], neighbors [2 m] (ascending lists), mark [>= n] (0 on entry and on return).
    """
    degree_v, degree_u = starts[v + 1] - starts[v], starts[u + 1] - starts[u]
    a, b = degree_v, degree_u
    while b != 0:
        a, b = b, a % b
    multiple = degree_v // a * degree_u
    share_v, share_u = (q - p) * (multiple // degree_v), (q - p) * (multiple // degree_u)
    sources = np.empty(degree_v + 1, np.int64)
    supply = np.empty(degree_v + 1, np.int64)
    sinks = np.empty(degree_u + 1, np.int64)
    demand = np.empty(degree_u + 1, np.int64)
    m, n = 0, 0
    i, j = starts[v], starts[u]
    while i < starts[v + 1] or j < starts[u + 1]:
        node = min(
            neighbors[i] if i < starts[v + 1] else neighbors[j],
            neighbors[j] if j < starts[u + 1] else neighbors[i],
        )
        surplus = np.int64(0)
        if i < starts[v + 1] and neighbors[i] == node:
            surplus += share_v
            i += 1
        if j < starts[u + 1] and neighbors[j] == node:
            surplus -= share_u
            j += 1
        if node == v:
            surplus += p * multiple
        elif node == u:
            surplus -= p * multiple
        if surplus > 0:
            sources[m] = node
            supply[m] = surplus
            m += 1
        elif surplus < 0:
            sinks[n] = node
            demand[n] = -surplus
            n += 1
    cost = _costs(starts, neighbors, sources[:m], sinks[:n], mark)
    return 1.0 - transport(supply[:m], demand[:n], cost) / (q * multiple)


@kernel
def _costs(
    starts: IntArray, neighbors: NodeArray, sources: IntArray, sinks: IntArray, mark: MarkArray
) -> npt.NDArray[np.int8]:
    """Compute distances between nodes that are at most 3 apart."""
    cost = np.empty((sources.shape[0], sinks.shape[0]), np.int8)
    for i in range(sources.shape[0]):
        source = sources[i]
        for k in range(starts[source], starts[source + 1]):
            mark[neighbors[k]] = 1
        for j in range(sinks.shape[0]):
            sink = sinks[j]
            if sink == source:
                cost[i, j] = 0
            elif mark[sink] != 0:
                cost[i, j] = 1
            else:
                cost[i, j] = 3
                for k in range(starts[sink], starts[sink + 1]):
                    if mark[neighbors[k]] != 0:
                        cost[i, j] = 2
                        break
        for k in range(starts[source], starts[source + 1]):
            mark[neighbors[k]] = 0
    return cost


def float_curvature(
    starts: IntArray, neighbors: NodeArray, v: int, u: int, alpha: float, mark: MarkArray
) -> float:
    """Return the curvature of the edge (v, u) for any α, by linear programming.

    Shapes:
        As in `curvature`.

    Raises:
        RuntimeError: The solver failed.
    """
    from scipy import sparse
    from scipy.optimize import linprog

    sources = np.append(neighbors[starts[v] : starts[v + 1]], v).astype(np.int64)
    sinks = np.append(neighbors[starts[u] : starts[u + 1]], u).astype(np.int64)
    cost = _costs(starts, neighbors, sources, sinks, mark).astype(np.float64)
    m, n = cost.shape
    supply, demand = np.full(m, (1 - alpha) / (m - 1)), np.full(n, (1 - alpha) / (n - 1))
    supply[-1] = demand[-1] = alpha
    rows = sparse.kron(sparse.eye_array(m), np.ones((1, n)))
    columns = sparse.kron(np.ones((1, m)), sparse.eye_array(n), format="csr")
    # The last equation follows from the others, and rounding could make it contradict them.
    solved = linprog(
        cost.ravel(),
        A_eq=sparse.vstack([rows, columns[:-1]]),
        b_eq=np.concatenate([supply, demand[:-1]]),
        method="highs",
    )
    if not solved.success or not math.isfinite(solved.fun):
        raise RuntimeError(
            f"The linear program for the curvature of edge {v} - {u} failed: {solved.message} "
            f"Choose an alpha that is a fraction with a denominator up to {_MAX_DENOMINATOR}."
        )
    return 1.0 - float(solved.fun)
