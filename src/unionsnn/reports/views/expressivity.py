"""What choices of coefficient tell apart, as tables."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from unionsnn.base.words import duration_text
from unionsnn.reports.formatting import counted
from unionsnn.reports.table import Report, Table, numbers, words

BREC_PAPER = "Wang and Zhang, An Empirical Study of Realized GNN Expressiveness, ICML 2024, table 2"

PUBLISHED: Mapping[str, int] = {
    "GIN (1-WL)": 0,
    "Graphormer": 79,
    "NestedGNN": 166,
    "DropGNN": 177,
    "PPGN": 233,
    "GSN": 254,
    "3-WL": 270,
    "KP-GNN": 275,
    "I²-GNN": 281,
    "N2": 298,
}
"""Pairs of BREC's 400 that others tell apart, by `BREC_PAPER`."""


SPARE = ("time", "smallest different", "largest equal")
"""What a narrow terminal can do without."""


def published_lines(name: str) -> list[str]:
    """The line below a table of BREC with what others tell apart; none for other sets."""
    figures = ", ".join(f"{other} {count}" for other, count in PUBLISHED.items())
    return [f"Published, of 400: {figures}. Source: {BREC_PAPER}."] if name == "brec" else []


def bench_table(part: Mapping[str, Any]) -> Table:
    """Make the table of a set: pairs told apart, in all and where S is not the whole graph."""
    sizes = part["categories"]
    names = [
        f"{name} ({s['graphs']} graphs)" if s["graphs"] > 2 else f"{name} ({s['families']})"
        for name, s in sizes.items()
    ]
    total = [f"all ({sum(s['families'] for s in sizes.values())})"] if len(sizes) > 1 else []
    columns = [
        *words("choice"),
        *numbers(*names, *total),
        *numbers("largest equal", "smallest different", form="{:.1e}".format),
        *numbers("faults"),
        *numbers("time", form=duration_text),
    ]
    rows = []
    for each in part["choices"]:
        cells = []
        for category, size in sizes.items():
            counts = each["categories"][category]
            text = str(counts["classes" if size["graphs"] > 2 else "told"])
            if size["graphs"] > 2 and counts["classes"] < size["graphs"] * size["families"]:
                missed = math.comb(size["graphs"], 2) * size["families"] - counts["pairs_told"]
                text += f" ({counted(missed, 'pair')} not told apart)"
            if counts["whole"] and size["graphs"] <= 2:
                text += f" ({counts['told_where_not_whole']}/{size['families'] - counts['whole']})"
            cells.append(text)
        gaps = [each["largest_equal"], each["smallest_different"]]
        unstable = f", {each['unstable']} unstable" if each["unstable"] else ""
        rows.append(
            [
                each["choice"],
                *cells,
                *([each["told"]] if total else []),
                *(["exact", "exact"] if each["exact"] else gaps),
                f"{each['at_fault']}{unstable}",
                each["seconds"],
            ]
        )
    spare = [*SPARE, *(reversed(names) if total else [])]
    return Table(f"Told apart in {part['set']}", columns, rows, notes(part), spare=spare)


def notes(part: Mapping[str, Any]) -> list[str]:
    """Return the notes on how to read a set's table."""
    pairs = any(size["graphs"] == 2 for size in part["categories"].values())
    lines = []
    if pairs:
        lines.append(
            "A cell counts the pairs told apart; in brackets, if there are pairs in which every "
            "substructure is the whole graph: how many of the other pairs were told apart."
        )
    if len(part["categories"]) == 1 or not pairs:
        lines.append(
            "For a family of more than two graphs, a cell counts the classes found, and in "
            "brackets the pairs of graphs in the same class."
        )
    lines.append(
        "largest equal, smallest different: widest spread that counted as equal and smallest gap "
        "that counted as a difference, in units of 1 + |value|; exact: integers or residues."
    )
    lines.append(
        "faults: graphs told apart from their own relabelled copies (such a pair is not counted); "
        "unstable: the verdict changes if the tolerance is 100 times smaller or larger."
    )
    return lines + published_lines(part["set"])


def faults(result: Mapping[str, Any]) -> list[str]:
    """Return which choices tell graphs from their own relabelled copies."""
    return [
        f"{each['choice']} tells {each['at_fault']} graph(s) of {part['set']} from their own "
        "relabelled copies."
        for part in result["sets"]
        for each in part["choices"]
        if each["at_fault"]
    ]


def bench_report(result: Mapping[str, Any]) -> Report:
    """Return a table for each set, and a row for each set, choice and category."""
    counts = (
        "told",
        "classes",
        "pairs_told",
        "whole",
        "told_where_not_whole",
        "at_fault",
        "unstable",
    )
    margins = ("exact", "largest_equal", "smallest_different", "seconds")
    rows = [
        {"set": part["set"], "choice": each["choice"], "category": category}
        | part["categories"][category]
        | {key: found[key] for key in counts}
        | {key: each[key] for key in margins}
        for part in result["sets"]
        for each in part["choices"]
        for category, found in each["categories"].items()
    ]
    return Report([bench_table(part) for part in result["sets"]], rows)
