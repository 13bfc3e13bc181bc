"""The structural coefficient, encodings and subgraphs as PyG transforms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.storage import GlobalStorage
from torch_geometric.transforms import BaseTransform

from unionsnn.base.errors import DataError, RequestError
from unionsnn.coefficients import CoefficientSpec
from unionsnn.data.datasets import SubgraphData, Subgraphs
from unionsnn.data.encodings import definitions as encodings
from unionsnn.data.encodings.subgraphs import rooted_subgraphs

_ENDS = "edge_coefficient_ends"


class _CheckedStorage(GlobalStorage):
    """The attributes of a graph; the rows of its edges are checked whenever they are read."""

    def __getitem__(self, key: str) -> Any:
        value = super().__getitem__(key)
        if key == "edge_coefficient":
            _check_rows(self._mapping)
        return value


def _check_reads(data: Data) -> None:
    # The storage takes every plain assignment for an attribute of the graph.
    object.__setattr__(data._store, "__class__", _CheckedStorage)


class CoefficientData(Data):
    """A graph with structural coefficients, which are refused once they do not fit its edges.

    PyG's transforms may reorder, add or merge edges, and few of them do the same to the rows of
    other attributes. The nodes that each row belongs to therefore stand beside it, and are compared
    with `edge_index` whenever ``edge_coefficient`` is read, also by batching.

    Attributes:
        edge_coefficient_ends: Sender and receiver of each row, and 1 where the reverse edge has
            an equal row.

    Shapes:
        - edge_coefficient_ends: [num_edges, 3]
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _check_reads(self)

    def __setattr__(self, key: str, value: Any) -> None:
        """Set an attribute; rows set by name are the caller's own, and are not checked."""
        super().__setattr__(key, value)
        if key == "edge_coefficient":
            self._store.pop(_ENDS, None)

    def __inc__(self, key: str, value: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the offset of the next graph in a batch, in which no two nodes may coincide."""
        if key != _ENDS:
            return super().__inc__(key, value, *args, **kwargs)
        count = max(int(value[:, :2].max()) + 1 if len(value) else 0, int(self.num_nodes or 0))
        return torch.tensor([count, count, 0])


class _SubgraphCoefficientData(CoefficientData, SubgraphData):
    """A graph with coefficients and rooted subgraphs."""


# So that data sets with these graphs are loaded without the full unpickler.
torch.serialization.add_safe_globals([CoefficientData, _SubgraphCoefficientData])


def _ends(edge_index: Tensor, rows: NDArray[np.float64]) -> Tensor:
    """Return the nodes of each edge, and whether its reverse has an equal row.

    Shapes:
        edge_index [2, E], rows [E, C] -> [E, 3].
    """
    edges = edge_index.cpu().numpy().astype(np.int64)
    there, back = edges[0] << 32 | edges[1], edges[1] << 32 | edges[0]
    order = np.argsort(there)
    place = np.minimum(np.searchsorted(there, back, sorter=order), max(len(there) - 1, 0))
    other = order[place] if len(order) else order
    same = (there[other] == back) & (rows[other] == rows).all(axis=1)
    return torch.from_numpy(np.column_stack([edges.T, same.astype(np.int64)]))


def _check_rows(attributes: Mapping[str, Any]) -> None:
    """Refuse coefficient rows that are not those of the edges at the same places.

    Nodes may be renumbered, edges left out or sorted, and edges with equal rows reversed.
    """
    ends, edge_index = attributes.get(_ENDS), attributes.get("edge_index")
    if ends is None:
        return
    if (
        isinstance(edge_index, Tensor)
        and edge_index.size(1) == len(ends) == len(attributes["edge_coefficient"])
        and bool(((ends[:, 2] == 0) | (ends[:, 2] == 1)).all())
    ):
        before, now = ends[:, :2], edge_index.t().to(ends.device)
        kept = (before == now).all(dim=1)
        flipped = (before.flip(1) == now).all(dim=1) & (ends[:, 2] == 1)
        if bool((kept | flipped).all()):
            return
        pairs = torch.stack([before.reshape(-1), now.reshape(-1)]).cpu().numpy()
        renumbered = np.unique(pairs, axis=1)
        if all(len(np.unique(names)) == renumbered.shape[1] for names in renumbered):
            return
    raise DataError(
        "edge_coefficient does not fit edge_index any more: a transform after "
        "StructuralCoefficients has added, merged or reordered edges. Apply it before.",
        code="transform.edges",
    )


class StructuralCoefficients(BaseTransform):
    r"""Add the structural coefficients of all edges to a graph.

    .. math::
        a_{vu} = \sum_i \sigma_i(P_{vu}), \qquad P_{vu}\text{: path matrix of the union subgraph}

    Equation 2 of "Union Subgraph Neural Networks" (Xu et al., AAAI 2024) with the encoding of
    section 4. The graph gets ``edge_coefficient``, [num_edges, C], of the default float type, and
    ``coefficient_columns``, the names of its columns joined by commas. Use it as `pre_transform`:
    the work is done once. It becomes a `CoefficientData`, which refuses the coefficients after a
    transform that changed edges without them; a class of your own must be derived from it, so that
    its batches do the same.

    Args:
        spec: Substructure, descriptor, encoding, radius and quantities; by default the input of the
            presets of `UnionPlugin`.
        radius: One radius or several instead of the default; in a large graph with hubs, a union
            subgraph of radius 3 is most of the graph: use 1 there.
        symmetrize: Whether one-way edges count as undirected; otherwise they are an error. The
            graph keeps its edges, with one row each: for messages in both directions apply PyG's
            `ToUndirected` first.

    Raises:
        RequestError: if both a spec and a radius are given.
    """

    def __init__(
        self,
        spec: CoefficientSpec | None = None,
        *,
        radius: int | Sequence[int] | None = None,
        symmetrize: bool = False,
    ) -> None:
        if spec is not None and radius is not None:
            raise RequestError(
                "radius was given together with a spec, which has its own; leave one out.",
                code="transform.arguments",
            )
        given = (1, 2, 3) if radius is None else radius
        radii = (given,) if isinstance(given, int) else tuple(given)
        quantities = ("a", "a_tree", "nodes", "edges") if 1 in radii else ("a", "nodes", "edges")
        self.spec = spec or CoefficientSpec(radius=radii, quantities=quantities)
        self.symmetrize = symmetrize

    def forward(self, data: Data) -> Data:
        """Return the graph with its coefficients.

        Raises:
            RequestError: It has no `edge_index`, or is of a class that cannot check them.
        """
        checked = {Data: CoefficientData, SubgraphData: _SubgraphCoefficientData}
        if type(data) not in checked and not isinstance(data, CoefficientData):
            raise RequestError(
                f"The graph is a {type(data).__name__}, whose batches would not notice that a "
                "transform has changed the edges of the coefficients: derive the class from "
                "unionsnn.data.transforms.CoefficientData in place of PyG's Data.",
                code="transform.class",
            )
        if data.edge_index is None:
            raise RequestError(
                "The graph has no edge_index; add one, of the shape [2, 0] if it has no edges.",
                code="transform.edge_index",
            )
        rows = self.spec.compute(
            data.edge_index.cpu().numpy(), data.num_nodes, symmetrize=self.symmetrize, threads=1
        )
        coefficient = torch.from_numpy(rows).to(torch.get_default_dtype())
        data.edge_coefficient = coefficient.to(data.edge_index.device)
        # One string, since a list of names could be taken for one value per node or edge.
        data.coefficient_columns = ",".join(self.spec.columns)
        data[_ENDS] = _ends(data.edge_index, rows).to(data.edge_index.device)
        plain = checked.get(type(data))
        return data if plain is None else plain.from_dict(data.to_dict())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.spec}, symmetrize={self.symmetrize})"


class RandomWalkEncoding(BaseTransform):
    """Add to each node the probabilities that a random walk has returned after 1 to K steps.

    The graph gets ``random_walk``, [num_nodes, steps], of the default float type; the equation and
    its source are at `unionsnn.data.encodings.definitions.random_walk`.

    Args:
        steps: K.

    Raises:
        RequestError: if `steps` is below 1.
    """

    def __init__(self, steps: int) -> None:
        self.steps = _at_least_one("steps", steps)

    def forward(self, data: Data) -> Data:
        """Return the graph with its encoding."""
        rows = encodings.random_walk(*_one_graph(data), self.steps)
        data.random_walk = _as_features(rows, data)
        return data

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.steps})"


class LaplacianEncoding(BaseTransform):
    """Add to each node its entries of the Laplacian's eigenvectors.

    The graph gets ``laplacian``, [num_nodes, count], of the default float type; the equation, its
    source and the rule of signs are at `unionsnn.data.encodings.definitions.laplacian`.

    Args:
        count: Number of eigenvectors; missing ones of a small graph are 0.

    Raises:
        RequestError: if `count` is below 1.
    """

    def __init__(self, count: int) -> None:
        self.count = _at_least_one("count", count)

    def forward(self, data: Data) -> Data:
        """Return the graph with its encoding."""
        rows = encodings.laplacian(*_one_graph(data), self.count)
        data.laplacian = _as_features(rows, data)
        return data

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.count})"


class DistanceEncoding(BaseTransform):
    """Add the lengths of the shortest paths between all nodes.

    The graph gets ``distance``, uint8 [num_nodes^2], its matrix row by row, so that graphs of
    different size can be batched; the values are those of `definitions.distance`.
    """

    def forward(self, data: Data) -> Data:
        """Return the graph with its distances."""
        lengths = encodings.distance(*_one_graph(data))
        data.distance = torch.from_numpy(lengths).to(data.edge_index.device)
        return data


class RootedSubgraphs(BaseTransform):
    """Add the subgraph rooted at each node.

    Returns a `SubgraphData`; what it consists of is said at
    `unionsnn.data.encodings.subgraphs.rooted_subgraphs`.

    Args:
        hops: Maximum distance to the root.

    Raises:
        RequestError: if `hops` is below 1.
    """

    def __init__(self, hops: int) -> None:
        self.hops = _at_least_one("hops", hops)

    def forward(self, data: Data) -> SubgraphData:
        """Return the graph with its subgraphs."""
        edge_index, node_slices = _one_graph(data)
        packed = rooted_subgraphs(edge_index, node_slices, self.hops)
        made = Subgraphs.of(packed, node_slices, np.array([0, edge_index.shape[1]]))
        on_device = {key: value.to(data.edge_index.device) for key, value in made.values.items()}
        checks = isinstance(data, CoefficientData)
        kind = _SubgraphCoefficientData if checks else SubgraphData
        return kind.from_dict({**data.to_dict(), **on_device})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.hops})"


def _one_graph(data: Data) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return edges and node slices of a set of one graph."""
    return data.edge_index.cpu().numpy(), np.array([0, data.num_nodes])


def _as_features(rows: NDArray[np.float32], data: Data) -> torch.Tensor:
    return torch.from_numpy(rows).to(data.edge_index.device, torch.get_default_dtype())


def _at_least_one(name: str, value: int) -> int:
    if value < 1:
        raise RequestError(f"{name} is {value}; it must be at least 1.", code="transform.arguments")
    return value
