"""The case study's tables and verdicts."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from unionsnn.expressivity.case_study import (
    KINDS,
    CaseStudy,
    Shares,
    study,
)
from unionsnn.reports.formatting import share_text
from unionsnn.reports.table import show
from unionsnn.reports.views.case_study import case_study_table, example_table, verdicts


@pytest.fixture
def console() -> Console:
    return Console(record=True, width=100, file=io.StringIO())


def made(raised: float, lowered: float, ordered: int) -> CaseStudy:
    shares = Shares(100, raised, 1 - raised, 0.0, 0.5)
    return CaseStudy(
        subgraphs=10,
        too_large=0,
        disconnecting=0,
        edge=shares,
        node=Shares(50, 0.0, 1 - lowered, lowered, -2.0),
        kinds={kind: replace(shares, mean=0.1 * i) for i, kind in enumerate(KINDS)},
        with_all_kinds=4,
        ordered=ordered,
        effects={kind: np.ones(3) for kind in (*KINDS, "node")},
    )


def test_claims_hold_only_without_an_exception() -> None:
    edge, node, order, overall = verdicts(made(1.0, 1.0, 4))
    assert edge.endswith("raises a: holds in all 100 cases.")
    assert node.endswith("lowers a: holds in all 50 cases.")
    assert "holds; true in 4 of the 4 subgraphs with all four kinds (100.0 %)" in order
    assert "it holds: E1 +0.0000, E2 +0.1000" in overall
    edge, node, order, _ = verdicts(made(0.75, 0.98, 3))
    assert edge.endswith("fails in 25.0 % of 100 cases.")
    assert node.endswith("fails in 2.0 % of 50 cases.")
    assert "fails; true in 3 of the 4" in order


def test_what_was_not_measured_is_said() -> None:
    nothing = Shares(0, None, None, None, None)
    result = replace(
        made(1, 1, 0), edge=nothing, with_all_kinds=0, kinds=dict.fromkeys(KINDS, nothing)
    )
    lines = verdicts(result)
    assert "not measured, there was none to delete" in lines[0]
    assert "not measured, no subgraph has edges of all four kinds" in lines[2]


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0.0 %"), (1, "100.0 %"), (0.1234, "12.3 %"), (2.8e-5, "0.0028 %"),
     (1 - 2.8e-5, "99.9972 %")],
)  # fmt: skip
def test_small_shares_are_not_rounded_away(share: float, text: str) -> None:
    assert share_text(share) == text


@pytest.mark.parametrize("at_ends", [False, True])
def test_tables(console: Console, at_ends: bool) -> None:
    result = study(None, count=30, max_nodes=10, seed=0, at_ends=at_ends)
    table = case_study_table(result, "random union subgraphs", at_ends=at_ends)
    show([example_table(at_ends=at_ends), table], console)
    text = console.export_text()
    assert "a = 21.7810" in text
    assert "c1–c2" in text
    assert "Deletions from 30 random union subgraphs" in text
    for kind in KINDS:
        assert f"{result.kinds[kind].cases:,}" in text
    assert ("edge deletions disconnect the subgraph" in text) == at_ends
    assert "v and u themselves are never deleted" in text
