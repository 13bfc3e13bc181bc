"""Tables, and how they are written to a terminal, Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from unionsnn.base.errors import RequestError, UnionsnnError
from unionsnn.base.files import atomic_write
from unionsnn.reports.formatting import count_text, printable
from unionsnn.reports.latex import latex

Mark = Literal["best", "second"]
Cell = TypeVar("Cell")

_PIPED = 160
"""Width of a table where there is no terminal."""

_LINES = 4
"""Most lines of a cell; more only where no further column can be left out."""


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Args:
        name: Its heading.
        number: Whether it holds numbers, which are right-aligned and never wrapped.
        form: Formats a value, unless it is text or missing (None, shown as a dash).
    """

    name: str
    number: bool = False
    form: Callable[[Any], str] = count_text

    def text(self, value: Any) -> str:
        """Format a value of the column."""
        if value is None:
            return "–"
        return printable(value if isinstance(value, str) else self.form(value))


def words(*names: str) -> list[Column]:
    """Make columns of words."""
    return [Column(name) for name in names]


def numbers(*names: str, form: Callable[[Any], str] = count_text) -> list[Column]:
    """Make columns of numbers with the same format, by default counts."""
    return [Column(name, True, form) for name in names]


@dataclass(frozen=True)
class Table:
    """A table, independent of the output format.

    Args:
        title: Its title; empty for none.
        columns: Its columns; the first says what a row is of.
        rows: Values, one for each column.
        notes: Lines below the table.
        marks: Best and second best cells, by (row, column).
        header: Whether to show the column names.
        spare: Names of the columns that a narrow terminal can do without, the least important
            first.
        groups: Headings of groups of rows that are not comparable with each other, by their first
            row; empty for one group.
    """

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    notes: Sequence[str] = ()
    marks: Mapping[tuple[int, int], Mark] = field(default_factory=dict)
    header: bool = True
    spare: Sequence[str] = ()
    groups: Mapping[int, str] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [column.name for column in self.columns]

    def cells(self) -> list[list[str]]:
        """Return the rows as text."""
        return [
            [column.text(value) for column, value in zip(self.columns, row, strict=True)]
            for row in self.rows
        ]

    def only(self, places: Sequence[int]) -> Table:
        """Return the table with some of its columns."""
        return replace(
            self,
            columns=[self.columns[i] for i in places],
            rows=[[row[i] for i in places] for row in self.rows],
            marks={(i, places.index(j)): m for (i, j), m in self.marks.items() if j in places},
        )

    def marked(
        self, form: Callable[[str], Cell], wrap: Mapping[Mark, Callable[[Cell], Cell]]
    ) -> list[list[Cell]]:
        """Return the rows as text in a format, with marked cells emphasised."""
        rows = [[form(cell) for cell in row] for row in self.cells()]
        for (i, j), mark in self.marks.items():
            rows[i][j] = wrap[mark](rows[i][j])
        return rows


def key_value_table(title: str, rows: Sequence[tuple[str, str]]) -> Table:
    """Make a table of two columns without a header."""
    return Table(title, words("", ""), rows, header=False)


@dataclass(frozen=True)
class Report:
    """Tables to read, and the same results with full precision.

    Args:
        tables: The tables.
        rows: Full-precision rows for CSV and JSON; all have the keys of the first.
        pivots: The same results with a row for each model and a column for each data set, as papers
            print them; for LaTeX and HTML.
    """

    tables: Sequence[Table]
    rows: Sequence[Mapping[str, Any]]
    pivots: Sequence[Table] = ()

    def write(self, path: Path) -> None:
        """Write Markdown, LaTeX or CSV, by file extension, atomically."""
        makers: Mapping[str, Callable[[], str]] = {
            ".md": lambda: "\n".join(map(markdown, self.tables)),
            ".tex": lambda: "\n".join([_PACKAGES, *map(latex, [*self.pivots, *self.tables])]),
            ".csv": lambda: csv_text(self.rows),
        }
        write_text(path, makers[path.suffix.lower()]())


_PACKAGES = r"% needs \usepackage{booktabs,array}; fits a line of 345 pt (article, 10 pt)"

EXTENSIONS = (".md", ".csv", ".tex")
"""File extensions supported by `Report.write`."""


def output_console() -> Console:
    """Return a console for results: as wide as the terminal or COLUMNS, else 160 columns."""
    console = Console()
    wide = console.is_terminal or os.environ.get("COLUMNS", "").isdigit()
    return console if wide else Console(width=_PIPED)


