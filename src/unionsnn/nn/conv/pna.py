"""The PNA operator."""

from __future__ import annotations

import math

import torch
import torch_geometric
from torch import Tensor
from torch_geometric.nn.aggr import Aggregation

_LEAST_VARIANCE = 1e-5


class StdAggregation(Aggregation):
    """PyG's aggregation of that name, from the differences to the mean.

    PyG's difference of two means rounds to more than its threshold of 1e-5 once messages are large,
    so that equal messages would get a deviation which depends on their order.
    """

    def forward(
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
    ) -> Tensor:
        """Return the standard deviation of each group, 0 where the variance is at most 1e-5."""
        self.assert_index_present(index)
        mean = self.reduce(x, index, ptr, dim_size, dim, reduce="mean")
        square = (x - mean.index_select(dim, index)).square()
        variance = self.reduce(square, index, ptr, dim_size, dim, reduce="mean")
        std = variance.clamp(min=_LEAST_VARIANCE).sqrt()
        return std.masked_fill(std <= math.sqrt(_LEAST_VARIANCE), 0.0)


class FittedPNAConv(torch_geometric.nn.PNAConv):
    r"""PyG's `PNAConv` with the paper's aggregators and scalers, and degrees that are set later.

    .. math::
        h_v \leftarrow W \bigl[ U_t [h_v, \{1, s_v, s_v^{-1}\} \otimes \{\mathrm{mean}, \min, \max,
        \mathrm{std}\}_{u \in N(v)} M_t [h_v, h_u, W_e e_{vu}]] \bigr]_t, \qquad
        s_v = \log(d_v + 1) / \delta

    "Principal Neighbourhood Aggregation for Graph Nets" (Corso et al., NeurIPS 2020), equations 5
    to 8; t are the towers, d_v is the number of messages that v receives, and δ the mean of
    log(d + 1) over the training graphs.

    Args:
        channels: Width of node and edge features, before and after; a multiple of `towers`.
        towers: Number of towers.
        divide_input: Whether each tower reads its part of the features instead of all.
        edges: Whether there are edge features.

    Shapes:
        - x: [num_nodes, channels]
        - edge_index: [2, num_edges]
        - edge_attr: [num_edges, channels], e
        - output: [num_nodes, channels]
    """

    # PyG looks up a class's source by its name, so this must not be called PNAConv too.

    def __init__(
        self, channels: int, *, towers: int = 1, divide_input: bool = False, edges: bool = False
    ) -> None:
        super().__init__(
            channels,
            channels,
            ["mean", "min", "max", StdAggregation()],
            ["identity", "amplification", "attenuation"],
            # Made under any default device.
            torch.ones(2, device="cpu"),
            edge_dim=channels if edges else None,
            towers=towers,
            divide_input=divide_input,
        )
        self.message_channels = towers * self.F_in

    def set_mean_log_degree(self, mean: float) -> None:
        """Set δ."""
        self.aggr_module.init_avg_deg_log = mean
        self.aggr_module.avg_deg_log.fill_(mean)

    def aggregate(
        self,
        inputs: Tensor,
        index: Tensor,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
    ) -> Tensor:
        """Aggregate and scale messages, [num_nodes, towers, 12 * width of a tower]."""
        # In half precision, degrees would be miscounted.
        exact = torch.promote_types(inputs.dtype, torch.float32)
        return super().aggregate(inputs.to(exact), index, ptr, dim_size).to(inputs.dtype)
