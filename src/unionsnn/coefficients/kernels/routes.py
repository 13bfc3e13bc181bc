r"""The routes of an edge at radius 1: their costs, and the choice between them.

Costs are estimates in nanoseconds of one core of 2023. The route of an edge is a function of the
graph alone: the bits of a value depend on neither threads nor chunks.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from unionsnn.coefficients.kernels.arguments import Csr
from unionsnn.coefficients.kernels.jit import kernel
from unionsnn.coefficients.kernels.substructures import first_twins, induced_lists

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
NodeArray = npt.NDArray[np.int32]

DIRECT, KNOWN, ALONE = -1, -2, -3
"""Routes of an edge without a hub: its matrix is solved directly, or its values are known, or its
matrix is solved directly as a task of its own, being large."""

ALONE_ORDER = 2048
"""Largest order of a matrix that is solved within a chunk."""

MAX_BORDER = 1536
"""Largest number of nodes outside a hub's neighbourhood: their pairs take memory."""

# Nodes of a hub's neighbourhood around which entries are counted.
_SAMPLE = 16

# Between these degrees a node may be a hub. Beyond, its bit rows would not fit in memory.
_MIN_HUB_DEGREE = 96
_MAX_HUB_DEGREE = 1 << 15


class Hubs(NamedTuple):
    """What the cost of an edge at each possible hub depends on.

    Shapes:
        classes [N] (twin classes in N[v]; 0 for other nodes), entries [N] (nodes of N[v] that a
        node outside reaches by several paths of two edges, about); both [0] if there is no hub.
    """

    classes: NodeArray
    entries: NodeArray


@kernel
def direct_cost(classes: int) -> float:
    """Estimate the time to solve a matrix of the given order."""
    return 25.0 * classes * classes + 0.04 * classes * classes * classes


@kernel
def hub_cost(classes: int, degree: int, entries: int, border: int) -> float:
    """Estimate the time of one edge at a hub, including its share of the hub's decomposition.

    Args:
        classes: Number of twin classes in the hub's closed neighbourhood.
        degree: Degree of the hub.
        entries: As in `Hubs`.
        border: Number of nodes of the other end's neighbourhood outside the hub's.
    """
    if border > MAX_BORDER:
        return np.inf
    m = float(classes)
    # Where the hub's neighbourhood has many twins, so has the border.
    k = border * (m / (degree + 1.0)) ** 0.7
    share = 0.15 * m * m * m / degree
    basis = 0.17 * m * min(float(k * entries), sparse_limit(m, k)) + 65.0 * m * k
    return share + 1.55e5 + basis + 0.24 * m * k * k + 490.0 * k * k + 3.5 * k * k * k


@kernel
def sparse_limit(m: float, k: float) -> float:
    """Return the number of entries of a border from which a dense product is faster.

    Args:
        m: Order of the decomposition.
        k: Number of rows.
    """
    return m * (2.6 + 0.114 * k)


@kernel
def choose_hub(
    hubs: Hubs, v: int, u: int, degree_v: int, degree_u: int, count: int, order: int
) -> int:
    """Return the end of an edge to use as its hub, or `DIRECT`.

    Args:
        hubs: The possible hubs.
        v: One end of the edge.
        u: The other end.
        degree_v: Degree of v.
        degree_u: Degree of u.
        count: Number of nodes of the union subgraph.
        order: Order of the matrix in a direct solve.
    """
    hub = DIRECT
    classes, entries = hubs
    if classes.shape[0] == 0:
        return hub
    best = direct_cost(order)
    if classes[v] > 0:
        cost = hub_cost(classes[v], degree_v, entries[v], count - degree_v - 1)
        if cost < best:
            hub, best = v, cost
    if classes[u] > 0 and hub_cost(classes[u], degree_u, entries[u], count - degree_u - 1) < best:
        hub = u
    return hub


def find_hubs(indptr: IntArray, indices: NodeArray) -> Hubs:
    """Count the twin classes in N[v], and entries beyond them, for each node that may be a hub.

    Shapes:
        indptr [N + 1], indices [2 M].
    """
    degrees = np.diff(indptr)
    hubs = np.flatnonzero((degrees >= _MIN_HUB_DEGREE) & (degrees <= _MAX_HUB_DEGREE))
    if len(hubs) == 0:
        return NO_HUBS
    return Hubs(*_count_around(indptr, indices, hubs))


NO_HUBS = Hubs(np.empty(0, np.int32), np.empty(0, np.int32))