def show(
    items: Sequence[Table | str | Text], console: Console | None = None, more: str = "--json"
) -> None:
    """Print tables and lines.

    A table has its notes below. In a narrow one, words are wrapped, never broken; then columns are
    left out by their importance, which a line says; what still does not fit is printed row by row.
    Piped lines are not wrapped, so that they can be searched.

    Args:
        items: The tables and lines.
        console: Where to print.
        more: Option of the command that prints all columns.
    """
    console = console or output_console()
    for item in items:
        if not isinstance(item, Table):
            text = Text(printable(item)) if isinstance(item, str) else item
            console.print(text, soft_wrap=not console.is_terminal)
            continue
        fit = _fit(item, console.width)
        if fit is None:
            show([item.title, *_as_lines(item), *item.notes], console)
            continue
        shown, widths, left_out = fit
        console.print(_terminal_table(shown, widths))
        if left_out:
            all_of_it = f"COLUMNS={_total(low for low, _ in _limits(item))} in front of the command"
            show(
                [
                    f"not shown in {console.width} columns: {', '.join(left_out)}; {more} or "
                    f"{all_of_it} shows all"
                ],
                console,
            )
        show(item.notes, console)


def _fit(table: Table, width: int) -> tuple[Table, list[int], list[str]] | None:
    """Return the columns that fit, their widths, and what is left out; None if too few fit."""
    columns = list(zip(*table.cells(), strict=True)) or [()] * len(table.columns)
    # What all rows share is told in the line below, and nothing is lost.
    shared = [i for i, texts in enumerate(columns) if len(texts) > 1 and len({*texts}) == 1]
    order = sorted(
        (i for i, name in enumerate(table.names) if name in table.spare),
        key=lambda i: (i not in shared, table.spare.index(table.names[i])),
    )
    for few, lines in [*((n, _LINES) for n in range(len(order) + 1)), (len(order), math.inf)]:
        left_out = sorted(order[:few])
        shown = table.only([i for i in range(len(columns)) if i not in left_out])
        limits = _limits(shown, lines)
        if _total(low for low, _ in limits) <= width:
            told = [
                f"{table.names[i]} ({columns[i][0]} in all rows)" if i in shared else table.names[i]
                for i in left_out
            ]
            return shown, _widths(limits, width), told
    return None


def _column_texts(table: Table) -> list[list[str]]:
    """Return the lines of text of each column, its heading first."""
    head = [[printable(name)] if table.header else [] for name in table.names]
    cells = zip(*table.cells(), strict=True) if table.rows else [()] * len(head)
    return [
        [*name, *(line for text in texts for line in text.split("\n"))]
        for name, texts in zip(head, cells, strict=True)
    ]


def _total(widths: Iterable[int]) -> int:
    return 1 + sum(3 + width for width in widths)


def _limits(table: Table, lines: float = _LINES) -> list[tuple[int, int]]:
    """Return the smallest readable and the largest useful width of each column."""
    limits = []
    for column, texts in zip(table.columns, _column_texts(table), strict=True):
        name = [max(map(cell_len, _HEADING.split(column.name)))] if table.header else [0]
        high = max(map(cell_len, texts), default=0)
        if column.number:
            low = max([*name, *map(cell_len, texts[table.header :])])
        else:
            words = [cell_len(word) for text in texts[table.header :] for word in text.split()]
            low = max([*name, *words, math.ceil(high / lines)])
        limits.append((low, max(low, high)))
    return limits


def _widths(limits: Sequence[tuple[int, int]], width: int) -> list[int]:
    """Share a width among the columns: the widest is made narrower, one step at a time."""
    widths = [high for _, high in limits]
    while _total(widths) > width:
        widest = max(
            (i for i, (low, _) in enumerate(limits) if widths[i] > low), key=lambda i: widths[i]
        )
        widths[widest] -= 1
    return widths


# A heading may be broken after a space, a dot and a slash: optimizer.lr, won/lost/tied.
_HEADING = re.compile(r"(?<=[./])| ")


def _heading(name: str, width: int) -> str:
    """Break a heading into lines."""
    lines = [""]
    for part in re.split(r"(?<=[./ ])", name):
        if cell_len((lines[-1] + part).rstrip()) > width and lines[-1]:
            lines.append("")
        lines[-1] += part
    return "\n".join(line.rstrip() for line in lines)


def _terminal_table(table: Table, widths: Sequence[int]) -> RichTable:
    """Return a table for the terminal: best bold, second best underlined."""
    shown = RichTable(
        title=Text(printable(table.title)) if table.title else None,
        title_justify="left",
        show_header=table.header,
    )
    for column, width in zip(table.columns, widths, strict=True):
        shown.add_column(
            Text(_heading(printable(column.name), width)),
            justify="right" if column.number else "left",
            width=width,
            overflow="fold",
        )
    wrap: Mapping[Mark, Callable[[Text], Text]] = {
        "best": lambda cell: Text(cell.plain, "bold"),
        "second": lambda cell: Text(cell.plain, "underline"),
    }
    for place, row in enumerate(table.marked(Text, wrap)):
        if place in table.groups:
            shown.add_section()
        shown.add_row(*row)
    return shown


