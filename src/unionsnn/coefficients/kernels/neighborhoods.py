"""Substructures of edges at any radius: union, overlap and union minus of two balls.

With B_v the nodes within distance r of v, for an edge (v, u):

- union: induced on B_v ∪ B_u;
- overlap: the intersection of the subgraphs induced on B_v and B_u, which is the one induced on
  B_v ∩ B_u; v and u are in it;
- union minus: the union of the subgraphs induced on B_v and B_u: all nodes of the union, without
  the edges between B_v - B_u and B_u - B_v.

(Xu et al., AAAI 2024, for r = 1.) All three are connected: from a node in either ball, the next
node on a shortest path to v (or u) is in the same ball, and from a node in both it is in both,
since the distances to v and u differ by at most 1.
"""

import numpy as np
import numpy.typing as npt

from unionsnn.coefficients.kernels.jit import kernel
from unionsnn.coefficients.kernels.substructures import induced_lists

IntArray = npt.NDArray[np.int64]
NodeArray = npt.NDArray[np.int32]

UNION, OVERLAP, UNION_MINUS = range(3)
"""Codes of the substructures, in the order of `space.SUBSTRUCTURES`."""


@kernel
def ball(
    indptr: IntArray,
    indices: NodeArray,
    centre: int,
    radius: int,
    depth: NodeArray,
    queue: NodeArray,
) -> int:
    """List the nodes within a distance of a node, nearest first.

    Shapes:
        depth [N] (-1 on entry; distances of the listed nodes on return), queue [>= nodes listed].

    Returns:
        Number of nodes listed.
    """
    depth[centre] = 0
    queue[0] = centre
    count, at = 1, 0
    while at < count and depth[queue[at]] < radius:
        node = queue[at]
        at += 1
        for k in range(indptr[node], indptr[node + 1]):
            neighbor = indices[k]
            if depth[neighbor] < 0:
                depth[neighbor] = depth[node] + 1
                queue[count] = neighbor
                count += 1
    return count


@kernel
def gather(
    indptr: IntArray,
    indices: NodeArray,
    v: int,
    u: int,
    radius: int,
    depth_v: NodeArray,
    depth_u: NodeArray,
    queue: NodeArray,
    nodes: NodeArray,
) -> int:
    """List the nodes of both balls in ascending order.

    Shapes:
        depth_v [N], depth_u [N] (-1 on entry; `release` restores that), queue [N], nodes [N].

    Returns:
        Number of nodes listed.
    """
    count = ball(indptr, indices, v, radius, depth_v, nodes)
    reached = ball(indptr, indices, u, radius, depth_u, queue)
    for k in range(reached):
        if depth_v[queue[k]] < 0:
            nodes[count] = queue[k]
            count += 1
    # Shell's sort, which is insertion for few nodes; numba takes most of a second for sort().
    gap = 1
    while 9 * gap < count:
        gap = 3 * gap + 1
    while gap > 0:
        for k in range(gap, count):
            node = nodes[k]
            at = k
            while at >= gap and nodes[at - gap] > node:
                nodes[at] = nodes[at - gap]
                at -= gap
            nodes[at] = node
        gap //= 3
    return count


@kernel
def release(nodes: NodeArray, count: int, depth_v: NodeArray, depth_u: NodeArray) -> None:
    """Reset the distances of the listed nodes."""
    for k in range(count):
        depth_v[nodes[k]] = -1
        depth_u[nodes[k]] = -1


@kernel
def _within(depth: int, radius: int) -> bool:
    return 0 <= depth <= radius


@kernel
def select(
    nodes: NodeArray,
    count: int,
    radius: int,
    substructure: int,
    depth_v: NodeArray,
    depth_u: NodeArray,
    chosen: NodeArray,
) -> int:
    """Choose the nodes of a substructure from those of larger balls, keeping their order.

    Returns:
        Number of nodes chosen.

    Raises:
        NotImplementedError: No kernel builds the substructure.
    """
    if substructure not in (UNION, OVERLAP, UNION_MINUS):
        raise NotImplementedError("no kernel builds this substructure")
    size = 0
    for k in range(count):
        node = nodes[k]
        in_v = _within(depth_v[node], radius)
        in_u = _within(depth_u[node], radius)
        if (in_v and in_u) or (substructure != OVERLAP and (in_v or in_u)):
            chosen[size] = node
            size += 1
    return size


@kernel
def substructure_lists(
    indptr: IntArray,
    indices: NodeArray,
    chosen: NodeArray,
    size: int,
    radius: int,
    substructure: int,
    depth_v: NodeArray,
    depth_u: NodeArray,
    local: NodeArray,
) -> tuple[IntArray, NodeArray]:
    """List the adjacency of a substructure, with nodes as positions in ``chosen``.

    Shapes:
        chosen [>= n], local [N] (-1 on entry; on return the position of the chosen nodes).

    Returns:
        starts [n + 1] and neighbors [2 |E_S|], ascending in each list.
    """
    for k in range(size):
        local[chosen[k]] = k
    starts, neighbors = induced_lists(indptr, indices, chosen, size, local)
    if substructure != UNION_MINUS:
        return starts, neighbors
    kept, begin = 0, 0
    for i in range(size):
        i_in_v = _within(depth_v[chosen[i]], radius)
        i_in_u = _within(depth_u[chosen[i]], radius)
        end = starts[i + 1]
        for k in range(begin, end):
            j = chosen[neighbors[k]]
            in_v = i_in_v and _within(depth_v[j], radius)
            in_u = i_in_u and _within(depth_u[j], radius)
            if in_v or in_u:
                neighbors[kept] = neighbors[k]
                kept += 1
        begin = end
        starts[i + 1] = kept
    return starts, neighbors[:kept]
