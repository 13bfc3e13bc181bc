"""Structural coefficients of edges, as one function."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from unionsnn.structure.engine import Progress
from unionsnn.structure.spec import CoefficientSpec


def structural_coefficients(
    edge_index: Any,
    num_nodes: int,
    *,
    substructure: str = "union",
    descriptor: str = "path",
    encoding: str = "singular_value_sum",
    radius: int | Sequence[int] = 1,
    quantities: str | Sequence[str] = ("a",),
    symmetrize: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
) -> npt.NDArray[np.float64]:
    """Compute a structural coefficient for every directed edge of a graph.

    With the defaults a_vu = Σ σ_i(P), the sum of the singular values of the path matrix P of the
    subgraph induced on N[v] ∪ N[u]; P_ij is the length of a shortest path inside that subgraph
    (Xu et al., AAAI 2024, eq. 2). The coefficient is not injective: C4 and K5 both have 8.

    The graph is taken as simple and undirected: self loops are dropped and get a row of 0,
    duplicates count once. A whole data set is one call on the disjoint union of its graphs.

    Args:
        edge_index: Directed edges, anything that numpy reads as integers.
        num_nodes: Number of nodes.
        substructure: Subgraph around an edge; "union".
        descriptor: Matrix of the subgraph; "path".
        encoding: Number made of the matrix; "singular_value_sum".
        radius: Radius of the neighbourhoods, or several; 1.
        quantities: One or several of "a", "a_tree" (a of the double star with the same end
            degrees), "nodes" (|V_S|) and "edges" (|E_S|).
        symmetrize: Add the missing reverse of every edge instead of refusing the input.
        threads: Number of threads; None uses the cores available, but one for tiny work.
        progress: Called with (edges done, edges in all), undirected edges.

    Shapes:
        edge_index [2, E] -> [E] for one column, [E, C] for several: for each radius, ascending,
        the quantities in the order given. Rows follow the input's edges.

    Raises:
        TypeError: edge_index or num_nodes is not of integers.
        ValueError: A choice is not available, or the graph cannot be used as given.
    """
    radii = tuple(radius) if isinstance(radius, Sequence) else (radius,)
    asked = (quantities,) if isinstance(quantities, str) else tuple(quantities)
    spec = CoefficientSpec(substructure, descriptor, encoding, radii, asked)
    values = spec.compute(
        edge_index, num_nodes, symmetrize=symmetrize, threads=threads, progress=progress
    )
    if len(spec.columns) == 1:
        return values[:, 0].copy()
    order = [spec.columns.index(f"{name}_r{r}") for r in spec.radius for name in asked]
    return values if order == sorted(order) else values[:, order]