def _as_lines(table: Table) -> list[str]:
    """Return each row as one line: its first cell, then names and values of the others."""
    lines = []
    for first, *others in table.marked(
        str, {"best": lambda cell: f"{cell} (best)", "second": lambda cell: f"{cell} (second best)"}
    ):
        pairs = zip(table.names[1:], others, strict=True)
        named = [f"{name} {cell}".strip() for name, cell in pairs if cell not in ("", "–")]
        lines.append(f"{first}: {'; '.join(named)}")
    return lines


def markdown(table: Table) -> str:
    """Return a table in Markdown with its notes below: best bold, second best underlined."""
    rows = table.marked(
        _markdown_text, {"best": lambda c: f"**{c}**", "second": lambda c: f"<u>{c}</u>"}
    )
    rule = ["---:" if column.number else "---" for column in table.columns]
    lines = [[_markdown_text(name) for name in table.names], rule, *rows]
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    title = f"### {_markdown_text(table.title)}\n\n" if table.title else ""
    return title + text + "\n\n" + "".join(f"- {_markdown_text(note)}\n" for note in table.notes)


def _markdown_text(cell: str) -> str:
    # Underscores inside a word emphasise nothing.
    one_line = re.sub(r"([\\|`*\[\]]|(?<!\w)_|_(?!\w))", r"\\\1", " ".join(printable(cell).split()))
    return re.sub(r"<(?=[A-Za-z/!?])|&(?=#?\w+;)", _entity, one_line)


def _entity(found: re.Match[str]) -> str:
    return {"<": "&lt;", "&": "&amp;"}[found[0]]


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return full-precision rows as CSV; the first row's keys are the header.

    Text that a spreadsheet would run as a formula is preceded by an apostrophe.
    """
    buffer = io.StringIO()
    if rows:
        writer = csv.DictWriter(buffer, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: csv_value(value) for key, value in row.items()} for row in rows)
    return buffer.getvalue()


def csv_value(value: Any) -> Any:
    """Return a cell of a CSV file: text that a spreadsheet would run begins with an apostrophe."""
    if not isinstance(value, str):
        return value
    text = printable(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


def sort_key(column: Column, value: Any) -> float | str:
    """Return what a cell is sorted by: a number's first figure, or the words; empty if missing."""
    if isinstance(value, int | float):
        return value
    text = "" if value is None else str(value)
    if not column.number:
        return text.lower()
    found = re.search(r"[-+]?\d[\d,]*(\.\d+)?(e[-+]?\d+)?", text)
    return float(found[0].replace(",", "")) if found else ""


def html_page(template: str, **values: Any) -> str:
    """Render a page that opens offline; text is escaped, ``table`` renders a `Table`.

    Args:
        template: A file of ``reports/templates``.
        values: Values used in the template.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("unionsnn.reports"), autoescape=True, undefined=StrictUndefined
    )
    environment.globals["sort_key"] = sort_key
    return environment.get_template(template).render(**values)


_RUN_FILES = {
    *("config.json", "results.json", "splits.json", "study.json", "checkpoints", "predictions"),
    *("repetitions", "logs", "unfinished", "failed", "cells"),
}


def check_output(
    option: str,
    path: Path,
    extensions: Sequence[str],
    error: type[UnionsnnError] = RequestError,
    inputs: Sequence[Path] = (),
) -> None:
    """Check before any work that a file can be written to a path and has a known extension.

    Args:
        option: The option that names the path.
        path: The path.
        extensions: The known extensions.
        error: Class of the error.
        inputs: Files and folders that are read, in which nothing is overwritten.

    Raises:
        UnionsnnError: The extension is unknown, the folder is missing, or the path is a folder, a
            link, a pipe, an input, or a file of a run folder.
    """
    given = f"{option} is {str(path)!r}"
    if path.suffix.lower() not in extensions:
        allowed = (" or " if len(extensions) == 2 else ", ").join(extensions)
        text = f"{given}; the name must end in {allowed}, which sets the format."
        raise error(text, code="output.extension")
    if path.is_dir():
        raise error(f"{given}, which is a folder; name a file.", code="output.is_a_folder")
    if not path.parent.is_dir():
        raise error(
            f"{given}, but there is no folder {path.parent}; create it.", code="output.no_folder"
        )
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise error(
            f"{given}, which is a link or no regular file, and would be replaced; name another "
            "file.",
            code="output.not_regular",
        )
    whole = path.resolve()
    read = [each for each in inputs if each.resolve() in (whole, *whole.parents)]
    if path.exists() and (read or _is_of_a_run(whole)):
        what = "a run" if not read else "what is read"
        raise error(
            f"{given}, which belongs to {what} and would be overwritten; name another file.",
            code="output.is_an_input",
        )


def _is_of_a_run(path: Path) -> bool:
    folders = [folder for folder in path.parents[:3] if (folder / "config.json").is_file()]
    return any(path.relative_to(folder).parts[0] in _RUN_FILES for folder in folders)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    atomic_write(path, lambda file: file.write(text.encode()))
