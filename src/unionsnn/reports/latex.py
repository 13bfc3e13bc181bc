r"""Tables in LaTeX that pdflatex compiles and that fit a line of text.

They need ``\usepackage{booktabs,array}``.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unionsnn.reports.formatting import printable

if TYPE_CHECKING:
    from unionsnn.reports.table import Table

LINE = 345.0
"""Width of a line of the class article at 10 points, in points."""

_PAGE = 480.0
"""A taller tabular might not fit a page, in points."""

_SIZES = (("small", 0.93, 11.0), ("footnotesize", 0.86, 9.5), ("scriptsize", 0.82, 8.0))
"""Sizes of type: name, width relative to the normal one, distance of lines in points."""

_GAP = 3.0
"""Space on each side of a column, in points."""

_NARROW = 48.0
"""A narrower column of wrapped words is hard to read, in points."""


def latex(table: Table) -> str:
    r"""Return booktabs tabulars with title and notes as comments above.

    A table that is too wide is set smaller, its words are wrapped, and at last its columns continue
    in a second tabular, which repeats the first column; one that is too high continues on the next
    page. The best is bold, the second best underlined.
    """
    comments = [*([table.title] if table.title else []), *table.notes]
    rest, shared = _without_shared(table)
    if len(_layouts(table)) > 1 and shared:
        table = rest
        comments.append(f"in all rows: {', '.join(shared)}")
    rows = _rows(table, text)
    broken = _rows(table, lambda cell: text(_breakable(cell)))
    lines = [f"% {' '.join(printable(line).split())}" for line in comments]
    for layout in _layouts(table):
        for first, end in layout.pages(table):
            lines += layout.tabular(table, rows[first:end], broken[first:end], first)
    return "\n".join([*lines, ""])


def _without_shared(table: Table) -> tuple[Table, list[str]]:
    """Take the spare columns that are the same in all rows out of a table, and name them."""
    columns = list(zip(*table.cells(), strict=True))
    shared = [
        i
        for i, texts in enumerate(columns)
        if table.names[i] in table.spare and len(texts) > 1 and len({*texts}) == 1
    ]
    rest = table.only([i for i in range(len(table.columns)) if i not in shared])
    return rest, [f"{table.names[i]} {columns[i][0]}" for i in shared]


def _rows(table: Table, form: Callable[[str], str]) -> list[list[str]]:
    return table.marked(
        form, {"best": lambda c: rf"\textbf{{{c}}}", "second": lambda c: rf"\underline{{{c}}}"}
    )


@dataclass(frozen=True)
class _Layout:
    """How some columns of a table are set.

    Args:
        places: The columns.
        widths: Width of each, in points; wrapped columns have those in `wrapped`.
        wrapped: Which of them are wrapped.
        size: A row of `_SIZES`.
    """

    places: Sequence[int]
    widths: Sequence[float]
    wrapped: Sequence[bool]
    size: tuple[str, float, float]

    def pages(self, table: Table) -> list[tuple[int, int]]:
        """Share the rows among tabulars of at most a page: begin and end of each."""
        _, scale, skip = self.size
        begins, height = [0], 0.0
        for number, row in enumerate(table.cells()):
            lines = max(
                _lines(row[i], width / scale) if wrapped else 1
                for i, width, wrapped in zip(self.places, self.widths, self.wrapped, strict=True)
            )
            height += lines * skip
            if height > _PAGE:
                begins.append(number)
                height = lines * skip
        return list(zip(begins, [*begins[1:], len(table.rows)], strict=True))

    def tabular(
        self,
        table: Table,
        rows: Sequence[Sequence[str]],
        broken: Sequence[Sequence[str]],
        begin: int,
    ) -> list[str]:
        """Return the lines of a tabular of some rows, given as such and with breaks in words."""
        name, scale, _ = self.size
        kinds, head = [], []
        for i, width, wrapped in zip(self.places, self.widths, self.wrapped, strict=True):
            column = table.columns[i]
            kind = "r" if column.number else "l"
            kinds.append(
                rf">{{\raggedright\arraybackslash}}p{{{width:.1f}pt}}" if wrapped else kind
            )
            heading = text(_breakable(column.name) if wrapped else column.name)
            if not wrapped and measure(column.name) * scale > width + 0.01:
                parts = r" \\ ".join(text(part) for part in _broken(column.name, width / scale))
                heading = rf"\begin{{tabular}}[b]{{@{{}}{kind}@{{}}}}{parts}\end{{tabular}}"
            head.append(heading)
        body = [
            [
                (long if wrapped else row)[i]
                for i, wrapped in zip(self.places, self.wrapped, strict=True)
            ]
            for row, long in zip(rows, broken, strict=True)
        ]
        return [
            rf"{{\{name}\setlength{{\tabcolsep}}{{{_GAP:g}pt}}\noindent",
            rf"\begin{{tabular}}{{@{{}}{''.join(kinds)}@{{}}}}",
            r"\toprule",
            *([f"{' & '.join(head)} \\\\", r"\midrule"] if table.header else []),
            *(
                rf"\midrule {' & '.join(row)} \\"
                if begin + k in table.groups and k
                else f"{' & '.join(row)} \\\\"
                for k, row in enumerate(body)
            ),
            r"\bottomrule",
            r"\end{tabular}\par}",
            r"\medskip",
        ]


def _layouts(table: Table) -> list[_Layout]:
    """Lay the columns out in as few tabulars as fit a line."""
    every = range(len(table.columns))
    for size in _SIZES:
        if found := _fit(table, list(every), size):
            return [found]
    # The first column says what a row is of, and is repeated.
    layouts, places = [], [0]
    for i in every[1:]:
        found = _fit(table, [*places, i], _SIZES[1])
        if found is None and len(places) > 1:
            layouts.append(_fit(table, places, _SIZES[1]))
            places = [0]
        places.append(i)
    layouts.append(_fit(table, places, _SIZES[1]))
    return [layout for layout in layouts if layout is not None]


def _fit(table: Table, places: list[int], size: tuple[str, float, float]) -> _Layout | None:
    """Lay out some columns in a line, if they fit."""
    scale = size[1]
    columns = list(zip(*table.cells(), strict=True)) or [()] * len(table.columns)
    bold = {j for _, j in table.marks}
    low, high = [], []
    for i in places:
        column, texts = table.columns[i], columns[i]
        name = column.name if table.header else ""
        cells = max((measure(cell) for cell in texts), default=0.0) * (1.17 if i in bold else 1)
        words = max(map(measure, _parts(name)))
        if column.number:
            least = most = max(cells, words)
        else:
            most = max(cells, words, measure(name))
            parts = [measure(part) for cell in texts for part in _parts(cell)]
            least = min(most, max(words, *parts, _NARROW, most / 8))
        low.append(least * scale)
        high.append(most * scale)
    room = LINE - 2 * _GAP * (len(places) - 1)
    if sum(low) > room and len(places) > 2:
        return None
    widths = list(high)
    while sum(widths) > room:
        over = [k for k in range(len(widths)) if widths[k] > low[k]]
        if not over:
            break
        widest = max(over, key=lambda k: widths[k])
        widths[widest] = max(low[widest], widths[widest] - 2)
    wrapped = [width < most for width, most in zip(widths, high, strict=True)]
    return _Layout(places, widths, wrapped, size)


def _broken(name: str, width: float) -> list[str]:
    """Break a heading into lines of a width."""
    lines = [""]
    for part in re.findall(rf"[^\s{_BREAK}]+\s*", _breakable(name)):
        if measure(lines[-1] + part.rstrip()) > width and lines[-1]:
            lines.append("")
        lines[-1] += part
    return [line.rstrip() for line in lines]


def _lines(cell: str, width: float) -> int:
    """Estimate how many lines a cell takes in a column."""
    lines, used = 1, 0.0
    for part in re.findall(rf"[^\s{_BREAK}]+\s*", _breakable(cell)):
        wide = measure(part)
        if used + wide > width and used:
            lines, used = lines + 1, 0.0
        used += wide
        lines += max(math.ceil(used / width) - 1, 0)
        used = min(used, width)
    return lines


_BREAK = "\u200b"
"""Where a line may end inside a word."""

_LONG, _TOO_LONG = 17, 24
"""Length of words that may be broken behind punctuation, and of those broken anywhere."""


def _breakable(cell: str) -> str:
    """Let the lines of a cell end inside long words: behind punctuation, or anywhere."""
    ended = re.sub(
        rf"\S{{{_LONG},}}",
        lambda word: re.sub(r"(?<=\w[/_=,.:;+@(\-])(?=[^\W\d])", _BREAK, word[0]),
        cell,
    )
    return re.sub(rf"[^\s{_BREAK}]{{{_TOO_LONG}}}(?=\S)", rf"\g<0>{_BREAK}", ended)


def _parts(cell: str) -> list[str]:
    """Split a text where a line may end."""
    return re.split(rf"[\s{_BREAK}]", _breakable(cell))


# Widths in points of Computer Modern at 10 points.
_WIDTHS = (
    dict.fromkeys("ijl.,:;'!|", 2.8)
    | dict.fromkeys("tfrs()[] ", 3.9)
    | dict.fromkeys("0123456789/*$aceogqzvxy–", 5.0)
    | dict.fromkeys("m%#@&", 8.4)
    | dict.fromkeys("+=<>±×÷≠≤≥≈−w~^\\", 7.8)
    | {"W": 10.3, "M": 9.2, "…": 10.0, "—": 10.0, "I": 3.7, " ": 3.4, "_": 3.6, "-": 4.0}
)


def measure(content: str) -> float:
    """Return about how wide a text is in the normal size, in points."""
    shown = printable(content)
    width = 3.9 * len(re.findall(r"(?<![\w.])-(?=\d)", shown))
    for c in shown:
        code = not c.isascii() and "U+" in _character(c)
        width += 44.0 if code else _WIDTHS.get(c) or (7.6 if c.isupper() else 5.6)
    return width


_CHARACTERS = (
    {c: f"\\{c}" for c in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    # After the end of a row, these would belong to it.
    | {"[": "{[}", "*": "{*}"}
    | {"–": "--", "—": "---", "<": "$<$", ">": "$>$", "|": "$|$", '"': "''", "`": r"\`{}"}
    | {"‘": "{}`", "’": "'", "“": "``", "”": "''", "…": r"\ldots{}", "°": r"$^{\circ}$"}
    | {"±": r"$\pm$", "×": r"$\times$", "÷": r"$\div$", "·": r"$\cdot$", "−": "$-$"}
    | {"≠": r"$\neq$", "≤": r"$\leq$", "≥": r"$\geq$", "≈": r"$\approx$", "∞": r"$\infty$"}
    | {"→": r"$\rightarrow$", "←": r"$\leftarrow$", "↑": r"$\uparrow$", "↓": r"$\downarrow$"}
    | {"∈": r"$\in$", "√": r"$\surd$", "∑": r"$\sum$", "∆": r"$\Delta$", "µ": r"$\mu$"}
    | {
        _BREAK: r"\allowbreak{}",
        "†": r"$\dagger$",
        "ο": "o",
        "Ο": "O",
        "ł": r"\l{}",
        "Ł": r"\L{}",
        "ß": r"\ss{}",
    }
    | {"ø": r"\o{}", "Ø": r"\O{}", "æ": r"\ae{}", "Æ": r"\AE{}", "œ": r"\oe{}"}
    | {power: f"$^{{{digit}}}$" for digit, power in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")}
    | {below: f"$_{{{digit}}}$" for digit, below in enumerate("₀₁₂₃₄₅₆₇₈₉")}
)

_ACCENTS = {
    **{"\u0300": "`", "\u0301": "'", "\u0302": "^", "\u0303": "~", "\u0304": "=", "\u0306": "u"},
    **{"\u0307": ".", "\u0308": '"', "\u030a": "r", "\u030b": "H", "\u030c": "v", "\u0327": "c"},
}

_GREEK = re.compile("GREEK (SMALL|CAPITAL) LETTER (?:FINAL )?(?!OMICRON)([A-Z]{2,7})$")
_AS_LATIN = {
    **{"ALPHA": "A", "BETA": "B", "EPSILON": "E", "ZETA": "Z", "ETA": "H", "IOTA": "I"},
    **{"KAPPA": "K", "MU": "M", "NU": "N", "RHO": "P", "TAU": "T", "CHI": "X"},
}
"""Greek capitals that look like Latin ones, for which LaTeX has no command."""


def text(content: str) -> str:
    """Write any text so that pdflatex sets it; a character that it lacks is set as its code."""
    one_line = " ".join(printable(content).split())
    # A hyphen before a number is a minus; two hyphens of an option would become a dash.
    minus = re.sub(r"(?<![\w.\-])-(?=\d)", "−", one_line)
    return "".join(map(_character, re.sub(r"-(?=-)", "-\x00", minus))).replace("\x00", "{}")


def _character(character: str) -> str:
    known = _CHARACTERS.get(character)
    if known is not None:
        return known
    if character.isascii():
        return character
    if found := _GREEK.match(unicodedata.name(character, "")):
        size, name = found[1], found[2].replace("LAMDA", "LAMBDA")
        if size == "CAPITAL":
            return _AS_LATIN.get(name) or rf"$\{name.capitalize()}$"
        return rf"$\{name.lower()}$"
    base, *accents = list(unicodedata.normalize("NFD", character))
    if base.isascii() and base.isalpha() and all(accent in _ACCENTS for accent in accents):
        for accent in accents:
            base = rf"\{_ACCENTS[accent]}{{{base}}}"
        return base
    plain = unicodedata.normalize("NFKD", character)
    if plain.isascii():
        return "".join(map(_character, plain))
    return f"{{[}}U+{ord(character):04X}]"
