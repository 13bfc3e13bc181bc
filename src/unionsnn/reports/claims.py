"""The paper's claims, judged by its own tables and by our records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from unionsnn.reports import claim_checks as checks
from unionsnn.reports.claim_checks import Verdict
from unionsnn.reports.collection import StoredRecord
from unionsnn.reports.paper import ablation_values, paper_table, paper_value, paper_values
from unionsnn.reports.table import Report, Table, words

# (table, row, data set) -> mean and standard deviation
Values = Mapping[tuple[str, str, str], tuple[float, float | None]]

NOT_RUN: Literal["not run"] = "not run"


@dataclass(frozen=True)
class Claim:
    """A claim of the paper.

    Args:
        text: The claim.
        tables: Tables whose values decide it; empty if none do.
        command: The command that measures it.
        judge: Decides it from values; None if no table does.
        check: Measures it on graphs within seconds; None if that does not decide it.
    """

    text: str
    tables: tuple[str, ...]
    command: str
    judge: Callable[[Values], Verdict | None] | None = None
    check: Callable[[], Verdict] | None = None


def from_paper() -> Values:
    """Return the paper's own values."""
    return {(v.table, v.model, v.dataset): (v.mean, v.std) for v in paper_values()}


def from_records(records: Sequence[StoredRecord]) -> Values:
    """Return our values: of runs with a gate those with the paper's, of several the longest.

    Rows on other features, such as attributes of nodes in place of labels, do not compare: of the
    forms of a data set that with the most rows counts.
    """
    # data set -> (its name and hash, features) -> row -> epochs, mean, standard deviation
    forms: dict[
        str,
        dict[tuple[str, str | None], dict[tuple[str, str, str], tuple[int, float, float | None]]],
    ] = {}
    for each in (stored.record for stored in records):
        if each.missing or each.gate not in (None, "paper"):
            continue
        epochs = sum(row.epochs for row in each.repetitions)
        main = paper_value(each)
        for paper in [*([] if main is None else [main]), *ablation_values(each)]:
            if each.protocol.report != f"test_{paper.metric}":
                continue
            key = (paper.table, paper.model, paper.dataset)
            form = (str(each.dataset), each.config["data"].get("features"))
            longest = forms.setdefault(each.data, {}).setdefault(form, {})
            if longest.get(key, (0,))[0] < epochs:
                longest[key] = (epochs, each.summary.mean, each.summary.std)
    widest = (max(by_form.values(), key=len) for by_form in forms.values())
    return {key: (mean, std) for values in widest for key, (_, mean, std) in values.items()}


def wins(values: Values, tables: Sequence[str], row: str, wanted: int) -> Verdict | None:
    """Judge whether a row is best on `wanted` sets, among rows that are not union variants.

    Sets without the row, or without all that it is compared with, may still be won: they decide
    nothing unless too many others are lost.
    """
    lost, sets, missing, rivals = [], 0, 0, set[str]()
    for table in map(paper_table, tables):
        models = dict.fromkeys(value.model for value in table.values)
        sign = 1 if table.values[0].larger_is_better else -1
        for dataset in dict.fromkeys(value.dataset for value in table.values):
            ours = values.get((table.name, row, dataset))
            others = {
                name: values[table.name, name, dataset][0]
                for name in models
                if name != row
                and not name.startswith("Union")
                and (table.name, name, dataset) in values
            }
            sets += 1
            if ours is None or not others:
                missing += 1
                continue
            rivals |= set(others)
            if sign * ours[0] < max(sign * other for other in others.values()):
                lost.append(dataset)
    won = sets - missing - len(lost)
    if won < wanted and won + missing >= wanted:
        return None
    but = f" (not {', '.join(lost)})" if lost else ""
    run = f", {missing} not run" if missing else ""
    return Verdict.of(
        won >= wanted,
        f"{won} of {sets} sets{but}{run}; against {len(rivals)} other rows",
    )


