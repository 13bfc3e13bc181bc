"""Outputs of a network that predicts standardized targets, in the original units."""

from __future__ import annotations

from torch import Tensor, nn

from unionsnn.nn.batch import GraphBatch


class Scale(nn.Module):
    r"""Standardized values in the original units, \(y = z \sigma + \mu\).

    Args:
        mean: Mean of each target over the training part.
        std: Standard deviation of each target there.

    Shapes:
        mean, std [T]; z [N, T] -> [N, T].
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Tensor, std: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)

    def forward(self, z: Tensor) -> Tensor:
        """Return values in the original units."""
        return z * self.std + self.mean


class Rescaled(nn.Module):
    """A trained network whose outputs are put into the original units.

    Args:
        model: Predicts standardized targets from a `GraphBatch`.
        scale: Of these targets.
    """

    def __init__(self, model: nn.Module, scale: Scale) -> None:
        super().__init__()
        self.model = model
        self.scale = scale

    def forward(self, batch: GraphBatch) -> Tensor:
        """Return the outputs, [N, T]."""
        values: Tensor = self.scale(self.model(batch))
        return values
