"""Controls: less informative coefficients, to show what the real ones contribute."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unionsnn.base.errors import DataError, RequestError
from unionsnn.coefficients import SimpleGraph
from unionsnn.data.arrays import GraphArrays, IntArray

TRAINING = 0
"""Index of the training part in `part`."""

Rows = NDArray[np.floating]
CONTROLS = ("none", "constant", "random", "shuffled", "shuffled_within")
"""What may become of the rows, by the name that a config gives it."""


def controlled_rows(
    rows: Rows,
    arrays: GraphArrays,
    part: IntArray,
    *,
    control: str,
    generator: np.random.Generator,
) -> Rows:
    """Replace the coefficient rows of edges according to a control.

    A coefficient belongs to the undirected edge, so both directions keep the same row. Rows of self
    loops are unchanged.

    Args:
        rows: The real rows; not modified.
        arrays: The graphs.
        part: Split part of each graph; ``constant`` averages and ``random`` draws from the edges of
            `TRAINING`.
        control: One of `CONTROLS`.
        generator: Source of randomness.

    Shapes:
        rows [E, C], part [G] -> [E, C].

    Raises:
        DataError: The control needs training edges, and there are none.
        RequestError: The control is unknown.
        ValueError: The two directions of an edge differ.
    """
    if control not in CONTROLS:
        raise RequestError(
            f"control is {control!r}; allowed are {', '.join(CONTROLS)}.", code="data.control"
        )
    simple = SimpleGraph.from_edge_index(arrays.edges(), arrays.num_nodes)
    edge = simple.edge_to_undirected
    proper = edge >= 0
    real = np.empty((simple.num_undirected_edges, rows.shape[1]), dtype=rows.dtype)
    real[edge[proper]] = rows[proper]
    if not np.array_equal(real[edge[proper]], rows[proper]):
        raise ValueError(
            "The two directions of an edge have different rows; a control needs equal ones."
        )
    graph = np.searchsorted(arrays.node_slices, simple.edges[0], side="right") - 1
    training = part[graph] == TRAINING
    if control in ("constant", "random") and len(real) and not training.any():
        raise DataError(
            f"coefficient.control={control} is made of the training edges, but there are none; "
            "type coefficient.control=none.",
            code="data.control",
        )
    if not len(real):
        return rows.copy()
    if control == "constant":
        mean = real[training].mean(axis=0, dtype=np.float64).astype(real.dtype)
        real = np.broadcast_to(mean, real.shape)
    elif control == "random":
        real = real[generator.choice(np.flatnonzero(training), size=len(real))]
    elif control == "shuffled":
        real = real[permutation_within(part[graph], generator)]
    elif control == "shuffled_within":
        real = real[permutation_within(graph, generator)]
    result = rows.copy()
    result[proper] = real[edge[proper]]
    return result


def permutation_within(groups: IntArray, generator: np.random.Generator) -> IntArray:
    """Draw a uniformly random permutation within groups.

    Shapes:
        groups [N] -> [N].
    """
    source = np.empty(len(groups), dtype=np.int64)
    # Both orders are sorted by group; the second is random within each group.
    source[np.argsort(groups, kind="stable")] = np.lexsort(
        (generator.permutation(len(groups)), groups)
    )
    return source
