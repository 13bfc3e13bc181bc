"""The theorems on all small graphs: measured, printed, drawn."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from unionsnn.expressivity.bench import Bench
from unionsnn.expressivity.color_refinement import refine
from unionsnn.expressivity.edge_colorings import EdgeColoring
from unionsnn.expressivity.graph_sets import Family
from unionsnn.expressivity.theorems import (
    Census,
    NodePair,
    coarser_pairs,
    collisions,
    connected_graphs,
    four_cycles,
    one_wl_classes,
    theorem_one,
    theorem_one_converse,
)
from unionsnn.reports.figures.expressivity import (
    Panel,
    draw_panels,
    make_folder,
    panels_of,
)
from unionsnn.reports.figures.plots import save_figure
from unionsnn.reports.table import Table, print_lines, print_tables, words

BoolArray = NDArray[np.bool_]

THEOREM_ONE_NODES = 7
"""Maximum number of nodes of the graphs on which theorem 1 is checked."""

FAILING = ("1wl", "a~", "a", "spectrum", "rooted", "a@2", "spectrum@2", "rooted@2")
"""Choices whose smallest failures are searched for."""

APPENDIX_PAIR = ("GMo`?K", "GhCK@K")
"""Two squares joined by an edge, and an 8-cycle with its long chord, in graph6.

