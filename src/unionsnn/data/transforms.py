"""The structural coefficient as a PyG transform."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from unionsnn.structure import CoefficientSpec


class StructuralCoefficients(BaseTransform):
    r"""Add the structural coefficients of all edges to a graph.

    .. math::
        a_{vu} = \sum_i \sigma_i(P_{vu}), \qquad P_{vu}\text{: path matrix of the union subgraph}

    Equation 2 of "Union Subgraph Neural Networks" (Xu et al., AAAI 2024) with the encoding of
    section 4. The graph gets ``edge_coefficient``, [num_edges, C], of the default float type, and
    ``coefficient_columns``, the names of its columns joined by commas. Use it as `pre_transform`:
    the work is done once.

    Args:
        spec: Substructure, descriptor, encoding, radius and quantities; by default what the
            presets of `UnionPlugin` read.
        radius: One radius or several of the default; the union subgraphs of radius 3 of a large
            graph with hubs are most of the graph: take 1 there.
        symmetrize: Whether edges that are given in one direction only count as undirected; they
            are an error otherwise. The graph keeps the edges that it has, one row each: for
            messages both ways apply PyG's `ToUndirected` first.

    Raises:
        ValueError: if both a spec and a radius are given.
    """

    def __init__(
        self,
        spec: CoefficientSpec | None = None,
        *,
        radius: int | Sequence[int] | None = None,
        symmetrize: bool = False,
    ) -> None:
        if spec is not None and radius is not None:
            raise ValueError("radius is given beside a spec, which has its own; leave one out.")
        given = (1, 2, 3) if radius is None else radius
        radii = (given,) if isinstance(given, int) else tuple(given)
        quantities = ("a", "a_tree", "nodes", "edges") if 1 in radii else ("a", "nodes", "edges")
        self.spec = spec or CoefficientSpec(radius=radii, quantities=quantities)
        self.symmetrize = symmetrize

    def forward(self, data: Data) -> Data:
        """Return the graph with its coefficients; ValueError if it has no `edge_index`."""
        if data.edge_index is None:
            raise ValueError(
                "The graph has no edge_index; give it one, of the shape [2, 0] if it has no edge."
            )
        rows = self.spec.compute(
            data.edge_index.cpu().numpy(), data.num_nodes, symmetrize=self.symmetrize, threads=1
        )
        coefficient = torch.from_numpy(rows).to(torch.get_default_dtype())
        data.edge_coefficient = coefficient.to(data.edge_index.device)
        # One string: a list of names could be taken for one value per node or edge.
        data.coefficient_columns = ",".join(self.spec.columns)
        return data

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.spec}, symmetrize={self.symmetrize})"
