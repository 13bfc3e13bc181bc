"""What choices of coefficient tell apart, as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from unionsnn.expressivity.bench import Bench, Outcome
from unionsnn.expressivity.edge_colorings import EdgeColoring
from unionsnn.expressivity.graph_sets import Family, load_set
from unionsnn.reports.formatting import duration_text
from unionsnn.reports.progress import Callback
from unionsnn.reports.table import Report, Table, numbers, words

BREC_PAPER = "Wang and Zhang, An Empirical Study of Realized GNN Expressiveness, ICML 2024, table 2"

PUBLISHED: Mapping[str, tuple[int, str]] = {
    "GIN (1-WL)": (0, BREC_PAPER),
    "Graphormer": (79, BREC_PAPER),
    "NestedGNN": (166, BREC_PAPER),
    "DropGNN": (177, BREC_PAPER),
    "PPGN": (233, BREC_PAPER),
    "GSN": (254, BREC_PAPER),
    "3-WL": (270, BREC_PAPER),
    "KP-GNN": (275, BREC_PAPER),
    "I²-GNN": (281, BREC_PAPER),
    "N2": (298, BREC_PAPER),
}
"""Published numbers of BREC's 400 pairs told apart, with their source."""


def measure(
    sets: Sequence[str],
    choices: Sequence[EdgeColoring],
    *,
    root: Path,
    mirror: str | None = None,
    offline: bool = False,
    seed: int = 0,
    threads: int | None = None,
    progress: Callback | None = None,
) -> dict[str, Any]:
    """Measure choices on sets; return plain types for JSON.

    Args:
        sets: Names of sets, or files of pairs.
        choices: The choices.
        root: The data root.
        mirror: Mirror to try before the upstream address.
        offline: Whether to never access http(s) addresses.
        seed: Seed of the relabelled copies.
        threads: Number of threads of the engine; None for all cores.
        progress: Called with (what, done, total).

    Raises:
        DataError: A set could not be obtained.
    """
    loaded = {
        name: load_set(name, root=root, mirror=mirror, offline=offline)
        for name in dict.fromkeys(sets)
    }
    results = []
    for name, families in loaded.items():
        bench = Bench(families, seed=seed, threads=threads)
        outcomes = []
        for choice in choices:

            def report(done: int, total: int, what: str = f"{name}, {choice.name}") -> None:
                if progress is not None:
                    progress(what, done, total)

            outcomes.append(_plain(families, bench.run(choice, report)))
        results.append({"set": name, "categories": _sizes(families), "choices": outcomes})
    return {"seed": seed, "sets": results}


def _categories(families: Sequence[Family]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for i, family in enumerate(families):
        found.setdefault(family.category, []).append(i)
    return found


def _sizes(families: Sequence[Family]) -> dict[str, dict[str, Any]]:
    """Count the families of each category and their graphs."""
    return {
        category: {"families": len(rows), "graphs": len(families[rows[0]].graphs)}
        for category, rows in _categories(families).items()
    }


def _plain(families: Sequence[Family], outcome: Outcome) -> dict[str, Any]:
    """Count an outcome by category; families in which S is the whole graph separately."""
    categories = {}
    for category, rows in _categories(families).items():
        told = outcome.told[rows]
        whole = None if outcome.whole is None else outcome.whole[rows]
        categories[category] = {
            "told": int(told.sum()),
            "classes": int(outcome.classes[rows].sum()),
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


# -- tables --------------------------------------------------------------------------------


def bench_table(part: Mapping[str, Any]) -> Table:
    """Make the table of a set: pairs told apart, in all and where S is not the whole graph."""
    sizes = part["categories"]
    names = [f"{name} ({size_text(size)})" for name, size in sizes.items()]
    total = [f"all ({sum(s['families'] for s in sizes.values())})"] if len(sizes) > 1 else []
    columns = [
        *words("choice"),
        *numbers(*names, *total, "largest equal", "smallest different", "faults"),
        *numbers("time", form=duration_text),
    ]
    rows = [_row(sizes, each) for each in part["choices"]]
    return Table(f"Told apart in {part['set']}", columns, rows, notes(part))


def size_text(size: Mapping[str, Any]) -> str:
    """Format how much there is to tell apart in a category."""
    return f"{size['graphs']} graphs" if size["graphs"] > 2 else str(size["families"])


def _row(sizes: Mapping[str, Any], each: Mapping[str, Any]) -> list[Any]:
    cells = [each["choice"]]
    for category, size in sizes.items():
        counts = each["categories"][category]
        if size["graphs"] > 2:
            cells.append(counts["classes"])
            continue
        text = str(counts["told"])
        if counts["whole"]:
            text += f" ({counts['told_where_not_whole']}/{size['families'] - counts['whole']})"
        cells.append(text)
    if len(sizes) > 1:
        cells.append(each["told"])
    if each["exact"]:
        cells += ["exact", "exact"]
    else:
        different = each["smallest_different"]
        cells += [
            f"{each['largest_equal']:.1e}",
            None if different is None else f"{different:.1e}",
        ]
    faults = f"{each['at_fault']}" + (f", {each['unstable']} unstable" if each["unstable"] else "")
    return [*cells, faults, each["seconds"]]


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
        lines.append("For a family of more than two graphs, a cell counts the classes found.")
    lines.append(
        "largest equal, smallest different: widest spread that counted as equal and smallest gap "
        "that counted as a difference, in units of 1 + |value|; exact: integers or residues."
    )
    lines.append(
        "faults: graphs told apart from their own relabelled copies (such a pair is not counted); "
        "unstable: the verdict changes if the tolerance is 100 times smaller or larger."
    )
    if part["set"] == "brec":
        figures = ", ".join(f"{name} {count}" for name, (count, _) in PUBLISHED.items())
        lines.append(f"Published, of 400: {figures}. Source: {BREC_PAPER}.")
    return lines


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
    counts = ("told", "classes", "whole", "told_where_not_whole", "at_fault", "unstable")
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
