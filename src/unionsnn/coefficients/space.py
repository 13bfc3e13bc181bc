"""The space of coefficients: the table of choices, and which can be combined.

Kernels, checks, messages, help and the tables of docs/coefficients.md are made from the rows here.
A new descriptor or encoding is a kernel and a row: docs/add_a_descriptor.md,
docs/add_an_encoding.md.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from unionsnn.base.errors import Fault
from unionsnn.base.words import nearest
from unionsnn.coefficients.kernels.arguments import Csr
from unionsnn.coefficients.kernels.betweenness import edge_betweenness
from unionsnn.coefficients.kernels.counting import cycle_count, node_edge_count
from unionsnn.coefficients.kernels.curvature import (
    curvature_in_graph,
    curvature_inside,
    float_curvature,
)
from unionsnn.coefficients.kernels.cycles import LONGEST, SHORTEST, cycle_costs, cycle_counts
from unionsnn.coefficients.kernels.marked_paths import (
    END_WEIGHT,
    distance_counts,
    extreme_eigenvalues,
    marked_spectrum,
)
from unionsnn.coefficients.kernels.neighborhoods import OVERLAP, UNION, UNION_MINUS
from unionsnn.coefficients.kernels.quotients import (
    laplacian_largest_eigenvalue,
    laplacian_singular_value_sum,
    path_entry_sum,
    path_largest_eigenvalue,
    path_singular_value_sum,
)

FloatArray = npt.NDArray[np.float64]

Reads = Literal["graph", "substructure", "quotient"]


@dataclass(frozen=True)
class Kernel:
    """A compiled function that computes the coefficient of an edge (v, u).

    Attributes:
        function: Takes what it reads, the numbers and the memory of a thread.
        reads: The whole graph, as (graph, v, u), the substructure, or its quotient by twins; the
            types are those of `kernels.arguments`.
        needs_lists: Whether it reads adjacency lists even if there are bit rows.
        for_any_alpha: Computes curvature if α is not a fraction with a small denominator.
    """

    function: Callable[..., float]
    reads: Reads
    needs_lists: bool = True
    for_any_alpha: Callable[..., float] | None = None


@dataclass(frozen=True)
class Substructure:
    """Subgraph around an edge (v, u), with B the nodes within the radius.

    Attributes:
        code: Its code in kernels.
        nodes: Its nodes.
        edges: Its edges.
        in_paper: Its name in Xu et al. (AAAI 2024).
    """

    code: int
    nodes: str
    edges: str
    in_paper: str


@dataclass(frozen=True)
class Descriptor:
    """A descriptor of a substructure S or of the edge in the whole graph.

    Attributes:
        definition: One line, with its source.
        kernel: Computes it; None for a matrix, which needs an encoding.
        parameter: The option on which its values depend.
        can_be_negative: Whether its values can be negative or sum to 0.
    """

    definition: str
    kernel: Kernel | None = None
    parameter: Literal["alpha", "exponent"] | None = None
    can_be_negative: bool = False


@dataclass(frozen=True)
class Encoding:
    """An encoding of a matrix as a number.

    Attributes:
        definition: One line.
        kernels: The kernel for each matrix that it applies to.
    """

    definition: str
    kernels: dict[str, Kernel] = field(hash=False)


@dataclass(frozen=True)
class ColumnKernel:
    """A compiled function that writes several columns of an edge.

    Attributes:
        function: Takes (quotient, lengths, matrix, values) of a substructure with marked ends (see
            `kernels.marked_paths`), or (graph, v, u, work, values), and writes to values.
        reads: The substructure or the whole graph.
        costs: Bounds the nanoseconds of each edge of a graph, where they may be without reason.
    """

    function: Callable[..., None]
    reads: Literal["graph", "substructure"]
    costs: Callable[[Csr], FloatArray] | None = None


@dataclass(frozen=True)
class Quantity:
    """One or several numbers of an edge: columns.

    Attributes:
        definition: One line.
        names: Names of its columns, without the radius.
        kernel: Computes them; None for what is computed with the coefficient.
        up_to_diameter: Whether column i exists only if S may have nodes at distance i.
    """

    definition: str
    names: tuple[str, ...]
    kernel: ColumnKernel | None = None
    up_to_diameter: bool = False

    @property
    def of_whole_graph(self) -> bool:
        """Whether it has neither a substructure nor a radius."""
        return self.kernel is not None and self.kernel.reads == "graph"

    def names_at(self, radius: int) -> tuple[str, ...]:
        """Return the names of its columns at a radius, without the radius."""
        return self.names[: 2 * radius + 1] if self.up_to_diameter else self.names


def _numbered(name: str, first: int, last: int) -> tuple[str, ...]:
    return tuple(f"{name}{number}" for number in range(first, last + 1))


SUBSTRUCTURES = {
    "union": Substructure(
        UNION,
        "B_v ∪ B_u",
        "all edges of the graph between them: E1, E2, E3, E4",
        "union subgraph",
    ),
    "overlap": Substructure(
        OVERLAP,
        "B_v ∩ B_u",
        "all edges of the graph between them: E1",
        "S_v ∩ S_u",
    ),
    "union_minus": Substructure(
        UNION_MINUS,
        "B_v ∪ B_u",
        "those inside B_v and those inside B_u: E1, E2, E4",
        "S_v ∪ S_u",
    ),
}

DESCRIPTORS = {
    "path": Descriptor("matrix P, P_ij the length of a shortest path inside S (eq. 2)"),
    "laplacian": Descriptor("matrix L = D - A of S"),
    "edge_betweenness": Descriptor(
        "Σ over unordered pairs {s, t} of σ_st(v, u) / σ_st in S (eq. 7)",
        Kernel(edge_betweenness, "substructure", needs_lists=False),
    ),
    "node_edge_count": Descriptor(
        "|E_S| / (|V_S| · |V_S - 1|) · |V_S|^λ (eq. 8), λ the exponent",
        Kernel(node_edge_count, "substructure", needs_lists=False),
        parameter="exponent",
    ),
    "curvature": Descriptor(
        "1 - W1(μ_v, μ_u) in S (eqs. 9-11)",
        Kernel(curvature_inside, "substructure", for_any_alpha=float_curvature),
        parameter="alpha",
        can_be_negative=True,
    ),
    "curvature_graph": Descriptor(
        "1 - W1(μ_v, μ_u) in the whole graph, as in CurvGN",
        Kernel(curvature_in_graph, "graph", for_any_alpha=float_curvature),
        parameter="alpha",
        can_be_negative=True,
    ),
    "cycle_count": Descriptor(
        "number of simple cycles of length 3 to 6 through (v, u) in the whole graph",
        Kernel(cycle_count, "graph"),
    ),
}

ENCODINGS = {
    "singular_value_sum": Encoding(
        "Σ σ_i, the sum of the singular values",
        {
            "path": Kernel(path_singular_value_sum, "quotient", needs_lists=False),
            "laplacian": Kernel(laplacian_singular_value_sum, "substructure", needs_lists=False),
        },
    ),
    "entry_sum": Encoding(
        "sum of the entries",
        # The entries of a Laplacian sum to 0.
        {"path": Kernel(path_entry_sum, "quotient", needs_lists=False)},
    ),
    "largest_eigenvalue": Encoding(
        "largest eigenvalue",
        {
            "path": Kernel(path_largest_eigenvalue, "quotient", needs_lists=False),
            "laplacian": Kernel(laplacian_largest_eigenvalue, "quotient", needs_lists=False),
        },
    ),
}

_LONGEST_DISTANCE = 7

QUANTITIES = {
    "a": Quantity("the coefficient: the descriptor, as a number by its encoding", ("a",)),
    "a_tree": Quantity("a of the double star with the end degrees of v and u", ("a_tree",)),
    "nodes": Quantity("|V_S|", ("nodes",)),
    "edges": Quantity("|E_S|", ("edges",)),
    "eigenvalues": Quantity(
        "eigenvalues of P: the largest, the second largest, the smallest, the second smallest",
        _numbered("eigenvalues", 1, 4),
        ColumnKernel(extreme_eigenvalues, "substructure"),
    ),
    "distances": Quantity(
        "number of pairs of nodes at distance 1, 2, … in S, up to 2r + 1; from "
        f"{_LONGEST_DISTANCE} on together",
        _numbered("distances", 1, _LONGEST_DISTANCE),
        ColumnKernel(distance_counts, "substructure"),
        up_to_diameter=True,
    ),
    "marked": Quantity(
        "the same eigenvalues, and the sum of the singular values, of D P D with D diagonal, "
        f"D_ii = {END_WEIGHT:g} for v and u and 1 for other nodes",
        _numbered("marked", 1, 5),
        ColumnKernel(marked_spectrum, "substructure"),
    ),
    "cycles": Quantity(
        f"number of simple cycles through (v, u) of each length from {SHORTEST} to {LONGEST}, in "
        "the whole graph",
        _numbered("cycles", SHORTEST, LONGEST),
        ColumnKernel(cycle_counts, "graph", cycle_costs),
    ),
}
"""Quantities of an edge, in canonical order; those of the whole graph last."""

BASIC_QUANTITIES = tuple(name for name, row in QUANTITIES.items() if row.kernel is None)
"""Quantities computed with the coefficient."""

PAPER = ("union", "path", "singular_value_sum")
"""The choices of Xu et al. (AAAI 2024); the default."""

DEFAULT_ENCODING = PAPER[2]
DEFAULT_ALPHA = 0.5
DEFAULT_EXPONENT = 2.0


def matrices() -> tuple[str, ...]:
    """Return the descriptors that are matrices of the substructure."""
    return tuple(name for name, row in DESCRIPTORS.items() if row.kernel is None)


def is_of_whole_graph(descriptor: str) -> bool:
    """Return whether a descriptor has neither a substructure nor a radius."""
    kernel = DESCRIPTORS[descriptor].kernel
    return kernel is not None and kernel.reads == "graph"


def encodings_of(descriptor: str) -> tuple[str | None, ...]:
    """Return the encodings that a descriptor allows; only None for a number."""
    if DESCRIPTORS[descriptor].kernel is not None:
        return (None,)
    return tuple(name for name, row in ENCODINGS.items() if descriptor in row.kernels)


def kernel_of(descriptor: str, encoding: str | None) -> Kernel:
    """Return the kernel of compatible choices."""
    if encoding is not None:
        return ENCODINGS[encoding].kernels[descriptor]
    kernel = DESCRIPTORS[descriptor].kernel
    assert kernel is not None, f"{descriptor} is a matrix"
    return kernel


def column_functions(reads: Reads) -> list[Callable[..., None]]:
    """Return all functions of quantities with the same input, called by their positions."""
    kernels = [row.kernel for row in QUANTITIES.values() if row.kernel is not None]
    return [kernel.function for kernel in kernels if kernel.reads == reads]


def uses(descriptor: str, parameter: str) -> bool:
    """Return whether the values of a descriptor depend on a parameter, alpha or exponent."""
    return DESCRIPTORS[descriptor].parameter == parameter


def has_tree_value(
    substructure: str, descriptor: str, encoding: str | None, radius: Sequence[int]
) -> bool:
    """Return whether a_tree, and thus the excess a_tree - a, is defined at the first radius."""
    return (substructure, descriptor, encoding) == PAPER and 1 in radius


def name_faults(option: str, value: Any, allowed: Iterable[str]) -> list[Fault]:
    """Return a fault if a value is not one of the allowed names."""
    allowed = tuple(allowed)
    if isinstance(value, str) and value in allowed:
        return []
    hint = nearest(str(value), allowed)
    text = f"{option} {value!r} is not available; allowed: {', '.join(allowed)}.{hint}"
    return [Fault(text, "coefficient.unknown")]


def number_faults(option: str, value: Any, low: float, high: float) -> list[Fault]:
    """Return a fault if a value is not a finite number within bounds."""
    number = isinstance(value, int | float | np.integer | np.floating)
    if number and not isinstance(value, bool) and math.isfinite(value) and low <= value <= high:
        return []
    bounds = f" in {low:g}..{high:g}" if math.isfinite(low) else ""
    text = f"{option} must be a finite number{bounds}, got {value!r}."
    return [Fault(text, "coefficient.number")]


def encoding_faults(descriptor: str, encoding: Any) -> list[Fault]:
    """Return a fault if an encoding does not fit a descriptor.

    A descriptor that is a number has no encoding: None, "none" and the default, which nobody chose
    explicitly, all mean that.
    """
    none = encoding is None or encoding == "none"
    allowed = encodings_of(descriptor)
    if allowed == (None,):
        if none or encoding == DEFAULT_ENCODING:
            return []
        text = (
            f"encoding {encoding!r} does not apply to descriptor {descriptor!r}, which is a "
            "number, not a matrix: leave it out, or give None (matrices: "
            f"{', '.join(matrices())})."
        )
        return any_encoding_faults(encoding) or [Fault(text, "coefficient.encoding")]
    listed = f"allowed: {', '.join(map(str, allowed))}."
    if none:
        text = f"descriptor {descriptor!r} is a matrix and needs an encoding; {listed}"
        return [Fault(text, "coefficient.encoding")]
    faults = name_faults("encoding", encoding, ENCODINGS)
    if not faults and encoding not in allowed:
        text = f"encoding {encoding!r} does not apply to descriptor {descriptor!r}; {listed}"
        faults = [Fault(text, "coefficient.encoding")]
    return faults


def any_encoding_faults(encoding: Any) -> list[Fault]:
    """Return a fault if an encoding fits no descriptor at all."""
    return [] if encoding is None else name_faults("encoding", encoding, (*ENCODINGS, "none"))


def combination_faults(
    substructure: str,
    descriptor: str,
    encoding: Any,
    radius: Sequence[int],
    quantities: Sequence[str],
    alpha: float,
    exponent: float,
) -> list[Fault]:
    """Return faults for choices that are available on their own but incompatible."""
    faults = encoding_faults(descriptor, encoding)
    if is_of_whole_graph(descriptor):
        for option, value, only in (
            ("substructure", repr(substructure), "'union'"),
            ("radius", str(list(radius)), "[1]"),
        ):
            if value != only:
                text = (
                    f"descriptor {descriptor!r} is one of the whole graph, so {option} {value} "
                    f"does not apply: leave it out (allowed: {only.strip('[]')})."
                )
                faults.append(Fault(text, "coefficient.whole_graph"))
    if all(QUANTITIES[name].of_whole_graph for name in quantities):
        for option, given_choice, without in (
            ("substructure", substructure, PAPER[0]),
            ("radius", str(list(radius)), "[1]"),
        ):
            if given_choice != without:
                text = (
                    f"quantities {', '.join(quantities)} are of the whole graph, so {option} "
                    f"{given_choice} does not apply: leave it out, or ask for another quantity too."
                )
                faults.append(Fault(text, "coefficient.whole_graph"))
    if "a_tree" in quantities and not has_tree_value(substructure, descriptor, encoding, radius):
        others = ", ".join(name for name in QUANTITIES if name != "a_tree")
        text = (
            f"quantity 'a_tree' is defined for {paper_choices()} only; allowed here: {others} "
            "(edges - nodes + 1 counts the cycles of any substructure)."
        )
        faults.append(Fault(text, "coefficient.a_tree"))
    for option, given, default in (
        ("alpha", alpha, DEFAULT_ALPHA),
        ("exponent", exponent, DEFAULT_EXPONENT),
    ):
        if given != default and not uses(descriptor, option):
            owners = ", ".join(name for name in DESCRIPTORS if uses(name, option))
            text = (
                f"{option} {given:g} has no effect on descriptor {descriptor!r}: leave it out "
                f"(it belongs to {owners})."
            )
            faults.append(Fault(text, "coefficient.no_effect"))
    return faults


def paper_choices() -> str:
    """Describe the choices for which a_tree and the excess are defined."""
    substructure, descriptor, encoding = PAPER
    return (
        f"substructure {substructure!r}, descriptor {descriptor!r}, encoding {encoding!r} and "
        "radius 1"
    )
