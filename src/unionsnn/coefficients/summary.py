"""Summary of columns of coefficients."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


def column_summary(
    columns: Sequence[str], values: npt.NDArray[np.float64]
) -> dict[str, dict[str, float | None]]:
    """Return minimum, mean and maximum of each column; None without edges.

    Args:
        columns: Names of the columns.
        values: One row per edge.

    Shapes:
        values [E, C].
    """
    if not len(values):
        return {name: {"min": None, "mean": None, "max": None} for name in columns}
    return {
        name: {"min": float(v.min()), "mean": float(v.mean()), "max": float(v.max())}
        for name, v in zip(columns, values.T, strict=True)
    }
