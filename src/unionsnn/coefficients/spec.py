"""The specification of a set of coefficients, checked as a whole, with a canonical key."""

import functools
import hashlib
import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from unionsnn.base.errors import Fault, RequestError
from unionsnn.coefficients import space
from unionsnn.coefficients.engine import (
    Computation,
    Pass,
    Progress,
    check_count,
    threads_for,
)
from unionsnn.coefficients.graph import SimpleGraph
from unionsnn.coefficients.kernels.jit import compiling
from unionsnn.coefficients.passes import AnyRadius, PathColumns, RadiusOne, WholeGraphColumns
from unionsnn.coefficients.planning import MAX_HOURS, check_hours, check_time, work_of_size
from unionsnn.coefficients.space import (
    BASIC_QUANTITIES,
    DESCRIPTORS,
    QUANTITIES,
    SUBSTRUCTURES,
    name_faults,
)

ENGINE_VERSION = 1
"""Part of every key. Raise it when a change makes any value differ by more than rounding: another
definition, another treatment of loops or duplicates, a corrected defect. Do not raise it when the
engine only becomes faster, so that caches stay valid."""

MAX_RADIUS = 10_000
"""Largest radius. Subgraphs with distances beyond it are too large for any descriptor."""

FloatArray = npt.NDArray[np.float64]

# Seconds at most, for which a graph is not looked at.
_SHORT = 1.0

_COLUMN = re.compile(r"(?P<name>.+)_r(?P<radius>\d+)")


class Blocks(Protocol):
    """Store of finished ranges of undirected edges during a computation in several passes."""

    def read(self, part: int) -> Iterable[tuple[int, int, FloatArray]]:
        """Return (begin, end, values) of the finished ranges of a pass."""

    def add(self, begin: int, end: int, values: FloatArray, part: int) -> None:
        """Store the values of the edges begin..end-1 of a pass."""


