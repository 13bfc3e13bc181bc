"""The paper's case study as tables: one example, and the claims over many subgraphs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console

from unionsnn.coefficients import SimpleGraph
from unionsnn.expressivity.case_study import (
    KINDS,
    CaseStudy,
    Deletions,
    UnionSubgraph,
    delete_each,
    example_subgraph,
    study,
)
from unionsnn.reports.figures.plots import draw_effects, save_figure
from unionsnn.reports.formatting import share_text
from unionsnn.reports.table import Table, numbers, print_tables, words

_RULES = {
    False: "Edges at v or u are not deleted, so the rest is a connected union subgraph.",
    True: "Edges at v or u are also deleted; v and u count as common nodes, as in the paper.",
}


@dataclass(frozen=True)
class Request:
    """What to study.

    Attributes:
        data: Name of the data set; None for random union subgraphs.
        graphs: Number of union subgraphs.
        max_nodes: Maximum number of nodes of one.
        seed: Random seed.
        at_ends: Whether to delete edges at v or u too.
    """

    data: str | None
    graphs: int
    max_nodes: int
    seed: int
    at_ends: bool

    @property
    def source(self) -> str:
        """Description of where the subgraphs come from."""
        if self.data is None:
            return f"random union subgraphs (seed {self.seed}, 4 to {self.max_nodes} nodes)"
        return f"union subgraphs of {self.data} (seed {self.seed}, up to {self.max_nodes} nodes)"


def run(request: Request, graph: SimpleGraph | None, plot: Path | None, *, as_json: bool) -> None:
    """Measure, print and draw.

    Args:
        request: What to study.
        graph: The graphs of the data set merged into one; None for random union subgraphs.
        plot: Figure to write.
        as_json: Whether to print JSON instead of tables.

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
    """Print every deletion from one union subgraph: edges by kind, then nodes."""
    names = subgraph.names()
    order = sorted(range(len(deletions.kinds)), key=lambda i: (deletions.kinds[i], i))
    deleted = [
        (
            "–".join(names[node] for node in deletions.edges[i]),
            KINDS[deletions.kinds[i]],
            deletions.by_edge[i],
        )
        for i in order
    ]
    deleted += [
        (name, "node", effect) for name, effect in zip(names[2:], deletions.by_node, strict=True)
    ]
    rows = []
    for name, kind, effect in deleted:
        if np.isnan(effect):
            rows.append([name, kind, "not connected", None])
        else:
            rows.append([name, kind, f"{deletions.a + effect:.4f}", f"{effect:+.4f}"])
    title = f"An example of {subgraph.num_nodes} nodes, a = {deletions.a:.4f}"
    columns = [*words("deleted", "kind"), *numbers("a without it", "change")]
    print_tables([Table(title, columns, rows)], console)


def print_case_study(
    study: CaseStudy, source: str, *, at_ends: bool, console: Console | None = None
) -> None:
    """Print the effects of deletions, and which of the paper's claims hold.

    Args:
        study: The measurements.
        source: Where the subgraphs come from.
        at_ends: Whether the edges at v or u were deleted too.
        console: Where to print; the terminal by default.
    """
    kinds = {f"  {kind}": shares for kind, shares in study.kinds.items()}
    rows = [
        [name, each.cases, each.raised, each.kept, each.lowered, each.mean]
        for name, each in {"an edge": study.edge, **kinds, "a node": study.node}.items()
    ]
    columns = [
        *words("deleted"),
        *numbers("cases"),
        *numbers("raises a", "keeps a", "lowers a", form=share_text),
        *numbers("mean change", form=lambda change: f"{change:+.4f}"),
    ]
    title = f"Deletions from {study.subgraphs:,} {source}"
    notes = [*verdicts(study), *remarks(study, at_ends=at_ends)]
    print_tables([Table(title, columns, rows, notes)], console)


def verdicts(study: CaseStudy) -> list[str]:
    """Say for each claim whether it holds in all measured cases."""
    lines = []
    for what, wanted, shares in (
        ("an edge", "raises", study.edge),
        ("a node", "lowers", study.node),
    ):
        right = shares.raised if wanted == "raises" else shares.lowered
        claim = f"Claim: deleting {what} {wanted} a:"
        if right is None:
            lines.append(f"{claim} not measured, there was none to delete.")
        elif right == 1:
            lines.append(f"{claim} holds in all {shares.cases:,} cases.")
        else:
            lines.append(f"{claim} fails in {share_text(1 - right)} of {shares.cases:,} cases.")
    claim = "Claim: the mean changes rise in the order E1 < E2 < E3 < E4:"
    if not study.with_all_kinds:
        lines.append(f"{claim} not measured, no subgraph has edges of all four kinds.")
    else:
        verdict = "holds" if study.ordered == study.with_all_kinds else "fails"
        share = share_text(study.ordered / study.with_all_kinds)
        means = ", ".join(f"{kind} {study.kinds[kind].mean:+.4f}" for kind in KINDS)
        overall = "holds" if study.ordered_overall else "fails"
        lines.append(
            f"{claim} {verdict}; true in {study.ordered:,} of the {study.with_all_kinds:,} "
            f"subgraphs with all four kinds ({share})."
        )
        lines.append(f"  Over all edges it {overall}: {means}.")
    return lines


def remarks(study: CaseStudy, *, at_ends: bool) -> list[str]:
    """Say how the cases were chosen and which were left out."""
    lines = [f"{_RULES[at_ends]} v and u themselves are never deleted."]
    if study.disconnecting:
        lines.append(
            f"{study.disconnecting:,} edge deletions disconnect the subgraph; P is then undefined, "
            "and they are left out."
        )
    if study.too_large:
        lines.append(f"{study.too_large:,} union subgraphs were too large and are left out.")
    return lines