The smallest pair like that of appendix A: 2 and 0 cycles of length 4; 1-WL, overlap and union minus
do not tell them apart, union does. Among connected graphs of up to 8 nodes no pair has fewer edges.
"""


def graph_of(text: str) -> BoolArray:
    """Read the adjacency of a graph in graph6."""
    import networkx

    return np.asarray(networkx.to_numpy_array(networkx.from_graph6_bytes(text.encode()))) > 0


def text_of(adjacency: BoolArray) -> str:
    """Write a graph in graph6."""
    import networkx

    graph = networkx.from_numpy_array(adjacency)
    return str(networkx.to_graph6_bytes(graph, header=False).decode().strip())


def as_family(name: str, adjacencies: Sequence[BoolArray]) -> Family:
    """Make a family of adjacency matrices."""
    return Family(name, name, tuple((np.argwhere(a).T, len(a)) for a in adjacencies))


def run(max_nodes: int, plot: Path | None, *, as_json: bool) -> None:
    """Measure, print and draw.

    Args:
        max_nodes: Maximum number of nodes of the graphs.
        plot: Folder for pictures.
        as_json: Whether to print JSON instead of tables.

    Raises:
        DataError: The folder cannot be created.
        OSError: A picture cannot be written.
    """
    if plot is not None:
        make_folder(plot)
    graphs = connected_graphs(max_nodes)
    result = measure(graphs, max_nodes)
    if plot is not None:
        draw(result, plot)
    if as_json:
        print(json.dumps(result, indent=1))
    else:
        print_theorems(result)


def measure(graphs: Sequence[BoolArray], max_nodes: int) -> dict[str, Any]:
    """Measure all theorems; return plain types, with graphs in graph6."""
    census = Census([g for g in graphs if len(g) <= THEOREM_ONE_NODES])
    bench = Bench([as_family("small", graphs)], threads=1)
    sizes = [(len(g), int(g.sum()) // 2) for g in graphs]
    classes = {}
    for name in FAILING:
        values = bench.values(EdgeColoring.parse(name))
        classes[name] = bench.graph_classes(values)
    failing = {name: collisions(found, sizes) for name, found in classes.items()}
    one_wl = classes["1wl"]
    finer = {
        name: {
            "coarser": coarser_pairs(found, one_wl),
            "finer": coarser_pairs(one_wl, found),
        }
        for name, found in classes.items()
        if name != "1wl"
    }
    return {
        "max_nodes": max_nodes,
        "graphs": len(graphs),
        "theorem_1": {
            "graphs": len(census.adjacencies),
            "unrooted": _node_pairs(census, theorem_one(census, rooted=False)),
            "rooted": _node_pairs(census, theorem_one(census, rooted=True)),
            "converse": _node_pairs(census, theorem_one_converse(census)[:1]),
        },
        "theorem_3": finer,
        "smallest_failures": {
            name: {
                "classes": len(pairs),
                "pair": [text_of(graphs[g]) for g in pairs[0]] if pairs else None,
            }
            for name, pairs in failing.items()
        },
        "appendix_a": {
            "pair": list(APPENDIX_PAIR),
            "four_cycles": [four_cycles(graph_of(text)) for text in APPENDIX_PAIR],
            "told_apart": appendix_verdicts(),
        },
    }


def _node_pairs(census: Census, pairs: Sequence[NodePair]) -> list[dict[str, Any]]:
    return [
        {
            "graphs": [text_of(census.adjacencies[g]) for g in pair.graphs],
            "nodes": list(pair.nodes),
        }
        for pair in pairs
    ]


def appendix_census() -> Census:
    """Return the census of the pair like that of appendix A."""
    return Census([graph_of(text) for text in APPENDIX_PAIR])


def appendix_verdicts() -> dict[str, bool]:
    """Return which edge colours tell that pair apart: none, or the class of each subgraph kind."""
    from unionsnn.expressivity.color_refinement import graph_classes

    census = appendix_census()
    found = {"1-WL": bool(np.diff(one_wl_classes(census.union))[0])}
    for kind in ("overlap", "union_minus", "union"):
        nodes = refine(census.union, census.forms(kind, rooted=True))
        found[kind] = bool(np.diff(graph_classes(census.union, nodes))[0])
    return found


def print_theorems(result: Mapping[str, Any], console: Console | None = None) -> None:
    """Print the measurements."""
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
    print_lines(lines, console)
    print_tables(
        [Table("The smallest connected pairs that are not told apart", columns, rows, [note])],
        console,
    )


def _example(failures: Sequence[Mapping[str, Any]]) -> str:
    if not failures:
        return "."
    graphs, nodes = failures[0]["graphs"], failures[0]["nodes"]
    ends = [f"node {node} of {graph}" for graph, node in zip(graphs, nodes, strict=True)]
    return f", for example {' against '.join(ends)} (graph6)."


def draw(result: Mapping[str, Any], folder: Path) -> list[Path]:
    """Draw the counterexamples, the smallest failures and the pair like that of appendix A.

    Raises:
        OSError: A picture cannot be written.
    """
    figures = {"appendix_a": _draw_appendix()}
    for key, failures, title in (
        ("theorem_1", result["theorem_1"]["unrooted"], "isomorphic unions, not overlaps"),
        ("theorem_1_converse", result["theorem_1"]["converse"], "isomorphic overlaps, not unions"),
    ):
        if failures:
            figures[key] = _draw_nodes(failures[0], title)
    for name, found in result["smallest_failures"].items():
        if found["pair"]:
            family = as_family(name, [graph_of(text) for text in found["pair"]])
            rows = [
                (label, panels_of(family, EdgeColoring.parse(choice), found["pair"]))
                for choice, label in {name: name, "a": "a, radius 1"}.items()
            ]
            words = name.replace("@", "_r").replace("~", "_normalized").replace("+", "_")
            figures[f"smallest_{words}"] = draw_panels(rows, f"not told apart by {name}")
    paths = []
    for name, figure in figures.items():
        paths.append(folder / f"{name}.svg")
        save_figure(figure, paths[-1])
    return paths


def _draw_nodes(failure: Mapping[str, Any], title: str) -> Any:
    """Draw two nodes with the classes of the overlap and union subgraphs around them."""
    census = Census([graph_of(text) for text in failure["graphs"]])
    rows = [
        (kind, _panels(census, kind, failure["graphs"], failure["nodes"], rooted=False))
        for kind in ("overlap", "union")
    ]
    return draw_panels(rows, f"{title}: the nodes with a thick rim")


def _draw_appendix() -> Any:
    census = appendix_census()
    titles = [f"{text}: {four_cycles(graph_of(text))} 4-cycles" for text in APPENDIX_PAIR]
    rows = [
        (kind.replace("_", " "), _panels(census, kind, titles, None, rooted=True))
        for kind in ("overlap", "union_minus", "union")
    ]
    return draw_panels(rows, "nodes by 1-WL, edges by the class of their subgraph")


def _panels(
    census: Census,
    kind: str,
    titles: Sequence[str],
    nodes: Sequence[int] | None,
    *,
    rooted: bool,
) -> list[Panel]:
    forms = census.forms(kind, rooted=rooted)
    colors = refine(census.union, np.zeros(len(forms), np.int64))
    owner, slices = census.union.graph_of_edge, census.union.node_slices
    return [
        Panel(
            title,
            census.union.edge_index[:, owner == g] - slices[g],
            len(census.adjacencies[g]),
            forms[owner == g].astype(np.float64),
            colors[slices[g] : slices[g + 1]],
            () if nodes is None else (nodes[g],),
        )
        for g, title in enumerate(titles)
    ]
