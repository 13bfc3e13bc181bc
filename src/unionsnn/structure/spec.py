"""The choices behind a set of coefficients, checked together and given a canonical key."""

import difflib
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from unionsnn.structure.engine import Progress, check_threads, compute_columns
from unionsnn.structure.graph import SimpleGraph
from unionsnn.structure.radius_one import COLUMNS

ENGINE_VERSION = 1
"""Part of every key. Raise it when a change makes any value differ by more than rounding: another
definition, another treatment of loops or duplicates, a corrected defect. A change that only makes
the engine faster leaves it alone, so that caches stay valid."""

SUBSTRUCTURES = ("union",)
DESCRIPTORS = ("path",)
ENCODINGS = ("singular_value_sum",)
RADII = (1,)
QUANTITIES = COLUMNS

_COLUMN = re.compile(r"(?P<quantity>.+)_r(?P<radius>\d+)")


@dataclass(frozen=True)
class CoefficientSpec:
    """Which coefficients: the substructure, its descriptor, the encoding, radii and quantities.

    An int as radius and lists are accepted; radii and quantities are kept in canonical order.

    Args:
        substructure: Subgraph around an edge (v, u): "union", induced on N[v] ∪ N[u].
        descriptor: Matrix of the subgraph: "path", the matrix P of shortest-path lengths inside
            it (Xu et al., AAAI 2024, eq. 2).
        encoding: Number made of the matrix: "singular_value_sum", a = Σ σ_i(P).
        radius: Radius of the neighbourhoods, or several.
        quantities: Columns for each radius: "a"; "a_tree", the a of the double star with the
            degrees of v and u; "nodes", |V_S|; "edges", |E_S|.

    Raises:
        ValueError: One or more choices are not available; all of them are named.
    """

    substructure: str = "union"
    descriptor: str = "path"
    encoding: str = "singular_value_sum"
    radius: tuple[int, ...] = (1,)
    quantities: tuple[str, ...] = ("a",)

    def __post_init__(self) -> None:
        """Check all choices at once, then bring them into canonical form."""
        radius = _as_tuple(self.radius)
        quantities = _as_tuple(self.quantities)
        faults = [
            *_name_faults("substructure", self.substructure, SUBSTRUCTURES),
            *_name_faults("descriptor", self.descriptor, DESCRIPTORS),
            *_name_faults("encoding", self.encoding, ENCODINGS),
            *_radius_faults(radius),
            *(f for name in quantities for f in _name_faults("quantities", name, QUANTITIES)),
            *_collection_faults("radius", radius, RADII),
            *_collection_faults("quantities", quantities, QUANTITIES),
        ]
        if faults:
            raise ValueError("\n".join(faults))
        object.__setattr__(self, "radius", tuple(sorted(int(r) for r in radius)))
        object.__setattr__(self, "quantities", tuple(q for q in QUANTITIES if q in quantities))

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns, radius-major: a_r1, a_tree_r1, nodes_r1, edges_r1."""
        return tuple(f"{quantity}_r{r}" for r in self.radius for quantity in self.quantities)

    @property
    def key(self) -> str:
        """Digest of the choices and the engine's version, whatever order they were given in."""
        content = {"engine_version": ENGINE_VERSION, **self.to_dict()}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def compute(
        self,
        edge_index: Any,
        num_nodes: int,
        *,
        symmetrize: bool = False,
        threads: int | None = None,
        progress: Progress | None = None,
    ) -> npt.NDArray[np.float64]:
        """Compute the columns for every directed edge of a graph.

        Args:
            edge_index: Directed edges, anything that numpy reads as integers.
            num_nodes: Number of nodes.
            symmetrize: Add the missing reverse of every edge instead of refusing the input.
            threads: Number of threads; None uses the cores available, but one for tiny work.
            progress: Called with (edges done, edges in all), undirected edges.

        Shapes:
            edge_index [2, E] -> [E, C], one row per edge in the input's order, C = len(columns).
            The row of a self loop is 0.

        Raises:
            TypeError: edge_index or num_nodes is not of integers.
            ValueError: The graph or threads cannot be used as given.
        """
        threads = check_threads(threads)
        graph = SimpleGraph.from_edge_index(edge_index, num_nodes, symmetrize=symmetrize)
        values = compute_columns(graph, self.quantities, threads=threads, progress=progress)
        # The loops' index, -1, then points at the row of zeros.
        rows = np.concatenate([values, np.zeros((1, values.shape[1]))])
        return rows[graph.edge_to_undirected]

    def to_dict(self) -> dict[str, Any]:
        """Return the choices as strings and lists, for JSON and YAML."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    @classmethod
    def from_dict(cls, choices: Mapping[str, Any]) -> "CoefficientSpec":
        """Build a spec from what `to_dict` returned.

        Raises:
            ValueError: A key or a choice is unknown.
        """
        allowed = tuple(cls.__dataclass_fields__)
        faults = [f for key in choices for f in _name_faults("coefficient key", key, allowed)]
        if faults:
            raise ValueError("\n".join(faults))
        return cls(**choices)

    @classmethod
    def from_columns(
        cls,
        columns: Iterable[str],
        *,
        substructure: str = "union",
        descriptor: str = "path",
        encoding: str = "singular_value_sum",
    ) -> "CoefficientSpec":
        """Build the smallest spec that provides the given columns.

        Raises:
            ValueError: No column, or one that is unknown.
        """
        names = _as_tuple(columns)
        if not names:
            raise ValueError(
                "columns is empty; name at least one, such as 'a_r1' "
                f"(allowed: {', '.join(_all_columns())})."
            )
        matches = [_COLUMN.fullmatch(str(name)) for name in names]
        faults = [
            fault
            for name, match in zip(names, matches, strict=True)
            if match is None or match["quantity"] not in QUANTITIES
            for fault in _name_faults("columns", name, _all_columns())
        ]
        if faults:
            raise ValueError("\n".join(faults))
        found = [match for match in matches if match is not None]
        return cls(
            substructure,
            descriptor,
            encoding,
            tuple(sorted({int(match["radius"]) for match in found})),
            tuple(sorted({match["quantity"] for match in found})),
        )


def _all_columns() -> tuple[str, ...]:
    return tuple(f"{quantity}_r{r}" for r in RADII for quantity in QUANTITIES)


def _as_tuple(value: Any) -> tuple[Any, ...]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        return (value,)
    return tuple(value)


def _name_faults(option: str, value: Any, allowed: Sequence[str]) -> list[str]:
    """Say why a value is not one of the allowed names, if it is not."""
    if isinstance(value, str) and value in allowed:
        return []
    close = difflib.get_close_matches(str(value), allowed, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return [f"{option} {value!r} is not available; allowed: {', '.join(allowed)}.{hint}"]


def _radius_faults(radius: tuple[Any, ...]) -> list[str]:
    allowed = ", ".join(map(str, RADII))
    faults = []
    for r in radius:
        if isinstance(r, bool | np.bool_) or not isinstance(r, int | np.integer):
            faults.append(f"radius must be an integer or a list of integers, got {r!r}.")
        elif r < 1:
            faults.append(f"radius must be at least 1, got {r} (allowed: {allowed}).")
        elif r not in RADII:
            faults.append(f"radius {r} is not supported yet (allowed: {allowed}).")
    return faults


def _collection_faults(option: str, values: tuple[Any, ...], allowed: Sequence[Any]) -> list[str]:
    names = ", ".join(map(str, allowed))
    if not values:
        return [f"{option} is empty; give at least one (allowed: {names})."]
    repeated = sorted({str(value) for value in values if values.count(value) > 1})
    return [f"{option} names {', '.join(repeated)} more than once."] if repeated else []
