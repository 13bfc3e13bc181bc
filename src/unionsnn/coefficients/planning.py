"""How long a computation will take, told before it is begun, and refused where it is too long."""

import logging
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from unionsnn.base.display import current_display
from unionsnn.base.errors import RequestError, TooLongError
from unionsnn.base.words import about
from unionsnn.coefficients.graph import SimpleGraph

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

MAX_HOURS = 1.0
"""Hours beyond which a computation is refused, unless the caller allows more."""

WORTH_TELLING = 60.0
"""Seconds from which the estimate is told before the work."""

_SAMPLE = 256

logger = logging.getLogger(__name__)


def work_of_size(size: FloatArray, *, has_matrix: bool = True) -> FloatArray:
    """Estimate the nanoseconds that a substructure takes by its number of nodes."""
    costs: FloatArray = 200.0 + 20.0 * size**2 + (0.1 * size**3 if has_matrix else 0.0)
    return costs


def ball_sizes(graph: SimpleGraph, edges: IntArray, radii: tuple[int, ...]) -> FloatArray:
    """Count the nodes within each radius of the ends of some edges.

    Shapes:
        edges [K] (numbers of undirected edges) -> [K, len(radii)].
    """
    sizes = np.empty((len(edges), len(radii)))
    for row, ends in zip(sizes, graph.edges[:, edges].T, strict=True):
        ball, fresh, depth = ends, ends, 0
        for place, radius in enumerate(radii):
            while depth < radius and len(fresh):
                starts = graph.indptr[fresh]
                degrees = graph.indptr[fresh + 1] - starts
                shift = np.repeat(starts + degrees - np.cumsum(degrees), degrees)
                reached = np.union1d(ball, graph.indices[shift + np.arange(len(shift))])
                fresh = np.setdiff1d(reached, ball, assume_unique=True)
                ball, depth = reached, depth + 1
            row[place] = len(ball)
    return sizes


def sampled_cost(
    graph: SimpleGraph, edges: IntArray, radii: tuple[int, ...], *, has_matrix: bool = True
) -> float:
    """Estimate the nanoseconds of some edges at several radii, by the balls around a few of them.

    Bounds from degrees are hundreds of times too high beyond radius 1.

    Shapes:
        edges [K] (numbers of undirected edges).
    """
    # The same edges each time, so that the same graph is always answered alike.
    chosen = np.random.default_rng(0).permutation(edges)[:_SAMPLE]
    if not len(chosen):
        return 0.0
    costs = work_of_size(ball_sizes(graph, chosen, radii), has_matrix=has_matrix)
    return float(costs.sum()) * len(edges) / len(chosen)


def in_words(seconds: float, threads: int) -> str:
    """Return an estimate as text, such as about 3 hours on 2 threads."""
    return f"{about(seconds)} on {'one core' if threads == 1 else f'{threads} threads'}"


def check_hours(max_hours: Any) -> None:
    """Check a limit of hours, before anything is computed.

    Raises:
        RequestError: It is neither None nor a positive, finite number.
    """
    number = isinstance(max_hours, int | float | np.integer | np.floating)
    if max_hours is None:
        return
    if not number or isinstance(max_hours, bool):
        wanted = "a number, such as 1.0"
    elif not abs(max_hours) <= sys.float_info.max:
        wanted = "a finite number"
    elif max_hours <= 0:
        wanted = "greater than 0"
    else:
        return
    raise RequestError(
        f"max_hours is {max_hours!r}; it must be {wanted}, or None for no limit.",
        code="coefficient.max_hours",
    )


def enough_hours(seconds: float) -> int:
    """Return a limit that leaves room for an estimate that is too low."""
    return int(np.ceil(1.5 * seconds / 3600.0))


def check_time(
    seconds: float, threads: int, max_hours: float | None, *, kept: bool = False
) -> None:
    """Refuse work that is expected to take longer than allowed; tell where somebody would wait.

    Args:
        seconds: Expected time.
        threads: Number of threads.
        max_hours: Hours that are allowed; None for no limit.
        kept: Whether an interrupted computation goes on where it stopped.

    Raises:
        TooLongError: It would take longer; with what to type.
    """
    if max_hours is None or seconds <= 3600.0 * max_hours:
        if seconds >= WORTH_TELLING:
            text = f"The structural coefficients take {in_words(seconds, threads)}."
            if current_display() is None:
                logger.warning(text)
            else:
                print(text, file=sys.stderr, flush=True)
        return
    enough = enough_hours(seconds)
    allowed = "1 hour" if max_hours == 1 else f"{max_hours:g} hours"
    raise TooLongError(
        f"The structural coefficients would take {in_words(seconds, threads)}; allowed are "
        f"{allowed}. To compute them all the same, type coefficient.max_hours={enough} with train, "
        "precompute and other commands that take overrides, --yes with coefficients and predict, "
        f"or max_hours={enough} in Python"
        + ("; finished edges are kept in the cache if you interrupt it" if kept else "")
        + ". A smaller radius takes less.",
    )
