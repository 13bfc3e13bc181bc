"""Trans: maps structural coefficients to one weight per edge and channel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch_geometric.utils import scatter, softmax

from unionsnn.base.arguments import require_at_least, require_choice
from unionsnn.base.errors import DataError, RequestError

Feature = Literal["raw", "normalized", "excess", "cyclomatic"]
Normalization = Literal["neighborhood", "batch", "none"]

_QUANTITIES = ("a", "a_tree", "nodes", "edges")
_NEEDS: Mapping[str, tuple[str, ...]] = {
    "raw": ("a",),
    "normalized": ("a",),
    "excess": ("a", "a_tree"),
    "cyclomatic": ("nodes", "edges"),
}
_STANDARDIZED = ("raw", "excess", "cyclomatic")
# A feature whose spread is below this share of its columns has only rounding noise.
_CONSTANT = 1e-6

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "paper": {
        "features": ("normalized",),
        "radius": (1,),
        "layers": 2,
        "normalization": "neighborhood",
        "residual": False,
    },
    "authors-code": {
        "features": ("normalized",),
        "radius": (1,),
        "normalize_over": "sender",
        "offset": 1.0,
        "layers": 2,
        "negative_slope": 0.2,
        "normalization": "batch",
        "residual": True,
    },
    "default": {
        "features": ("raw", "excess", "cyclomatic"),
        "radius": (1, 2, 3),
        "layers": 1,
        "normalization": "none",
        "residual": True,
    },
}


def shares(a: Tensor, node: Tensor, num_nodes: int) -> Tensor:
    """Divide the coefficient of each edge by its sum over the edges of `node`, [num_edges]."""
    total = scatter(a, node, dim=0, dim_size=num_nodes, reduce="sum")
    # A self loop's row is 0, and so is the total of a node with no other edges.
    return a / total[node].clamp(min=torch.finfo(total.dtype).tiny)


def given_coefficient(edge_coefficient: Tensor | None) -> Tensor:
    """Return the coefficients given to a gated network; RequestError if there are none."""
    if edge_coefficient is None:
        raise RequestError(
            "A gated network needs edge_coefficient; load the data with "
            "pre_transform=StructuralCoefficients() and pass data.edge_coefficient.",
            code="batch.attribute",
        )
    return edge_coefficient


def _linear(linear: nn.Linear, rows: Tensor) -> Tensor:
    """Apply a linear map.

    torch computes the gradient of a contiguous factor as rows^T g and of a transposed one as
    g^T rows, which on a CPU takes several times as long for short rows.
    """
    return torch.addmm(linear.bias, rows, linear.weight.t().contiguous())


def _radii(radius: int | Sequence[int]) -> tuple[int, ...]:
    """Return the radii in the order of StructuralCoefficients' columns."""
    return (radius,) if isinstance(radius, int) else tuple(sorted(set(radius)))


def _any(mask: Tensor) -> bool:
    """Return whether any entry is true; True if asking would synchronise a device or compiler."""
    return mask.device.type != "cpu" or torch.compiler.is_compiling() or bool(mask.any())


