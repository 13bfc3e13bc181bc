"""The space of coefficients: what may be combined with what, and why not."""

import difflib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

SUBSTRUCTURES = ("union", "overlap", "union_minus")
MATRICES = ("path", "laplacian")
"""Descriptors that are a matrix of the substructure: an encoding makes a number of it."""

LOCAL_SCALARS = ("edge_betweenness", "node_edge_count", "curvature")
"""Descriptors that are a number of the edge inside the substructure."""

WHOLE_GRAPH_SCALARS = ("curvature_graph", "cycle_count")
"""Descriptors that are a number of the edge in the whole graph: no substructure, no radius."""

DESCRIPTORS = MATRICES + LOCAL_SCALARS + WHOLE_GRAPH_SCALARS
ENCODINGS = ("singular_value_sum", "entry_sum", "largest_eigenvalue")
QUANTITIES = ("a", "a_tree", "nodes", "edges")
"""Raw quantities of an edge, in canonical order."""

DEFAULT_ENCODING = "singular_value_sum"
DEFAULT_ALPHA = 0.5
DEFAULT_EXPONENT = 2.0

_USES_ALPHA = ("curvature", "curvature_graph")
_USES_EXPONENT = ("node_edge_count",)


def uses_alpha(descriptor: str) -> bool:
    """Whether the values of a descriptor depend on alpha."""
    return descriptor in _USES_ALPHA


def uses_exponent(descriptor: str) -> bool:
    """Whether the values of a descriptor depend on the exponent."""
    return descriptor in _USES_EXPONENT


def has_tree_value(
    substructure: str, descriptor: str, encoding: str | None, radius: Sequence[int]
) -> bool:
    """Whether a_tree, and with it the excess a_tree - a, is defined at the first of the radii."""
    choices = (substructure, descriptor, encoding)
    return choices == ("union", "path", DEFAULT_ENCODING) and 1 in radius


def name_faults(option: str, value: Any, allowed: Sequence[str]) -> list[str]:
    """Say why a value is not one of the allowed names, if it is not."""
    if isinstance(value, str) and value in allowed:
        return []
    close = difflib.get_close_matches(str(value), allowed, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return [f"{option} {value!r} is not available; allowed: {', '.join(allowed)}.{hint}"]


def number_faults(option: str, value: Any, low: float, high: float) -> list[str]:
    """Say why a value is not a finite number within bounds, if it is not."""
    number = isinstance(value, int | float | np.integer | np.floating)
    if number and not isinstance(value, bool) and math.isfinite(value) and low <= value <= high:
        return []
    bounds = f" in {low:g}..{high:g}" if math.isfinite(low) else ""
    return [f"{option} must be a finite number{bounds}, got {value!r}."]


def encoding_faults(descriptor: str, encoding: Any) -> list[str]:
    """Say why an encoding does not fit a descriptor, if it does not.

    A scalar descriptor has no encoding: None or "none" say so, and the default is taken to mean
    the same, since nobody chose it.
    """
    none = encoding is None or encoding == "none"
    if descriptor in MATRICES:
        if none:
            return [
                f"descriptor {descriptor!r} is a matrix and needs an encoding; "
                f"allowed: {', '.join(_encodings_of(descriptor))}."
            ]
        faults = name_faults("encoding", encoding, ENCODINGS)
        if not faults and encoding not in _encodings_of(descriptor):
            faults = [
                f"encoding {encoding!r} of descriptor 'laplacian' is 0 for every graph; "
                f"allowed: {', '.join(_encodings_of(descriptor))}."
            ]
        return faults
    if none or encoding == DEFAULT_ENCODING:
        return []
    return any_encoding_faults(encoding) or [
        f"encoding {encoding!r} does not apply to descriptor {descriptor!r}, which is a number, "
        f"not a matrix: leave it out, or give None (matrices: {', '.join(MATRICES)})."
    ]


def any_encoding_faults(encoding: Any) -> list[str]:
    """Say why an encoding fits no descriptor at all, if it fits none."""
    return [] if encoding is None else name_faults("encoding", encoding, (*ENCODINGS, "none"))


def combination_faults(
    substructure: str,
    descriptor: str,
    encoding: Any,
    radius: Sequence[int],
    quantities: Sequence[str],
    alpha: float,
    exponent: float,
) -> list[str]:
    """Say which choices, each available on its own, do not go together."""
    faults = encoding_faults(descriptor, encoding)
    if descriptor in WHOLE_GRAPH_SCALARS:
        if substructure != "union":
            faults.append(
                f"descriptor {descriptor!r} is taken in the whole graph, so substructure "
                f"{substructure!r} does not apply: leave it out (allowed: union)."
            )
        if tuple(radius) != (1,):
            faults.append(
                f"descriptor {descriptor!r} is taken in the whole graph, so radius "
                f"{list(radius)} does not apply: leave it out (allowed: 1)."
            )
    if "a_tree" in quantities and not has_tree_value(substructure, descriptor, encoding, radius):
        faults.append(
            "quantity 'a_tree' is defined for substructure 'union', descriptor 'path', encoding "
            f"'singular_value_sum' and radius 1 only; allowed here: {', '.join(_side_quantities())}"
            " (edges - nodes + 1 counts the cycles of any substructure)."
        )
    if alpha != DEFAULT_ALPHA and not uses_alpha(descriptor):
        faults.append(
            f"alpha {alpha:g} has no effect on descriptor {descriptor!r}: leave it out "
            f"(it belongs to {', '.join(_USES_ALPHA)})."
        )
    if exponent != DEFAULT_EXPONENT and not uses_exponent(descriptor):
        faults.append(
            f"exponent {exponent:g} has no effect on descriptor {descriptor!r}: leave it out "
            f"(it belongs to {', '.join(_USES_EXPONENT)})."
        )
    return faults


def _encodings_of(descriptor: str) -> tuple[str, ...]:
    """Encodings that say something about a matrix: the entries of a Laplacian sum to 0."""
    return tuple(e for e in ENCODINGS if (descriptor, e) != ("laplacian", "entry_sum"))


def _side_quantities() -> tuple[str, ...]:
    return tuple(q for q in QUANTITIES if q != "a_tree")
