"""Passes over the edges of a graph: the kernels' interface to the engine."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unionsnn.base.errors import Fault, RequestError
from unionsnn.coefficients import space
from unionsnn.coefficients.engine import Group
from unionsnn.coefficients.graph import SimpleGraph
from unionsnn.coefficients.kernels import any_radius, bands, columns, radius_one
from unionsnn.coefficients.kernels.arguments import Numbers, Workspace, new_workspace
from unionsnn.coefficients.kernels.curvature import as_ratio
from unionsnn.coefficients.kernels.hubs import MOST_SUMS, Hub
from unionsnn.coefficients.kernels.routes import (
    ALONE,
    ALONE_ORDER,
    KNOWN,
    MAX_BORDER,
    NO_HUBS,
    direct_cost,
    expected_costs,
    find_hubs,
    hub_cost,
)
from unionsnn.coefficients.kernels.substructures import TRUE_TWINS, WORD
from unionsnn.coefficients.planning import sampled_cost, work_of_size

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
NodeArray = npt.NDArray[np.int32]

# Estimated nanoseconds below which bounds will do for a plan.
_SHORT_WORK = 1.0e9

# Nanoseconds of one thread beyond which quantities of the whole graph are refused.
_MOST_WORK = 3.6e12


def _columns(names: Sequence[str], wanted: Sequence[str]) -> IntArray:
    """Return the position of each name among the wanted ones, or -1."""
    return np.array([wanted.index(name) if name in wanted else -1 for name in names])


def _ball_sizes(graph: SimpleGraph, radius: int) -> FloatArray:
    """Bound the number of nodes in the balls around the ends of each edge.

    A ball has no more nodes than walks from its centre, nor than the component; with cycles that
    is too many, but good enough to balance chunks.

    Shapes:
        -> [M].
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    ones = np.ones(len(graph.indices), np.int8)
    adjacency = csr_array((ones, graph.indices, graph.indptr), shape=(graph.num_nodes,) * 2)
    _, component = connected_components(adjacency, directed=False)
    most = np.bincount(component)[component[graph.edges[0]]]
    degree = np.diff(graph.indptr).astype(np.float64)
    owner = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    walks: FloatArray = degree + 1.0
    for _ in range(radius - 1):
        reached = np.bincount(owner, walks[graph.indices], graph.num_nodes)
        walks = reached.astype(np.float64) + 1.0
    return np.minimum(walks[graph.edges[0]] + walks[graph.edges[1]], most)


def _sampled_cost(
    graph: SimpleGraph,
    routes: NodeArray,
    bound: float,
    radii: Sequence[int],
    *,
    has_matrix: bool = True,
) -> float:
    if bound < _SHORT_WORK:
        return bound
    edges = np.flatnonzero(routes != KNOWN)
    return sampled_cost(graph, edges, tuple(radii), has_matrix=has_matrix)


