"""The structural coefficient, encodings and subgraphs as PyG transforms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.data.storage import GlobalStorage
from torch_geometric.transforms import BaseTransform
from tqdm import tqdm  # type: ignore[import-untyped]

from unionsnn.base.errors import DataError, RequestError
from unionsnn.base.rows import belongs, note_edges
from unionsnn.coefficients import CoefficientSpec
from unionsnn.coefficients.engine import threads_for
from unionsnn.coefficients.planning import MAX_HOURS, check_hours, enough_hours, in_words
from unionsnn.data.datasets import SubgraphData, Subgraphs
from unionsnn.data.encodings import definitions as encodings
from unionsnn.data.encodings.subgraphs import rooted_subgraphs

_ENDS = "edge_coefficient_ends"
_GRAPH = "edge_coefficient_graph"
# Estimated seconds from which a bar is shown.
_SHORT = 3.0
# Hours beyond which radii must be asked for.
_HOURS_UNASKED = 1.0 / 60.0
_LINK_LABELS = ("edge_label_index", "pos_edge_label_index")
# What PyG's loaders add to the part of a graph that they have sampled.
_SAMPLED = ("n_id", "e_id", "root_n_id")


class _CheckedStorage(GlobalStorage):
    """The attributes of a graph; the rows of its edges are checked whenever they are read."""

    def __getitem__(self, key: str) -> Any:
        value = super().__getitem__(key)
        if key == "edge_coefficient" and _ENDS in self._mapping:
            edge_index = self._mapping.get("edge_index")
            # ClusterData takes the edges away and gives each part its own.
            has_edges = edge_index is not None or "adj_t" in self._mapping
            if has_edges and not belongs(value, edge_index):
                _check_rows(self)
                note_edges(value, edge_index)
        return value

    def is_edge_attr(self, key: str) -> bool:
        """Return whether it is an attribute of edges; PyG asks before it takes a part of them."""
        if key in ("edge_coefficient", _ENDS) and key in self._mapping:
            # PyG would remember an answer for other edges.
            _ = self["edge_coefficient"]
            return True
        return key != _GRAPH and super().is_edge_attr(key)

    def is_node_attr(self, key: str) -> bool:
        """Return whether it is an attribute of nodes."""
        return key not in (_ENDS, _GRAPH) and super().is_node_attr(key)


def _check_reads(data: Data) -> None:
    # The storage takes every plain assignment for an attribute of the graph.
    object.__setattr__(data._store, "__class__", _CheckedStorage)


class CoefficientData(Data):
    """A graph with structural coefficients, which are refused once they do not fit its edges.

    PyG's transforms may reorder, add, merge or leave out edges, and few of them do the same to the
    rows of other attributes. What tells the edges of the rows therefore stands beside them, and is
    compared with the graph when ``edge_coefficient`` is read the first time for an `edge_index`:
    also by batching and by loaders. A graph that is moved to a device is checked before.

    Attributes:
        edge_coefficient_ends: Sender and receiver of each row, and 1 where the reverse edge has
            an equal row.
        edge_coefficient_graph: The graph that the rows were computed in: its numbers of nodes,
            entries of `edge_index` and undirected edges, and 1 if links to predict were split off.

    Shapes:
        - edge_coefficient_ends: [num_edges, 3]
        - edge_coefficient_graph: [num_graphs, 4]
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _check_reads(self)

    def __setattr__(self, key: str, value: Any) -> None:
        """Set an attribute; rows set by name are the caller's own, and are not checked."""
        super().__setattr__(key, value)
        if key == "edge_coefficient":
            self._store.pop(_ENDS, None)
            self._store.pop(_GRAPH, None)

    def __inc__(self, key: str, value: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the offset of the next graph in a batch, in which no two nodes may coincide."""
        if key != _ENDS:
            return super().__inc__(key, value, *args, **kwargs)
        count = max(int(value[:, :2].max()) + 1 if len(value) else 0, int(self.num_nodes or 0))
        return torch.tensor([count, count, 0])

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move the graph; its rows are checked before, where that does not stop a GPU."""
        return self._moved(super().to, *args, **kwargs)

    def cpu(self, *args: Any) -> Self:
        """Move the graph to the CPU."""
        return self._moved(super().cpu, *args)

    def cuda(self, *args: Any, **kwargs: Any) -> Self:
        """Move the graph to a GPU."""
        return self._moved(super().cuda, *args, **kwargs)

    def pin_memory(self, *args: Any) -> Self:
        """Move the graph to pinned memory."""
        return self._moved(super().pin_memory, *args)

    def _moved(self, move: Callable[..., Any], *args: Any, **kwargs: Any) -> Self:
        is_checked = _ENDS in self and "edge_coefficient" in self
        if is_checked:
            _ = self.edge_coefficient
        move(*args, **kwargs)
        if is_checked:
            note_edges(self._store._mapping["edge_coefficient"], self.edge_index)
        return self


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


def _graph_of(data: Data) -> Tensor:
    """Return what tells whether edges are missing later, [1, 4]."""
    labelled = any(key in data for key in _LINK_LABELS)
    edges = data.edge_index
    return torch.tensor([[data.num_nodes, edges.size(1), _num_pairs(edges), int(labelled)]])


def _num_pairs(edge_index: Tensor) -> int:
    """Return the number of undirected edges; loops have no influence on rows."""
    ends = edge_index[:, edge_index[0] != edge_index[1]]
    codes = (ends.amin(dim=0) << 32 | ends.amax(dim=0)).cpu().numpy()
    return len(np.unique(codes))


def _check_rows(store: _CheckedStorage) -> None:
    """Refuse coefficient rows that are not those of the edges at the same places.

    Nodes may be renumbered, edges sorted, and edges with equal rows reversed. Edges may be left out
    together with nodes, as in a sample of a graph whose rows are meant.
    """
    attributes = store._mapping
    ends, edge_index = attributes[_ENDS], attributes.get("edge_index")
    if not isinstance(edge_index, Tensor):
        raise _other_edges(
            "the graph has no edge_index any more",
            "ToSparseTensor has put the edges into adj_t, whose messages cannot be gated: leave it "
            "out, or keep the edges by ToSparseTensor(remove_edge_index=False)",
        )
    more = edge_index.size(1) - len(attributes["edge_coefficient"])
    if more > 0 and bool((edge_index[0, -more:] == edge_index[1, -more:]).all()):
        raise _other_edges(
            f"{more:,} self loops have been added at the end",
            "Leave out AddSelfLoops, as layers such as GCNConv add their own, or apply it before",
        )
    if more > 0:
        raise _other_edges(
            f"{more:,} edges have been added", "ToUndirected adds edges. Apply it before"
        )
    if more < 0:
        raise _other_edges(
            f"{-more:,} edges have been dropped or merged without their rows",
            "Take the rows with the same mask before edge_index: rows = data.edge_coefficient[mask]"
            ", then data.edge_index = data.edge_index[:, mask] and data.edge_coefficient = rows; or"
            " apply StructuralCoefficients after what drops edges. coalesce merges them: apply it "
            "before",
        )
    if not _are_in_place(ends, edge_index):
        raise _other_edges(
            "edges have been replaced or reordered without their rows",
            "ToUndirected, coalesce and ToSparseTensor do that. Apply it before",
        )
    graph = attributes.get(_GRAPH)
    if graph is None:
        return
    nodes, entries, pairs, labelled = graph.sum(dim=0).tolist()
    if edge_index.size(1) == entries or any(key in attributes for key in _SAMPLED):
        return
    split = not labelled and any(key in attributes for key in _LINK_LABELS)
    if not split and store.num_nodes != nodes:
        return
    missing = pairs - _num_pairs(edge_index)
    if missing:
        raise DataError(
            f"edge_coefficient tells of {missing:,} edges that the graph does not have any more: "
            f"{'RandomLinkSplit' if split else 'a transform'} after StructuralCoefficients has "
            "left them out. Split first, and apply StructuralCoefficients to each part "
            "(docs/link_prediction.md). If you want the rows of the whole graph, make them with "
            "StructuralCoefficients(check_edges=False).",
            code="transform.edges",
        )


def _are_in_place(ends: Tensor, edge_index: Tensor) -> bool:
    """Return whether each row's nodes are those of its edge, up to a renumbering of all nodes."""
    if len(ends) != edge_index.size(1) or not bool(((ends[:, 2] == 0) | (ends[:, 2] == 1)).all()):
        return False
    before, now = ends[:, :2], edge_index.t().to(ends.device)
    kept = (before == now).all(dim=1)
    flipped = (before.flip(1) == now).all(dim=1) & (ends[:, 2] == 1)
    if bool((kept | flipped).all()):
        return True
    pairs = torch.stack([before.reshape(-1), now.reshape(-1)]).cpu().numpy()
    renumbered = np.unique(pairs, axis=1)
    return all(len(np.unique(names)) == renumbered.shape[1] for names in renumbered)


def _other_edges(what: str, why: str) -> DataError:
    return DataError(
        f"edge_coefficient does not fit edge_index any more: after StructuralCoefficients {what}. "
        f"{why}.",
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
        radius: One radius or several; by default 1, 2 and 3. In a large graph with hubs, a union
            subgraph of radius 3 is most of the graph: use 1 there.
        symmetrize: Whether one-way edges count as undirected; otherwise they are an error. The
            graph keeps its edges, with one row each: for messages in both directions apply PyG's
            `ToUndirected` first.
        check_edges: Whether to refuse the rows once the graph has other edges. Without, they stay
            those of the graph that they were computed in, whatever is left out of it later.
        max_hours: Hours beyond which the expected time for a graph is refused; None for no limit.
            By default a minute for the default radii, an hour for a spec or radii that you give.
            What takes seconds shows a bar that says how long it takes.

    Raises:
        RequestError: if both a spec and a radius are given, the spec is none, or max_hours is not a
            positive number.
    """

    def __init__(
        self,
        spec: CoefficientSpec | None = None,
        *,
        radius: int | Sequence[int] | None = None,
        symmetrize: bool = False,
        check_edges: bool = True,
        max_hours: float | Literal["auto"] | None = "auto",
    ) -> None:
        if spec is not None and not isinstance(spec, CoefficientSpec):
            raise RequestError(
                f"spec is {spec!r}; it must be a CoefficientSpec, such as "
                'CoefficientSpec(substructure="union").',
                code="transform.arguments",
            )
        if spec is not None and radius is not None:
            raise RequestError(
                "radius was given together with a spec, which has its own; leave one out.",
                code="transform.arguments",
            )
        self.radius_is_given = spec is not None or radius is not None
        given = (1, 2, 3) if radius is None else radius
        radii = (given,) if isinstance(given, int) else tuple(given)
        quantities = ("a", "a_tree", "nodes", "edges") if 1 in radii else ("a", "nodes", "edges")
        self.spec = spec or CoefficientSpec(radius=radii, quantities=quantities)
        self.symmetrize = symmetrize
        self.check_edges = check_edges
        if max_hours == "auto":
            max_hours = MAX_HOURS if self.radius_is_given else _HOURS_UNASKED
        check_hours(max_hours)
        self.max_hours = max_hours

    def forward(self, data: Data) -> Data:
        """Return the graph with its coefficients.

        Raises:
            RequestError: It has no `edge_index`, is of a class that cannot check the rows, or would
                take longer than `max_hours` at radii that nobody has asked for.
            TooLongError: It would take longer than `max_hours` at radii that somebody has.
        """
        if isinstance(data, HeteroData):
            raise RequestError(
                "The graph is a HeteroData, which has a graph for each edge type: give "
                "StructuralCoefficients the one of all, data.to_homogeneous(), whose edge_type "
                "goes to layers such as FastRGCNConv and RGATConv.",
                code="transform.class",
            )
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
        rows = self._rows(data.edge_index.cpu().numpy(), data.num_nodes)
        coefficient = torch.from_numpy(rows).to(torch.get_default_dtype())
        data.edge_coefficient = coefficient.to(data.edge_index.device)
        # One string, since a list of names could be taken for one value per node or edge.
        data.coefficient_columns = ",".join(self.spec.columns)
        if self.check_edges:
            data[_ENDS] = _ends(data.edge_index, rows).to(data.edge_index.device)
            data[_GRAPH] = _graph_of(data).to(data.edge_index.device)
        plain = checked.get(type(data))
        return data if plain is None else plain.from_dict(data.to_dict())

    def _rows(self, edges: NDArray[np.int64], num_nodes: int) -> NDArray[np.float64]:
        """Compute the rows; what takes long says so before."""
        symmetrize = self.symmetrize
        in_worker = torch.utils.data.get_worker_info() is not None

        def expected(spec: CoefficientSpec) -> tuple[float, int]:
            seconds = spec.estimated_seconds(edges, num_nodes, symmetrize=symmetrize, threads=1)
            threads = 1 if in_worker or seconds < _SHORT else threads_for(1e9 * seconds)
            return seconds / threads, threads

        seconds, threads = expected(self.spec)
        too_long = self.max_hours is not None and seconds > 3600.0 * self.max_hours
        if too_long and not self.radius_is_given:
            instead = in_words(*expected(StructuralCoefficients(radius=1).spec))
            raise RequestError(
                f"The default radii 1, 2 and 3 would take {in_words(seconds, threads)} for this "
                f"graph of {num_nodes:,} nodes and {edges.shape[1]:,} edges. Type "
                f"StructuralCoefficients(radius=1), {instead}, and the same radius in "
                "UnionPlugin(conv, radius=1) or plug_in(network, radius=1); or "
                f"StructuralCoefficients(max_hours={enough_hours(seconds)}) to compute them all "
                "the same.",
                code="transform.work",
            )
        if in_worker or seconds * threads < _SHORT:
            return self.spec.compute(
                edges, num_nodes, symmetrize=symmetrize, threads=1, max_hours=self.max_hours
            )
        with tqdm(desc=f"coefficients, {in_words(seconds, threads)}", unit="edge") as bar:

            def show(done: int, total: int) -> None:
                bar.total = total
                bar.update(done - bar.n)

            return self.spec.compute(
                edges,
                num_nodes,
                symmetrize=symmetrize,
                progress=show,
                max_hours=self.max_hours,
            )

    def __repr__(self) -> str:
        unchecked = "" if self.check_edges else ", check_edges=False"
        return f"{type(self).__name__}({self.spec}, symmetrize={self.symmetrize}{unchecked})"


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
