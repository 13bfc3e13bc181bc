"""Which edges rows of coefficients were read for, noted on the tensor of rows.

Data and networks know nothing of each other; this is what they agree on. A tensor that is made from
the rows (moved, indexed, computed) has no note, and is taken as it is.
"""

from __future__ import annotations

from typing import Any

_NOTE = "_edges_of_rows"


def note_edges(rows: Any, edge_index: Any) -> None:
    """Note that rows belong to these edges, as they are now."""
    setattr(rows, _NOTE, (edge_index, _version(edge_index)))


def noted_edges(rows: Any) -> Any | None:
    """Return the edges that rows were read for; None if that was not noted."""
    note = getattr(rows, _NOTE, None)
    return None if note is None else note[0]


def belongs(rows: Any, edge_index: Any) -> bool:
    """Return whether rows were read for this very tensor, and it has not been changed since."""
    note = getattr(rows, _NOTE, None)
    return note is not None and note[0] is edge_index and note[1] == _version(edge_index)


def _version(tensor: Any) -> int:
    # Tensors made under inference_mode have no version.
    return -1 if tensor.is_inference() else tensor._version
