"""Commands that compute, cache and study coefficients."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from unionsnn.base.errors import DataError, RequestError
from unionsnn.base.words import nearest
from unionsnn.cli.common import (
    FILE,
    OVERRIDE,
    Listed,
    Options,
    config_dir_option,
    echo_json,
    examples,
    header_option,
    json_option,
    out_option,
    yes_option,
)

if TYPE_CHECKING:
    from unionsnn.coefficients import CoefficientSpec
    from unionsnn.coefficients.upkeep import CacheItem


@click.command(
    epilog=examples(
        "unionsnn precompute data=mutag gate=paper",
    ),
)
@click.argument("overrides", nargs=-1, type=OVERRIDE)
@config_dir_option
@json_option("Print the summary as JSON.")
@click.pass_obj
def precompute(
    options: Options, overrides: tuple[str, ...], config_dir: str | None, as_json: bool
) -> None:
    """Compute coefficients and encodings of a data set into the cache, without training.

    OVERRIDES are those of train, such as data=mutag gate=paper. Training with the same data,
    coefficient, gate and model then reads them from the cache; for gate=none all columns are
    computed.
    """
    from unionsnn.config.compose import compose_config
    from unionsnn.config.overrides import refuse_repeats

    refuse_repeats(overrides)
    config = compose_config(overrides, config_dir)
    if options.quiet or as_json:
        config = config.replace({"trainer.progress": "none"})
    from unionsnn.base.display import display
    from unionsnn.base.imports import loading
    from unionsnn.reports.table import show
    from unionsnn.reports.views.coefficients import precomputed_table

    with display(config.trainer.progress) as progress:
        with loading("torch"):
            from unionsnn.runs.precompute import precompute as compute
        result = compute(config, progress)
    if as_json:
        echo_json(result)
    else:
        show([precomputed_table(result)])


def _listed(ctx: click.Context, parameter: click.Parameter, text: str | None) -> Any:
    """Split an option at its commas, converting integers."""
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    return [int(part) if re.fullmatch("-?[0-9]{1,18}", part) else part for part in parts]


class _ChoiceOption(click.Option):
    """An option whose help is made from the table of choices, imported only when it is shown."""

    @property
    def help(self) -> str:
        """The choices, or the descriptors that use a number."""
        from unionsnn.coefficients import space

        tables: dict[str, Iterable[str]] = {
            "substructure": space.SUBSTRUCTURES,
            "descriptor": space.DESCRIPTORS,
            "encoding": space.ENCODINGS,
            "quantities": space.QUANTITIES,
        }
        name = str(self.name)
        if name in tables:
            return f"{', '.join(tables[name])}."
        return f"For {', '.join(d for d in space.DESCRIPTORS if space.uses(d, name))}."

    @help.setter
    def help(self, text: str | None) -> None:
        """Ignore what the option was made with."""


@click.command(
    epilog=examples(
        "unionsnn coefficients graph.csv",
        "unionsnn coefficients graph.graphml --radius 1,2 --out rows.parquet --plot graph.svg",
    ),
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@out_option("Table to write: .csv or .parquet. Default: CSV on stdout.")
@click.option(
    "--format", "form", help="edgelist, graphml, graph6, npz or pt. Default: by extension."
)
@header_option
@click.option("--substructure", cls=_ChoiceOption)
@click.option("--descriptor", cls=_ChoiceOption)
@click.option("--encoding", cls=_ChoiceOption)
@click.option("--radius", callback=_listed, help="One radius or several: 1,2.")
@click.option("--quantities", cls=_ChoiceOption, callback=_listed)
@click.option("--alpha", type=float, cls=_ChoiceOption)
@click.option("--exponent", type=float, cls=_ChoiceOption)
@click.option("--symmetrize", is_flag=True, help="Add the reverse of each edge of the file.")
@click.option("--threads", type=click.IntRange(1), help="Number of threads. Default: all cores.")
@click.option("--plot", type=FILE, help="Draw the graph with coloured edges: .png, .svg or .pdf.")
@click.option("--plot-graph", type=click.IntRange(0), default=0, help="Index of the graph to draw.")
@click.option("--no-cache", is_flag=True, help="Do not read or write cached values.")
@yes_option
@click.pass_obj
def coefficients(
    options: Options,
    /,
    file: Path,
    out: Path | None,
    form: str | None,
    header: bool | None,
    symmetrize: bool,
    threads: int | None,
    plot: Path | None,
    plot_graph: int,
    no_cache: bool,
    yes: bool,
    **choices: Any,
) -> None:
    """Compute the coefficients of your own graphs.

    FILE is an edge list (two node names per line, separated by commas in .csv, tabs in .tsv, blanks
    in .edges and .edgelist, any of these in .txt), GraphML, graph6 or sparse6, an npz file with
    edge_index or a scipy adjacency matrix, or PyG's .pt. The table has one row per edge of the
    file: graph, source, target and the coefficients.
    """
    from unionsnn.base.display import display
    from unionsnn.coefficients.cache import CoefficientCache
    from unionsnn.coefficients.summary import column_summary
    from unionsnn.data.sources.download import data_root
    from unionsnn.data.sources.graph_files.formats import read_graph_file
    from unionsnn.reports.figures.plots import check_drawable, draw_coefficients, save_figure
    from unionsnn.reports.formatting import counted
    from unionsnn.reports.table import show
    from unionsnn.reports.views.coefficients import (
        as_csv,
        edge_table,
        summary_table,
        write_table,
    )

    given = {key: value for key, value in choices.items() if value is not None}
    spec = _checked(file, given, form, out, plot)
    graphs = read_graph_file(file, form, header=header)
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
    both_ways = symmetrize or not graphs.directed
    cache = CoefficientCache(data_root() / "coefficients")
    asked = graphs.edge_index, graphs.num_nodes
    with display(options.progress(as_json=False)) as progress:
        arguments: dict[str, Any] = {
            "symmetrize": both_ways,
            "threads": threads,
            "progress": progress and functools.partial(progress, "coefficients"),
            **({"max_hours": None} if yes else {}),
        }
        if no_cache:
            values = spec.compute(*asked, **arguments)
        else:
            values = cache.get(*asked, spec, label=file.name, **arguments)
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
        click.echo(as_csv(table), nl=False)
    facts = [
        f"{counted(graphs.num_graphs, 'graph')}, {counted(graphs.num_nodes, 'node')}, "
        f"{counted(graphs.num_edges, 'edge')} listed",
        *([f"left out: {', '.join(graphs.left_out)}"] if graphs.left_out else []),
        *(f"written: {path}" for path in (out, plot) if path is not None),
    ]
    summary = column_summary(spec.columns, values)
    show([summary_table(f"Coefficients of {file.name}", facts, summary)], Console(stderr=on_stdout))


def _checked(
    file: Path,
    choices: Mapping[str, Any],
    form: str | None,
    out: Path | None,
    plot: Path | None,
) -> CoefficientSpec:
    """Check everything that does not need the file, and report all faults at once."""
    from unionsnn.coefficients import CoefficientSpec
    from unionsnn.data.sources.graph_files.formats import FORMATS, format_of
    from unionsnn.reports.figures.plots import check_plot
    from unionsnn.reports.table import check_output
    from unionsnn.reports.views.coefficients import WRITERS

    def check_format() -> None:
        if form is None:
            format_of(file)
        elif form not in FORMATS:
            raise RequestError(
                f"--format {form} is unknown; allowed are {', '.join(FORMATS)}."
                f"{nearest(form, FORMATS)}",
                code="coefficients.format",
            )

    checks: list[Callable[[], object]] = [lambda: CoefficientSpec(**choices), check_format]
    if out is not None:
        checks.append(functools.partial(check_output, "--out", out, tuple(WRITERS), inputs=[file]))
    if plot is not None:
        checks.append(functools.partial(check_plot, plot))
    faults: list[str] = []
    for check in checks:
        try:
            check()
        except (DataError, RequestError) as error:
            faults += error.faults
    if faults:
        raise RequestError(*faults)
    return CoefficientSpec(**choices)


@click.command(
    "case-study",
    epilog=examples(
        "unionsnn case-study",
        "unionsnn case-study data=mutag --plot effects.svg",
    ),
)
@click.argument("overrides", nargs=-1, type=OVERRIDE)
@click.option("--graphs", type=click.IntRange(1), default=3000, help="Number of union subgraphs.")
@click.option(
    "--max-nodes", type=click.IntRange(4, 200), default=24, help="Maximum number of nodes."
)
@click.option("--seed", type=click.IntRange(0), default=0, help="Random seed.")
@click.option("--at-ends", is_flag=True, help="Also delete the edges at v or u.")
@click.option("--plot", type=FILE, help="Box plot to draw: .png, .svg or .pdf.")
@json_option("Print the measurements as JSON.")
@click.pass_obj
def case_study(
    options: Options,
    overrides: tuple[str, ...],
    graphs: int,
    max_nodes: int,
    seed: int,
    at_ends: bool,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Measure how deleting edges and nodes changes the coefficient.

    The paper claims that deleting an edge raises a, that deleting a node lowers it, and that the
    effect grows over the four kinds of edges. Union subgraphs are random, or taken from a data set
    if OVERRIDES name one: data=mutag.
    """
    from unionsnn.expressivity.case_study import study
    from unionsnn.reports.figures.plots import check_plot, draw_effects, save_figure
    from unionsnn.reports.table import show
    from unionsnn.reports.views.case_study import case_study_table, example_table

    if plot is not None:
        check_plot(plot)
    graph, name = None, None
    source = f"random union subgraphs (seed {seed}, 4 to {max_nodes} nodes)"
    if overrides:
        from unionsnn.config.compose import compose_config
        from unionsnn.runs.precompute import simple_graph

        config = compose_config(overrides)
        graph, name = simple_graph(config), config.data.name
        source = f"union subgraphs of {name} (seed {seed}, up to {max_nodes} nodes)"
    result = study(graph, count=graphs, max_nodes=max_nodes, seed=seed, at_ends=at_ends)
    if as_json:
        request = {"data": name, "graphs": graphs, "max_nodes": max_nodes, "seed": seed}
        echo_json({**request, "at_ends": at_ends, **result.to_dict()})
    else:
        show([example_table(at_ends=at_ends), case_study_table(result, source, at_ends=at_ends)])
    if plot is not None:
        title = f"{result.subgraphs:,} {source}"
        save_figure(draw_effects(result.effects, title=title, label="change of a"), plot)


