"""The tables of the pages, made from the records in `benchmarks/records`.

    python benchmarks/pages.py [--runs DIR] [--compose]      # make results ARGS="--runs DIR"

Rewrites what stands between `<!-- records: NAME -->` and `<!-- end of records -->` in `PAGES`; the
text around it is written by hand. Commands of `runs.py` that have changed are composed anew, with
`--compose` all. A configuration without a finished record is shown as not run; a damaged record, or
two of one configuration, end the command before a page is written. With `--runs`, finished records
of a folder of runs are copied first.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from readme_table import readme_table
from record_book import INDEX, RecordBook, index_of
from result_tables import claims, compared, goals, helps, pairs, paper, trials
from runs import COMMANDS, keep_records
from unionsnn.base.errors import RequestError, UnionsnnError
from unionsnn.base.files import write_json

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "docs/results.md", "docs/what_helps.md")

_MARKED = re.compile(
    r"(?P<begin><!-- records: (?P<name>.+?) -->\n)(?:(?!<!-- records: ).)*?"
    r"(?P<end><!-- end of records -->)",
    re.DOTALL,
)

BLOCKS: dict[str, Callable[[RecordBook], str]] = {
    "readme": readme_table,
    "zinc": lambda b: compared(b, "zinc10k GIN", "zinc10k GCN", "zinc10k GatedGCN"),
    "zinc, bonds": lambda b: compared(b, "zinc10k bonds"),
    "zinc, full length": lambda b: compared(
        b, "zinc10k 100,000", "zinc10k 100,000 without bonds", "zinc10k 500,000"
    ),
    "zinc, trials": trials,
    "zinc, goals": goals,
    "transformers": lambda b: compared(b, "zinc10k GPS", "zinc10k Graphormer"),
    "transformers, full length": lambda b: compared(b, "zinc10k GPS with bonds"),
    "tu": lambda b: compared(b, "MUTAG", "PROTEINS", "ENZYMES"),
    "tu, nested": lambda b: compared(
        b, *(name for name in COMMANDS if name.startswith("nested: ")), against="model=gin"
    ),
    "baselines": lambda b: compared(
        b, "MUTAG baselines", "ENZYMES baselines", "4-cycles PPGN", paired=False
    ),
    "cycles": lambda b: compared(b, "4-cycles", "6-cycles"),
    "ogb": lambda b: compared(b, "molbbbp with bonds", "molhiv with bonds"),
    "quick start": lambda b: compared(b, "quick start"),
    "cora": lambda b: compared(b, "Cora GCN", "Cora GIN"),
    "short": lambda b: compared(
        b, "molbbbp", "Photo", "PROTEINS GCN", "PROTEINS SAGE", "ENZYMES SAGE"
    ),
    "brec": pairs,
    "paper": paper,
    "plug-ins": lambda b: compared(
        b, *(name for name in COMMANDS if name.startswith(("plug-in ", "gates: ")))
    ),
    "claims": claims,
    **{
        name: lambda b, name=name: helps(b, name)
        for name in COMMANDS
        if name.startswith("what helps")
    },
}
"""Tables by the names of their markers."""


def rewritten(
    text: str, book: RecordBook, blocks: Mapping[str, Callable[[RecordBook], str]] = BLOCKS
) -> str:
    """Return a page with the tables of `blocks` made anew.

    Raises:
        RequestError: A marker names no table, or lacks its end or its beginning.
    """
    pairs_of_markers = len(_MARKED.findall(text))
    for marker in ("<!-- records: ", "<!-- end of records -->"):
        if text.count(marker) != pairs_of_markers:
            raise RequestError(
                f"a page has {text.count(marker)} of {marker!r}, and {pairs_of_markers} tables "
                "with beginning and end; text between would be lost."
            )

    def block(found: re.Match[str]) -> str:
        if found["name"] not in BLOCKS:
            raise RequestError(f"{found['name']} is no table; allowed are {', '.join(BLOCKS)}.")
        if found["name"] not in blocks:
            return found[0]
        return f"{found['begin']}\n{blocks[found['name']](book)}\n{found['end']}"

    return _MARKED.sub(block, text)


def main() -> None:
    """Write the pages, or say which record is at fault."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=Path, help="folder above runs/, whose records are copied")
    parser.add_argument("--compose", action="store_true", help="compose unchanged commands, too")
    given = parser.parse_args()
    try:
        write_pages(given.runs, compose=given.compose)
    except UnionsnnError as error:
        sys.exit(f"no page is written: {error}")


def write_pages(runs: Path | None, *, compose: bool) -> None:
    """Copy finished records, if asked; write the pages.

    Raises:
        UnionsnnError: A record is damaged or missing; no page is written.
    """
    if runs is not None:
        print(f"records of {keep_records(runs):.1f} core-hours copied")
    known = json.loads(INDEX.read_text()) if INDEX.exists() and not compose else {}
    write_json(INDEX, index_of(known))
    book = RecordBook.read()
    pages = {name: rewritten((ROOT / name).read_text(), book) for name in PAGES}
    for name, new in pages.items():
        if (ROOT / name).read_text() != new:
            (ROOT / name).write_text(new)
            print(f"{name} is rewritten")
    for name, entries in book.commands.items():
        if count := sum(each.hash not in book.of for each in entries):
            print(f"{name}: {count} of {len(entries)} not run")


if __name__ == "__main__":
    main()
