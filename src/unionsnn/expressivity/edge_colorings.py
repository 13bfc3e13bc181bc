"""Colourings of edges by name, such as a, a~@2, overlap@1+2 or rooted@5."""

from __future__ import annotations

from dataclasses import dataclass

from unionsnn.base.errors import RequestError
from unionsnn.base.words import nearest
from unionsnn.coefficients import space
from unionsnn.coefficients.spec import CoefficientSpec

NAMED = {
    "a": ("union", "path", "singular_value_sum"),
    "matrix_sum": ("union", "path", "entry_sum"),
    "eigen_max": ("union", "path", "largest_eigenvalue"),
    "laplacian": ("union", "laplacian", "singular_value_sum"),
    "betweenness": ("union", "edge_betweenness", None),
    "count": ("union", "node_edge_count", None),
    "curvature": ("union", "curvature", None),
    "overlap": ("overlap", "path", "singular_value_sum"),
    "union_minus": ("union_minus", "path", "singular_value_sum"),
    "curvature_graph": ("union", "curvature_graph", None),
    "cycle_count": ("union", "cycle_count", None),
}
"""Coefficients by name in conf/coefficient, with `a` for the paper's."""

COLUMNS = tuple(name for name in space.QUANTITIES if name not in space.BASIC_QUANTITIES)
"""Quantities of several columns, all of which colour an edge."""

FORMS = ("excess", "cyclomatic", "spectrum", "rooted", *COLUMNS)
"""Other values of a union subgraph: a_tree - a; |E_S| - |V_S| + 1; fingerprints; columns."""

_OF_WHOLE_GRAPH = tuple(name for name in COLUMNS if space.QUANTITIES[name].of_whole_graph)
_LARGEST_RADIUS = 100

DEFAULT = (
    "1wl", "a~", "a", "a@2", "a@3", "a@1+2+3", "excess", "cyclomatic",
    "spectrum", "spectrum@2", "spectrum@1+2", "rooted", "rooted@2",
)  # fmt: skip
"""Default choices; each takes less than a minute on the 400 pairs of BREC."""


@dataclass(frozen=True)
class EdgeColoring:
    """A colouring of edges by one or several numbers.

    Attributes:
        name: Its name, as typed.
        form: raw, normalized, one of `FORMS`, or none for plain 1-WL.
        spec: Its coefficients; None for plain 1-WL.
    """

    name: str
    form: str
    spec: CoefficientSpec | None

    @property
    def radii(self) -> tuple[int, ...]:
        """Radii, ascending."""
        return () if self.spec is None else self.spec.radius

    @property
    def local(self) -> bool:
        """Whether it depends on a substructure rather than on the whole graph."""
        if self.spec is None or self.form in _OF_WHOLE_GRAPH:
            return False
        return not space.is_of_whole_graph(self.spec.descriptor)

    @classmethod
    def parse(cls, text: str) -> EdgeColoring:
        """Parse a colouring: NAME or NAME~, with @1+2 for radii.

        NAME is 1wl, a key of `NAMED`, one of `FORMS`, or SUBSTRUCTURE/DESCRIPTOR[/ENCODING]; ~
        divides by the sum over the receiver's edges.

        Raises:
            RequestError: It is invalid; says what is allowed.
        """
        name, at, radii = text.partition("@")
        if name == "1wl" and not at:
            return cls(text, "none", None)
        if at and not all(part.isascii() and part.isdigit() for part in radii.split("+")):
            raise RequestError(
                f"choice {text!r}: {radii!r} is not a radius; write @2, or @1+2 for two.",
                code="expressivity.radius",
            )
        radius = tuple(int(part) for part in radii.split("+")) if at else (1,)
        if max(radius) > _LARGEST_RADIUS:
            raise RequestError(
                f"choice {text!r}: radius {max(radius)} is over {_LARGEST_RADIUS}; beyond the "
                "diameter of a graph nothing changes.",
                code="expressivity.radius",
            )
        base = name.removesuffix("~")
        form = "normalized" if base != name else "raw"
        quantities: tuple[str, ...] = ("a", "nodes", "edges")
        if name in FORMS:
            form, base = name, "a"
            quantities = ("nodes", "edges")
            if name in COLUMNS:
                quantities = (name,) if name in _OF_WHOLE_GRAPH else ("nodes", "edges", name)
            if name == "excess":
                quantities = ("a", "a_tree", "nodes", "edges")
                if radius != (1,):
                    raise RequestError(
                        f"choice {text!r}: excess is defined at radius 1 only.",
                        code="expressivity.radius",
                    )
        parts = NAMED.get(base) or base.split("/")
        if len(parts) not in (2, 3):
            names = ("1wl", *NAMED, *FORMS)
            raise RequestError(
                f"choice {text!r} is unknown; allowed: {', '.join(names)}, or "
                "SUBSTRUCTURE/DESCRIPTOR[/ENCODING], each with ~ and @RADIUS where it applies; "
                f"or all for everything.{nearest(base, names)}",
                code="expressivity.choice",
            )
        substructure, descriptor, encoding = (*parts, None)[:3]
        try:
            spec = CoefficientSpec(substructure, descriptor, encoding, radius, quantities)
        except ValueError as error:
            raise RequestError(f"choice {text!r}: {error}", code="expressivity.choice") from error
        return cls(text, form, spec)


def all_colorings(radii: tuple[int, ...] = (1, 2, 3)) -> list[EdgeColoring]:
    """Return all combinations of choices and radii, raw and normalised, and all forms.

    Cycles by length are left out: on dense graphs they are refused.
    """
    whole = [d for d in space.DESCRIPTORS if space.is_of_whole_graph(d)]
    local = [(d, e) for d in space.DESCRIPTORS if d not in whole for e in space.encodings_of(d)]
    short = {parts: name for name, parts in NAMED.items()}
    parts = [(s, d, e) for s in space.SUBSTRUCTURES for d, e in local]
    bases = [short.get(each) or "/".join(filter(None, each)) for each in parts]
    names = [f"{base}{mark}@{r}" for base in bases for r in radii for mark in ("", "~")]
    names += [f"{d}{mark}" for d in whole for mark in ("", "~")]
    at_radii = [form for form in FORMS if form not in ("excess", *_OF_WHOLE_GRAPH)]
    names += [f"{form}@{r}" for form in at_radii for r in radii]
    return [EdgeColoring.parse(name) for name in ("1wl", "excess", *names)]


def parse_colorings(text: str | None) -> list[EdgeColoring]:
    """Parse comma-separated names; None is the default, ``all`` means all of them.

    Raises:
        RequestError: Colourings are unknown; names all of them.
    """
    if text == "all":
        return all_colorings()
    names = DEFAULT if text is None else tuple(t.strip() for t in text.split(",") if t.strip())
    if not names:
        raise RequestError(
            "--choices is empty; name one, such as a@2, or all.", code="expressivity.choice"
        )
    colorings, faults = list[EdgeColoring](), list[str]()
    for name in dict.fromkeys(names):
        try:
            colorings.append(EdgeColoring.parse(name))
        except RequestError as error:
            faults += error.faults
    if faults:
        raise RequestError(*faults)
    return colorings
