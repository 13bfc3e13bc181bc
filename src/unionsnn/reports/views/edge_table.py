"""Coefficients of a user's own graphs: a table on disk and a summary on the terminal."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from unionsnn.base.files import atomic_write
from unionsnn.data.sources.graph_files import GraphFile
from unionsnn.reports.formats import check_output
from unionsnn.reports.tables import format_seconds

if TYPE_CHECKING:
    import pyarrow


def edge_table(
    graphs: GraphFile, columns: Sequence[str], values: NDArray[np.float64]
) -> pyarrow.Table:
    """Put the coefficients of each edge beside its graph and the names of its nodes.

    Args:
        graphs: The graphs.
        columns: Names of the coefficients.
        values: One row per edge of the file.

    Shapes:
        values [E, C].
    """
    import pyarrow

    names = graphs.node_names()
    source, target = (names[ends] for ends in graphs.edge_index)
    content: dict[str, Any] = {"graph": graphs.graph_of_edge, "source": source, "target": target}
    content |= {name: values[:, i] for i, name in enumerate(columns)}
    text = pyarrow.string()
    return pyarrow.table(
        {k: pyarrow.array(v, text if v.dtype == object else None) for k, v in content.items()}
    )


def check_writable(path: Path) -> None:
    """Check before any work that a table can be written under a name.

    Raises:
        RequestError: The extension or the folder will not do.
    """
    check_output("--out", path, tuple(WRITERS))


def write_table(table: pyarrow.Table, path: Path) -> None:
    """Write a table, all of it or nothing.

    Args:
        table: Any table.
        path: A name that ends in a key of `WRITERS`.

    Raises:
        OSError: The file cannot be written.
    """
    atomic_write(path, lambda file: WRITERS[path.suffix.lower()](table, file))


def as_csv(table: pyarrow.Table) -> str:
    """Return a table as comma-separated values; numbers are read back to the last bit."""
    buffer = io.BytesIO()
    _write_csv(table, buffer)
    return buffer.getvalue().decode()


def _write_csv(table: pyarrow.Table, file: BinaryIO) -> None:
    from pyarrow import csv

    # Arrow puts quotes around every name of a column; ours need none.
    file.write((",".join(table.column_names) + "\n").encode())
    csv.write_csv(table, file, csv.WriteOptions(include_header=False, quoting_style="needed"))


def _write_parquet(table: pyarrow.Table, file: BinaryIO) -> None:
    from pyarrow import parquet

    parquet.write_table(table, file)


WRITERS: Mapping[str, Callable[[pyarrow.Table, BinaryIO], None]] = {
    ".csv": _write_csv,
    ".parquet": _write_parquet,
}
"""Writers of tables by the ending of the name."""


def print_summary(
    title: str,
    facts: Sequence[str],
    summary: Mapping[str, Mapping[str, float | None]],
    console: Console | None = None,
) -> None:
    """Print minimum, mean and maximum of each column.

    Args:
        title: What was computed.
        facts: Lines below the table.
        summary: What `column_summary` returned.
        console: Where to; by default the terminal.
    """
    console = console or Console()
    table = Table(title=title, title_justify="left")
    table.add_column("column")
    for name in ("min", "mean", "max"):
        table.add_column(name, justify="right")
    for column, row in summary.items():
        table.add_row(column, *(_number(row[name]) for name in ("min", "mean", "max")))
    console.print(table)
    for fact in facts:
        console.print(fact, soft_wrap=True, highlight=False, markup=False)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def print_precomputed(result: Mapping[str, Any], console: Console | None = None) -> None:
    """Print what `unionsnn precompute` did."""
    print_summary(
        f"Coefficients of {result['data']}: {_how(result)}",
        [
            f"{counted(result['graphs'], 'graph')}, {counted(result['nodes'], 'node')}, "
            f"{counted(result['edges'], 'directed edge')}",
            f"entry: {result['entry']}",
            *(
                f"encoding {each['encoding']} ({each['size']}): {_how(each)}, {each['entry']}"
                for each in result["encodings"]
            ),
        ],
        result["columns"],
        console,
    )


def _how(made: Mapping[str, Any]) -> str:
    return f"computed in {format_seconds(made['seconds'])}" if made["computed"] else "there before"


def counted(number: int, what: str) -> str:
    """Write a number of things."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
