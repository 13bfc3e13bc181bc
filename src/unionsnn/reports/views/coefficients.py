"""Coefficients of the user's graphs: a table for a file, a summary for the terminal."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from unionsnn.base.files import atomic_write
from unionsnn.base.words import duration_text
from unionsnn.data.sources.graph_files.formats import GraphFile
from unionsnn.reports.formatting import counted
from unionsnn.reports.table import Table, csv_value, numbers, words

if TYPE_CHECKING:
    import pyarrow


def edge_table(
    graphs: GraphFile, columns: Sequence[str], values: NDArray[np.float64]
) -> pyarrow.Table:
    """Make a table with graph, node names and coefficients of each edge.

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


def write_table(table: pyarrow.Table, path: Path) -> None:
    """Write a table atomically.

    Args:
        table: Any table.
        path: A path whose extension is a key of `WRITERS`.

    Raises:
        OSError: The file cannot be written.
    """
    atomic_write(path, lambda file: WRITERS[path.suffix.lower()](table, file))


def as_csv(table: pyarrow.Table) -> str:
    """Return a table as CSV; numbers round-trip exactly."""
    buffer = io.BytesIO()
    _write_csv(table, buffer)
    return buffer.getvalue().decode()


def _write_csv(table: pyarrow.Table, file: BinaryIO) -> None:
    import pyarrow
    from pyarrow.csv import WriteOptions, write_csv

    head = io.StringIO()
    # Arrow quotes every column name.
    csv.writer(head, lineterminator="\n").writerow(map(csv_value, table.column_names))
    file.write(head.getvalue().encode())
    for place, column in enumerate(table.columns):
        if pyarrow.types.is_string(column.type):
            cells = pyarrow.array([csv_value(cell) for cell in column.to_pylist()], column.type)
            table = table.set_column(place, table.column_names[place], cells)
    write_csv(table, file, WriteOptions(include_header=False, quoting_style="needed"))


def _write_parquet(table: pyarrow.Table, file: BinaryIO) -> None:
    from pyarrow import parquet

    parquet.write_table(table, file)


WRITERS: Mapping[str, Callable[[pyarrow.Table, BinaryIO], None]] = {
    ".csv": _write_csv,
    ".parquet": _write_parquet,
}
"""Writers of tables by file extension."""


def summary_table(
    title: str, facts: Sequence[str], summary: Mapping[str, Mapping[str, float | None]]
) -> Table:
    """Return minimum, mean and maximum of each column.

    Args:
        title: What was computed.
        facts: Lines below the table.
        summary: What `column_summary` returned.
    """
    rows = [[name, row["min"], row["mean"], row["max"]] for name, row in summary.items()]
    columns = [*words("column"), *numbers("min", "mean", "max", form="{:.4f}".format)]
    return Table(title, columns, rows, facts)


def precomputed_table(result: Mapping[str, Any]) -> Table:
    """Return the summary of `unionsnn precompute`."""

    def how(made: Mapping[str, Any]) -> str:
        computed = f"computed in {duration_text(made['seconds'])}"
        return computed if made["computed"] else "cached before"

    facts = [
        f"{counted(result['graphs'], 'graph')}, {counted(result['nodes'], 'node')}, "
        f"{counted(result['edges'], 'directed edge')}",
        f"entry: {result['entry']}",
        *(
            f"encoding {each['encoding']} ({each['size']}): {how(each)}, {each['entry']}"
            for each in result["encodings"]
        ),
    ]
    title = f"Coefficients of {result['data']}: {how(result)}"
    return summary_table(title, facts, result["columns"])
