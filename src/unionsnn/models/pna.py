"""Principal neighbourhood aggregation."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor

from unionsnn.base.arguments import require_at_least
from unionsnn.base.errors import DataError, RequestError
from unionsnn.models.arguments import encodes_edges
from unionsnn.models.mpnn import MPNN, StackOptions
from unionsnn.nn.batch import GraphBatch
from unionsnn.nn.conv.pna import FittedPNAConv


class PNA(MPNN):
    r"""PNA: mean, minimum, maximum and standard deviation of the messages, scaled by the degree.

    "Principal Neighbourhood Aggregation for Graph Nets" (Corso et al., NeurIPS 2020), see
    `FittedPNAConv` for the layers. The scalers compare a node's degree with those of the training
    graphs (`fit_degrees`). With edge features, the message reads e_vu. The structural gate of a
    union variant multiplies the messages of all towers.

    Args:
        towers: Number of towers, a divisor of the width.
        divide_input: Whether each tower reads its part of the features instead of all.
        stack: Arguments of `MPNN`.

    Attributes:
        degree_histogram: How many nodes of the training graphs receive 0, 1, 2, ... messages; empty
            before `fit_degrees`. Part of the state dict.

    Raises:
        RequestError: if the width is not a multiple of `towers`.
    """

    reads_edges = True

    def __init__(
        self, *, towers: int = 4, divide_input: bool = False, **stack: Unpack[StackOptions]
    ) -> None:
        require_at_least("towers", towers, 1)
        edges = encodes_edges(stack)

        def conv(channels: int) -> FittedPNAConv:
            if channels % towers:
                raise RequestError(
                    f"hidden_channels is {channels} and towers is {towers}; the width must be a "
                    "multiple.",
                    code="model.argument",
                )
            return FittedPNAConv(channels, towers=towers, divide_input=divide_input, edges=edges)

        super().__init__(conv, **stack)
        self.degree_histogram = torch.zeros(0, dtype=torch.long, device="cpu")

    def fit_degrees(self, histogram: Tensor) -> PNA:
        """Set the degrees of the training graphs.

        Args:
            histogram: How many nodes receive 0, 1, 2, ... messages.

        Shapes:
            - histogram: [largest number of messages + 1], integers

        Returns:
            The network itself.
        """
        self.degree_histogram = histogram.to("cpu", torch.long)
        log = torch.arange(1, len(histogram) + 1, dtype=torch.float64).log()
        mean = float((log * self.degree_histogram).sum()) / max(1, int(histogram.sum()))
        for layer in self.modules():
            if isinstance(layer, FittedPNAConv):
                # Without any edge there is nothing to compare with.
                layer.set_mean_log_degree(mean or 1.0)
        return self

    @property
    def fitted(self) -> bool:
        """Whether there are degrees."""
        return len(self.degree_histogram) > 0

    def get_extra_state(self) -> Tensor:
        """Return the histogram, for the state dict."""
        return self.degree_histogram

    def set_extra_state(self, state: Tensor) -> None:
        """Restore the histogram from a state dict."""
        self.fit_degrees(state)

    def embed(self, batch: GraphBatch) -> Tensor:
        """Encode nodes, convolve, and read out; DataError before `fit_degrees`."""
        if not len(self.degree_histogram):
            raise DataError(
                f"{type(self).__name__} scales by the degrees in the training graphs, which are "
                "not set. Call fit_degrees(histogram) with the number of their nodes that receive "
                "0, 1, 2, ... messages.",
                code="model.degrees",
            )
        return super().embed(batch)
