"""A table as plain text cells, and what it looks like in each format."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from unionsnn.base.errors import Fault, RequestError
from unionsnn.base.files import atomic_write

Mark = Literal["best", "second"]

# Narrower, a column of folded words is hard to read.
_FOLDED = 10


@dataclass(frozen=True)
class Sheet:
    """One table, ready to be written.

    Args:
        title: Its title.
        header: Names of the columns.
        rows: Cells, as many a row as there are columns.
        words: How many columns, from the left, hold words; the others hold numbers.
        notes: Lines below the table.
        marks: Cells (row, column) that are the best or second best of their kind.
    """

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int = 1
    notes: Sequence[str] = ()
    marks: Mapping[tuple[int, int], Mark] = field(default_factory=dict)

    def map_cells(
        self, form: Callable[[str], str], wrap: Mapping[Mark, Callable[[str], str]]
    ) -> list[list[str]]:
        """Return all cells in a format, marked ones wrapped."""
        found = []
        for i, row in enumerate(self.rows):
            cells = [form(cell) for cell in row]
            for j, cell in enumerate(cells):
                if (i, j) in self.marks:
                    cells[j] = wrap[self.marks[i, j]](cell)
            found.append(cells)
        return found


def terminal_table(sheet: Sheet) -> Table:
    """Return the table for the terminal: best bold, second best underlined."""
    table = Table(title=Text(sheet.title), title_justify="left")
    for number, name in enumerate(sheet.header):
        words = number < sheet.words
        table.add_column(
            escape(name),
            justify="left" if words else "right",
            overflow="fold" if words else "ellipsis",
        )
    styles = {"best": "bold", "second": "underline"}
    for i, row in enumerate(sheet.rows):
        marks = (sheet.marks.get((i, j)) for j in range(len(row)))
        table.add_row(*(Text(c, styles[m] if m else "") for c, m in zip(row, marks, strict=True)))
    return table


def print_sheets(sheets: Sequence[Sheet], console: Console | None = None) -> None:
    """Print tables, each with its notes below; row by row where a number would be cut."""
    console = console or Console()
    for sheet in sheets:
        if _least_width(sheet) <= console.width:
            console.print(terminal_table(sheet))
        else:
            print_lines([sheet.title, *_as_lines(sheet)], console)
        print_lines(sheet.notes, console)


def _least_width(sheet: Sheet) -> int:
    """Width of a table whose numbers are whole and whose words are folded."""
    lines = [sheet.header, *sheet.rows]
    widest = [max(map(len, column)) for column in zip(*lines, strict=True)]
    words, numbers = widest[: sheet.words], widest[sheet.words :]
    return sum(min(w, _FOLDED) for w in words) + sum(numbers) + 3 * len(widest) + 1


def _as_lines(sheet: Sheet) -> list[str]:
    """Return each row as one line: its first cell, then names and values of the others."""
    marks = {"best": " (best)", "second": " (second best)"}
    lines = []
    for i, row in enumerate(sheet.rows):
        named = [
            f"{name} {cell}{marks.get(sheet.marks.get((i, j), ''), '')}".strip()
            for j, (name, cell) in enumerate(zip(sheet.header, row, strict=True))
            if j and cell not in ("", "–")
        ]
        lines.append(f"{row[0]}: {'; '.join(named)}")
    return lines


def print_lines(lines: Sequence[str], console: Console | None = None) -> None:
    """Print lines as they are; whole where they are piped, so that they can be searched for."""
    console = console or Console()
    for line in lines:
        console.print(Text(line), soft_wrap=not console.is_terminal)


def markdown(sheet: Sheet, *, title: bool = True) -> str:
    """Return a table in Markdown, its notes below: best bold, second best underlined."""
    rows = sheet.map_cells(
        _markdown, {"best": lambda c: f"**{c}**", "second": lambda c: f"<u>{c}</u>"}
    )
    rule = ["---"] * sheet.words + ["---:"] * (len(sheet.header) - sheet.words)
    lines = [[_markdown(name) for name in sheet.header], rule, *rows]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    head = f"### {_markdown(sheet.title)}\n\n" if title else ""
    return head + table + "\n\n" + "".join(f"- {_markdown(line)}\n" for line in sheet.notes)


def _markdown(cell: str) -> str:
    one_line = " ".join(cell.split()).replace("|", "\\|")
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", one_line)


def latex(sheet: Sheet, *, title: bool = True) -> str:
    """Return a LaTeX tabular (booktabs), its notes as comments above.

    The best is bold, the second best underlined.
    """
    rows = sheet.map_cells(
        latex_text,
        {"best": lambda c: rf"\textbf{{{c}}}", "second": lambda c: rf"\underline{{{c}}}"},
    )
    head, *body = [
        f"{' & '.join(row)} \\\\" for row in [[latex_text(n) for n in sheet.header], *rows]
    ]
    columns = "l" * sheet.words + "r" * (len(sheet.header) - sheet.words)
    comments = [sheet.title, *sheet.notes] if title else sheet.notes
    return "\n".join(
        [
            *(f"% {' '.join(line.split())}" for line in comments),
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            head,
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            "",
        ]
    )


_LATEX = str.maketrans(
    {c: f"\\{c}" for c in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"±": r"$\pm$", "–": "--", "<": "$<$", ">": "$>$", "-": "$-$", "×": r"$\times$"}
)


def latex_text(cell: str) -> str:
    """Write a cell so that LaTeX prints it as it is."""
    return " ".join(cell.split()).translate(_LATEX)


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows of full numbers as CSV; the first row's keys are the header."""
    buffer = io.StringIO()
    if rows:
        writer = csv.DictWriter(buffer, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return buffer.getvalue()


def flat(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """Make two columns of each interval."""
    flat: dict[str, Any] = {}
    for key, value in numbers.items():
        if key.endswith("interval"):
            low, high = value or (None, None)
            flat |= {f"{key}_low": low, f"{key}_high": high}
        else:
            flat[key] = value
    return flat


def check_output(option: str, path: Path, endings: Sequence[str]) -> None:
    """Check before any work that a file can be written under a name whose extension is its format.

    Raises:
        RequestError: The extension is another, there is no such folder, or a folder has the name.
    """
    if fault := output_fault(option, path, endings):
        raise RequestError(fault)


def output_fault(option: str, path: Path, endings: Sequence[str]) -> Fault | None:
    """Say why no file can be written under a name whose extension is its format; None if it can."""
    if path.suffix.lower() not in endings:
        allowed = (" or " if len(endings) == 2 else ", ").join(endings)
        return Fault(
            f"{option} is {str(path)!r}; the name must end in {allowed}, which decides the format.",
            "output.extension",
        )
    if path.is_dir():
        return Fault(
            f"{option} is {str(path)!r}, which is a folder; name a file.", "output.is_a_folder"
        )
    if not path.parent.is_dir():
        return Fault(
            f"{option} is {str(path)!r}, but there is no folder {path.parent}.", "output.no_folder"
        )
    return None


def write_text(path: Path, text: str) -> None:
    """Write a file, all of it or nothing."""
    atomic_write(path, lambda file: file.write(text.encode()) and None)


def write_sheets(path: Path, sheets: Sequence[Sheet], rows: Sequence[Mapping[str, Any]]) -> None:
    """Write tables as Markdown or LaTeX, or their full numbers as CSV, by the name's ending."""
    makers: Mapping[str, Callable[[], str]] = {
        ".md": lambda: "\n".join(markdown(sheet) for sheet in sheets),
        ".tex": lambda: "\n".join(latex(sheet) for sheet in sheets),
        ".csv": lambda: csv_text(rows),
    }
    write_text(path, makers[path.suffix.lower()]())


ENDINGS = (".md", ".csv", ".tex")
"""Endings of the names that `write_sheets` can write."""