@click.group(cls=Listed)
def cache() -> None:
    """List, check and delete the coefficients and encodings on disk.

    The folder is that of paths.data, which is given as for train.
    """


def _cache_root(overrides: Sequence[str], options: Options) -> Path:
    from unionsnn.config.compose import compose_config
    from unionsnn.data.sources.download import data_root

    return data_root(compose_config(overrides).paths.data)


def _survey(root: Path, *, checksums: bool = False) -> list[CacheItem]:
    """List the items of both caches of a data root."""
    from unionsnn.coefficients.upkeep import survey
    from unionsnn.data.encodings.cache import ENCODING_VERSION, FOLDER

    return [
        *survey(root / "coefficients", checksums=checksums),
        *survey(root / FOLDER, checksums=checksums, version=ENCODING_VERSION),
    ]


@cache.command("list")
@click.argument("overrides", nargs=-1, type=OVERRIDE)
@json_option()
@click.pass_obj
def cache_list(options: Options, overrides: tuple[str, ...], as_json: bool) -> None:
    """List the entries with data, choices, size, age and state."""
    root = _cache_root(overrides, options)
    from unionsnn.reports.table import show
    from unionsnn.reports.views.cache import cache_table

    items = _survey(root)
    if as_json:
        echo_json([{**vars(item), "path": str(item.path)} for item in items])
    else:
        show([cache_table(items, root)])


