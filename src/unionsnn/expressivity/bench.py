"""Bench: what edge colourings tell apart by colour refinement, with controls.

Every graph has a copy with its nodes in another order. A colouring that tells a graph from its own
copy is at fault, and the family does not count as told apart. Verdicts that depend on the tolerance
for equal numbers are counted as unstable.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from unionsnn.coefficients.engine import Progress
from unionsnn.coefficients.spec import columns_of
from unionsnn.expressivity.color_refinement import (
    TOLERANCE,
    GraphUnion,
    Margin,
    edge_colors,
    graph_classes,
    refine,
)
from unionsnn.expressivity.edge_colorings import COLUMNS, EdgeColoring
from unionsnn.expressivity.fingerprints import fingerprints
from unionsnn.expressivity.graph_sets import Family, load_set

BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_TOLERANCE_FACTOR = 100.0


@dataclass(frozen=True, eq=False)
class Outcome:
    """Outcome of a colouring.

    Attributes:
        coloring: The colouring.
        classes: Number of classes that it finds in each family.
        pairs: Number of pairs of graphs in each family that it tells apart.
        told: Whether it tells all graphs of a family from each other, and none from its copy.
        at_fault: Whether it tells a graph of the family from its own relabelled copy.
        unstable: Whether the classes change if the tolerance is 100 times smaller or larger.
        whole: Whether every edge's substructure in the family is the whole graph; None for a
            colouring without substructures.
        margin: How clearly numbers were equal or different.
        seconds: Time taken.

    Shapes:
        classes, pairs, told, at_fault, unstable, whole [F].
    """

    coloring: EdgeColoring
    classes: IntArray
    pairs: IntArray
    told: BoolArray
    at_fault: BoolArray
    unstable: BoolArray
    whole: BoolArray | None
    margin: Margin
    seconds: float


class Bench:
    """Families of graphs, each graph followed by a relabelled copy, with the values of edges.

    Args:
        families: The families.
        seed: Seed of the relabellings.
        threads: Number of threads of the coefficient engine; None for all cores.
    """

    def __init__(
        self, families: Sequence[Family], *, seed: int = 0, threads: int | None = None
    ) -> None:
        self.families = tuple(families)
        self.threads = threads
        generator = np.random.default_rng(seed)
        graphs = []
        for family in families:
            for edge_index, num_nodes in family.graphs:
                graphs.append((edge_index, num_nodes))
                graphs.append((generator.permutation(num_nodes)[edge_index], num_nodes))
        self.union = GraphUnion.of(graphs)
        sizes = [len(family.graphs) for family in families]
        self._slices = np.cumsum([0, *sizes])
        family_of_graph = np.repeat(np.arange(len(sizes)), 2 * np.array(sizes, np.int64))
        self._family_of_edge = family_of_graph[self.union.graph_of_edge]
        self._known: dict[str, tuple[tuple[str, ...], FloatArray]] = {}

    def run(self, coloring: EdgeColoring, progress: Progress | None = None) -> Outcome:
        """Measure a colouring on all families."""
        begin = time.perf_counter()
        values = self.values(coloring, progress)
        classes, margin = self._classes(values, TOLERANCE)
        unstable = np.zeros(len(self.families), np.bool_)
        if not margin.exact:
            for tolerance in (TOLERANCE / _TOLERANCE_FACTOR, TOLERANCE * _TOLERANCE_FACTOR):
                other, _ = self._classes(values, tolerance)
                unstable |= [not np.array_equal(a, b) for a, b in zip(classes, other, strict=True)]
        at_fault = np.array([(row[::2] != row[1::2]).any() for row in classes], np.bool_)
        counts = np.array([len(np.unique(row[::2])) for row in classes], np.int64)
        pairs = np.array([_pairs_told(row[::2]) for row in classes], np.int64)
        everything = counts == np.array([len(f.graphs) for f in self.families])
        return Outcome(
            coloring,
            counts,
            pairs,
            everything & ~at_fault,
            at_fault,
            unstable,
            self._whole(coloring),
            margin,
            time.perf_counter() - begin,
        )

    def values(self, coloring: EdgeColoring, progress: Progress | None = None) -> npt.NDArray[Any]:
        """Return the values of all directed edges (u, v), as seen from v.

        Shapes:
            -> [E, C]; C = 0 for plain 1-WL.
        """
        union = self.union
        if coloring.spec is None:
            return np.empty((union.edge_index.shape[1], 0))
        if coloring.form in ("spectrum", "rooted"):
            residues = fingerprints(
                union.graph, coloring.form, coloring.spec.radius, progress=progress
            )
            return union.graph.to_directed(residues.astype(np.float64))
        columns, values = self._columns(coloring, progress)
        if coloring.form in COLUMNS:
            names = columns_of([coloring.form], coloring.radii)
            return values[:, [columns.index(name) for name in names]]

        def of(quantity: str) -> FloatArray:
            return values[:, [columns.index(f"{quantity}_r{r}") for r in coloring.radii]]

        if coloring.form == "cyclomatic":
            return of("edges") - of("nodes") + 1.0
        if coloring.form == "excess":
            return of("a_tree") - of("a")
        return self._normalized(of("a")) if coloring.form == "normalized" else of("a")

    def graph_classes(self, values: npt.NDArray[Any]) -> IntArray:
        """Return the class of each graph of the first family, given edge values.

        Shapes:
            values [E, C] -> [G].
        """
        return self._classes(values, TOLERANCE)[0][0][::2]

    def _columns(
        self, coloring: EdgeColoring, progress: Progress | None = None
    ) -> tuple[tuple[str, ...], FloatArray]:
        """Return the columns of a colouring's coefficient, computed once."""
        assert coloring.spec is not None
        if coloring.spec.key not in self._known:
            values = coloring.spec.compute(
                self.union.edge_index,
                self.union.graph.num_nodes,
                threads=self.threads,
                progress=progress,
            )
            self._known = {coloring.spec.key: (coloring.spec.columns, values)}
        return self._known[coloring.spec.key]

    def _normalized(self, a: FloatArray) -> FloatArray:
        """Return ã: a_vu over the sum of receiver v; 0 if the sum is 0, as for curvatures."""
        receivers = self.union.edge_index[1]
        result = np.zeros_like(a)
        for column, row in zip(a.T, result.T, strict=True):
            total = np.bincount(receivers, column, self.union.graph.num_nodes)[receivers]
            np.divide(column, total, out=row, where=np.abs(total) > 1e-9)
        return result

    def _classes(self, values: npt.NDArray[Any], tolerance: float) -> tuple[list[IntArray], Margin]:
        """Return the class of each graph and copy by family, in order of appearance."""
        colors, margin = edge_colors(values, self._family_of_edge, tolerance)
        classes = graph_classes(self.union, refine(self.union, colors))
        parts = np.split(classes, 2 * self._slices[1:-1])
        return [_renumbered(part) for part in parts], margin

    def _whole(self, coloring: EdgeColoring) -> BoolArray | None:
        """Return whether every substructure of the largest radius is its whole graph."""
        if coloring.spec is None or not coloring.local:
            return None
        columns, values = self._columns(coloring)
        radius = coloring.spec.radius[-1]
        graph_of_edge, union = self.union.graph_of_edge, self.union
        num_nodes = np.diff(union.node_slices)
        num_edges = np.bincount(graph_of_edge, minlength=union.num_graphs) // 2
        part = (values[:, columns.index(f"nodes_r{radius}")] != num_nodes[graph_of_edge]) | (
            values[:, columns.index(f"edges_r{radius}")] != num_edges[graph_of_edge]
        )
        parts, edges = (
            np.bincount(self._family_of_edge[kept], minlength=len(self.families))
            for kept in (part, slice(None))
        )
        return np.asarray((parts == 0) & (edges > 0))