def plug_in_gain(values: Values) -> Verdict | None:
    """Judge the largest relative gain of a union variant over its plain model in table 3."""
    gains = {}
    for (table, model, dataset), (mean, _) in values.items():
        plain = values.get((table, model.removeprefix("Union"), dataset))
        if table == "table3" and model.startswith("Union") and plain is not None:
            gains[model, dataset] = mean / plain[0] - 1
    if ("UnionGraphSAGE", "ENZYMES") not in gains:
        return None
    (model, dataset), gain = max(gains.items(), key=lambda item: item[1])
    sage = gains["UnionGraphSAGE", "ENZYMES"]
    up = sum(value > 0 for value in gains.values())
    return Verdict.of(
        sage >= 0.11085,
        f"GraphSAGE on ENZYMES {100 * sage:+.2f} %; largest {100 * gain:+.2f} % ({model} on "
        f"{dataset}); up in {up} of {len(gains)} pairs",
    )


def steadier(values: Values) -> Verdict | None:
    """Judge whether the plug-in lowers the spread of GCN on Cora."""
    try:
        before, after = (values["table7", m, "Cora"][1] for m in ("GCN", "UnionGCN"))
    except KeyError:
        return None
    if before is None or after is None:
        return None
    pairs = []
    for (table, model, dataset), (_, std) in values.items():
        plain = values.get((table, model.removeprefix("Union"), dataset), (0.0, None))[1]
        if table == "table7" and model != "UnionSNN" and model.startswith("Union"):
            pairs += [std < plain] if std is not None and plain is not None else []
    text = f"GCN on Cora {100 * before:.2f} to {100 * after:.2f} points"
    return Verdict.of(
        after < before,
        f"{text}; lower in {sum(pairs)} of {len(pairs)} pairs of table7",
    )


def faster(values: Values) -> Verdict | None:
    """Judge how many times longer 3WL-GNN trains than UnionSNN, at least."""
    ratios = {}
    for dataset in dict.fromkeys(value.dataset for value in paper_table("table12").values):
        try:
            slow, fast = (values["table12", m, dataset][0] for m in ("3WL-GNN", "UnionSNN"))
        except KeyError:
            return None
        ratios[dataset] = slow / fast
    return Verdict.of(
        min(ratios.values()) > 4.56,
        ", ".join(f"{name} {ratio:.2f} ×" for name, ratio in ratios.items()),
    )


_EXPRESSIVITY = "unionsnn expressivity golden"
_THEOREMS = "unionsnn expressivity --theorems"