@cache.command("verify")
@click.argument("overrides", nargs=-1, type=OVERRIDE)
@click.pass_obj
def cache_verify(options: Options, overrides: tuple[str, ...]) -> None:
    """Check the checksum of every entry; exit status 1 if one is damaged."""
    root = _cache_root(overrides, options)
    from unionsnn.reports.views.cache import describe

    items = _survey(root, checksums=True)
    damaged = [item for item in items if item.state == "damaged"]
    intact = sum(item.state in ("complete", "old engine") for item in items)
    for item in damaged:
        click.echo(f"error: {describe(item)}", err=True)
    click.echo(f"{intact} intact, {len(damaged)} damaged in {root}")
    if damaged:
        click.echo(
            "A damaged entry is recomputed when it is next needed; type unionsnn cache prune "
            "to delete it now.",
            err=True,
        )
        sys.exit(1)


@cache.command("prune")
@click.argument("overrides", nargs=-1, type=OVERRIDE)
@click.option("--all", "everything", is_flag=True, help="Also delete intact entries.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def cache_prune(options: Options, overrides: tuple[str, ...], everything: bool, yes: bool) -> None:
    """Delete damaged entries, those of another engine version, and leftovers."""
    root = _cache_root(overrides, options)
    from unionsnn.base.words import format_bytes
    from unionsnn.coefficients.upkeep import removable, remove
    from unionsnn.reports.views.cache import describe

    items = removable(_survey(root, checksums=True), everything=everything)
    if not items:
        click.echo(f"Nothing to delete in {root}.")
        return
    for item in items:
        click.echo(describe(item))
    if not yes:
        try:
            agreed = click.confirm(f"Delete these {len(items)} files?")
        except click.Abort:
            raise RequestError(
                "nothing deleted: no answer given; pass --yes.", code="cache.no_answer"
            ) from None
        if not agreed:
            click.echo("Nothing was deleted.")
            return
    kept = remove(items)
    freed = sum(item.num_bytes for item in items if item not in kept)
    click.echo(f"Deleted {len(items) - len(kept)} files, {format_bytes(freed)}.")
    for item in kept:
        click.echo(f"Kept, in use by a process: {item.path.name}")