def _renumbered(classes: IntArray) -> IntArray:
    """Number classes by their first member."""
    _, first, inverse = np.unique(classes, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse.reshape(-1)]


def _pairs_told(classes: IntArray) -> int:
    sizes = np.bincount(classes)
    return int(len(classes) ** 2 - (sizes**2).sum()) // 2


def measure(
    sets: Sequence[str],
    choices: Sequence[EdgeColoring],
    *,
    root: Path,
    mirror: str | None = None,
    offline: bool = False,
    family: bool = False,
    seed: int = 0,
    threads: int | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> dict[str, Any]:
    """Measure choices on sets; return plain types for JSON.

    Args:
        sets: Names of sets, or files of graphs.
        choices: The choices.
        root: The data root.
        mirror: Mirror to try before the upstream address.
        offline: Whether to never access http(s) addresses.
        family: Whether the graphs of each file are one family, not pairs.
        seed: Seed of the relabelled copies.
        threads: Number of threads of the engine; None for all cores.
        progress: Called with (what, done, total).

    Raises:
        DataError: A set could not be obtained.
    """
    loaded = {
        name: load_set(name, root=root, mirror=mirror, offline=offline, family=family)
        for name in dict.fromkeys(sets)
    }
    results = []
    for name, families in loaded.items():
        bench = Bench(families, seed=seed, threads=threads)
        members: dict[str, list[int]] = {}
        for i, each in enumerate(families):
            members.setdefault(each.category, []).append(i)
        sizes = {
            category: {"families": len(rows), "graphs": len(families[rows[0]].graphs)}
            for category, rows in members.items()
        }
        outcomes = []
        for choice in choices:

            def report(done: int, total: int, what: str = f"{name}, {choice.name}") -> None:
                if progress is not None:
                    progress(what, done, total)

            outcomes.append(_counts(families, members, bench.run(choice, report)))
        results.append({"set": name, "categories": sizes, "choices": outcomes})
    return {"seed": seed, "sets": results}


def _counts(
    families: Sequence[Family], members: Mapping[str, list[int]], outcome: Outcome
) -> dict[str, Any]:
    """Count an outcome by category; families in which S is the whole graph separately."""
    categories = {}
    for category, rows in members.items():
        told = outcome.told[rows]
        whole = None if outcome.whole is None else outcome.whole[rows]
        categories[category] = {
            "told": int(told.sum()),
            "classes": int(outcome.classes[rows].sum()),
            "pairs_told": int(outcome.pairs[rows].sum()),
            "whole": None if whole is None else int(whole.sum()),
            "told_where_not_whole": None if whole is None else int(told[~whole].sum()),
            "missed": [families[i].name for i in rows if not outcome.told[i]],
            "at_fault": int(outcome.at_fault[rows].sum()),
            "unstable": int(outcome.unstable[rows].sum()),
        }
    margin = outcome.margin
    return {
        "choice": outcome.coloring.name,
        "told": int(outcome.told.sum()),
        "at_fault": int(outcome.at_fault.sum()),
        "unstable": int(outcome.unstable.sum()),
        "exact": margin.exact,
        "largest_equal": margin.equal,
        "smallest_different": None if margin.exact else margin.different,
        "seconds": outcome.seconds,
        "categories": categories,
    }
