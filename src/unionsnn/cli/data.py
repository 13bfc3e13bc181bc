"""Commands that list data sets and delete their files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from unionsnn.cli.common import FILE, Completed, Options, echo_json, examples, json_option

_ROOT = "paths.data="


def _names() -> Iterable[str]:
    from unionsnn.data.catalog import CATALOG

    return CATALOG


def _root(words: Sequence[str]) -> tuple[Path, list[str]]:
    """Split the words of a command into the data root from paths.data=FOLDER and the rest."""
    from unionsnn.data.sources.download import data_root

    given = [word.removeprefix(_ROOT) for word in words if word.startswith(_ROOT)]
    return data_root(given[-1] if given else None), [w for w in words if not w.startswith(_ROOT)]


@click.command(
    epilog=examples(
        "unionsnn datasets",
        "unionsnn datasets mutag --plot mutag.svg",
    ),
)
@click.argument(
    "words", nargs=-1, type=Completed("name", _names), metavar="[NAME] [paths.data=FOLDER]"
)
@click.option("--plot", type=FILE, help="Histograms to draw: .png, .svg or .pdf.")
@json_option()
@click.pass_obj
def datasets(options: Options, words: tuple[str, ...], plot: Path | None, as_json: bool) -> None:
    """List the data sets, or show one in detail.

    Prints counts, metric, licence, what is on disk, and where a count differs from the paper's.
    With NAME also citations and split; --plot then draws histograms of degrees and coefficients,
    for which it loads the data and computes what is not cached.
    """
    from unionsnn.data.catalog import CATALOG, find
    from unionsnn.data.inventory import on_disk
    from unionsnn.reports.table import show
    from unionsnn.reports.views import datasets as report

    root, names = _root(words)
    if len(names) > 1:
        raise click.UsageError(f"give one NAME, not {', '.join(names)}.")
    if plot is not None and not names:
        raise click.UsageError("--plot needs the NAME of a data set.")
    entries = [find(name) for name in names] or list(CATALOG.values())
    if plot is not None:
        _plot(entries[0].name, root, plot, options.progress(as_json=as_json))
    disk = [on_disk(entry, root) for entry in entries]
    if as_json:
        plain = [report.as_plain(*pair) for pair in zip(entries, disk, strict=True)]
        echo_json(plain[0] if names else plain)
    elif names:
        show(report.dataset_tables(entries[0], disk[0]))
    else:
        show(report.datasets_tables(entries, disk))


def _plot(name: str, root: Path, plot: Path, progress: Any) -> None:
    import numpy as np

    from unionsnn.base.display import display
    from unionsnn.coefficients import CoefficientSpec
    from unionsnn.config.compose import compose_config
    from unionsnn.reports.figures.plots import check_plot, save_figure
    from unionsnn.reports.views.datasets import draw_histograms
    from unionsnn.training.build import build_data

    check_plot(plot)
    config = compose_config([f"data={name}"]).replace({"paths.data": str(root)})
    with display(progress) as report:
        data = build_data(config, report)
        spec = data.spec or CoefficientSpec(quantities=("a", "a_tree", "nodes", "edges"))
        column = data.coefficients(spec)[:, spec.columns.index("a_r1")]
    sender, receiver = data.arrays.edges()
    degree = np.bincount(receiver, minlength=data.arrays.num_nodes)
    title = f"{name}: {data.arrays.num_nodes:,} nodes, {len(column) // 2:,} edges"
    save_figure(draw_histograms(degree, column[sender < receiver], title), plot)


@click.command(
    epilog=examples(
        "unionsnn clean coefficients",
    ),
)
@click.argument(
    "words",
    nargs=-1,
    metavar="[raw] [processed] [coefficients] [encodings] [paths.data=FOLDER]",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
def clean(words: tuple[str, ...], yes: bool) -> None:
    """Delete downloaded, processed or computed data.

    Deletes the kinds given, by default all four. Lists them first, and deletes nothing without
    confirmation or --yes. Only the folders of these names in the data root are touched; runs are
    not.
    """
    from unionsnn.base.words import format_bytes
    from unionsnn.data.inventory import KINDS, removals, remove
    from unionsnn.reports.table import show
    from unionsnn.reports.views.datasets import removals_table

    root, kinds = _root(words)
    wrong = [kind for kind in kinds if kind not in KINDS]
    if wrong:
        raise click.UsageError(f"{', '.join(wrong)} is unknown; allowed are {', '.join(KINDS)}.")
    found = removals(root, [kind for kind in KINDS if not kinds or kind in kinds])
    if not found:
        click.echo(f"Nothing to delete in {root}.")
        return
    show([removals_table(found)])
    total = format_bytes(sum(each.size for each in found))
    if not yes and not click.confirm(f"Delete these {total}?"):
        click.echo("Nothing was deleted.")
        return
    remove(found)
    click.echo(f"{total} deleted.")
