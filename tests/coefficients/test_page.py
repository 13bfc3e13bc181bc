"""The tables of docs/coefficients.md are those of `space`.

They are written by

    UNIONSNN_FREEZE=wording pytest tests/coefficients/test_page.py
"""

import os
from pathlib import Path

import pytest

from unionsnn.coefficients import space
from unionsnn.coefficients.spec import columns_of

PAGE = Path(__file__).parents[2] / "docs" / "coefficients.md"


def code(names):
    return ", ".join(f"`{name}`" for name in names if name) or "\N{EN DASH}"


TABLES = {
    "| substructure | nodes | edges | paper |": [
        (code([name]), row.nodes, row.edges, row.in_paper)
        for name, row in space.SUBSTRUCTURES.items()
    ],
    "| descriptor | definition | encodings | option |": [
        (code([name]), row.definition, code(space.encodings_of(name)), code([row.parameter]))
        for name, row in space.DESCRIPTORS.items()
    ],
    "| encoding | definition | descriptors |": [
        (code([name]), row.definition, code(row.kernels)) for name, row in space.ENCODINGS.items()
    ],
    "| quantity | definition | columns at radius 1 |": [
        (code([name]), row.definition, code(columns_of([name], [1])))
        for name, row in space.QUANTITIES.items()
    ],
}


@pytest.mark.parametrize("header", TABLES)
def test_a_table_of_the_page(header):
    before, after = PAGE.read_text().split(header + "\n")
    end = after.index("\n\n") + 1
    rows = [" | ".join(cell.replace("|", r"\|") for cell in row) for row in TABLES[header]]
    table = "".join([header[:1] + "---|" * (header.count("|") - 1), *(f"\n| {r} |" for r in rows)])
    if os.environ.get("UNIONSNN_FREEZE") == "wording":
        PAGE.write_text(f"{before}{header}\n{table}\n{after[end:]}")
    else:
        assert after[:end] == f"{table}\n"
