"""Trans: maps structural coefficients to one weight per edge and channel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Unpack

import torch
from torch import Tensor, nn
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.parameter import UninitializedParameter, is_lazy
from torch_geometric.utils import scatter, softmax

from unionsnn.base.arguments import require_at_least, require_choice
from unionsnn.base.errors import RequestError
from unionsnn.nn.features import FeatureOptions, Shared, StructuralFeatures, radii

Normalization = Literal["neighborhood", "batch", "none"]

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


def preset_options(name: str, **overrides: Any) -> dict[str, Any]:
    """Return the arguments of a gate by name; without radius 1, the excess is left out."""
    require_choice("A gate's preset", name, PRESETS)
    options = {**PRESETS[name], **overrides}
    if "features" not in overrides and 1 not in radii(options["radius"]):
        options["features"] = tuple(f for f in options["features"] if f != "excess")
    return options


def given_coefficient(edge_coefficient: Tensor | None) -> Tensor:
    """Return the coefficients given to a gated network; RequestError if there are none."""
    if edge_coefficient is None:
        raise RequestError(
            "A gated network needs edge_coefficient: make the data module with coefficients=True, "
            "or load the data with pre_transform=StructuralCoefficients() and pass "
            "data.edge_coefficient.",
            code="batch.attribute",
        )
    return edge_coefficient


def _linear(linear: nn.Linear, rows: Tensor) -> Tensor:
    """Apply a linear map.

    torch computes the gradient of a contiguous factor as rows^T g and of a transposed one as
    g^T rows, which on a CPU takes several times as long for short rows.
    """
    return torch.addmm(linear.bias, rows, linear.weight.t().contiguous())


class _Unsized(LazyModuleMixin, nn.Linear):
    """A linear map that is told its widths later."""

    cls_to_become = nn.Linear

    def __init__(self) -> None:
        super().__init__(0, 0, bias=False)
        self.weight = UninitializedParameter()
        self.bias = UninitializedParameter()  # type: ignore[assignment]

    def reset_parameters(self) -> None:
        """Reinitialise the weights, as soon as there are any."""
        if self.in_features and not self.has_uninitialized_params():
            super().reset_parameters()

    def initialize_parameters(self, in_features: int, like: Tensor, out_features: int) -> None:
        """Make the weights, of the type of a tensor: uninitialised ones lose theirs in a pickle."""
        # A parameter made under inference_mode could not be trained.
        with torch.inference_mode(False), torch.no_grad():
            self.in_features, self.out_features = in_features, out_features
            for parameter, shape in (
                (self.weight, (out_features, in_features)),
                (self.bias, (out_features,)),
            ):
                parameter.materialize(shape, device=like.device, dtype=like.dtype)  # type: ignore[attr-defined]
            self.reset_parameters()


class StructuralGate(StructuralFeatures):
    r"""Trans: weights of messages from structural coefficients.

    .. math::
        w_{vu} = [1 +]\; \mathrm{norm}(\mathrm{MLP}(f_{vu}))

    f are the features of the edge at every radius, see `StructuralFeatures`. Equation 4 of
    "Union Subgraph Neural Networks" (Xu et al., AAAI 2024) is the preset ``paper``: f is the
    normalised coefficient, norm the softmax over the receiver's neighbours, no ``1 +``. An edge
    from a node to itself always has weight 1.

    Args:
        channels: Width of the message; -1 to take that of the first message that a `UnionPlugin`
            gates, or of the state dict that is loaded.
        normalization: Softmax over the receiver's ``neighborhood``, over all edges of the
            ``batch`` (then a prediction depends on the other graphs of the batch), or ``none``.
        residual: Whether to add 1 to the normalised output.
        layers: 1 for a linear map, 2 for one hidden layer of `channels` units.
        negative_slope: Slope of the hidden layer's leaky ReLU.
        features: Arguments of `StructuralFeatures`.

    Shapes:
        - coefficient: [num_edges, len(columns)]
        - edge_index: [2, num_edges]
        - output: [num_edges, channels]

    Raises:
        RequestError: if a choice is unknown or a required column is missing.
    """

    def __init__(
        self,
        channels: int,
        *,
        normalization: Normalization = "none",
        residual: bool = True,
        layers: int = 1,
        negative_slope: float = 0.0,
        **features: Unpack[FeatureOptions],
    ) -> None:
        super().__init__(**features)
        if channels != -1:
            require_at_least("channels", channels, 1)
        if layers not in (1, 2):
            raise RequestError(
                f"layers is {layers}; allowed are 1 (linear) and 2 (one hidden layer).",
                code="gate.argument",
            )
        require_choice("normalization", normalization, ("neighborhood", "batch", "none"))
        self.channels = channels
        self.normalization = normalization
        self.residual = residual
        self.negative_slope = negative_slope
        width = len(self.feature_mean)
        if channels == -1:
            self.hidden: nn.Linear | None = _Unsized() if layers == 2 else None
            self.last: nn.Linear = _Unsized()
        else:
            self.hidden = nn.Linear(width, channels) if layers == 2 else None
            self.last = nn.Linear(channels if layers == 2 else width, channels)

    @classmethod
    def preset(cls, name: str, channels: int, **overrides: Any) -> StructuralGate:
        """Make a gate by name: ``paper``, ``authors-code`` or ``default``.

        Without radius 1, ``default`` leaves out the excess.
        """
        return cls(channels, **preset_options(name, **overrides))

    @property
    def is_lazy(self) -> bool:
        """Whether the width is not known yet."""
        return self.channels == -1

    def materialize(self, channels: int) -> None:
        """Take a width and draw the weights, in place; for a gate that was made without one."""
        require_at_least("channels", channels, 1)
        self.channels = channels
        width = len(self.feature_mean)
        for linear in (self.hidden, self.last):
            if linear is not None:
                linear._infer_parameters(linear, (width, self.feature_mean, channels))  # type: ignore[operator]
                width = channels

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        weight = state_dict.get(f"{prefix}last.weight")
        if self.is_lazy and weight is not None and not is_lazy(weight):
            self.materialize(weight.size(0))
        super()._load_from_state_dict(state_dict, prefix, *args)

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of the constructor but for the width, in plain types."""
        return {
            **super().options,
            "normalization": self.normalization,
            "residual": self.residual,
            "layers": 1 if self.hidden is None else 2,
            "negative_slope": self.negative_slope,
        }

    def reset_parameters(self) -> None:
        """Reinitialise the weights; the statistics are kept."""
        for linear in (self.hidden, self.last):
            if linear is not None:
                linear.reset_parameters()

    def forward(self, coefficient: Tensor, edge_index: Tensor, num_nodes: int) -> Tensor:
        """Return the weights of the messages; arguments as in `standardized`."""
        if self.is_lazy:
            raise RequestError(
                "The gate has channels=-1: UnionPlugin gives it the width of the first message. "
                "Elsewhere pass channels=<width of the message>.",
                code="gate.width",
            )
        shared = Shared.of(coefficient, edge_index)
        features = self.standardized(coefficient, edge_index, num_nodes)
        if self.normalization == "none":
            return self._weight(features, shared)
        weight = self._scores(features, shared)
        if self.normalization == "neighborhood":
            weight = softmax(weight, edge_index[1], num_nodes=num_nodes)
        else:
            weight = torch.softmax(weight, dim=0)
        if self.residual:
            weight = 1 + weight
        return weight.masked_fill(shared.is_loop, 1.0) if shared.may_have_loops else weight

    def quotient(
        self, coefficient: Tensor, edge_index: Tensor, num_nodes: int
    ) -> tuple[Tensor, Tensor] | None:
        r"""Return the weights as quotients, of which a sum of messages needs one per node.

        .. math::
            \sum_u w_{vu} h_u = \sum_u e_{vu} h_u / z_v, \qquad z_v = \sum_u e_{vu}

        Shapes:
            - arguments: as in `forward`
            - e: [num_edges, channels]
            - z: [num_nodes, channels]

        Returns:
            e and z; None for weights that are no such quotients: without a softmax over the
            neighbours, with a residual 1, or where an edge may be a self loop.
        """
        shared = Shared.of(coefficient, edge_index)
        if self.is_lazy or self.residual or self.normalization != "neighborhood":
            return None
        if shared.may_have_loops:
            return None
        features = self.standardized(coefficient, edge_index, num_nodes)
        scores, receiver = self._scores(features, shared), edge_index[1]
        largest = scatter(scores.detach(), receiver, 0, dim_size=num_nodes, reduce="max")
        e = (scores - largest.index_select(0, receiver)).exp()
        z = scatter(e, receiver, 0, dim_size=num_nodes, reduce="sum")
        # As in PyG's softmax; a node without messages has 0 / 0 otherwise.
        return e, z + 1e-16

    def _scores(self, features: Tensor, shared: Shared) -> Tensor:
        """Return what the softmax is taken of, [num_edges, channels]."""
        # Under autocast the MLP returns half precision, too coarse for a softmax over many edges.
        scores = _linear(self.last, self._hidden(features)).to(features.dtype)
        if not shared.may_have_loops:
            return scores
        # Finite: a node whose only edge is a loop would give -inf - -inf.
        return scores.masked_fill(shared.is_loop, torch.finfo(features.dtype).min)

    def _weight(self, features: Tensor, shared: Shared) -> Tensor:
        """Return weights without a softmax, [num_edges, channels].

        This is one matrix product, with the bias, the 1 of the residual and the 1 of self loops as
        additional columns, since passes over all edges and channels dominate the cost of a gate.
        """

        def make() -> Tensor:
            hidden = self._hidden(features).to(features.dtype)
            sent = (~shared.is_loop).to(hidden.dtype)
            one = torch.ones_like(sent) if self.residual else 1 - sent
            return torch.cat([hidden * sent, sent, one], dim=1)

        same = self.same_features if self.hidden is None else None
        rows = make() if same is None else shared.get(("rows", same, self.residual), make)
        bias = self.last.bias
        ones = shared.get(
            ("ones", self.channels, bias.dtype), lambda: bias.new_ones(1, self.channels)
        )
        columns = torch.cat([self.last.weight.t(), bias.unsqueeze(0), ones])
        # Half precision would round 1 + w to three digits.
        with torch.autocast(rows.device.type, enabled=False):
            return rows @ columns

    def _hidden(self, features: Tensor) -> Tensor:
        """Return the input of the last linear map, [num_edges, F] or [num_edges, channels]."""
        if self.hidden is None:
            return features
        hidden = _linear(self.hidden, features)
        return nn.functional.leaky_relu(hidden, self.negative_slope)

    def extra_repr(self) -> str:
        """Show the choices that distinguish gates."""
        return (
            f"features={self.features}, radius={self.radius}, "
            f"normalization={self.normalization!r}, residual={self.residual}"
        )
