"""How the coefficients of the training part are distributed, in numbers that a record can hold."""

from __future__ import annotations

from typing import Any

import numpy as np

from unionsnn.data.datamodules import GraphDataModule

BINS = 40
"""Bins of each column, all of one width."""


def coefficient_histogram(data: GraphDataModule) -> dict[str, Any] | None:
    """Count the coefficients that gates see in training; None where there is no gate.

    Returns:
        For each column its ``low`` and ``high`` end and the ``counts`` of `BINS` bins between.
    """
    if data.spec is None:
        return None
    rows = data.part_coefficient("train").numpy()
    found = {}
    for name, values in zip(data.spec.columns, rows.T, strict=True):
        counts, ends = np.histogram(values, bins=BINS)
        found[name] = {
            "low": float(ends[0]),
            "high": float(ends[-1]),
            "counts": counts.tolist(),
        }
    return found
