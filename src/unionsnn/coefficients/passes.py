"""Passes over the edges of a graph: the kernels' interface to the engine."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unionsnn.coefficients import space
from unionsnn.coefficients.engine import Group
from unionsnn.coefficients.graph import SimpleGraph
from unionsnn.coefficients.kernels import any_radius, radius_one
from unionsnn.coefficients.kernels.arguments import Numbers, Workspace, new_workspace
from unionsnn.coefficients.kernels.curvature import as_ratio
from unionsnn.coefficients.kernels.hubs import Hub
from unionsnn.coefficients.kernels.routes import KNOWN, expected_costs, hub_classes, hub_cost

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
NodeArray = npt.NDArray[np.int32]


def _columns(names: Sequence[str], wanted: Sequence[str]) -> IntArray:
    """Return the position of each name among the wanted ones, or -1."""
    return np.array([wanted.index(name) if name in wanted else -1 for name in names])


@dataclass
class RadiusOne:
    """The paper's coefficient at radius 1, with edges that are cheaper at a hub left to it.

    Args:
        graph: The graph.
        quantities: Any of `space.QUANTITIES`, in the order of the columns wanted.
    """

    graph: SimpleGraph
    quantities: tuple[str, ...]
    failure = (
        "the eigenvalue iteration did not converge. Please report the graph: this is a defect of "
        "unionsnn, not of the input"
    )

    def __post_init__(self) -> None:
        """Find hubs if the coefficient is wanted."""
        graph = self.graph
        self.num_columns = len(self.quantities)
        self.degrees = np.diff(graph.indptr)
        # An edge's matrix has at most as many rows as its ends have neighbours.
        self.max_order = 2 * int(self.degrees.max(initial=0))
        self.classes = np.empty(0, np.int32)
        if "a" in self.quantities:
            self.classes = hub_classes(graph.indptr, graph.indices)
        self.max_groups = int((self.classes > 0).sum())
        self._wanted = _columns(space.QUANTITIES, self.quantities)

    def costs(self, routes: NodeArray) -> tuple[FloatArray, FloatArray]:
        """Estimate the cost of each edge in its chunk and at its hub."""
        in_chunks, at_hubs = np.empty(len(routes)), np.empty(len(routes))
        expected_costs(self.graph.csr, self.classes, routes, in_chunks, at_hubs)
        return in_chunks, at_hubs

    def new_workspace(self) -> radius_one.Workspace:
        """Allocate the workspace of one thread."""
        g = self.graph
        return radius_one.new_workspace(
            g.num_nodes, int(self.degrees.max(initial=0)), g.num_undirected_edges
        )

    def compute(
        self,
        begin: int,
        end: int,
        routes: NodeArray,
        workspace: radius_one.Workspace,
        values: FloatArray,
    ) -> None:
        """Compute the edges begin..end-1; `routes` gets the hubs of edges left to them."""
        radius_one.compute_chunk(
            self.graph.csr, begin, end, routes, self.classes, workspace, self._wanted, values
        )

    def groups(self, routes: NodeArray) -> list[Group]:
        """Return the edges that chunks have left, by hub."""
        edges = np.flatnonzero(routes >= 0)
        edges = edges[np.argsort(routes[edges], kind="stable")]
        hubs, starts = np.unique(routes[edges], return_index=True)
        parts = np.split(edges, starts[1:]) if len(hubs) else []
        return [self._group(v, part) for v, part in zip(hubs.tolist(), parts, strict=True)]

    def _group(self, v: int, edges: IntArray) -> Group:
        graph, classes, degree = self.graph, int(self.classes[v]), int(self.degrees[v])
        border = int(self.degrees[graph.edges[:, edges]].min(axis=0).mean()) // 2
        cost = len(edges) * hub_cost(classes, degree, border)
        memory = 24 * classes**2 + (degree + 1) ** 2 // 8

        def values(workspace: radius_one.Workspace) -> Iterator[float]:
            hub = Hub(graph.indptr, graph.indices, v, workspace.local)
            try:
                for i in edges.tolist():
                    yield hub.coefficient(int(graph.edges[:, i].sum()) - v)
            finally:
                hub.close()

        return Group(edges, int(self._wanted[0]), cost, memory, values)


@dataclass
class AnyRadius:
    """Any coefficient at any radii, for choices already checked to be compatible.

    Args:
        graph: The graph.
        substructure: A key of `space.SUBSTRUCTURES`.
        descriptor: A key of `space.DESCRIPTORS`.
        encoding: A key of `space.ENCODINGS` for a matrix, None for a number.
        radii: Radii in ascending order.
        quantities: Any of "a", "nodes" and "edges", in the order of the columns wanted.
        alpha: Mass that stays, for curvature.
        exponent: λ, for the node/edge count.
    """

    graph: SimpleGraph
    substructure: str
    descriptor: str
    encoding: str | None
    radii: Sequence[int]
    quantities: Sequence[str]
    alpha: float = space.DEFAULT_ALPHA
    exponent: float = space.DEFAULT_EXPONENT
    failure = (
        "an eigenvalue iteration did not converge, or the exponent is too large for the size of "
        "the substructure"
    )
    max_groups = 0

    def __post_init__(self) -> None:
        """Convert names to the arguments of the kernels."""
        self.num_columns = len(self.radii) * len(self.quantities)
        self.max_order = self.graph.num_nodes
        kernel = space.kernel_of(self.descriptor, self.encoding)
        ratio = as_ratio(self.alpha)
        self._reads = kernel.reads
        self._for_any_alpha = None if ratio else kernel.for_any_alpha
        self._choice = any_radius.Choice(
            space.SUBSTRUCTURES[self.substructure].code,
            space.functions(kernel.reads).index(kernel.function),
            kernel.reads == "quotient",
            kernel.needs_lists,
            Numbers(float(self.exponent), float(self.alpha), *(ratio or (0, 1))),
        )
        self._radii = np.array(self.radii)
        self._wanted = _columns(("a", "nodes", "edges"), self.quantities)

    def costs(self, routes: NodeArray) -> tuple[FloatArray, FloatArray]:
        """Estimate the cost of each edge; no edge is left to a hub.

        The size of a ball is estimated by the number of walks from its centre, at most the size of
        the component; with cycles that is too many, but good enough to balance chunks.
        """
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import connected_components

        graph = self.graph
        ones = np.ones(len(graph.indices), np.int8)
        adjacency = csr_array((ones, graph.indices, graph.indptr), shape=(graph.num_nodes,) * 2)
        _, component = connected_components(adjacency, directed=False)
        most = np.bincount(component)[component[graph.edges[0]]]
        degree = np.diff(graph.indptr).astype(np.float64)
        owner = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
        walks: FloatArray = degree + 1.0
        for _ in range(max(self.radii) - 1):
            reached = np.bincount(owner, walks[graph.indices], graph.num_nodes)
            walks = reached.astype(np.float64) + 1.0
        size = np.minimum(walks[graph.edges[0]] + walks[graph.edges[1]], most)
        costs = (200.0 + 20.0 * size**2 + 0.1 * size**3) * (routes != KNOWN)
        return costs, np.zeros(len(routes))

    def new_workspace(self) -> Workspace:
        """Allocate the workspace of one thread."""
        num_values = self.graph.num_undirected_edges * len(self.radii)
        return new_workspace(self.graph.num_nodes, num_values)

    def compute(
        self, begin: int, end: int, routes: NodeArray, workspace: Workspace, values: FloatArray
    ) -> None:
        """Compute the edges begin..end-1."""
        chunk = self.graph.csr, begin, end, routes, self._choice
        wanted = self._wanted
        if self._reads == "graph" and wanted[0] >= 0:
            any_radius.compute_whole_graph_chunk(*chunk, workspace, values[:, wanted[0]])
            wanted = np.array([-1, *wanted[1:]])
        if max(wanted) >= 0:
            any_radius.compute_chunk(*chunk, self._radii, workspace, wanted, values)
        if self._for_any_alpha is not None and self._wanted[0] >= 0:
            for i in range(begin, end):
                if routes[i] != KNOWN:
                    self._compute_slowly(i, workspace, values[i])

    def _compute_slowly(self, i: int, workspace: Workspace, row: FloatArray) -> None:
        """Recompute the coefficients of edge i for an α that is not a simple fraction."""
        assert self._for_any_alpha is not None
        graph = self.graph
        v, u = (int(node) for node in graph.edges[:, i])
        for place, radius in enumerate(self.radii):
            starts, neighbors, ends = graph.indptr, graph.indices, (v, u)
            if self._reads != "graph":
                starts, neighbors, ends = any_radius.one_substructure(
                    graph.csr, v, u, radius, self._choice.substructure, workspace
                )
            value = self._for_any_alpha(starts, neighbors, *ends, self.alpha, workspace.mark)
            row[place * len(self.quantities) + self._wanted[0]] = value

    def groups(self, routes: NodeArray) -> list[Group]:
        """Return no groups: chunks leave nothing."""
        return []
