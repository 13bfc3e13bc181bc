"""LaTeX: every kind of table compiles, fits its page, and holds what the table holds."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from made_tables import ITEMS, REPORTS
from unionsnn.reports.latex import LINE, latex, measure, text
from unionsnn.reports.table import Table, numbers, words

ARTICLE = r"""\documentclass{article}
\usepackage{booktabs,array}
\begin{document}
%s
\end{document}
"""

NAMES = [
    *(
        "naïve café",
        "Łódź",
        "α β γ Δ Ω ο Α ς",
        "I²-GNN ≠ ≤ ≥ ∞ → × ÷",
        "ã@2",
        "中文",
        "🙂",
        "½ ﬁ Ⅷ",
    ),
    *("a_b & 50% $x$ {y} \\z ~ ^ # | \" ` ' [1] * <b>", "--json -1.5 x-y -- ---", "—–…°µ√∈“q”"),
    "a" * 200,
    "model._target_=package.module.Class/with/a/path,and,more:and=more" * 3,
]
"""Names that a user's data may have."""


def compiled(content: str, folder: Path) -> str:
    """The log of pdflatex."""
    if shutil.which("pdflatex") is None:
        pytest.skip("no pdflatex here")
    (folder / "t.tex").write_text(ARTICLE % content)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout.decode(errors="replace")[-3000:]
    return (folder / "t.log").read_text(errors="replace")


def assert_fits(log: str) -> None:
    too_far = [float(points) for points in re.findall(r"Overfull \\.box \(([\d.]+)pt too", log)]
    assert not [points for points in too_far if points > 2], log
    assert "Missing character" not in log


def test_all_kinds_of_table_compile_and_fit(tmp_path: Path) -> None:
    """One document with what every command prints and what ``--out`` writes."""
    parts = []
    for number, make in enumerate(REPORTS.values()):
        path = tmp_path / f"{number}.tex"
        make().write(path)
        parts.append(path.read_text())
    parts += [latex(item) for make in ITEMS.values() for item in make() if isinstance(item, Table)]
    parts.append(latex(Table("names", words("name", "again"), [[name, name] for name in NAMES])))
    parts.append(latex(Table("", numbers(*NAMES), [[1.5] * len(NAMES)])))
    parts.append(latex(Table("high", words("name"), [[str(i)] for i in range(150)])))
    assert_fits(compiled("\n".join(parts), tmp_path))


@pytest.mark.parametrize("kind", ITEMS)
def test_every_cell_is_there(kind: str) -> None:
    """Also where columns continue in a second tabular."""
    for table in ITEMS[kind]():
        if not isinstance(table, str):
            shown = latex(table).replace(r"\allowbreak{}", "")
            # What all rows share may be told above.
            assert all(
                text(cell) in shown or f" {cell}" in shown for row in table.cells() for cell in row
            )


def test_columns_that_do_not_fit_continue_below_with_the_first_repeated() -> None:
    names = [f"data_set_{i}" for i in range(9)]
    table = Table("", [*words("model"), *numbers(*names)], [["gin", *["80.00 ± 10.00 %"] * 9]])
    found = latex(table)
    count = found.count(r"\begin{tabular}{@{}l")
    assert count > 1
    assert found.count("gin &") == count
    assert all(found.count(text(name)) == 1 for name in names)


def test_a_bound_on_widths_is_not_far_off() -> None:
    assert measure("a" * 69) == LINE


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("-1.25 points", "$-$1.25 points"),
        ("GatedGCN-LSPE", "GatedGCN-LSPE"),
        ("--json", "-{}-json"),
        ("I²", "I$^{2}$"),
        ("ã", r"\~{a}"),
        ("≠", r"$\neq$"),
        ("λς", r"$\lambda$$\sigma$"),
        ("中", "{[}U+4E2D]"),
    ],
)
def test_characters(given: str, written: str) -> None:
    assert text(given) == written
