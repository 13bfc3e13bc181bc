"""Claims of the paper about graphs, measured on the spot in seconds, without training."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from scipy.sparse.csgraph import dijkstra

from unionsnn.coefficients.structural import structural_coefficients
from unionsnn.expressivity.bench import Bench
from unionsnn.expressivity.case_study import CaseStudy, study
from unionsnn.expressivity.edge_colorings import EdgeColoring
from unionsnn.expressivity.graph_sets import circular_skip_links, golden_pairs
from unionsnn.expressivity.theorems import (
    Census,
    appendix_verdicts,
    connected_graphs,
    theorem_one,
)


@dataclass(frozen=True)
class Verdict:
    """Whether a claim holds, and the evidence."""

    state: Literal["holds", "fails", "not run"]
    evidence: str

    @classmethod
    def of(cls, holds: bool, evidence: str) -> Verdict:
        """Make the verdict that a claim holds, or that it fails."""
        return cls("holds" if holds else "fails", evidence)


def theorem_one_on_its_counterexample() -> Verdict:
    """Check theorem 1 as worded, on one graph of 6 nodes."""
    sides = np.zeros((6, 6), dtype=bool)
    for v, u in ((0, 1), (1, 2), (3, 4), (4, 5), (3, 5)):
        sides[v, u] = sides[u, v] = True
    census = Census([~sides & ~np.eye(6, dtype=bool)])
    unrooted = theorem_one(census, rooted=False)
    rooted = theorem_one(census, rooted=True)
    if not unrooted:
        return Verdict.of(True, "no exception in the complement of P3 and K3")
    i, j = unrooted[0].nodes
    return Verdict.of(
        False,
        f"nodes {i} and {j} of the complement of P3 and K3 are an exception; "
        f"{len(rooted) or 'none'} where an isomorphism must carry edge to edge",
    )


def path_matrix_is_the_graph() -> Verdict:
    """Check that the ones of the path matrix are the edges, on all connected graphs of 5 nodes."""
    graphs = connected_graphs(5)
    same = sum(
        np.array_equal(dijkstra(adjacency.astype(float), unweighted=True) == 1, adjacency)
        for adjacency in graphs
    )
    return Verdict.of(
        same == len(graphs),
        f"the ones of P are the edges of S in {same} of {len(graphs)} connected graphs of up to 5 "
        "nodes",
    )


def _told(name: str, *choices: str) -> list[bool]:
    """Return whether each choice tells a golden pair apart."""
    bench = Bench([family for family in golden_pairs() if family.name == name], threads=1)
    return [bool(bench.run(EdgeColoring.parse(choice)).told[0]) for choice in choices]


def _apart(told: bool) -> str:
    return "apart" if told else "not apart"


def beyond_one_wl() -> Verdict:
    """Check that the normalised coefficient tells regular graphs apart, which 1-WL does not."""
    bench = Bench(circular_skip_links(), threads=1)
    plain, ours = (
        int(bench.run(EdgeColoring.parse(choice)).classes[0]) for choice in ("1wl", "a~")
    )
    return Verdict.of(
        ours > plain,
        f"CSL, 10 graphs: the normalised a of the paper's layer finds {ours} classes, 1-WL {plain}",
    )


def rook_and_shrikhande() -> Verdict:
    """Check whether the coefficient, raw and normalised as in the paper, tells the pair apart."""
    plain, normalized = _told("Rook / Shrikhande", "a", "a~")
    return Verdict.of(
        normalized,
        f"a tells them {_apart(plain)}, the normalised a of the paper's layer {_apart(normalized)}",
    )


def size_aware() -> Verdict:
    """Check whether graphs of different size have different coefficients."""
    (family,) = (each for each in golden_pairs() if each.name == "C4 / K5")
    ring, whole = (float(structural_coefficients(e, n)[0]) for e, n in family.graphs)
    return Verdict.of(
        abs(ring - whole) > 1e-9, f"a is {ring:.4f} on each edge of C4, {whole:.4f} of K5"
    )


def others_miss_edges_of_kind_four() -> Verdict:
    """Check whether betweenness and curvature stay the same when an E4 edge is added."""
    base = [(0, 1), (0, 2), (0, 3), (1, 4), (3, 4)]
    texts, missed = [], True
    for descriptor in ("edge_betweenness", "curvature"):
        values = []
        for pairs in (base, [*base, (2, 3)]):
            edges = np.array(pairs).T
            both = np.concatenate([edges, edges[::-1]], axis=1)
            rows = structural_coefficients(both, 5, descriptor=descriptor, encoding=None)
            values.append(float(rows[0]))
        texts.append(f"{descriptor.replace('_', ' ')} {values[0]:.3f} and {values[1]:.3f}")
        missed = missed and abs(values[0] - values[1]) < 1e-9
    return Verdict.of(missed, f"without and with an E4 edge next to an E3 edge: {', '.join(texts)}")


def only_union_separates() -> Verdict:
    """Check whether a pair is told apart by union subgraphs and by nothing else compared."""
    told = [kind for kind, apart in appendix_verdicts().items() if apart]
    return Verdict.of(
        told == ["union"], f"a pair of 8 nodes with 2 and 0 cycles of length 4: {', '.join(told)}"
    )


@cache
def _case_study() -> CaseStudy:
    return study(None, count=300, max_nodes=14, seed=0)


def deletions_always(what: Literal["raise", "lower"]) -> Verdict:
    """Check whether deleting an edge always raises a, or deleting a node always lowers it."""
    cases = _case_study()
    shares = cases.edge if what == "raise" else cases.node
    share = shares.raised if what == "raise" else shares.lowered
    assert share is not None
    return Verdict.of(
        share == 1,
        f"no counterexample in {shares.cases:,} deletions"
        if share == 1
        else f"a is {what.rstrip('e')}ed in {100 * share:.1f} % of {shares.cases:,} deletions",
    )


def order_of_kinds() -> Verdict:
    """Check whether mean changes rise from E1 to E4 in every union subgraph."""
    cases = _case_study()
    return Verdict.of(
        cases.ordered == cases.with_all_kinds,
        f"true in {cases.ordered} of {cases.with_all_kinds} union subgraphs with all four kinds; "
        f"over all edges it {'holds' if cases.ordered_overall else 'fails'}",
    )