@kernel
def _count_around(
    indptr: IntArray, indices: NodeArray, hubs: IntArray
) -> tuple[NodeArray, NodeArray]:
    classes = np.zeros(indptr.shape[0] - 1, np.int32)
    entries = np.zeros(classes.shape[0], np.int32)
    local = np.full(classes.shape[0], -1, np.int32)
    for v in hubs:
        # v is adjacent to all others and only changes the number of true twins.
        nodes = indices[indptr[v] : indptr[v + 1]]
        for k in range(nodes.shape[0]):
            local[nodes[k]] = k
        starts, neighbors = induced_lists(indptr, indices, nodes, nodes.shape[0], local)
        first, _ = first_twins(starts, neighbors)
        classes[v] = 1
        for k in range(nodes.shape[0]):
            local[nodes[k]] = -1
            classes[v] += first[k] == k
        entries[v] = _entries_around(starts, neighbors)
    return classes, entries


@kernel
def _entries_around(starts: IntArray, neighbors: NodeArray) -> int:
    """Count the nodes that a node reaches in several ways by two edges; mean of a few nodes."""
    count = starts.shape[0] - 1
    seen = np.zeros(count, np.int32)
    total: Any = np.int64(0)
    step = max(1, count // _SAMPLE)
    sampled = 0
    for k in range(step // 2, count, step):
        sampled += 1
        for at in range(starts[k], starts[k + 1]):
            h = neighbors[at]
            for i in range(starts[h], starts[h + 1]):
                seen[neighbors[i]] += 1
                total += seen[neighbors[i]] == 2
        for at in range(starts[k], starts[k + 1]):
            h = neighbors[at]
            for i in range(starts[h], starts[h + 1]):
                seen[neighbors[i]] = 0
    return total // max(1, sampled)


def expected_costs(graph: Csr, hubs: Hubs, routes: NodeArray) -> tuple[FloatArray, FloatArray]:
    """Estimate the cost of each edge in its chunk and at its hub, 0 for known ones.

    Shapes:
        routes [M] -> [M], [M].
    """
    at_hubs = np.zeros(len(routes))
    if len(hubs.classes) == 0:
        degrees = np.diff(graph.indptr).astype(np.float64)
        size = degrees[graph.edges[0]] + degrees[graph.edges[1]]
        return _cost_of_size(size) * (routes != KNOWN), at_hubs
    costs = np.zeros(len(routes))
    _fill_costs(graph, hubs, routes, costs, at_hubs)
    return costs, at_hubs


def _cost_of_size(size: Any) -> Any:
    return 100.0 + 20.0 * size * size + 0.1 * size * size * size


_compiled_cost_of_size = kernel(_cost_of_size)


@kernel
def _fill_costs(
    graph: Csr, hubs: Hubs, routes: NodeArray, costs: FloatArray, at_hubs: FloatArray
) -> None:
    around = np.zeros(graph.indptr.shape[0] - 1)
    for v in range(around.shape[0]):
        for u in graph.indices[graph.indptr[v] : graph.indptr[v + 1]]:
            around[v] += graph.indptr[u + 1] - graph.indptr[u]
    for i in range(graph.edges.shape[1]):
        if routes[i] != KNOWN:
            v, u = graph.edges[0, i], graph.edges[1, i]
            costs[i], at_hubs[i] = _expected_costs(
                graph.indptr, graph.indices, hubs, v, u, around[v] + around[u]
            )


@kernel
def _expected_costs(
    indptr: IntArray, indices: NodeArray, hubs: Hubs, v: int, u: int, around: float
) -> tuple[float, float]:
    """Estimate the cost of an edge in its chunk and at its hub.

    Twins make the cubic term rare. Common neighbours are counted only if they affect the choice.
    Listing the union subgraph reads the neighbours of its nodes, `around` in number.
    """
    degree_v, degree_u = indptr[v + 1] - indptr[v], indptr[u + 1] - indptr[u]
    size = degree_v + degree_u
    classes = hubs.classes
    if classes.shape[0] == 0 or (classes[v] == 0 and classes[u] == 0):
        return _compiled_cost_of_size(float(size)), 0.0
    i, j = indptr[v], indptr[u]
    while i < indptr[v + 1] and j < indptr[u + 1]:
        a, b = indices[i], indices[j]
        size -= a == b
        i += a <= b
        j += b <= a
    lists = 100.0 + min(min(5.0 * size, 1000.0) * size, 30.0 * size + 10.0 * around)
    # The other end adds its own nodes to the classes of a hub, and tells some twins apart.
    order = size
    if classes[v] > 0:
        order = min(order, classes[v] + size - degree_v - 1)
    if classes[u] > 0:
        order = min(order, classes[u] + size - degree_u - 1)
    hub = choose_hub(hubs, v, u, degree_v, degree_u, size, order)
    if hub == DIRECT:
        alone = order > ALONE_ORDER
        return lists + direct_cost(0 if alone else order), direct_cost(order if alone else 0)
    degree = degree_v if hub == v else degree_u
    return lists, hub_cost(classes[hub], degree, hubs.entries[hub], size - degree - 1)
