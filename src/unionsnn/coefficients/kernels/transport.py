"""Exact transport between integer masses at small integer costs."""

import numpy as np
import numpy.typing as npt

from unionsnn.coefficients.kernels.jit import kernel
from unionsnn.coefficients.kernels.substructures import Word

IntArray = npt.NDArray[np.int64]
CostArray = npt.NDArray[np.int8]

_FAR: Word = np.int64(1) << 40


@kernel
def transport(supply: IntArray, demand: IntArray, cost: CostArray) -> int:
    """Return the minimum cost of moving integer supplies to integer demands of the same sum.

    Primal-dual method: potentials are the distances from all sources in the residual graph, flow
    uses only arcs of reduced cost 0, and every phase lengthens the shortest path to a sink. All
    arithmetic is in integers, so the result is exact.

    Shapes:
        supply [m] and demand [n] (destroyed), cost [m, n], not negative.
    """
    m, n = supply.shape[0], demand.shape[0]
    flow = np.zeros((m, n), np.int64)
    # Sources come first, then sinks, in one numbering.
    potential = np.zeros(m + n, np.int64)
    distance = np.empty(m + n, np.int64)
    parent = np.empty(m + n, np.int64)
    queue = np.empty(m + n, np.int64)
    left: Word = np.int64(0)
    for i in range(m):
        left += supply[i]
    # The path to the super sink, in terms of the original costs.
    reach: Word = np.int64(0)
    total: Word = np.int64(0)
    while left > 0:
        nearest = _distances(supply, demand, cost, flow, potential, reach, distance, queue)
        for k in range(m + n):
            potential[k] += min(distance[k], nearest)
        reach += nearest
        while True:
            sink = _admissible_path(supply, demand, cost, flow, potential, reach, parent, queue)
            if sink < 0:
                break
            moved = _augment(supply, demand, flow, parent, sink)
            total += moved * reach
            left -= moved
    return total


@kernel
def _distances(
    supply: IntArray,
    demand: IntArray,
    cost: CostArray,
    flow: IntArray,
    potential: IntArray,
    reach: int,
    distance: IntArray,
    queue: IntArray,
) -> int:
    """Compute reduced distances from the sources with supply; return that of the super sink.

    Dijkstra's algorithm on the dense residual graph.
    """
    m, n = supply.shape[0], demand.shape[0]
    for k in range(m + n):
        distance[k] = 0 if k < m and supply[k] > 0 else _FAR
        queue[k] = 0
    nearest = _FAR
    while True:
        node, closest = -1, nearest
        for k in range(m + n):
            if queue[k] == 0 and distance[k] < closest:
                node, closest = k, distance[k]
        if node < 0:
            return nearest
        queue[node] = 1
        if node < m:
            base = closest + potential[node]
            for j in range(n):
                there = base + cost[node, j] - potential[m + j]
                distance[m + j] = min(distance[m + j], there)
        else:
            j = node - m
            if demand[j] > 0:
                nearest = min(nearest, closest + potential[node] - reach)
            base = closest + potential[node]
            for i in range(m):
                if flow[i, j] > 0:
                    distance[i] = min(distance[i], base - cost[i, j] - potential[i])


@kernel
def _admissible_path(
    supply: IntArray,
    demand: IntArray,
    cost: CostArray,
    flow: IntArray,
    potential: IntArray,
    reach: int,
    parent: IntArray,
    queue: IntArray,
) -> int:
    """Find a sink with demand along arcs of reduced cost 0; -1 if there is none.

    Shapes:
        parent [m + n] (out: the node before each visited one, -1 at a source).
    """
    m, n = supply.shape[0], demand.shape[0]
    filled = 0
    for k in range(m + n):
        parent[k] = -2
        if k < m and supply[k] > 0:
            parent[k] = -1
            queue[filled] = k
            filled += 1
    at = 0
    while at < filled:
        node = queue[at]
        at += 1
        if node < m:
            for j in range(n):
                there = m + j
                if parent[there] == -2 and potential[node] + cost[node, j] == potential[there]:
                    parent[there] = node
                    if demand[j] > 0 and potential[there] == reach:
                        return j
                    queue[filled] = there
                    filled += 1
        else:
            j = node - m
            for i in range(m):
                back = flow[i, j] > 0 and potential[i] + cost[i, j] == potential[node]
                if back and parent[i] == -2:
                    parent[i] = node
                    queue[filled] = i
                    filled += 1
    return -1


@kernel
def _augment(
    supply: IntArray, demand: IntArray, flow: IntArray, parent: IntArray, sink: int
) -> int:
    """Push the maximum flow along the path to a sink; return the amount."""
    m = supply.shape[0]
    moved = demand[sink]
    node = m + sink
    while parent[node] >= 0:
        if node < m:
            moved = min(moved, flow[node, parent[node] - m])
        node = parent[node]
    moved = min(moved, supply[node])
    supply[node] -= moved
    demand[sink] -= moved
    node = m + sink
    while parent[node] >= 0:
        before = parent[node]
        if node < m:
            flow[node, before - m] -= moved
        else:
            flow[before, node - m] += moved
        node = before
    return moved