@dataclass(frozen=True)
class CoefficientSpec:
    """Specification of coefficients: substructure, descriptor, encoding, radii and quantities.

    An int as radius and lists are accepted; radii and quantities are kept in canonical order. The
    tables of `space` have the choices, docs/coefficients.md their definitions.

    Args:
        substructure: Subgraph around an edge, a key of `space.SUBSTRUCTURES`.
        descriptor: A key of `space.DESCRIPTORS`: a matrix of the substructure, or a number of the
            edge inside it or in the whole graph.
        encoding: Encoding of a matrix, a key of `space.ENCODINGS`. None for a descriptor that is a
            number, for which the default also means None.
        radius: Radius of the neighbourhoods, or several.
        quantities: Keys of `space.QUANTITIES`, each one or several columns for each radius: "a",
            the coefficient; "a_tree", the a of the double star with the degrees of v and u (union,
            path, singular_value_sum, and of several radii for 1 only); "nodes", ``|V_S|``; "edges",
            ``|E_S|``; "eigenvalues", "distances" and "marked" of the path matrix, whatever the
            descriptor; "cycles", of the whole graph and once for all radii.
        alpha: Mass that stays at the end nodes, 0..1; curvature only.
        exponent: λ of the node/edge count; node_edge_count only.

    Raises:
        RequestError: Choices are not available or incompatible; all are named.
    """

    substructure: str = "union"
    descriptor: str = "path"
    encoding: str | None = space.DEFAULT_ENCODING
    radius: tuple[int, ...] = (1,)
    quantities: tuple[str, ...] = ("a",)
    alpha: float = space.DEFAULT_ALPHA
    exponent: float = space.DEFAULT_EXPONENT

    def __post_init__(self) -> None:
        """Check all choices at once, then convert them to canonical form."""
        radius = _as_tuple(self.radius)
        quantities = _as_tuple(self.quantities)
        choices = self.substructure, self.descriptor, self.encoding
        # Compatibility can be checked only if each name is known.
        faults = [
            *name_faults("substructure", self.substructure, SUBSTRUCTURES),
            *name_faults("descriptor", self.descriptor, DESCRIPTORS),
            *_radius_faults(radius),
            *(f for name in quantities for f in name_faults("quantities", name, QUANTITIES)),
            *_collection_faults("radius", radius, "1, 2, 3, ..."),
            *_collection_faults("quantities", quantities, ", ".join(QUANTITIES)),
            *space.number_faults("alpha", self.alpha, 0.0, 1.0),
            *space.number_faults("exponent", self.exponent, -np.inf, np.inf),
        ]
        if faults:
            faults += space.any_encoding_faults(self.encoding)
        else:
            faults = space.combination_faults(
                *choices, radius, quantities, self.alpha, self.exponent
            )
        if faults:
            raise RequestError(*faults)
        encoding = self.encoding if self.descriptor in space.matrices() else None
        object.__setattr__(self, "encoding", encoding)
        object.__setattr__(self, "radius", tuple(sorted(int(r) for r in radius)))
        object.__setattr__(self, "quantities", tuple(q for q in QUANTITIES if q in quantities))
        object.__setattr__(self, "alpha", float(self.alpha))
        object.__setattr__(self, "exponent", float(self.exponent))

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns, radius-major: a_r1, a_tree_r1, nodes_r1, edges_r1, a_r2, ...

        Those of the whole graph, such as cycles3, have no radius and come last.
        """
        return columns_of(self.quantities, self.radius)

    @property
    def has_tree_value(self) -> bool:
        """Whether a_tree, and thus the excess a_tree - a, is defined at radius 1."""
        return space.has_tree_value(self.substructure, self.descriptor, self.encoding, self.radius)

    @property
    def key(self) -> str:
        """Digest of the choices that have an effect and of the engine version."""
        content = {"engine_version": ENGINE_VERSION, **self.to_dict()}
        for parameter in ("alpha", "exponent"):
            if not space.uses(self.descriptor, parameter):
                del content[parameter]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def compute(
        self,
        edge_index: Any,
        num_nodes: int,
        *,
        symmetrize: bool = False,
        threads: int | None = None,
        block_size: int | None = None,
        progress: Progress | None = None,
        blocks: Blocks | None = None,
        max_hours: float | None = MAX_HOURS,
    ) -> FloatArray:
        """Compute the columns for every directed edge of a graph.

        The expected time is told before if it is over a minute: in the display that is open, else
        as a warning of `logging`.

        Args:
            edge_index: Directed edges, anything that numpy reads as integers.
            num_nodes: Number of nodes.
            symmetrize: Add the missing reverse of every edge instead of refusing the input.
            threads: Number of threads; None uses all available cores, or one for tiny work.
            block_size: Maximum number of undirected edges per thread at once; None for no limit.
            progress: Called with (done, total): total in undirected edges, done as the finished
                share of the estimated work; if radius 1 and others are requested, each edge counts
                once for each radius.
            blocks: Store of finished edges, from which an interrupted computation resumes.
            max_hours: Hours beyond which an expected time is refused; None for no limit.

        Shapes:
            edge_index [2, E] -> [E, C], one row per edge in the input's order, C = len(columns).
            The row of a self loop is 0.

        Raises:
            TypeError: edge_index or num_nodes is not an integer type.
            RequestError: The graph, threads, block_size or max_hours cannot be used as given.
            TooLongError: It would take longer than `max_hours`.
            RuntimeError: A value could not be computed.
        """
        threads = check_count("threads", threads, "all cores available")
        block_size = check_count("block_size", block_size, "no limit")
        check_hours(max_hours)
        told = functools.partial(check_time, max_hours=max_hours, kept=blocks is not None)
        with compiling():
            graph = SimpleGraph.from_edge_index(edge_index, num_nodes, symmetrize=symmetrize)
            return graph.to_directed(
                self.undirected_values(graph, threads, block_size, progress, blocks, told)
            )

    def estimated_seconds(
        self,
        edge_index: Any,
        num_nodes: int,
        *,
        symmetrize: bool = False,
        threads: int | None = None,
    ) -> float:
        """Estimate the seconds of `compute`, without the compilation of kernels.

        Beyond radius 1 the sizes of the union subgraphs of some edges tell. Right within a factor
        of two or three for the path matrix of union subgraphs; other choices take less or more.

        Args:
            edge_index: As in `compute`.
            num_nodes: As in `compute`.
            symmetrize: As in `compute`.
            threads: As in `compute`.
        """
        size = np.array([float(num_nodes)])
        most = 1e-9 * edge_index.shape[1] * len(self.radius) * float(work_of_size(size)[0])
        if most < _SHORT:
            # Small graphs come by the thousand.
            return most
        with compiling():
            graph = SimpleGraph.from_edge_index(edge_index, num_nodes, symmetrize=symmetrize)
            cost = sum(Computation(p.edge_pass).expected_cost for p in self.passes(graph).values())
        return 1e-9 * cost / (threads or threads_for(cost))

    def undirected_values(
        self,
        graph: SimpleGraph,
        threads: int | None = None,
        block_size: int | None = None,
        progress: Progress | None = None,
        blocks: Blocks | None = None,
        told: Callable[[float, int], None] | None = None,
        *,
        num_chunks: int | None = None,
        elsewhere: Callable[[int, Pass], Pass] | None = None,
    ) -> FloatArray:
        """Compute the columns of every undirected edge; the paper's radius 1 is a separate pass.

        Args:
            graph: The graph.
            threads: As in `compute`.
            block_size: As in `compute`.
            progress: As in `compute`.
            blocks: As in `compute`.
            told: Called with the expected seconds and the number of threads before the work.
            num_chunks: As in `engine.plan_chunks`.
            elsewhere: Returns what computes the pass of a number in its place.

        Shapes:
            -> [M, C].
        """
        passes = self.passes(graph)
        computations = {}
        for number, part in passes.items():
            edge_pass = elsewhere(number, part.edge_pass) if elsewhere else part.edge_pass
            known = [] if blocks is None else blocks.read(number)
            computations[number] = Computation(edge_pass, known)
        if told is not None:
            cost = sum(each.expected_cost for each in computations.values())
            workers = threads or threads_for(cost)
            told(1e-9 * cost / workers, workers)
        parts, before = [], 0
        names: list[str] = []
        total = sum(part.rounds for part in passes.values())
        for number, part in passes.items():
            keep = None if blocks is None else functools.partial(blocks.add, part=number)
            shown = _share(progress, before, part.rounds, total)
            # Its memory ends with the pass.
            computation = computations.pop(number)
            parts.append(computation.run(threads, block_size, shown, keep, num_chunks))
            names += part.columns
            before += part.rounds
        values = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
        order = [names.index(name) for name in self.columns]
        return values if order == sorted(order) else values[:, order]

    def passes(self, graph: SimpleGraph) -> dict[int, "Part"]:
        """Return the passes over a graph.

        The keys are the names of the passes in `Blocks`.

        Raises:
            RequestError: A quantity of the whole graph would take hours.
        """
        parts: dict[int, Part] = {}
        basic = [q for q in self.quantities if q in BASIC_QUANTITIES]
        whole = [q for q in self.quantities if QUANTITIES[q].of_whole_graph]
        of_paths = [q for q in self.quantities if q not in (*basic, *whole)]
        other_radii = self.radius
        if self.has_tree_value and basic:
            other_radii = tuple(r for r in self.radius if r != 1)
            parts[0] = Part(RadiusOne(graph, tuple(basic)), columns_of(basic, (1,)), 1)
        # a_tree alone has nothing at other radii.
        basic = [q for q in basic if q != "a_tree"]
        if other_radii and basic:
            edge_pass = AnyRadius(
                graph,
                self.substructure,
                self.descriptor,
                self.encoding,
                other_radii,
                basic,
                self.alpha,
                self.exponent,
            )
            parts[1] = Part(edge_pass, columns_of(basic, other_radii), len(other_radii))
        if of_paths:
            parts[2] = Part(
                PathColumns(graph, self.substructure, self.radius, of_paths),
                columns_of(of_paths, self.radius),
                len(self.radius),
            )
        if whole:
            parts[3] = Part(WholeGraphColumns(graph, whole), columns_of(whole, ()), 1)
        return parts

    def to_dict(self) -> dict[str, Any]:
        """Return the choices as strings and lists, for JSON and YAML."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    @classmethod
    def from_dict(cls, choices: Mapping[str, Any]) -> "CoefficientSpec":
        """Build a spec from the output of `to_dict`.

        Raises:
            RequestError: A key or a choice is unknown.
        """
        allowed = tuple(cls.__dataclass_fields__)
        faults = [f for key in choices for f in name_faults("coefficient key", key, allowed)]
        if faults:
            raise RequestError(*faults)
        return cls(**choices)

    @classmethod
    def from_columns(
        cls,
        columns: Iterable[str],
        *,
        substructure: str = "union",
        descriptor: str = "path",
        encoding: str | None = space.DEFAULT_ENCODING,
        alpha: float = space.DEFAULT_ALPHA,
        exponent: float = space.DEFAULT_EXPONENT,
    ) -> "CoefficientSpec":
        """Build the smallest spec that provides the given columns.

        Raises:
            RequestError: There is no column, or an unknown one.
        """
        names = _as_tuple(columns)
        if not names:
            raise RequestError(
                "columns is empty; name at least one, such as 'a_r1' "
                f"(allowed: {', '.join(_all_columns())}).",
                code="coefficient.columns",
            )
        owners = [_owner(str(name)) for name in names]
        faults = [
            fault
            for name, owner in zip(names, owners, strict=True)
            if owner is None
            for fault in name_faults("columns", name, _all_columns())
        ]
        if faults:
            raise RequestError(*faults)
        known = [owner for owner in owners if owner is not None]
        spec = cls(
            substructure,
            descriptor,
            encoding,
            tuple(sorted({radius for _, radius in known if radius is not None})) or (1,),
            tuple(sorted({quantity for quantity, _ in known})),
            alpha,
            exponent,
        )
        missing = [name for name in names if name not in spec.columns]
        if missing:
            raise RequestError(
                f"{', '.join(missing)}: a_tree is defined at radius 1 only.",
                code="coefficient.a_tree",
            )
        return spec


