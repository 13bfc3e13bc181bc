"""Controls: coefficients that carry less than the real ones, to see what the real ones are for."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from unionsnn.base.errors import DataError, RequestError
from unionsnn.coefficients import SimpleGraph
from unionsnn.data.arrays import GraphArrays, IntArray
from unionsnn.data.datasets import disjoint_union

TRAINING = 0
"""Number of the training part in `part`."""

Rows = NDArray[np.floating]
_Control = Callable[[Rows, IntArray, IntArray, np.random.Generator], Rows]


def controlled_rows(
    rows: Rows,
    arrays: GraphArrays,
    part: IntArray,
    *,
    control: str,
    generator: np.random.Generator,
) -> Rows:
    """Replace the coefficient rows of edges by those of a control.

    An undirected edge is one thing here: every coefficient is a number of it, and both of its
    directions keep one and the same row. Rows of self loops stay as they are.

    Args:
        rows: The real rows; left alone.
        arrays: The graphs.
        part: Split part of each graph; `TRAINING` is the one whose edges ``constant`` averages and
            ``random`` draws from.
        control: A key of `CONTROLS`.
        generator: Draws what is random.

    Shapes:
        rows [E, C], part [G] -> [E, C].

    Raises:
        DataError: The control is made of training edges, and there are none.
        RequestError: The control is unknown.
        ValueError: The two directions of an edge differ.
    """
    if control not in CONTROLS:
        raise RequestError(
            f"control is {control!r}; allowed are {', '.join(CONTROLS)}.", code="data.control"
        )
    simple = SimpleGraph.from_edge_index(disjoint_union(arrays), arrays.num_nodes)
    edge = simple.edge_to_undirected
    proper = edge >= 0
    real = np.empty((simple.num_undirected_edges, rows.shape[1]), dtype=rows.dtype)
    real[edge[proper]] = rows[proper]
    if not np.array_equal(real[edge[proper]], rows[proper]):
        raise ValueError(
            "The two directions of an edge have different rows; a control keeps one for both."
        )
    graph = np.searchsorted(arrays.node_slices, simple.edges[0], side="right") - 1
    if control in ("constant", "random") and len(real) and not (part[graph] == TRAINING).any():
        raise DataError(
            f"coefficient.control={control} is made of the training edges, but there are none; "
            "type coefficient.control=none.",
            code="data.control",
        )
    result = rows.copy()
    if len(real):
        result[proper] = CONTROLS[control](real, part[graph], graph, generator)[edge[proper]]
    return result


def _none(real: Rows, part: IntArray, graph: IntArray, generator: np.random.Generator) -> Rows:
    return real


def _constant(real: Rows, part: IntArray, graph: IntArray, generator: np.random.Generator) -> Rows:
    mean = real[part == TRAINING].mean(axis=0, dtype=np.float64).astype(real.dtype)
    return np.broadcast_to(mean, real.shape)


def _random(real: Rows, part: IntArray, graph: IntArray, generator: np.random.Generator) -> Rows:
    return real[generator.choice(np.flatnonzero(part == TRAINING), size=len(real))]


def _shuffled(real: Rows, part: IntArray, graph: IntArray, generator: np.random.Generator) -> Rows:
    return real[permutation_within(part, generator)]


def _shuffled_within(
    real: Rows, part: IntArray, graph: IntArray, generator: np.random.Generator
) -> Rows:
    return real[permutation_within(graph, generator)]


CONTROLS: Mapping[str, _Control] = {
    "none": _none,
    "constant": _constant,
    "random": _random,
    "shuffled": _shuffled,
    "shuffled_within": _shuffled_within,
}
"""What becomes of the rows of undirected edges, by the name that a config gives it."""


def permutation_within(groups: IntArray, generator: np.random.Generator) -> IntArray:
    """Draw a permutation that moves nothing out of its group, uniform among those.

    Shapes:
        groups [N] -> [N].
    """
    source = np.empty(len(groups), dtype=np.int64)
    # Both orders go group by group: the second one at random within each.
    source[np.argsort(groups, kind="stable")] = np.lexsort(
        (generator.permutation(len(groups)), groups)
    )
    return source
