"""What a network takes from the training graphs before it is trained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn

from unionsnn.nn.features import structural_modules


@runtime_checkable
class FitsSizes(Protocol):
    """A network that depends on the sizes of the training graphs."""

    def fit_sizes(self, num_nodes: Tensor) -> Any:
        """Read the number of nodes of each training graph, [num_graphs]."""


@runtime_checkable
class FitsDegrees(Protocol):
    """A network that depends on the degrees in the training graphs."""

    def fit_degrees(self, histogram: Tensor) -> Any:
        """Read how many nodes receive 0, 1, 2, ... messages, [largest number of messages + 1]."""


def fit_to_training(
    network: nn.Module,
    rows: Callable[[], Tensor],
    sizes: Callable[[], Tensor],
    degrees: Callable[[], Tensor],
    *,
    again: bool = True,
) -> None:
    """Fit a network to the training graphs: statistics of gates and encoders, sizes and degrees.

    Args:
        network: The network; with a method of `FitsSizes` or `FitsDegrees`, that is called, and
            an attribute `fitted` says whether it has been.
        rows: Returns the coefficients of all training edges, [num_edges, num_columns].
        sizes: Returns the number of nodes of each training graph, [num_graphs].
        degrees: Returns how many of their nodes receive 0, 1, 2, ... messages.
        again: Whether to fit what is fitted already, as in a network of a checkpoint.
    """
    needing = [
        module
        for module in structural_modules(network)
        if module.needs_statistics and (again or not module.fitted)
    ]
    if needing:
        fitted_to = rows()
        for module in needing:
            module.fit_statistics(fitted_to)
    if getattr(network, "fitted", False) and not again:
        return
    if isinstance(network, FitsSizes):
        network.fit_sizes(sizes())
    if isinstance(network, FitsDegrees):
        network.fit_degrees(degrees())
