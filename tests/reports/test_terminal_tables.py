"""Tables on terminals of any width: whole words, whole numbers, nothing left out in silence."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from functools import cache

import pytest
from rich.console import Console

from made_tables import ITEMS
from unionsnn.reports.table import Table, numbers, output_console, show, words


def printed(items: Sequence[Table | str], width: int, *, terminal: bool = False) -> str:
    console = Console(width=width, file=io.StringIO(), force_terminal=terminal, no_color=True)
    show(items, console)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return re.sub("\x1b\\[[0-9;]*m", "", text)


@cache
def items_of(kind: str) -> Sequence[Table | str]:
    return ITEMS[kind]()


def drawn(text: str) -> list[str]:
    """The lines of tables in print."""
    return [line for line in text.splitlines() if line[:1] in "┏┃┡│└┳├" and line]


@pytest.mark.parametrize("width", [80, 120, 160])
@pytest.mark.parametrize("kind", ITEMS)
def test_every_table_fits_with_whole_words(kind: str, width: int) -> None:
    items = items_of(kind)
    tables = [item for item in items if isinstance(item, Table)]
    text = printed(items, width)
    assert drawn(text)
    assert max(map(len, drawn(text))) <= width
    whole = {
        part
        for table in tables
        for cell in [*table.names, *(c for row in table.cells() for c in row)]
        for part in re.split(r"(?<=[./])|\s", cell)
    } | {word for table in tables for row in table.cells() for cell in row for word in cell.split()}
    shown = {
        part
        for line in drawn(text)
        for cell in re.split("[┃│]", line.strip("┃│"))
        if not set(line) & set("┏┡└├")
        for word in cell.split()
        for part in ({word} if word in whole else set(re.split(r"(?<=[./])", word)) - {""})
    }
    assert shown <= whole


@pytest.mark.parametrize("kind", ITEMS)
def test_what_a_table_leaves_out_is_said_with_what_shows_it(kind: str) -> None:
    for table in items_of(kind):
        if isinstance(table, str):
            continue
        text = printed([table], 80)
        head = "\n".join(text.splitlines()[:9])
        gone = [name for name in table.spare if not all(w in head for w in name.split())]
        told = re.search(r"not shown in 80 columns: .*; --json or COLUMNS=(\d+) in front", text)
        assert bool(told) or not gone
        if told:
            assert all(name in told[0] for name in gone)
            assert "not shown" not in printed([table], int(told[1]))
            assert "not shown" in printed([table], int(told[1]) - 1)


def test_the_least_important_goes_first_and_what_all_rows_share_before_it() -> None:
    columns = [*words("model"), *numbers("mean", "time"), *words("gate", "protocol")]
    rows = [["gin", "80.00 ± 1.00 %", "1:00", "none", "holdout"]]
    rows += [["gat", "80.00 ± 2.00 %", "2:00", "paper", "holdout"]]
    table = Table("", columns, rows, spare=["time", "gate", "protocol"])
    assert "not shown" not in printed([table], 56)
    assert "not shown in 50 columns: protocol (holdout in all rows); --json" in printed([table], 50)
    assert "36 columns: time, protocol (holdout in all rows);" in printed([table], 36)
    assert "28 columns: time, gate, protocol (holdout in all rows);" in printed([table], 28)
    # Where the least does not fit, each row is a line with all of its values.
    lines = printed([table], 20)
    assert "gat: mean 80.00 ± 2.00 %; time 2:00; gate paper; protocol holdout" in lines
    assert "not shown" not in lines


def test_without_a_terminal_the_width_is_160(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert output_console().width == 160
    monkeypatch.setenv("COLUMNS", "97")
    assert output_console().width == 97
