"""The command that measures what coefficients tell apart."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import click

from unionsnn.cli_common import Completed, failures, refusals, refuse

_FILE = click.Path(path_type=Path)


def _sets() -> Iterable[str]:
    from unionsnn.data.pairs import SETS

    return SETS


@click.command()
@click.argument("sets", nargs=-1, type=Completed("set", _sets), metavar="[SET|FILE ...]")
@click.option("--choices", help="Such as 1wl,a,a~@2,overlap@1+2,rooted@5, or all.")
@click.option("--theorems", is_flag=True, help="Check the paper's theorems on all small graphs.")
@click.option("--max-nodes", type=click.IntRange(3, 8), default=7, help="For --theorems.")
@click.option("--seed", type=click.IntRange(0), default=0, help="Seed of the relabelled copies.")
@click.option("--threads", type=click.IntRange(1), help="Threads; all cores unless given.")
@click.option("--mirror", help="Folder or address with the data; else UNIONSNN_MIRROR.")
@click.option("--offline", is_flag=True, help="Leave the network alone.")
@click.option("--out", type=_FILE, help="Table to write, .md or .csv.")
@click.option("--plot", type=_FILE, help="Folder for pictures of small pairs, edges coloured.")
@click.option("--json", "as_json", is_flag=True, help="Print what was measured as JSON.")
@click.pass_obj
def expressivity(
    options: dict[str, bool],
    /,
    sets: tuple[str, ...],
    choices: str | None,
    theorems: bool,
    max_nodes: int,
    seed: int,
    threads: int | None,
    mirror: str | None,
    offline: bool,
    out: Path | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Measure which graphs coefficients can tell apart, without training.

    SET is golden, csl, sr25 or brec; FILE holds pairs of graphs in graph6, two lines a pair. Colour
    refinement (1-WL) in which every edge carries the coefficient bounds what a message-passing
    network can make of it. Without a set: golden, csl and sr25.
    """
    from unionsnn.data.sources import data_root
    from unionsnn.reports import expressivity as report
    from unionsnn.reports.progress import data_progress

    if theorems and (sets or choices or out):
        refuse(["--theorems takes --max-nodes, --plot and --json only; leave out the rest."])
    if theorems:
        from unionsnn.reports import theorems as theorem_report

        with failures(options):
            theorem_report.run(max_nodes, plot, as_json=as_json)
        return
    with refusals():
        chosen = report.parse_choices(choices)
        if out is not None:
            report.check_out(out)
    kind = "none" if options["quiet"] or as_json else "auto"
    with failures(options), data_progress(kind) as progress:
        result = report.measure(
            sets or ("golden", "csl", "sr25"),
            chosen,
            root=data_root(),
            mirror=mirror,
            offline=offline,
            seed=seed,
            threads=threads,
            progress=progress,
        )
        if out is not None:
            report.write(result, out)
        if plot is not None:
            from unionsnn.reports.expressivity_plots import draw_golden_pairs

            draw_golden_pairs(plot)
    if as_json:
        click.echo(json.dumps(result, indent=1))
    else:
        report.print_result(result)
