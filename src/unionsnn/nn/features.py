"""Features of an edge derived from structural coefficients, read by gates and edge encoders."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, ClassVar, Literal, Self, TypedDict, TypeVar

import torch
from torch import Tensor, nn
from torch_geometric.utils import scatter

from unionsnn.base.arguments import require_choice
from unionsnn.base.errors import DataError, RequestError
from unionsnn.base.rows import belongs, note_edges, noted_edges, noted_loops, version_of

Feature = Literal[
    "raw",
    "normalized",
    "excess",
    "cyclomatic",
    "size",
    "eigenvalues",
    "distances",
    "marked",
    "cycles",
]

# Columns of which one number is made at each radius.
_NEEDS: Mapping[str, tuple[str, ...]] = {
    "raw": ("a",),
    "normalized": ("a",),
    "excess": ("a", "a_tree"),
    "cyclomatic": ("nodes", "edges"),
}
# Columns that are numbers by themselves, at each radius and of the whole graph.
_LOCAL: Mapping[str, tuple[str, ...]] = {
    "size": ("nodes", "edges"),
    "eigenvalues": tuple(f"eigenvalues{i}" for i in range(1, 5)),
    "distances": tuple(f"distances{i}" for i in range(1, 8)),
    "marked": tuple(f"marked{i}" for i in range(1, 6)),
}
_OF_GRAPH: Mapping[str, tuple[str, ...]] = {"cycles": tuple(f"cycles{i}" for i in range(3, 9))}
FEATURES = (*_NEEDS, *_LOCAL, *_OF_GRAPH)
"""Features by name."""

# Counts have a heavy tail.
_COUNTS = ("size", "distances", "cycles")
# A feature whose spread is below this share of its columns has only rounding noise.
_CONSTANT = 1e-6
# Rows whose statistics are computed together.
_ROWS = 2**20


def shares(a: Tensor, node: Tensor, num_nodes: int) -> Tensor:
    """Divide the coefficient of each edge by its sum over the edges of `node`, [num_edges]."""
    total = scatter(a, node, dim=0, dim_size=num_nodes, reduce="sum")
    # A self loop's row is 0, and so is the total of a node with no other edges.
    return a / total[node].clamp(min=torch.finfo(total.dtype).tiny)


Made = TypeVar("Made")


class Shared:
    """What the gates of one pass over a network have in common, made by the first that needs it.

    Args:
        edge_index: The edges of the pass.
    """

    def __init__(self, edge_index: Tensor) -> None:
        self.edge_index = edge_index
        self._made: dict[Hashable, Any] = {}

    @classmethod
    def of(cls, coefficient: Tensor, edge_index: Tensor) -> Shared:
        """Return that of the rows' pass; one of its own for rows that `share` has not made."""
        shared: Shared | None = getattr(coefficient, _SHARED, None)
        return shared if shared and shared.edge_index is edge_index else cls(edge_index)

    def get(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """Return what was made for a key, and make it the first time."""
        if key not in self._made:
            self._made[key] = make()
        made: Made = self._made[key]
        return made

    @property
    def is_loop(self) -> Tensor:
        """Whether an edge goes from a node to itself, [num_edges, 1]."""
        at = self.edge_index
        return self.get("is_loop", lambda: (at[0] == at[1]).unsqueeze(1))

    @property
    def may_have_loops(self) -> bool:
        """Whether there is such an edge; True if asking would wait for a device or compiler."""
        if torch.compiler.is_compiling():
            return True
        if (count := noted_loops(self.edge_index)) is not None:
            return count > 0
        if self.edge_index.device.type != "cpu":
            return True
        return self.get("any_loop", lambda: bool(self.is_loop.any()))


_SHARED = "_shared_by_gates"


def share(coefficient: Tensor, edge_index: Tensor) -> Tensor:
    """Return the rows for one pass over a network, whose gates then compute common things once.

    Args:
        coefficient: Rows of the edges.
        edge_index: Senders and receivers, as every layer will get them.

    Shapes:
        - coefficient: [num_edges, C]
        - edge_index: [2, num_edges]
        - output: a view of coefficient
    """
    if torch.compiler.is_compiling():
        return coefficient
    # A view, which lives as long as the pass.
    rows = coefficient.view_as(coefficient)
    if noted_edges(coefficient) is not None:
        refuse_other_edges(coefficient, edge_index)
        note_edges(rows, edge_index)
    setattr(rows, _SHARED, Shared(edge_index))
    return rows


def radii(radius: int | Sequence[int]) -> tuple[int, ...]:
    """Return the radii in the order of StructuralCoefficients' columns."""
    return (radius,) if isinstance(radius, int) else tuple(sorted(set(radius)))


class FeatureOptions(TypedDict, total=False):
    """Arguments of `StructuralFeatures`."""

    features: Sequence[Feature]
    radius: int | Sequence[int]
    normalize_over: Literal["receiver", "sender"]
    offset: float
    columns: Sequence[str] | None


class StructuralFeatures(nn.Module):
    r"""Base class of what reads structural coefficients: features f_vu of each edge.

    .. math::
        \tilde a_{vu} = a_{vu} / \sum_{w \in N(v)} a_{vw}

    v receives the message. All features but ``raw`` and ``normalized`` are extensions of this
    library. ``size``, ``eigenvalues``, ``distances``, ``marked`` and ``cycles`` are several numbers
    each (docs/coefficients.md); counts enter as log(1 + count).

    Args:
        features: ``raw`` a, ``normalized`` a, ``excess`` (a of the double star with the same end
            degrees, minus a: the part due to cycles; at radius 1 only), ``cyclomatic`` (edges -
            nodes + 1 of the subgraph), ``size`` (its nodes and edges), ``eigenvalues`` and
            ``marked`` (of the path matrix, and with the ends marked), ``distances`` (pairs of nodes
            by distance) or ``cycles`` (by length, in the whole graph). All but ``normalized`` are
            standardised with statistics of the training graphs (`fit_statistics`).
        radius: One radius or several; each gives its own features, but for ``cycles``.
        normalize_over: Whose neighbours the ``normalized`` feature sums over: ``receiver`` (the
            paper) or ``sender`` (the authors' code).
        offset: Constant added to the ``normalized`` feature.
        columns: Names of the columns of the coefficients, in order; by default
            `required_columns`.

    Attributes:
        kind: What it is called in messages.
        made_with: How it is made for one radius, for messages.

    Raises:
        RequestError: if a choice is unknown or a required column is missing.
    """

    kind: ClassVar[str] = "gate"
    made_with: ClassVar[str] = "UnionPlugin(conv, radius=1)"
    feature_mean: Tensor
    feature_std: Tensor

    def __init__(
        self,
        *,
        features: Sequence[Feature] = ("raw", "excess", "cyclomatic"),
        radius: int | Sequence[int] = (1, 2, 3),
        normalize_over: Literal["receiver", "sender"] = "receiver",
        offset: float = 0.0,
        columns: Sequence[str] | None = None,
    ) -> None:
        super().__init__()
        if not features:
            raise RequestError(
                f"features is empty; name at least one of {', '.join(FEATURES)}.",
                code="gate.argument",
            )
        for feature in features:
            require_choice("A gate's feature", feature, FEATURES)
        self.features = tuple(features)
        self.radius = radii(radius)
        if not self.radius or self.radius[0] < 1:
            raise RequestError(
                f"radius is {radius}; it must be one or several integers of at least 1.",
                code="gate.argument",
            )
        if "excess" in self.features and 1 not in self.radius:
            raise RequestError(
                f"The feature 'excess' is defined at radius 1 only, but radius is "
                f"{list(self.radius)}; use 'cyclomatic' instead.",
                code="gate.argument",
            )
        require_choice("normalize_over", normalize_over, ("receiver", "sender"))
        self.normalize_over = normalize_over
        self.offset = offset
        self.columns = self.required_columns
        if columns is not None:
            self.set_columns(columns)
        width = len(self._inputs)
        self.register_buffer("feature_mean", torch.zeros(width))
        self.register_buffer("feature_std", torch.ones(width))
        self.fitted = False
        # The buffers, their versions and values, as `same_features` has read them.
        self._read: tuple[tuple[Tensor, Tensor], list[int], tuple[Any, ...]] | None = None

    @property
    def required_columns(self) -> tuple[str, ...]:
        """Names of the coefficient columns that the features are derived from."""
        needed = {name for _, columns in self._inputs for name in columns}
        local = (
            "a",
            "a_tree",
            *(name for row in _LOCAL.values() for name in row),
        )
        order = [f"{name}_r{radius}" for radius in self.radius for name in local]
        order += [name for row in _OF_GRAPH.values() for name in row]
        return tuple(name for name in order if name in needed)

    @property
    def _inputs(self) -> list[tuple[str, tuple[str, ...]]]:
        """Each number as its feature and its columns, radius-major, those of the graph last.

        The excess is there at radius 1 only, distances up to 2 radius + 1.
        """
        inputs: list[tuple[str, tuple[str, ...]]] = []
        for radius in self.radius:
            for feature in self.features:
                if feature in _NEEDS and (feature != "excess" or radius == 1):
                    inputs.append((feature, tuple(f"{q}_r{radius}" for q in _NEEDS[feature])))
                names = _LOCAL.get(feature, ())
                last = 2 * radius + 1 if feature == "distances" else len(names)
                inputs += [(feature, (f"{name}_r{radius}",)) for name in names[:last]]
        return inputs + [(f, (name,)) for f in self.features for name in _OF_GRAPH.get(f, ())]

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of the constructor but for the width, in plain types."""
        return {
            "features": list(self.features),
            "radius": list(self.radius),
            "normalize_over": self.normalize_over,
            "offset": self.offset,
            "columns": list(self.columns),
        }

    @property
    def needs_statistics(self) -> bool:
        """Whether `fit_statistics` must be called before the first step."""
        return any(feature != "normalized" for feature in self.features)

    def set_columns(self, columns: Sequence[str]) -> None:
        """Set the columns given to `forward`; RequestError if a required one is missing."""
        missing = [name for name in self.required_columns if name not in columns]
        if missing:
            raise RequestError(
                f"The {self.kind} needs the coefficient columns {list(self.required_columns)}, "
                f"{missing} are missing from {list(columns)}. The radius must be the same in both "
                f"places, as {self.made_with} and StructuralCoefficients(radius=1). "
                "Compute them with "
                f"StructuralCoefficients(CoefficientSpec.from_columns({list(self.required_columns)})).",
                code="gate.columns",
            )
        self.columns = tuple(columns)

    @torch.no_grad()
    def fit_statistics(self, coefficient: Tensor) -> Self:
        """Set mean and standard deviation of the features from the training rows.

        Args:
            coefficient: Rows of all training edges, with the columns `columns`; rows of zeros
                (self loops) are ignored.

        Shapes:
            - coefficient: [num_edges, len(columns)]

        Returns:
            The module itself.

        Raises:
            RequestError: if the shape does not fit or a value is not finite.
        """
        self._check(coefficient)
        blocks = torch.split(coefficient, _ROWS)
        if not all(bool(torch.isfinite(block).all()) for block in blocks):
            raise RequestError(
                "The structural coefficients contain NaN or infinity.", code="gate.statistics"
            )
        of_graph = {name for row in _OF_GRAPH.values() for name in row}
        self._read = None
        self.feature_mean.zero_()
        self.feature_std.fill_(1)
        count, found = 0, [(0.0, 0.0, 0.0)] * len(self._inputs)
        for block in blocks:
            rows = block.to("cpu", torch.float64)
            # A bridge is in no cycle.
            if not of_graph.issuperset(self.columns):
                rows = rows[(rows != 0).any(dim=1)]
            if not len(rows):
                continue
            for i, (feature, columns) in enumerate(self._inputs):
                if feature == "normalized":
                    continue
                values = self._edge_feature(rows, feature, columns)
                # An eigenvalue that is always 0 has only the rounding noise of the others.
                sources = (
                    [self._column(rows, name) for name in columns]
                    if feature in _NEEDS
                    else [self._edge_feature(rows, f, c) for f, c in self._inputs if f == feature]
                )
                largest = float(torch.stack(sources).abs().max())
                mean, variance = values.mean().item(), values.var(unbiased=False).item()
                before, spread, most = found[i]
                # Chan, Golub and LeVeque 1983: of the rows so far and those of the block.
                share = len(rows) / (count + len(rows))
                apart = mean - before
                found[i] = (
                    mean if not count else before + share * apart,
                    (1 - share) * spread + share * variance + share * (1 - share) * apart**2,
                    max(most, largest),
                )
            count += len(rows)
        for i, (mean, variance, largest) in enumerate(found if count else ()):
            if self._inputs[i][0] == "normalized":
                continue
            self.feature_mean[i] = mean
            std = math.sqrt(variance)
            if std > _CONSTANT * largest:
                self.feature_std[i] = std
        self.fitted = True
        return self

    def get_extra_state(self) -> Tensor:
        """Return whether there are statistics, for the state dict."""
        return torch.tensor(self.fitted, device="cpu")

    def set_extra_state(self, state: Tensor) -> None:
        """Restore from a state dict whether there are statistics."""
        self.fitted = bool(state)

    def standardized(self, coefficient: Tensor, edge_index: Tensor, num_nodes: int) -> Tensor:
        """Return the standardised features f_vu.

        This does not check for NaN and infinity, which would synchronise the device in every layer
        and step; `fit_statistics` refuses them.

        Args:
            coefficient: One row per edge.
            edge_index: Senders, then receivers.
            num_nodes: Number of nodes.

        Shapes:
            - coefficient: [num_edges, len(columns)]
            - edge_index: [2, num_edges]
            - output: [num_edges, F]

        Raises:
            RequestError: if the shapes do not fit.
            DataError: if the rows were read for other edges, or features are standardised but there
                are no statistics.
        """
        self._check(coefficient)
        if coefficient.size(0) != edge_index.size(1):
            raise RequestError(
                f"edge_coefficient has {coefficient.size(0)} rows for {edge_index.size(1)} edges; "
                "compute it after the last transform that changes edges.",
                code="gate.columns",
            )
        refuse_other_edges(coefficient, edge_index)
        if self.needs_statistics and not self.fitted:
            raise DataError(
                f"The {type(self).__name__} standardises its features but has no statistics. Call "
                "fit_statistics(columns) with the coefficient rows of the training graphs "
                "(unionsnn.fit_statistics and UnionPlugin.fit_statistics take the training data "
                "set itself).",
                code="gate.statistics",
            )

        def make() -> Tensor:
            features = self._features(coefficient, edge_index, num_nodes)
            return (features.to(self.feature_mean.dtype) - self.feature_mean) / self.feature_std

        same = self.same_features
        if same is None:
            return make()
        return Shared.of(coefficient, edge_index).get(("features", same, num_nodes), make)

    @property
    def same_features(self) -> Hashable:
        """What is equal in modules that compute the same features; None if that is not known."""
        if torch.compiler.is_compiling():
            return None
        buffers = self.feature_mean, self.feature_std
        versions = [version_of(each) for each in buffers]
        read = self._read
        if read is None or read[0][0] is not buffers[0] or read[0][1] is not buffers[1]:
            read = None
        elif read[1] != versions:
            # Someone wrote to them; DDP does in each step, too often to wait for a device.
            if buffers[0].device.type != "cpu":
                return None
            read = None
        if read is None:
            try:
                # Waits for a device, once after the statistics were made, moved or loaded.
                values = tuple(tuple(each.tolist()) for each in buffers)
            except RuntimeError:
                # Under vmap, or without data.
                return None
            self._read = read = (buffers, versions, values)
        about = self.features, self.radius, self.normalize_over, self.offset, self.columns
        return type(self), self.feature_mean.dtype, about, read[2]

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what was read of the buffers, which a copy reads again."""
        return {**super().__getstate__(), "_read": None}  # type: ignore[no-untyped-call]

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        self._read = None
        super()._load_from_state_dict(state_dict, prefix, *args)

    def _features(self, coefficient: Tensor, edge_index: Tensor, num_nodes: int) -> Tensor:
        """Return all features before standardisation, radius-major, [num_edges, F]."""
        node = edge_index[1 if self.normalize_over == "receiver" else 0]
        return torch.stack(
            [
                self._normalized(coefficient, node, num_nodes, columns)
                if feature == "normalized"
                else self._edge_feature(coefficient, feature, columns)
                for feature, columns in self._inputs
            ],
            dim=-1,
        )

    def _edge_feature(self, coefficient: Tensor, feature: str, columns: tuple[str, ...]) -> Tensor:
        """Return a number that depends on the edge alone, [num_edges]."""
        first = self._column(coefficient, columns[0])
        if feature == "excess":
            return self._column(coefficient, columns[1]) - first
        if feature == "cyclomatic":
            return self._column(coefficient, columns[1]) - first + 1
        return torch.log1p(first) if feature in _COUNTS else first

    def _normalized(
        self, coefficient: Tensor, node: Tensor, num_nodes: int, columns: tuple[str, ...]
    ) -> Tensor:
        """Return the coefficient over its sum at `node`, plus the offset, [num_edges]."""
        return shares(self._column(coefficient, columns[0]), node, num_nodes) + self.offset

    def _column(self, coefficient: Tensor, name: str) -> Tensor:
        return coefficient[:, self.columns.index(name)]

    def _check(self, coefficient: Tensor) -> None:
        if coefficient.dim() != 2 or coefficient.size(1) != len(self.columns):
            raise RequestError(
                f"edge_coefficient has the shape {list(coefficient.shape)}; this {self.kind} reads "
                f"the columns {list(self.columns)}, so it must be "
                f"[num_edges, {len(self.columns)}]. If the data has other columns, call "
                f"{self.kind}.set_columns(data.coefficient_columns.split(',')).",
                code="gate.columns",
            )


def refuse_other_edges(coefficient: Tensor, edge_index: Tensor) -> None:
    """Refuse rows that a graph gave out for other edges, as far as that is noted on them.

    Rows with the graph's own `edge_index` cost nothing; another tensor is compared once. Compiled
    code does not check.

    Shapes:
        coefficient [num_edges, C], edge_index [2, num_edges].

    Raises:
        DataError: if the edges differ.
    """
    if torch.compiler.is_compiling() or belongs(coefficient, edge_index):
        return
    given = noted_edges(coefficient)
    if given is None:
        return
    if given is not edge_index and torch.equal(given, edge_index.to(given.device)):
        note_edges(coefficient, edge_index)
        return
    raise DataError(
        "edge_coefficient was read from a graph with other edges, or in another order: pass the "
        "edge_index of that graph, or the rows in the order of the edges that you pass, such as "
        "data.edge_coefficient[mask]. Rows that are meant for other edges: "
        "data.edge_coefficient.clone().",
        code="batch.edges",
    )


def structural_modules(module: nn.Module) -> list[StructuralFeatures]:
    """Return all parts of a network that read structural coefficients: gates and edge encoders."""
    return [part for part in module.modules() if isinstance(part, StructuralFeatures)]
