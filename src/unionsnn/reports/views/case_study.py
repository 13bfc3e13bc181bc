"""The paper's case study as tables: one example, and its claims measured over many subgraphs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from unionsnn.coefficients import SimpleGraph
from unionsnn.expressivity.case_study import (
    KINDS,
    CaseStudy,
    Deletions,
    Shares,
    UnionSubgraph,
    delete_each,
    example_subgraph,
    study,
)
from unionsnn.reports.figures.plots import draw_effects, save_figure

_RULES = {
    False: "Edges at v or u are not deleted: what is left is a union subgraph and connected.",
    True: "Edges at v or u are deleted too; v and u count as common nodes, as in the paper.",
}


@dataclass(frozen=True)
class Request:
    """What is studied.

    Attributes:
        data: Name of the data set; None for random union subgraphs.
        graphs: How many union subgraphs.
        max_nodes: Most nodes of one.
        seed: Seed of all draws.
        at_ends: Whether edges at v or u are deleted too.
    """

    data: str | None
    graphs: int
    max_nodes: int
    seed: int
    at_ends: bool

    @property
    def source(self) -> str:
        """Where the subgraphs are from, in words."""
        if self.data is None:
            return f"random union subgraphs (seed {self.seed}, 4 to {self.max_nodes} nodes)"
        return f"union subgraphs of {self.data} (seed {self.seed}, up to {self.max_nodes} nodes)"


def run(request: Request, graph: SimpleGraph | None, plot: Path | None, *, as_json: bool) -> None:
    """Measure, print and draw.

    Args:
        request: What is studied.
        graph: The graphs of the data set as one; None for random union subgraphs.
        plot: Figure to write.
        as_json: Print what was measured as JSON instead of tables.

    Raises:
        OSError: The figure cannot be written.
    """
    at_ends = request.at_ends
    result = study(
        graph,
        count=request.graphs,
        max_nodes=request.max_nodes,
        seed=request.seed,
        at_ends=at_ends,
    )
    if as_json:
        print(json.dumps({**vars(request), **result.to_dict()}, indent=1))
    else:
        example = example_subgraph()
        print_example(example, delete_each(example, at_ends=at_ends))
        print_case_study(result, request.source, at_ends=at_ends)
    if plot is not None:
        title = f"{result.subgraphs:,} {request.source}"
        save_figure(draw_effects(result.effects, title=title, label="change of a"), plot)


def print_example(
    subgraph: UnionSubgraph, deletions: Deletions, console: Console | None = None
) -> None:
    """Print every deletion from one union subgraph, edges by kind, then nodes."""
    console = console or Console()
    names = subgraph.names()
    table = Table(
        title=f"An example of {subgraph.num_nodes} nodes, a = {deletions.a:.4f}",
        title_justify="left",
    )
    table.add_column("deleted")
    table.add_column("kind")
    for name in ("a without it", "change"):
        table.add_column(name, justify="right")
    order = sorted(range(len(deletions.kinds)), key=lambda i: (deletions.kinds[i], i))
    for i in order:
        ends = "–".join(names[node] for node in deletions.edges[i])
        _add_deletion(table, ends, KINDS[deletions.kinds[i]], deletions.a, deletions.by_edge[i])
    table.add_section()
    for name, effect in zip(names[2:], deletions.by_node, strict=True):
        _add_deletion(table, name, "node", deletions.a, effect)
    console.print(table)


def _add_deletion(table: Table, name: str, kind: str, a: float, effect: float) -> None:
    if effect != effect:
        table.add_row(name, kind, "not connected", "–")
    else:
        table.add_row(name, kind, f"{a + effect:.4f}", f"{effect:+.4f}")


def print_case_study(
    study: CaseStudy, source: str, *, at_ends: bool, console: Console | None = None
) -> None:
    """Print what deletions did, and which of the paper's claims hold.

    Args:
        study: What was measured.
        source: Where the subgraphs are from.
        at_ends: Whether the edges at v or u were deleted too.
        console: Where to; by default the terminal.
    """
    console = console or Console()
    table = Table(title=f"Deletions from {study.subgraphs:,} {source}", title_justify="left")
    table.add_column("deleted")
    for name in ("cases", "raises a", "keeps a", "lowers a", "mean change"):
        table.add_column(name, justify="right")
    _add_shares(table, "an edge", study.edge)
    for kind, shares in study.kinds.items():
        _add_shares(table, f"  {kind}", shares)
    _add_shares(table, "a node", study.node)
    console.print(table)
    for line in [*verdicts(study), *remarks(study, at_ends=at_ends)]:
        console.print(line, soft_wrap=True, highlight=False, markup=False)


def _add_shares(table: Table, name: str, shares: Shares) -> None:
    if shares.mean is None:
        table.add_row(name, "0", "–", "–", "–", "–")
        return
    parts = (shares.raised, shares.kept, shares.lowered)
    table.add_row(name, f"{shares.cases:,}", *map(percent, parts), f"{shares.mean:+.4f}")


def verdicts(study: CaseStudy) -> list[str]:
    """Say of each claim whether it holds in all cases that were measured."""
    lines = []
    for what, wanted, shares in (
        ("an edge", "raises", study.edge),
        ("a node", "lowers", study.node),
    ):
        right = shares.raised if wanted == "raises" else shares.lowered
        claim = f"Claim: deleting {what} {wanted} a:"
        if right is None:
            lines.append(f"{claim} not measured, there is none to delete.")
        elif right == 1:
            lines.append(f"{claim} holds in all {shares.cases:,} cases.")
        else:
            lines.append(f"{claim} fails in {percent(1 - right)} of {shares.cases:,} cases.")
    claim = "Claim: the mean changes rise in the order E1 < E2 < E3 < E4:"
    if not study.with_all_kinds:
        lines.append(f"{claim} not measured, no subgraph has edges of all four kinds.")
    else:
        verdict = "holds" if study.ordered == study.with_all_kinds else "fails"
        share = percent(study.ordered / study.with_all_kinds)
        means = ", ".join(f"{kind} {study.kinds[kind].mean:+.4f}" for kind in KINDS)
        overall = "holds" if study.ordered_overall else "fails"
        lines.append(
            f"{claim} {verdict}; it is so in {study.ordered:,} of the {study.with_all_kinds:,} "
            f"subgraphs with all four kinds ({share})."
        )
        lines.append(f"  Over all edges together it {overall}: {means}.")
    return lines


def remarks(study: CaseStudy, *, at_ends: bool) -> list[str]:
    """Say how the cases were chosen and which were left out."""
    lines = [f"{_RULES[at_ends]} v and u themselves are never deleted."]
    if study.disconnecting:
        lines.append(
            f"{study.disconnecting:,} deletions of edges leave a part that nothing reaches; P is "
            "not defined there, and they are left out."
        )
    if study.too_large:
        lines.append(f"{study.too_large:,} union subgraphs were left out for their size.")
    return lines


def percent(share: float | None) -> str:
    """Write a share; one that is small but not 0 is not rounded to 0, nor a large one to 100 %."""
    if share is None:
        return "–"
    text = f"{100 * share:.1f} %"
    if (share > 0 and text == "0.0 %") or (share < 1 and text == "100.0 %"):
        text = f"{100 * share:.4f} %"
    return text
