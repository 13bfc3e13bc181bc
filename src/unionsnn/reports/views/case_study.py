"""The paper's case study as tables: one example, and the claims over many subgraphs."""

from __future__ import annotations

import numpy as np

from unionsnn.expressivity.case_study import KINDS, CaseStudy, delete_each, example_subgraph
from unionsnn.reports.formatting import share_text
from unionsnn.reports.table import Table, numbers, words

_RULES = {
    False: "Edges at v or u are not deleted, so the rest is a connected union subgraph.",
    True: "Edges at v or u are also deleted; v and u count as common nodes, as in the paper.",
}


def example_table(*, at_ends: bool) -> Table:
    """Return every deletion from one union subgraph: edges by kind, then nodes."""
    subgraph = example_subgraph()
    deletions = delete_each(subgraph, at_ends=at_ends)
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
    return Table(title, [*words("deleted", "kind"), *numbers("a without it", "change")], rows)


def case_study_table(study: CaseStudy, source: str, *, at_ends: bool) -> Table:
    """Return the effects of deletions, and which of the paper's claims hold.

    Args:
        study: The measurements.
        source: Where the subgraphs come from.
        at_ends: Whether the edges at v or u were deleted too.
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
        *numbers("mean change", form="{:+.4f}".format),
    ]
    title = f"Deletions from {study.subgraphs:,} {source}"
    notes = [*verdicts(study), f"{_RULES[at_ends]} v and u themselves are never deleted."]
    if study.disconnecting:
        notes.append(
            f"{study.disconnecting:,} edge deletions disconnect the subgraph; P is then undefined, "
            "and they are left out."
        )
    if study.too_large:
        notes.append(f"{study.too_large:,} union subgraphs were too large and are left out.")
    return Table(title, columns, rows, notes, spare=["keeps a"])


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
