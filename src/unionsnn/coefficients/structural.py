"""Structural coefficients of edges, as one function."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from unionsnn.coefficients import space
from unionsnn.coefficients.engine import Progress
from unionsnn.coefficients.graph import as_edge_index
from unionsnn.coefficients.planning import MAX_HOURS
from unionsnn.coefficients.spec import MAX_RADIUS, CoefficientSpec, columns_of


def structural_coefficients(
    edge_index: Any,
    num_nodes: int | None = None,
    *,
    substructure: str = "union",
    descriptor: str = "path",
    encoding: str | None = space.DEFAULT_ENCODING,
    radius: int | Sequence[int] = 1,
    quantities: str | Sequence[str] = ("a",),
    alpha: float = space.DEFAULT_ALPHA,
    exponent: float = space.DEFAULT_EXPONENT,
    symmetrize: bool = False,
    threads: int | None = None,
    block_size: int | None = None,
    progress: Progress | None = None,
    max_hours: float | None = MAX_HOURS,
) -> npt.NDArray[np.float64]:
    """Compute a structural coefficient for every directed edge of a graph.

    With the defaults a_vu = Σ σ_i(P), the sum of the singular values of the path matrix P of the
    subgraph induced on N[v] ∪ N[u]; P_ij is the length of a shortest path inside that subgraph
    (Xu et al., AAAI 2024, eq. 2). The coefficient is not injective: C4 and K5 both have 8.

    The graph is taken as simple and undirected: self loops are dropped and get a row of 0,
    duplicates count once. A whole data set is one call on the disjoint union of its graphs.

    Args:
        edge_index: Directed edges, anything that numpy reads as integers.
        num_nodes: Number of nodes; always needed, as the last ones may have no edge.
        substructure: Subgraph around an edge, a key of `space.SUBSTRUCTURES`.
        descriptor: A key of `space.DESCRIPTORS`: a matrix of the substructure, or a number of the
            edge inside it or in the whole graph.
        encoding: Encoding of a matrix, a key of `space.ENCODINGS`; has no effect on a descriptor
            that is a number.
        radius: Radius of the neighbourhoods, or several.
        quantities: One or several of "a" (the coefficient), "a_tree" (a of the double star with
            the same end degrees; union, path, singular_value_sum, and of several radii at 1 only),
            "nodes" (``|V_S|``), "edges" (``|E_S|``), and those of several columns: "eigenvalues",
            "distances", "marked" and "cycles" (see `space.QUANTITIES`).
        alpha: Mass that stays at the end nodes; curvature only.
        exponent: λ of the node/edge count; the paper uses 2 for graph and 1 for node tasks.
        symmetrize: Add the missing reverse of every edge instead of refusing the input.
        threads: Number of threads; None uses all available cores, or one for tiny work.
        block_size: Maximum number of undirected edges per thread at once; None for no limit.
        progress: As in `CoefficientSpec.compute`.
        max_hours: Hours beyond which an expected time is refused; None for no limit.

    Shapes:
        edge_index [2, E] -> [E] for one column, [E, C] for several: for each radius, ascending,
        the quantities in the order given, then those of the whole graph. Rows follow the input's
        edges.

    Raises:
        TypeError: edge_index or num_nodes is not an integer type.
        RequestError: A choice is not available or incompatible with another, or the graph cannot be
            used as given.
        TooLongError: It would take longer than `max_hours`.
        RuntimeError: A value could not be computed.
    """
    if num_nodes is None:
        as_edge_index(edge_index)
        raise TypeError(
            "num_nodes is missing; pass the number of nodes after edge_index, as the last ones may "
            "have no edge."
        )
    # One too many is enough to be refused: range(10**9) is never written out.
    radii = tuple(radius[: MAX_RADIUS + 1]) if isinstance(radius, Sequence) else (radius,)
    asked = (quantities,) if isinstance(quantities, str) else tuple(quantities)
    spec = CoefficientSpec(substructure, descriptor, encoding, radii, asked, alpha, exponent)
    values = spec.compute(
        edge_index,
        num_nodes,
        symmetrize=symmetrize,
        threads=threads,
        block_size=block_size,
        progress=progress,
        max_hours=max_hours,
    )
    if len(spec.columns) == 1:
        return values[:, 0].copy()
    order = [spec.columns.index(name) for name in columns_of(asked, spec.radius)]
    return values if order == sorted(order) else values[:, order]
