"""The README's table: GIN, UnionGIN and what is kept of its gain when the values are shuffled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from leaderboard import read_pairs, revisions, told
from record_book import (
    NOT_RUN,
    RecordBook,
    hours_text,
    parameters_text,
    protocol_text,
    repetitions_text,
    verdict,
)
from runs import BONDS, COMMANDS, CONTROLS, WANTED
from unionsnn.base.errors import RequestError
from unionsnn.config.grid import flatten
from unionsnn.reports.formatting import is_percent
from unionsnn.training.records import Result

_ALL_PAIRS = {"gate.features": ["raw", "marked"], "coefficient.radius": [1, 2]}
"""The network of the row of BREC."""

_COLUMNS = (
    "as [edge features](docs/edge_features.md): the default gate's, numbers of 3- to 8-cycles, "
    "distances, two spectra"
)


@dataclass(frozen=True)
class Row:
    """A row of the README's table.

    Args:
        what: What it is of.
        reads: What is read of each edge.
        command: The command that trains it, a name of `COMMANDS`.
        plain: GIN, in the words of the command.
        union: UnionGIN, in the words of the command.
        controlled: Whether the command trains UnionGIN with shuffled values, too.
    """

    what: str
    reads: str
    command: str
    plain: str = f"model=gin {BONDS}"
    union: str = WANTED
    controlled: bool = True


ROWS = (
    Row(
        "ZINC-10k, mean absolute error, at most 100,000 parameters, 30 epochs",
        "default gate",
        "zinc10k GIN",
        "model=gin",
        "model=union_gin",
    ),
    Row(
        "the same with bond types (GIN is GINE), learning rate 0.002, cosine schedule",
        _COLUMNS,
        "zinc10k bonds",
    ),
    Row(
        "the same, but 200 epochs, one cycle of the learning rate, batches of 32 instead of 128",
        "the same",
        "zinc10k 100,000",
    ),
    Row(
        "the same",
        "default gate",
        "zinc10k 100,000",
        union=f"model=union_gin {BONDS}",
        controlled=False,
    ),
    Row(
        "the same",
        "the paper's gate: normalised a_vu",
        "zinc10k 100,000",
        union=f"model=union_gin gate=paper {BONDS}",
        controlled=False,
    ),
    Row(
        "does a graph have a 4-cycle? accuracy in %, matched degrees",
        "default gate",
        "4-cycles",
        "model=gin",
        "model=union_gin",
        controlled=False,
    ),
)


def readme_table(book: RecordBook) -> str:
    """Return the README's table, and below it what made each row.

    Raises:
        RequestError: A row has no record of GIN or UnionGIN.
    """
    made = [*(_row(book, row) for row in ROWS), _pairs(book)]
    head = "| on the test part | read of each edge | GIN | UnionGIN | "
    head += "shuffled within each graph (gain kept) | shuffled over all graphs (gain kept) |"
    lines = [head, f"|{'---|' * 6}"]
    lines += [f"| {' | '.join(cells)} |" for cells, _ in made]
    numbered = [f"{i}. {fact}" for i, (_, fact) in enumerate(made, 1)]
    numbered += [
        "",
        "UnionGIN in bold: better than GIN, 0 outside the 95 % interval of the paired difference; "
        "worse: than GIN, 0 outside that interval. In brackets: the part of that difference which "
        "a control keeps, where it is better than GIN by the same rule; none shown: 0 is inside "
        "the interval of the control against GIN. A single run, and BREC, have no interval and no "
        "mark. –: not asked. Hours are of what a row shows.",
    ]
    summary = "Protocol, split, seeds, parameters, revision, hours and command of each row"
    lines += ["", f"<details><summary>{summary}</summary>", "", *numbered, "", "</details>"]
    return "\n".join(lines) + "\n"


def _row(book: RecordBook, row: Row) -> tuple[list[str], str]:
    """Return the cells of a row, and what made it."""
    plain, union = (book.asked(row.command, each) for each in (row.plain, row.union))
    if book.record(plain) is None or book.record(union) is None:
        raise RequestError(
            f"README.md has a row of {row.command!r}, which has no record of {row.plain} or of "
            f"{row.union}; run them, or change ROWS."
        )
    controls = CONTROLS if row.controlled else ()
    shuffled = [book.asked(row.command, f"{row.union} {control}") for control in controls]
    done, cells = [], []
    for each in (plain, union, *shuffled):
        if (record := book.record(each)) is None:
            cells.append(NOT_RUN)
            continue
        done.append(record)
        kept = book.kept(plain, union, each) if each in shuffled else None
        cells.append(_mean(record) if kept is None else f"{_mean(record)} ({kept})")
    gain = book.difference(plain, union)
    if gain and (shown := verdict(book.report(plain), gain)):
        cells[1] = f"**{cells[1]}**" if shown == "better" else f"{cells[1]}, worse"
    cells += ["–"] * (2 - len(shuffled))
    first = [each.command for each in ROWS].index(row.command)
    own = ROWS[first] is row
    command = f"`unionsnn {COMMANDS[row.command]}`" if own else f"the command of row {first + 1}"
    fact = (
        f"{row.what}; {row.reads}: {protocol_text(done[0])}; {parameters_text(done)} "
        f"parameters; revision {revisions(done)}; {hours_text(done)}; {command}"
    )
    return [f"{row.what}, {repetitions_text(done[0])}", row.reads, *cells], fact


def _mean(record: Result) -> str:
    mean, std = record.summary.mean, record.summary.std
    scale, digits = (100, 2) if is_percent(record.protocol.report) else (1, 3)
    text = f"{scale * mean:.{digits}f}"
    return text if std is None else f"{text} ± {scale * std:.{digits}f}"


def _pairs(book: RecordBook) -> tuple[list[str], str]:
    """Return the row of BREC, and what made it."""
    both = [_all_pairs(book, "gin"), _all_pairs(book, "union_gin", **_ALL_PAIRS)]
    what = "BREC, of 400 pairs told apart by training"
    reads = "a_vu and marked spectrum at radii 1 and 2"
    revised = dict.fromkeys(e["git_revision"] for each in both for e in each["environments"])
    seconds = sum(pair["seconds"] for each in both for pair in each["pairs"])
    fewest, most = sorted(each["parameters"] for each in both)
    fact = (
        f"{what}: a network for each pair, Hotelling's paired T²; all 400 pairs; seed 0; "
        f"{fewest:,} to {most:,} parameters; revision {', '.join(revised)}; "
        f"{seconds / 3600:.2f} hours; `unionsnn expressivity brec --trained model=union_gin "
        "gate.features=[raw,marked] coefficient.radius=[1,2]`, and `model=gin`"
    )
    return [what, reads, *(str(told(each)) for each in both), "–", "–"], fact


def _all_pairs(book: RecordBook, model: str, **keys: Any) -> dict[str, Any]:
    """Return the one record of all pairs of BREC with keys of the configuration."""
    wanted = keys | {"model.name": model, "coefficient.control": "none"}
    found = [
        each
        for each in read_pairs(book.folder)
        if len(each["pairs"]) == 400 and wanted.items() <= dict(flatten(each["config"])).items()
    ]
    if len(found) != 1:
        count = len(found) or "no"
        raise RequestError(
            f"README.md has a row of BREC, which has {count} records of {model} {keys}; it needs "
            "one. Run it, or name more keys in benchmarks/readme_table.py."
        )
    return found[0]
