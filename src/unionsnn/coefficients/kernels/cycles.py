"""Simple cycles through an edge, counted by length in the whole graph."""

import numpy as np
import numpy.typing as npt

from unionsnn.coefficients.kernels.arguments import Csr, Workspace
from unionsnn.coefficients.kernels.jit import kernel

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
NodeArray = npt.NDArray[np.int32]
MarkArray = npt.NDArray[np.uint8]

SHORTEST, LONGEST = 3, 8
"""Lengths of the cycles that are counted."""

# Edges of the paths that are enumerated; the last two of a cycle are counted at once.
_STEPS = LONGEST - 3
_VISITED, _AT_END = np.uint8(1), np.uint8(2)
# Nodes after which distances are no longer looked for: they only save steps.
_MANY_NODES = 256

_NANOSECONDS_PER_STEP = 4.0
_NANOSECONDS_PER_EDGE = 2000.0


@kernel
def cycle_counts(graph: Csr, v: int, u: int, work: Workspace, counts: FloatArray) -> None:
    """Count the simple cycles through the edge (v, u), those of length l in counts[l - 3].

    A cycle of length l is the edge and a simple path of l - 1 edges from v to u. The paths from v
    are enumerated up to their third-last node x; w(x) = |N(x) ∩ N(u)|, without visited nodes, is
    the number of ways on. A node that is too far from u for a cycle of length 8 is not entered.

    Shapes:
        counts [6].
    """
    indptr, indices = graph.indptr, graph.indices
    if indptr[v + 1] - indptr[v] > indptr[u + 1] - indptr[u]:
        v, u = u, v
    distance, ways, mark, queue = work.depth_v, work.depth_u, work.mark, work.queue
    counts[:] = 0.0
    reached, known = _distances(indptr, indices, v, u, distance, queue)
    # At a bridge every step is too far.
    near = known < LONGEST - 2
    for k in range(indptr[v], indptr[v + 1]):
        near |= distance[indices[k]] > 0
    if near:
        mark[v] = mark[u] = _VISITED
        for k in range(indptr[u], indptr[u + 1]):
            d = indices[k]
            if d != v:
                mark[d] = _AT_END
                _add(indptr, indices, d, 1, ways)
        _follow(indptr, indices, v, distance, known + 1, ways, mark, counts)
        for k in range(indptr[u], indptr[u + 1]):
            d = indices[k]
            if d != v:
                mark[d] = 0
                _add(indptr, indices, d, -1, ways)
        mark[v] = mark[u] = 0
    for k in range(reached):
        distance[queue[k]] = -1


@kernel
def _distances(
    indptr: IntArray, indices: NodeArray, v: int, u: int, distance: NodeArray, queue: NodeArray
) -> tuple[int, int]:
    """Write distances to u in the graph without v.

    Shapes:
        distance [N] (-1 on entry), queue [N] (out: the nodes reached).

    Returns:
        Number of nodes reached, and the distance up to which they are all there.
    """
    distance[u] = 0
    queue[0] = u
    count, at = 1, 0
    while at < count and distance[queue[at]] < LONGEST - 2:
        node = queue[at]
        if count > _MANY_NODES:
            return count, distance[node]
        at += 1
        for k in range(indptr[node], indptr[node + 1]):
            neighbor = indices[k]
            if neighbor != v and distance[neighbor] < 0:
                distance[neighbor] = distance[node] + 1
                queue[count] = neighbor
                count += 1
    return count, LONGEST - 2


@kernel
def _add(indptr: IntArray, indices: NodeArray, node: int, change: int, ways: NodeArray) -> None:
    for k in range(indptr[node], indptr[node + 1]):
        ways[indices[k]] += change


@kernel
def _follow(
    indptr: IntArray,
    indices: NodeArray,
    v: int,
    distance: NodeArray,
    beyond: int,
    ways: NodeArray,
    mark: MarkArray,
    counts: FloatArray,
) -> None:
    """Enumerate the simple paths of up to 5 edges from v, depth first.

    Shapes:
        distance [N] (-1 means at least ``beyond``), ways [N] (one less than w), mark [N],
        counts [6].
    """
    path = np.empty(_STEPS, np.int64)
    place = np.empty(_STEPS, np.int64)
    path[0], place[0] = v, indptr[v]
    counts[0] += ways[v] + 1
    depth = 0
    while True:
        node = path[depth]
        if depth == _STEPS - 1:
            for k in range(indptr[node], indptr[node + 1]):
                x = indices[k]
                if mark[x] & _VISITED == 0:
                    counts[_STEPS] += ways[x] + 1
        elif place[depth] < indptr[node + 1]:
            x = indices[place[depth]]
            place[depth] += 1
            away = distance[x] if distance[x] >= 0 else beyond
            if mark[x] & _VISITED == 0 and away <= LONGEST - 2 - depth:
                depth += 1
                counts[depth] += ways[x] + 1
                path[depth], place[depth] = x, indptr[x]
                if mark[x] != 0:
                    _add(indptr, indices, x, -1, ways)
                mark[x] |= _VISITED
            continue
        if depth == 0:
            break
        mark[node] &= _AT_END
        if mark[node] != 0:
            _add(indptr, indices, node, 1, ways)
        depth -= 1


def cycle_costs(graph: Csr) -> FloatArray:
    """Bound the nanoseconds that `cycle_counts` takes for each edge.

    There are at least as many walks of up to 5 edges that never turn back as simple paths. Only
    those in the 2-core count, since no cycle leaves it.

    Shapes:
        -> [M].
    """
    indptr, indices, edges = graph
    num_nodes = len(indptr) - 1
    degree = np.diff(indptr)
    start, other = np.where(degree[edges[0]] > degree[edges[1]], edges[::-1], edges).astype(
        np.int64
    )
    owner = np.repeat(np.arange(num_nodes), degree)
    place = np.searchsorted(owner * num_nodes + indices, start * num_nodes + other)
    reverse = np.lexsort((owner, indices))
    core = _two_core(indptr, indices)
    inside = (core[owner] & core[indices]).astype(np.float64)
    walks, steps = inside, np.zeros(len(start))
    for _ in range(_STEPS):
        of_node = np.bincount(owner, walks, num_nodes)
        steps += of_node[start] - walks[place]
        walks = inside * (of_node[indices] - walks[reverse])
    near_end = np.bincount(owner, degree[indices], num_nodes)[other]
    costs: FloatArray = _NANOSECONDS_PER_STEP * (steps + near_end) + _NANOSECONDS_PER_EDGE
    return costs


@kernel
def _two_core(indptr: IntArray, indices: NodeArray) -> npt.NDArray[np.bool_]:
    """Return which nodes are left if nodes with a single neighbour are removed again and again."""
    num_nodes = indptr.shape[0] - 1
    left = np.empty(num_nodes, np.int64)
    queue = np.empty(num_nodes, np.int64)
    count, at = 0, 0
    for v in range(num_nodes):
        left[v] = indptr[v + 1] - indptr[v]
        if left[v] <= 1:
            queue[count] = v
            count += 1
    while at < count:
        node = queue[at]
        at += 1
        left[node] = 0
        for k in range(indptr[node], indptr[node + 1]):
            neighbor = indices[k]
            left[neighbor] -= 1
            if left[neighbor] == 1:
                queue[count] = neighbor
                count += 1
    return left > 1
