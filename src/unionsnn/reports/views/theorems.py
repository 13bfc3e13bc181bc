"""The theorems on all small graphs, printed and drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unionsnn.expressivity.theorems import (
    APPENDIX_PAIR,
    THEOREM_ONE_NODES,
    Census,
    appendix_census,
    as_family,
    four_cycles,
    graph_of,
)
from unionsnn.reports.figures.expressivity import draw_family, draw_panels, panels_of
from unionsnn.reports.table import Table, words

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def theorem_lines(result: Mapping[str, Any]) -> list[Table | str]:
    """Return what was measured, as lines and a table."""
    first = result["theorem_1"]
    lines = [
        f"Theorem 1 on the {first['graphs']:,} connected graphs of up to {THEOREM_ONE_NODES} nodes"
    ]
    for key, how in (
        ("rooted", "the isomorphism maps the edge to the edge"),
        ("unrooted", "any isomorphism of union subgraphs, as in the paper"),
    ):
        failures = first[key]
        verdict = "holds without exception" if not failures else f"fails in {len(failures)} classes"
        lines.append(f"  {how}: {verdict}{_example(failures)}")
    lines.append(f"  the converse fails{_example(first['converse'])}")
    lines.append(
        f"Theorem 3 on {result['graphs']:,} connected graphs of up to {result['max_nodes']} nodes"
    )
    lines += [
        f"  {name}: {counts['coarser']} classes hold graphs that 1-WL tells apart; it splits "
        f"{counts['finer']} classes of 1-WL"
        for name, counts in result["theorem_3"].items()
    ]
    rows = [
        [name, str(failure["classes"]), "  ".join(failure["pair"] or ["none"])]
        for name, failure in result["smallest_failures"].items()
    ]
    appendix = result["appendix_a"]
    verdicts = ", ".join(f"{k} {'yes' if v else 'no'}" for k, v in appendix["told_apart"].items())
    counts = " and ".join(map(str, appendix["four_cycles"]))
    note = (
        f"Appendix A: {'  '.join(appendix['pair'])} with {counts} 4-cycles; told apart: {verdicts}"
    )
    columns = words("choice", "classes", "pair (graph6)")
    title = "The smallest connected pairs that are not told apart"
    return [*lines, Table(title, columns, rows, [note])]


def _example(failures: Sequence[Mapping[str, Any]]) -> str:
    if not failures:
        return "."
    graphs, nodes = failures[0]["graphs"], failures[0]["nodes"]
    ends = [f"node {node} of {graph}" for graph, node in zip(graphs, nodes, strict=True)]
    return f", for example {' against '.join(ends)} (graph6)."


def draw_theorems(result: Mapping[str, Any]) -> dict[str, Figure]:
    """Draw the counterexamples, the smallest failures and the pair like that of appendix A.

    Returns:
        The figures by names of files.
    """
    titles = [f"{text}: {four_cycles(graph_of(text))} 4-cycles" for text in APPENDIX_PAIR]
    figures = {
        "appendix_a": _draw_kinds(
            appendix_census(),
            ("overlap", "union_minus", "union"),
            titles,
            "nodes by 1-WL, edges by the class of their subgraph",
            rooted=True,
        )
    }
    first = result["theorem_1"]
    for key, failures, title in (
        ("theorem_1", first["unrooted"], "isomorphic unions, not overlaps"),
        ("theorem_1_converse", first["converse"], "isomorphic overlaps, not unions"),
    ):
        if failures:
            graphs, nodes = failures[0]["graphs"], failures[0]["nodes"]
            figures[key] = _draw_kinds(
                Census([graph_of(text) for text in graphs]),
                ("overlap", "union"),
                graphs,
                f"{title}: the nodes with a thick rim",
                [(node,) for node in nodes],
            )
    for name, failure in result["smallest_failures"].items():
        if pair := failure["pair"]:
            family = as_family(name, [graph_of(text) for text in pair])
            words = name.replace("@", "_r").replace("~", "_normalized").replace("+", "_")
            figures[f"smallest_{words}"] = draw_family(
                family, pair, {name: name, "a": "a, radius 1"}, f"not told apart by {name}"
            )
    return figures


def _draw_kinds(
    census: Census,
    kinds: Sequence[str],
    titles: Sequence[str],
    title: str,
    marked: Sequence[tuple[int, ...]] = (),
    *,
    rooted: bool = False,
) -> Figure:
    """Draw graphs, a row for each kind of subgraph: edges by the class of their subgraph."""
    rows = []
    for kind in kinds:
        forms = census.forms(kind, rooted=rooted).astype(np.float64)
        panels = panels_of(census.union, forms, titles, marked)
        rows.append((kind.replace("_", " "), panels))
    return draw_panels(rows, title)