@dataclass(frozen=True)
class Part:
    """A pass over a graph.

    Attributes:
        edge_pass: The pass.
        columns: Names of its columns.
        rounds: How often it counts each edge in the progress.
    """

    edge_pass: Pass
    columns: tuple[str, ...]
    rounds: int


def columns_of(quantities: Iterable[str], radii: Iterable[int]) -> tuple[str, ...]:
    """Return the names of the columns of quantities at radii, in the order of both."""
    names = tuple(quantities)
    local = [
        f"{name}_r{radius}"
        for radius in radii
        for quantity in names
        if not QUANTITIES[quantity].of_whole_graph and (radius == 1 or quantity != "a_tree")
        for name in QUANTITIES[quantity].names_at(radius)
    ]
    whole = [name for q in names if QUANTITIES[q].of_whole_graph for name in QUANTITIES[q].names]
    return (*local, *whole)


def _owner(column: str) -> tuple[str, int | None] | None:
    """Return the quantity and the radius of a column; None if there is no such column."""
    match = _COLUMN.fullmatch(column)
    name, radius = (match["name"], int(match["radius"])) if match else (column, None)
    for quantity, row in QUANTITIES.items():
        names = row.names if radius is None else row.names_at(radius)
        if name in names and row.of_whole_graph == (radius is None):
            return quantity, radius
    return None