class StructuralGate(nn.Module):
    r"""Trans: weights of messages from structural coefficients.

    .. math::
        w_{vu} = [1 +]\; \mathrm{norm}(\mathrm{MLP}(f_{vu})), \qquad
        \tilde a_{vu} = a_{vu} / \sum_{w \in N(v)} a_{vw}

    v receives the message, f are the `features` of the edge at every radius. Equation 4 of
    "Union Subgraph Neural Networks" (Xu et al., AAAI 2024) is the preset ``paper``: f is the
    normalised coefficient, norm the softmax over the receiver's neighbours, no ``1 +``. The
    features ``excess`` and ``cyclomatic`` are extensions of this library. An edge from a node to
    itself always has weight 1.

    Args:
        channels: Width of the message.
        features: Inputs of the MLP: ``raw`` a, ``normalized`` a, ``excess`` (a of the double star
            with the same end degrees, minus a: the part due to cycles; at radius 1 only) or
            ``cyclomatic`` (edges - nodes + 1 of the subgraph). All but ``normalized`` are
            standardised with statistics of the training graphs (`fit_statistics`).
        radius: One radius or several; each gives its own features.
        normalization: Softmax over the receiver's ``neighborhood``, over all edges of the
            ``batch`` (then a prediction depends on the other graphs of the batch), or ``none``.
        residual: Whether to add 1 to the normalised output.
        layers: 1 for a linear map, 2 for one hidden layer of `channels` units.
        negative_slope: Slope of the hidden layer's leaky ReLU.
        normalize_over: Whose neighbours the ``normalized`` feature sums over: ``receiver`` (the
            paper) or ``sender`` (the authors' code).
        offset: Constant added to the ``normalized`` feature.
        columns: Names of the columns given to `forward`, in order; by default
            `required_columns`.

    Shapes:
        - coefficient: [num_edges, len(columns)]
        - edge_index: [2, num_edges]
        - output: [num_edges, channels]

    Raises:
        RequestError: if a choice is unknown or a required column is missing.
    """

    feature_mean: Tensor
    feature_std: Tensor

    def __init__(
        self,
        channels: int,
        *,
        features: Sequence[Feature] = ("raw", "excess", "cyclomatic"),
        radius: int | Sequence[int] = (1, 2, 3),
        normalization: Normalization = "none",
        residual: bool = True,
        layers: int = 1,
        negative_slope: float = 0.0,
        normalize_over: Literal["receiver", "sender"] = "receiver",
        offset: float = 0.0,
        columns: Sequence[str] | None = None,
    ) -> None:
        super().__init__()
        require_at_least("channels", channels, 1)
        if layers not in (1, 2):
            raise RequestError(
                f"layers is {layers}; allowed are 1 (linear) and 2 (one hidden layer).",
                code="gate.argument",
            )
        if not features:
            raise RequestError(
                f"features is empty; name at least one of {', '.join(_NEEDS)}.",
                code="gate.argument",
            )
        self.channels = channels
        for feature in features:
            require_choice("A gate's feature", feature, _NEEDS)
        self.features = tuple(features)
        self.radius = _radii(radius)
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
        require_choice("normalization", normalization, ("neighborhood", "batch", "none"))
        require_choice("normalize_over", normalize_over, ("receiver", "sender"))
        self.normalization = normalization
        self.residual = residual
        self.normalize_over = normalize_over
        self.offset = offset
        self.columns = self.required_columns
        if columns is not None:
            self.set_columns(columns)

        width = len(self._kinds)
        self.negative_slope = negative_slope
        self.hidden = nn.Linear(width, channels) if layers == 2 else None
        self.last = nn.Linear(channels if layers == 2 else width, channels)
        self.register_buffer("feature_mean", torch.zeros(width))
        self.register_buffer("feature_std", torch.ones(width))
        self.fitted = False

    @classmethod
    def preset(cls, name: str, channels: int, **overrides: Any) -> StructuralGate:
        """Make a gate by name: ``paper``, ``authors-code`` or ``default``.

        Without radius 1, ``default`` leaves out the excess.
        """
        require_choice("A gate's preset", name, PRESETS)
        options = {**PRESETS[name], **overrides}
        if "features" not in overrides and 1 not in _radii(options["radius"]):
            options["features"] = tuple(f for f in options["features"] if f != "excess")
        return cls(channels, **options)

    @property
    def required_columns(self) -> tuple[str, ...]:
        """Names of the coefficient columns that the features are derived from."""
        needed = {f"{q}_r{r}" for feature, r in self._kinds for q in _NEEDS[feature]}
        order = (f"{quantity}_r{r}" for r in self.radius for quantity in _QUANTITIES)
        return tuple(name for name in order if name in needed)

    @property
    def _kinds(self) -> list[tuple[str, int]]:
        """Inputs of the MLP as (feature, radius), radius-major; the excess at radius 1 only."""
        return [
            (feature, radius)
            for radius in self.radius
            for feature in self.features
            if feature != "excess" or radius == 1
        ]

    @property
    def needs_statistics(self) -> bool:
        """Whether `fit_statistics` must be called before the first step."""
        return any(feature in _STANDARDIZED for feature in self.features)

    def set_columns(self, columns: Sequence[str]) -> None:
        """Set the columns given to `forward`; RequestError if a required one is missing."""
        missing = [name for name in self.required_columns if name not in columns]
        if missing:
            raise RequestError(
                f"The gate needs the coefficient columns {list(self.required_columns)}, "
                f"{missing} are missing from {list(columns)}. The radius must be the same in both "
                "places, as UnionPlugin(conv, radius=1) and StructuralCoefficients(radius=1). "
                "Compute them with "
                f"StructuralCoefficients(CoefficientSpec.from_columns({list(self.required_columns)})).",
                code="gate.columns",
            )
        self.columns = tuple(columns)

    def reset_parameters(self) -> None:
        """Reinitialise the weights; the statistics are kept."""
        for linear in (self.hidden, self.last):
            if linear is not None:
                linear.reset_parameters()

    @torch.no_grad()
    def fit_statistics(self, coefficient: Tensor) -> StructuralGate:
        """Set mean and standard deviation of the features from the training rows.

        Args:
            coefficient: Rows of all training edges, with the columns `columns`; rows of zeros
                (self loops) are ignored.

        Shapes:
            - coefficient: [num_edges, len(columns)]

        Returns:
            The gate itself.

        Raises:
            RequestError: if the shape does not fit or a value is not finite.
        """
        self._check(coefficient)
        if not bool(torch.isfinite(coefficient).all()):
            raise RequestError(
                "The structural coefficients contain NaN or infinity.", code="gate.statistics"
            )
        rows = coefficient[(coefficient != 0).any(dim=1)].to("cpu", torch.float64)
        self.feature_mean.zero_()
        self.feature_std.fill_(1)
        for i, (feature, radius) in enumerate(self._kinds if len(rows) else ()):
            if feature not in _STANDARDIZED:
                continue
            values = self._edge_feature(rows, feature, radius)
            sources = [self._column(rows, quantity, radius) for quantity in _NEEDS[feature]]
            noise = _CONSTANT * torch.stack(sources).abs().max()
            self.feature_mean[i] = values.mean()
            std = values.std(unbiased=False)
            if std > noise:
                self.feature_std[i] = std
        self.fitted = True
        return self

    def get_extra_state(self) -> Tensor:
        """Return whether there are statistics, for the state dict."""
        return torch.tensor(self.fitted, device="cpu")

    def set_extra_state(self, state: Tensor) -> None:
        """Restore from a state dict whether there are statistics."""
        self.fitted = bool(state)

    def forward(self, coefficient: Tensor, edge_index: Tensor, num_nodes: int) -> Tensor:
        """Return the weights of the messages.

        This does not check for NaN and infinity, which would synchronise the device in every layer
        and step; `fit_statistics` refuses them.

        Args:
            coefficient: One row per edge.
            edge_index: Senders, then receivers.
            num_nodes: Number of nodes.

        Shapes:
            - coefficient: [num_edges, len(columns)]
            - edge_index: [2, num_edges]
            - output: [num_edges, channels]

        Raises:
            RequestError: if the shapes do not fit.
            DataError: if features are standardised but there are no statistics.
        """
        self._check(coefficient)
        if coefficient.size(0) != edge_index.size(1):
            raise RequestError(
                f"edge_coefficient has {coefficient.size(0)} rows for {edge_index.size(1)} edges; "
                "compute it after the last transform that changes edges.",
                code="gate.columns",
            )
        if self.needs_statistics and not self.fitted:
            raise DataError(
                "The gate standardises its features but has no statistics. Call "
                "fit_statistics(columns) with the coefficient rows of the training graphs "
                "(UnionPlugin.fit_statistics takes the training data set itself).",
                code="gate.statistics",
            )
        dtype = self.feature_mean.dtype
        features = self._features(coefficient, edge_index, num_nodes).to(dtype)
        features = (features - self.feature_mean) / self.feature_std
        loops = (edge_index[0] == edge_index[1]).unsqueeze(-1)
        if self.normalization == "none":
            return self._weight(features, loops)
        # Under autocast the MLP returns half precision, too coarse for a softmax over many edges.
        weight = _linear(self.last, self._hidden(features)).to(dtype)
        may_have_loops = _any(loops)
        if may_have_loops:
            # Finite: a node whose only edge is a loop would give -inf - -inf.
            weight = weight.masked_fill(loops, torch.finfo(dtype).min)
        if self.normalization == "neighborhood":
            weight = softmax(weight, edge_index[1], num_nodes=num_nodes)
        else:
            weight = torch.softmax(weight, dim=0)
        if self.residual:
            weight = 1 + weight
        return weight.masked_fill(loops, 1.0) if may_have_loops else weight

    def _weight(self, features: Tensor, loops: Tensor) -> Tensor:
        """Return weights without a softmax, [num_edges, channels].

        This is one matrix product, with the bias, the 1 of the residual and the 1 of self loops as
        additional columns, since passes over all edges and channels dominate the cost of a gate.
        """
        hidden = self._hidden(features).to(features.dtype)
        sent = (~loops).to(hidden.dtype)
        one = torch.ones_like(sent) if self.residual else 1 - sent
        ones = self.last.bias.new_ones(1, self.channels)
        rows = torch.cat([hidden * sent, sent, one], dim=1)
        columns = torch.cat([self.last.weight.t(), self.last.bias.unsqueeze(0), ones])
        # Half precision would round 1 + w to three digits.
        with torch.autocast(rows.device.type, enabled=False):
            return rows @ columns

    def _hidden(self, features: Tensor) -> Tensor:
        """Return the input of the last linear map, [num_edges, F] or [num_edges, channels]."""
        if self.hidden is None:
            return features
        hidden = _linear(self.hidden, features)
        return nn.functional.leaky_relu(hidden, self.negative_slope)

    def _features(self, coefficient: Tensor, edge_index: Tensor, num_nodes: int) -> Tensor:
        """Return all features before standardisation, radius-major, [num_edges, F]."""
        node = edge_index[1 if self.normalize_over == "receiver" else 0]
        return torch.stack(
            [
                self._edge_feature(coefficient, feature, radius)
                if feature in _STANDARDIZED
                else self._normalized(coefficient, node, num_nodes, radius)
                for feature, radius in self._kinds
            ],
            dim=-1,
        )

    def _edge_feature(self, coefficient: Tensor, feature: str, radius: int) -> Tensor:
        """Return a feature that depends on the edge alone, [num_edges]."""
        if feature == "raw":
            return self._column(coefficient, "a", radius)
        if feature == "excess":
            tree = self._column(coefficient, "a_tree", radius)
            return tree - self._column(coefficient, "a", radius)
        edges = self._column(coefficient, "edges", radius)
        return edges - self._column(coefficient, "nodes", radius) + 1

    def _normalized(self, coefficient: Tensor, node: Tensor, num_nodes: int, radius: int) -> Tensor:
        """Return the coefficient over its sum at `node`, plus the offset, [num_edges]."""
        return shares(self._column(coefficient, "a", radius), node, num_nodes) + self.offset

    def _column(self, coefficient: Tensor, quantity: str, radius: int) -> Tensor:
        return coefficient[:, self.columns.index(f"{quantity}_r{radius}")]

    def _check(self, coefficient: Tensor) -> None:
        if coefficient.dim() != 2 or coefficient.size(1) != len(self.columns):
            raise RequestError(
                f"edge_coefficient has the shape {list(coefficient.shape)}; this gate reads the "
                f"columns {list(self.columns)}, so it must be [num_edges, {len(self.columns)}]. "
                "If the data has other columns, call "
                "gate.set_columns(data.coefficient_columns.split(',')).",
                code="gate.columns",
            )

    def extra_repr(self) -> str:
        """Show the choices that distinguish gates."""
        return (
            f"features={self.features}, radius={self.radius}, "
            f"normalization={self.normalization!r}, residual={self.residual}"
        )


def gates(module: nn.Module) -> list[StructuralGate]:
    """Return all gates of a network."""
    return [part for part in module.modules() if isinstance(part, StructuralGate)]
