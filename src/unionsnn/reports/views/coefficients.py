"""Coefficients of the user's graphs: from a file to a table, a summary and a figure."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from unionsnn.base.errors import DataError, Fault, RequestError
from unionsnn.base.files import atomic_write
from unionsnn.base.words import nearest
from unionsnn.coefficients import CoefficientSpec
from unionsnn.coefficients.cache import CoefficientCache
from unionsnn.coefficients.summary import column_summary
from unionsnn.data.sources.download import data_root
from unionsnn.data.sources.graph_files import FORMATS, GraphFile, format_of, read_graph_file
from unionsnn.reports.figures.plots import (
    check_drawable,
    check_plot,
    draw_coefficients,
    save_figure,
)
from unionsnn.reports.formatting import counted, decimal_text, duration_text
from unionsnn.reports.progress import data_progress
from unionsnn.reports.table import Table, check_output, numbers, print_tables, words

if TYPE_CHECKING:
    import pyarrow


def coefficients_of_file(
    file: Path,
    choices: Mapping[str, Any],
    *,
    form: str | None = None,
    out: Path | None = None,
    plot: Path | None = None,
    plot_graph: int = 0,
    symmetrize: bool = False,
    threads: int | None = None,
    use_cache: bool = True,
    progress: str = "auto",
) -> None:
    """Compute the coefficients of the graphs in a file, then write and show them.

    Args:
        file: The file.
        choices: Arguments of `CoefficientSpec`.
        form: Format of the file, a key of `FORMATS`; by default chosen by its extension.
        out: Table to write; the table goes to stdout if neither it nor a plot is given.
        plot: Figure to write.
        plot_graph: Index of the graph to draw.
        symmetrize: Whether to add the reverse of each edge.
        threads: As in `CoefficientSpec.compute`.
        use_cache: Whether to read and write cached values.
        progress: As in `data_progress`.

    Raises:
        RequestError: The request is invalid; lists every fault.
        DataError: The file cannot be used.
        OSError: A file cannot be written.
    """
    spec = _checked(file, choices, form, out, plot)
    graphs = read_graph_file(file, form)
    if not symmetrize:
        graphs.check_symmetric()
    if plot is not None:
        if plot_graph >= graphs.num_graphs:
            raise RequestError(
                f"--plot-graph is {plot_graph}, but the file holds graphs "
                f"0..{graphs.num_graphs - 1}.",
                code="coefficients.plot_graph",
            )
        first, end = graphs.node_slices[plot_graph : plot_graph + 2]
        check_drawable(int(end - first))
    with data_progress(progress) as show:
        options: dict[str, Any] = {
            "symmetrize": symmetrize or not graphs.directed,
            "threads": threads,
            "progress": None
            if show is None
            else lambda done, total: show("coefficients", done, total),
        }
        if use_cache:
            cache = CoefficientCache(data_root() / "coefficients")
            values = cache.get(
                graphs.edge_index, graphs.num_nodes, spec, label=file.name, **options
            )
        else:
            values = spec.compute(graphs.edge_index, graphs.num_nodes, **options)
    table = edge_table(graphs, spec.columns, values)
    on_stdout = out is None and plot is None
    if out is not None:
        write_table(table, out)
    if plot is not None:
        edges = slice(*graphs.edge_slices[plot_graph : plot_graph + 2])
        name = file.name if graphs.num_graphs == 1 else f"{file.name}, graph {plot_graph}"
        chosen = [spec.substructure, spec.descriptor, spec.encoding]
        figure = draw_coefficients(
            graphs.edge_index[:, edges] - first,
            values[edges, 0],
            graphs.node_names()[first:end].tolist(),
            title=f"{name}: {', '.join(choice for choice in chosen if choice)}",
            label=spec.columns[0],
        )
        save_figure(figure, plot)
    if on_stdout:
        print(as_csv(table), end="")
    written = [f"written: {path}" for path in (out, plot) if path is not None]
    print_summary(
        f"Coefficients of {file.name}",
        [
            f"{counted(graphs.num_graphs, 'graph')}, {counted(graphs.num_nodes, 'node')}, "
            f"{counted(graphs.num_edges, 'edge')} listed",
            *written,
        ],
        column_summary(spec.columns, values),
        Console(stderr=on_stdout),
    )


def _checked(
    file: Path,
    choices: Mapping[str, Any],
    form: str | None,
    out: Path | None,
    plot: Path | None,
) -> CoefficientSpec:
    """Check everything that does not need the file, and report all faults at once."""
    faults: list[str] = []
    spec = CoefficientSpec()
    try:
        spec = CoefficientSpec(**choices)
    except RequestError as error:
        faults += error.faults
    checks: list[Callable[[], object]] = []
    if form is None:
        checks.append(lambda: format_of(file))
    elif form not in FORMATS:
        allowed = ", ".join(FORMATS)
        faults.append(
            Fault(
                f"--format {form} is unknown; allowed are {allowed}.{nearest(form, FORMATS)}",
                "coefficients.format",
            )
        )
    if out is not None:
        checks.append(lambda: check_writable(out))
    if plot is not None:
        checks.append(lambda: check_plot(plot))
    for check in checks:
        try:
            check()
        except (DataError, RequestError) as error:
            faults += error.faults
    if faults:
        raise RequestError(*faults)
    return spec


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


def check_writable(path: Path) -> None:
    """Check before any work that a table can be written to a path.

    Raises:
        DataError: The extension or the folder is not usable.
    """
    check_output("--out", path, tuple(WRITERS))


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
    from pyarrow import csv

    # Arrow quotes every column name; ours need no quotes.
    file.write((",".join(table.column_names) + "\n").encode())
    csv.write_csv(table, file, csv.WriteOptions(include_header=False, quoting_style="needed"))


def _write_parquet(table: pyarrow.Table, file: BinaryIO) -> None:
    from pyarrow import parquet

    parquet.write_table(table, file)


WRITERS: Mapping[str, Callable[[pyarrow.Table, BinaryIO], None]] = {
    ".csv": _write_csv,
    ".parquet": _write_parquet,
}
"""Writers of tables by file extension."""


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
        console: Where to print; the terminal by default.
    """
    rows = [[name, row["min"], row["mean"], row["max"]] for name, row in summary.items()]
    columns = [*words("column"), *numbers("min", "mean", "max", form=decimal_text)]
    print_tables([Table(title, columns, rows, facts)], console)


def print_precomputed(result: Mapping[str, Any], console: Console | None = None) -> None:
    """Print the summary of `unionsnn precompute`."""
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
    return f"computed in {duration_text(made['seconds'])}" if made["computed"] else "cached before"