def _all_columns() -> tuple[str, ...]:
    whole = [q for q, row in QUANTITIES.items() if row.of_whole_graph]
    local = [q for q in QUANTITIES if q not in whole]
    return (*columns_of(local, (1,)), "and so on for r2, r3, ...", *columns_of(whole, ()))


def _as_tuple(value: Any) -> tuple[Any, ...]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        return (value,)
    # No more than one too many: range(10**9) is refused without being written out.
    return tuple(itertools.islice(value, MAX_RADIUS + 1))


def _radius_faults(radius: tuple[Any, ...]) -> list[Fault]:
    faults = []
    for r in radius:
        if isinstance(r, bool | np.bool_) or not isinstance(r, int | np.integer):
            text = f"radius must be an integer or a list of integers, got {r!r}."
            faults.append(Fault(text, "coefficient.radius"))
        elif not 1 <= r <= MAX_RADIUS:
            text = f"radius must lie in 1..{MAX_RADIUS}, got {r}."
            faults.append(Fault(text, "coefficient.radius"))
    return faults


def _collection_faults(option: str, values: tuple[Any, ...], allowed: str) -> list[Fault]:
    if not values:
        text = f"{option} is empty; give at least one (allowed: {allowed})."
        return [Fault(text, "coefficient.empty")]
    counts = Counter(map(str, values))
    repeated = sorted(value for value, count in counts.items() if count > 1)
    if not repeated:
        return []
    return [Fault(f"{option} names {', '.join(repeated)} more than once.", "coefficient.repeated")]


def _share(progress: Progress | None, before: int, rounds: int, of_all: int) -> Progress | None:
    """Scale the progress of one pass to all passes."""
    if progress is None or rounds == of_all:
        return progress

    def report(done: int, total: int) -> None:
        progress(before * total + rounds * done, of_all * total)

    return report