@dataclass
class RadiusOne:
    """The paper's coefficient at radius 1, with edges that are cheaper at a hub left to it.

    Args:
        graph: The graph.
        quantities: Any of `space.BASIC_QUANTITIES`, in the order of the columns wanted.
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
        self.hubs = NO_HUBS
        if "a" in self.quantities:
            self.hubs = find_hubs(graph.indptr, graph.indices)
        self.max_groups = int((self.hubs.classes > 0).sum()) + (self.max_order > ALONE_ORDER)
        self._wanted = _columns(space.BASIC_QUANTITIES, self.quantities)

    def costs(self, routes: NodeArray) -> tuple[FloatArray, FloatArray]:
        """Estimate the cost of each edge in its chunk and at its hub."""
        return expected_costs(self.graph.csr, self.hubs, routes)

    def expected_cost(self, routes: NodeArray, bound: float) -> float:
        """Estimate the nanoseconds of all edges: the sum of their costs."""
        return bound

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
        chunk, wanted = (self.graph.csr, begin, end, routes), self._wanted
        if wanted[1] >= 0:
            radius_one.compute_trees(*chunk, workspace, wanted, values)
        # a_tree alone needs no substructure.
        others = self.quantities != ("a_tree",)
        if others and radius_one.compute_chunk(*chunk, workspace, wanted, values):
            radius_one.compute_large(*chunk, self.hubs, workspace, wanted, values)

    def groups(self, routes: NodeArray) -> list[Group]:
        """Return the edges that chunks have left, by hub or alone."""
        alone = [self._alone(i) for i in np.flatnonzero(routes == ALONE).tolist()]
        edges = np.flatnonzero(routes >= 0)
        edges = edges[np.argsort(routes[edges], kind="stable")]
        hubs, starts = np.unique(routes[edges], return_index=True)
        parts = np.split(edges, starts[1:]) if len(hubs) else []
        at_hubs = [self._group(v, part) for v, part in zip(hubs.tolist(), parts, strict=True)]
        return at_hubs + alone

    def _alone(self, i: int) -> Group:
        graph = self.graph
        order = int(self.degrees[graph.edges[:, i]].sum())

        def values(workspace: radius_one.Workspace) -> Iterator[float]:
            rows, sizes, kinds = radius_one.quotient_of_edge(graph.csr, i, workspace)
            blocks = bands.path_blocks(rows, sizes, kinds)
            del rows
            inside = np.where(kinds == TRUE_TWINS, 1.0, 2.0) * (sizes - 1)
            yield bands.absolute_eigenvalue_sum(blocks) + float(inside.sum())

        memory = 4 * order**2 + order**2 // 8
        return Group(
            np.array([i]), int(self._wanted[0]), direct_cost(order), memory, memory, values
        )

    def _group(self, v: int, edges: IntArray) -> Group:
        graph, classes, degree = self.graph, int(self.hubs.classes[v]), int(self.degrees[v])
        # Half of the other end's neighbours are common ones, or as many as to fit.
        borders = (self.degrees[graph.edges[:, edges]].sum(axis=0) - degree) // 2
        borders = np.minimum(borders, MAX_BORDER)
        entries = int(self.hubs.entries[v])
        cost = sum(hub_cost(classes, degree, entries, border) for border in borders.tolist())
        # Its vectors with half a matrix more at first, then the sums of a border.
        largest = int(borders.max())
        sums = min(8 * MOST_SUMS, 400 * largest**2) + 16 * classes * largest
        later = 8 * classes**2 + sums + (degree + 1) ** 2 // 8
        memory = max(later, 12 * classes**2 + (degree + 1) ** 2 // 8)

        def values(workspace: radius_one.Workspace) -> Iterator[float]:
            hub = Hub(graph.indptr, graph.indices, v, workspace.local)
            try:
                for i in edges.tolist():
                    yield hub.coefficient(int(graph.edges[:, i].sum()) - v)
            finally:
                hub.close()

        return Group(edges, int(self._wanted[0]), cost, memory, later, values)


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
        self._sizes = _ball_sizes(self.graph, max(self.radii))
        self._compute_chunk = any_radius.chunk_kernel(
            kernel.function,
            kernel.reads,
            radius_one=1 in self.radii,
            large=bool(self._sizes.max(initial=0) > WORD),
        )
        self._for_any_alpha = None if ratio else kernel.for_any_alpha
        self._choice = any_radius.Choice(
            space.SUBSTRUCTURES[self.substructure].code,
            kernel.needs_lists,
            Numbers(float(self.exponent), float(self.alpha), *(ratio or (0, 1))),
        )
        self._radii = np.array(self.radii)
        self._wanted = _columns(("a", "nodes", "edges"), self.quantities)

    def costs(self, routes: NodeArray) -> tuple[FloatArray, FloatArray]:
        """Estimate the cost of each edge; no edge is left to a hub."""
        return work_of_size(self._sizes) * (routes != KNOWN), np.zeros(len(routes))

    def expected_cost(self, routes: NodeArray, bound: float) -> float:
        """Estimate the nanoseconds of all edges by a sample of them."""
        has_matrix = self._reads == "quotient"
        return _sampled_cost(self.graph, routes, bound, self.radii, has_matrix=has_matrix)

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
            self._compute_chunk(*chunk, workspace, values[:, wanted[0]])
            wanted = np.array([-1, *wanted[1:]])
        if max(wanted) >= 0:
            sizes = self._reads == "graph"
            compute = any_radius.compute_chunk if sizes else self._compute_chunk
            compute(*chunk, self._radii, workspace, wanted, values)
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


def _wanted_columns(names: Sequence[str]) -> columns.Wanted:
    """Return the quantities of one kind, which all have a kernel, in the form that kernels take."""
    rows = [space.QUANTITIES[name] for name in names]
    kernels = [row.kernel for row in rows if row.kernel is not None]
    functions = space.column_functions(kernels[0].reads)
    return columns.Wanted(
        np.array([functions.index(kernel.function) for kernel in kernels]),
        np.cumsum([0, *(len(row.names) for row in rows)]),
    )


@dataclass
class PathColumns:
    """Quantities of the path matrices of substructures, of several columns each.

    Args:
        graph: The graph.
        substructure: A key of `space.SUBSTRUCTURES`.
        radii: Radii in ascending order.
        quantities: Names of quantities, in the order of the columns wanted.
    """

    graph: SimpleGraph
    substructure: str
    radii: Sequence[int]
    quantities: Sequence[str]
    failure = "the eigenvalue iteration did not converge. Please report the graph"
    max_groups = 0

    def __post_init__(self) -> None:
        """Convert names to the arguments of the kernels."""
        self.max_order = self.graph.num_nodes
        self._code = space.SUBSTRUCTURES[self.substructure].code
        self._radii = np.array(self.radii)
        self._wanted = _wanted_columns(self.quantities)
        self._width = int(self._wanted.starts[-1])
        rows = [space.QUANTITIES[name] for name in self.quantities]
        # Kernels write all columns of a quantity, of which small radii have fewer.
        self._kept = np.array(
            [
                name in row.names_at(radius)
                for radius in self.radii
                for row in rows
                for name in row.names
            ]
        )
        self.num_columns = int(self._kept.sum())

    def costs(self, routes: NodeArray) -> tuple[FloatArray, FloatArray]:
        """Estimate the cost of each edge; no edge is left to a hub."""
        sizes = _ball_sizes(self.graph, max(self.radii))
        return work_of_size(sizes) * (routes != KNOWN), np.zeros(len(routes))

    def expected_cost(self, routes: NodeArray, bound: float) -> float:
        """Estimate the nanoseconds of all edges by a sample of them."""
        return _sampled_cost(self.graph, routes, bound, self.radii)

    def new_workspace(self) -> columns.PathWorkspace:
        """Allocate the workspace of one thread."""
        num_values = self.graph.num_undirected_edges * len(self.radii)
        return columns.new_path_workspace(self.graph.num_nodes, num_values, self._width)

    def compute(
        self,
        begin: int,
        end: int,
        routes: NodeArray,
        workspace: columns.PathWorkspace,
        values: FloatArray,
    ) -> None:
        """Compute the edges begin..end-1."""
        rows = np.empty((end - begin, len(self.radii), self._width))
        columns.compute_path_columns(
            self.graph.csr,
            begin,
            end,
            routes,
            self._code,
            self._radii,
            self._wanted,
            workspace,
            rows,
        )
        new = np.flatnonzero(routes[begin:end] != KNOWN)
        values[begin + new] = rows.reshape(len(rows), -1)[new][:, self._kept]

    def groups(self, routes: NodeArray) -> list[Group]:
        """Return no groups: chunks leave nothing."""
        return []


@dataclass
class WholeGraphColumns:
    """Quantities of the edge in the whole graph, of several columns each.

    Args:
        graph: The graph.
        quantities: Names of quantities, in the order of the columns wanted.

    Raises:
        RequestError: They would take hours.
    """

    graph: SimpleGraph
    quantities: Sequence[str]
    failure = "a number is too large"
    max_groups = max_order = 0

    def __post_init__(self) -> None:
        """Convert names to the arguments of the kernel, and bound the work."""
        self._wanted = _wanted_columns(self.quantities)
        self.num_columns = int(self._wanted.starts[-1])
        self._costs = np.zeros(self.graph.num_undirected_edges)
        faults = []
        for name in self.quantities:
            kernel = space.QUANTITIES[name].kernel
            assert kernel is not None, f"{name} has no kernel"
            costs = self._costs if kernel.costs is None else kernel.costs(self.graph.csr)
            self._costs = self._costs + costs
            if costs.sum() > _MOST_WORK:
                num_edges, num_nodes = self.graph.num_undirected_edges, self.graph.num_nodes
                text = (
                    f"quantity {name!r} of a graph of {num_nodes:,} nodes and {num_edges:,} edges, "
                    f"some with many neighbours, takes up to {_hours(costs.sum())} on one thread; "
                    f"allowed are {_hours(_MOST_WORK)}. Leave {name!r} out: of the quantities, and "
                    "of the gate's features."
                )
                faults.append(Fault(text, "coefficient.work"))
        if faults:
            raise RequestError(*faults)

    def costs(self, routes: NodeArray) -> tuple[FloatArray, FloatArray]:
        """Estimate the cost of each edge; no edge is left to a hub."""
        return self._costs * (routes != KNOWN), np.zeros(len(routes))

    def expected_cost(self, routes: NodeArray, bound: float) -> float:
        """Estimate the nanoseconds of all edges: the sum of their costs."""
        return bound

    def new_workspace(self) -> Workspace:
        """Allocate the workspace of one thread."""
        return new_workspace(self.graph.num_nodes, 1)

    def compute(
        self, begin: int, end: int, routes: NodeArray, workspace: Workspace, values: FloatArray
    ) -> None:
        """Compute the edges begin..end-1."""
        columns.compute_whole_graph_columns(
            self.graph.csr, begin, end, routes, self._wanted, workspace, values
        )

    def groups(self, routes: NodeArray) -> list[Group]:
        """Return no groups: chunks leave nothing."""
        return []


def _hours(nanoseconds: float) -> str:
    hours = nanoseconds / 3.6e12
    return f"{hours:,.0f} hours" if hours >= 10 else f"{hours:.2g} hours"