CLAIMS = (
    Claim("Theorem 1: isomorphic union subgraphs have isomorphic overlap subgraphs", (),
          _THEOREMS, check=checks.theorem_one_on_its_counterexample),
    Claim("Theorem 2: for a fixed order of nodes, P and S determine each other", (),
          "by definition: the ones of P are the edges of S", check=checks.path_matrix_is_the_graph),
    Claim("Theorem 3: UnionSNN is more expressive than 1-WL", (), _EXPRESSIVITY,
          check=checks.beyond_one_wl),
    Claim("UnionSNN tells the 4×4 Rook's graph from the Shrikhande graph", (), _EXPRESSIVITY,
          check=checks.rook_and_shrikhande),
    Claim("The descriptor is aware of size: different |V| or |E|, different value", (),
          _EXPRESSIVITY, check=checks.size_aware),
    Claim("Betweenness and curvature miss E4 edges", (), "unionsnn coefficients FILE",
          check=checks.others_miss_edges_of_kind_four),
    Claim("Pairs of graphs that only the union subgraph separates (appendix A)", (),
          _THEOREMS, check=checks.only_union_separates),
    Claim("Deleting an edge raises a", (), "unionsnn case-study",
          check=partial(checks.deletions_always, "raise")),
    Claim("Deleting a node lowers a", (), "unionsnn case-study",
          check=partial(checks.deletions_always, "lower")),
    Claim("The effect of deleting an edge grows: E1 < E2 < E3 < E4", (), "unionsnn case-study",
          check=checks.order_of_kinds),
    Claim("Power at most 4-WL, cycles longer than 6 out of reach", (), "no command measures it"),
    Claim("UnionSNN wins 7 of 10 graph classification sets", ("table3", "table4"),
          "unionsnn reproduce table3 and table4",
          partial(wins, tables=["table3", "table4"], row="UnionSNN", wanted=7)),
    Claim("The plug-in gains up to 11.09 % relative (GraphSAGE, ENZYMES)", ("table3",),
          "unionsnn reproduce table3", plug_in_gain),
    Claim("UnionSNN wins all 5 node classification sets", ("table7",),
          "unionsnn reproduce table7",
          partial(wins, tables=["table7"], row="UnionSNN", wanted=5)),
    Claim("The plug-in lowers the spread (GCN on Cora, 4.41 to 0.42)", ("table7",),
          "unionsnn reproduce table7", steadier),
    Claim("The union subgraph is the best substructure on 6 of 6 sets", ("table8",),
          "unionsnn reproduce table8", partial(wins, tables=["table8"], row="union", wanted=6)),
    Claim("The path matrix is the best descriptor on 5 of 6 sets", ("table9",),
          "unionsnn reproduce table9", partial(wins, tables=["table9"], row="UnionSNN", wanted=5)),
    Claim("The sum of singular values is the best encoding on 5 of 6 sets", ("table10",),
          "unionsnn reproduce table10", partial(wins, tables=["table10"], row="svd sum", wanted=5)),
    Claim("Training is more than 4.56 times faster than 3WL-GNN's", ("table12",),
          "unionsnn reproduce table12", faster),
    Claim("Preprocessing costs O(n³M) for M edges, O((m+n)nM) for betweenness", (),
          "unionsnn reproduce table11 times it; no table decides it"),
    Claim("Training costs O(kmfd) time and O(m) memory", (), "no command measures it"),
)  # fmt: skip


def judged(ours: Values | None = None) -> list[tuple[Claim, Verdict, Verdict]]:
    """Return each claim with the verdicts of the paper's own tables and of our values."""
    paper, verdicts = from_paper(), []
    for claim in CLAIMS:
        printed = claim.judge(paper) if claim.judge else None
        measured = claim.judge(ours or {}) if claim.judge else claim.check and claim.check()
        not_run = Verdict(NOT_RUN, claim.command)
        verdicts.append((claim, printed or not_run, measured or not_run))
    return verdicts


def claims_report(ours: Values | None = None) -> Report:
    """Return the claims as a table, and as plain types."""
    cells, rows = [], []
    for claim, paper, measured in judged(ours):
        states = [verdict.state for verdict in (paper, measured)]
        evidence = [v.evidence if v.state != NOT_RUN else "" for v in (paper, measured)]
        texts: list[str | None] = [
            ": ".join(filter(None, pair)) for pair in zip(states, evidence, strict=True)
        ]
        if claim.judge is None:
            texts[0] = None
        wanted = measured.state == NOT_RUN or claim.check is not None
        cells.append([claim.text, *texts, claim.command if wanted else None])
        rows.append(
            {
                "claim": claim.text,
                "tables": " ".join(claim.tables),
                "paper": states[0],
                "paper_evidence": evidence[0],
                "ours": states[1],
                "ours_evidence": evidence[1],
                "command": claim.command,
            }
        )
    found = Counter(row["ours"] for row in rows)
    table = Table(
        "Claims of the paper, by our records and measurements: "
        f"{found['holds']} hold, {found['fails']} fail, {found[NOT_RUN]} not run",
        words("claim", "by the paper's own tables", "by our records and measurements", "command"),
        cells,
        [
            "only means are compared, without intervals; a row wins against rows that are not "
            "union variants",
            "our records decide once UnionSNN and a plain model have results on enough sets; of "
            "runs with a gate those with gate=paper count, of several that of the most epochs, "
            "whatever its protocol; of forms of a data set, such as other features, that with the "
            "most rows",
            "claims about graphs are measured on the spot, on few graphs; the command listed "
            "measures more",
        ],
        spare=["command"],
    )
    return Report([table], rows)
