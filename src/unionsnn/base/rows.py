"""What is known of edges and of rows of coefficients, noted on their tensors.

Data and networks know nothing of each other; this is what they agree on. Of rows it is noted which
edges they were read for, of edges how many are loops. A tensor that is made from another one
(moved, indexed, computed) has no note, and is taken as it is.
"""

from __future__ import annotations

from typing import Any

_NOTE = "_edges_of_rows"
_LOOPS = "_number_of_loops"


def note_edges(rows: Any, edge_index: Any) -> None:
    """Note that rows belong to these edges, as they are now."""
    setattr(rows, _NOTE, (edge_index, version_of(edge_index)))


def noted_edges(rows: Any) -> Any | None:
    """Return the edges that rows were read for; None if that was not noted."""
    note = getattr(rows, _NOTE, None)
    return None if note is None else note[0]


def belongs(rows: Any, edge_index: Any) -> bool:
    """Return whether rows were read for this very tensor, and it has not been changed since."""
    note = getattr(rows, _NOTE, None)
    return note is not None and note[0] is edge_index and note[1] == version_of(edge_index)


def note_loops(edge_index: Any, count: int) -> None:
    """Note how many of these edges, as they are now, lead from a node to itself."""
    setattr(edge_index, _LOOPS, (count, version_of(edge_index)))


def noted_loops(edge_index: Any) -> int | None:
    """Return how many edges lead from a node to itself; None if that is not known."""
    count, version = getattr(edge_index, _LOOPS, (None, None))
    return count if version == version_of(edge_index) else None


def version_of(tensor: Any) -> int:
    """Return a number that changes when a tensor is changed in place."""
    # Tensors made under inference_mode have no version.
    return -1 if tensor.is_inference() else tensor._version
