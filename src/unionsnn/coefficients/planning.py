"""How long a computation will take, before it is begun."""

from typing import Any

import numpy as np

from unionsnn.coefficients.graph import SimpleGraph
from unionsnn.coefficients.kernels.arguments import new_workspace
from unionsnn.coefficients.kernels.neighborhoods import gather, release
from unionsnn.coefficients.kernels.routes import DIRECT
from unionsnn.coefficients.passes import RadiusOne, work_of_size
from unionsnn.coefficients.spec import CoefficientSpec

# Seconds at most, for which a graph is not looked at.
_SHORT = 1.0
_SAMPLE = 256


def expected_seconds(
    spec: CoefficientSpec, edge_index: Any, num_nodes: int, *, symmetrize: bool = False
) -> float:
    """Estimate the seconds that the coefficients of a graph take on one core.

    Beyond radius 1 the sizes of the union subgraphs of some edges tell, as bounds from degrees are
    hundreds of times too high. Right within a factor of two or three for the path matrix of union
    subgraphs; other choices take less or more.

    Args:
        spec: Which coefficients.
        edge_index: As in `CoefficientSpec.compute`.
        num_nodes: Number of nodes.
        symmetrize: As in `CoefficientSpec.compute`.

    Shapes:
        edge_index [2, E].

    Raises:
        RequestError: The graph cannot be used as given.
    """
    most = (
        edge_index.shape[1]
        * len(spec.radius)
        * float(work_of_size(np.array([float(num_nodes)]))[0])
        / 1e9
    )
    if most < _SHORT:
        return most
    graph = SimpleGraph.from_edge_index(edge_index, num_nodes, symmetrize=symmetrize)
    nanoseconds = 0.0
    radii = spec.radius
    if 1 in radii and spec.has_tree_value:
        radii = tuple(radius for radius in radii if radius != 1)
        routes = np.full(graph.num_undirected_edges, DIRECT, np.int32)
        nanoseconds += sum(costs.sum() for costs in RadiusOne(graph, ("a",)).costs(routes))
    if radii and graph.num_undirected_edges:
        nanoseconds += _of_balls(graph, radii)
    return float(nanoseconds) / 1e9


def _of_balls(graph: SimpleGraph, radii: tuple[int, ...]) -> float:
    count = graph.num_undirected_edges
    # The same edges each time, so that the same graph is always answered alike.
    chosen = np.random.default_rng(0).permutation(count)[:_SAMPLE]
    work = new_workspace(graph.num_nodes, 1)
    sizes: list[int] = []
    for v, u in graph.edges[:, chosen].T.tolist():
        reached = gather(
            graph.indptr,
            graph.indices,
            v,
            u,
            radii[-1],
            work.depth_v,
            work.depth_u,
            work.queue,
            work.nodes,
        )
        nodes = work.nodes[:reached]
        far = np.int32(radii[-1] + 1)
        from_v, from_u = work.depth_v[nodes], work.depth_u[nodes]
        depth = np.minimum(np.where(from_v < 0, far, from_v), np.where(from_u < 0, far, from_u))
        sizes += [int((depth <= radius).sum()) for radius in radii]
        release(work.nodes, reached, work.depth_v, work.depth_u)
    return float(work_of_size(np.array(sizes, np.float64)).sum()) * count / len(chosen)
