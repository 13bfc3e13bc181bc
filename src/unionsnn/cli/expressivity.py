"""The command that measures what coefficients tell apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unionsnn.base.errors import DataError, RequestError, UnionsnnError
from unionsnn.cli.common import (
    FILE,
    Completed,
    Options,
    config_dir_option,
    echo_json,
    json_option,
    out_option,
)

if TYPE_CHECKING:
    from unionsnn.reports.table import Report

_INSTEAD = {"seed": " and type seed=N", "threads": " and type trainer.threads=N"}
_SAMPLE = "For --trained: a share of each category, such as 0.15; always the same pairs."
_DEFAULT_SETS = ("golden", "csl", "sr25")


def _words() -> Iterable[str]:
    from unionsnn.config.compose import completions
    from unionsnn.expressivity.graph_sets import SETS

    return [*SETS, *completions("")]


@click.command()
@click.argument(
    "words", nargs=-1, type=Completed("set", _words), metavar="[SET|FILE ...] [OVERRIDE ...]"
)
@click.option("--trained", is_flag=True, help="Train a network on each pair, as OVERRIDEs say.")
@click.option("--sample", type=click.FloatRange(0, 1, min_open=True), help=_SAMPLE)
@config_dir_option
@click.option("--choices", help="Such as 1wl,a,a~@2,overlap@1+2,rooted@5, or all.")
@click.option("--theorems", is_flag=True, help="Check the paper's theorems on all small graphs.")
@click.option("--max-nodes", type=click.IntRange(3, 8), default=7, help="For --theorems.")
@click.option("--seed", type=click.IntRange(0), help="Seed of the relabelled copies; 0.")
@click.option("--threads", type=click.IntRange(1), help="Threads; all cores unless given.")
@click.option("--mirror", help="Folder or address with the data; else UNIONSNN_MIRROR.")
@click.option("--offline", is_flag=True, help="Leave the network alone.")
@out_option("Table to write, .md, .csv or .tex.")
@click.option(
    "--plot",
    type=FILE,
    help="Folder for pictures of the golden pairs, or with --theorems of counterexamples.",
)
@json_option("Print what was measured as JSON.")
@click.pass_obj
def expressivity(
    options: Options,
    /,
    words: tuple[str, ...],
    trained: bool,
    sample: float | None,
    config_dir: str | None,
    choices: str | None,
    theorems: bool,
    max_nodes: int,
    seed: int | None,
    threads: int | None,
    mirror: str | None,
    offline: bool,
    out: Path | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Measure which graphs coefficients can tell apart.

    SET is golden, csl, sr25 or brec; FILE holds pairs of graphs in graph6, two lines a pair. Colour
    refinement (1-WL) in which every edge carries the coefficient bounds what a message-passing
    network can make of it; nothing is trained. Without a set: golden, csl and sr25.

    With --trained, a network is trained on each pair of one set (brec unless given) and tested on
    it, by the protocol of BREC. OVERRIDES are written key=value, such as model=union_gin
    coefficient.control=constant; what is finished is not trained again.
    """
    sets = [word for word in words if "=" not in word or Path(word).exists()]
    overrides = [word for word in words if word not in sets]
    if theorems and (words or choices or out or trained):
        raise RequestError(
            "--theorems takes --max-nodes, --plot and --json only; leave out the rest.",
            code="expressivity.options",
        )
    if theorems:
        from unionsnn.reports.views import theorems as theorem_report

        theorem_report.run(max_nodes, plot, as_json=as_json)
        return
    if out is not None:
        from unionsnn.reports.table import EXTENSIONS, check_output

        check_output("--out", out, EXTENSIONS)
    where: dict[str, Any] = {"mirror": mirror, "offline": offline}
    if trained:
        _refuse_for_trained(sets, choices=choices, seed=seed, threads=threads, plot=plot)
        name = sets[0] if sets else "brec"
        record = _trained(options, name, overrides, config_dir, sample, where, quiet=as_json)
        from unionsnn.reports.views import trained_expressivity as view

        _show(record, view.trained_report([record]), view.faults(record), out, as_json=as_json)
        return
    if overrides or sample is not None or config_dir is not None:
        named = ", ".join(overrides) or "--sample or --config-dir"
        raise RequestError(
            f"{named} belongs to --trained: add that option, or leave it out.",
            code="expressivity.options",
        )
    result = _measured(
        options, sets, choices, where, seed=seed, threads=threads, plot=plot, quiet=as_json
    )
    from unionsnn.reports.views import expressivity as untrained

    _show(result, untrained.bench_report(result), untrained.faults(result), out, as_json=as_json)


def _show(
    result: dict[str, Any],
    report: Report,
    faults: Sequence[str],
    out: Path | None,
    *,
    as_json: bool,
) -> None:
    """Write and print what was measured; fail if it is at fault."""
    from unionsnn.reports.table import print_tables

    if out is not None:
        report.write(out)
    if as_json:
        echo_json(result)
    else:
        print_tables(report.tables)
    if faults:
        raise UnionsnnError(*faults, code="expressivity.at_fault")


def _measured(
    options: Options,
    sets: Sequence[str],
    choices: str | None,
    where: dict[str, Any],
    *,
    seed: int | None,
    threads: int | None,
    plot: Path | None,
    quiet: bool,
) -> dict[str, Any]:
    """Measure what choices tell apart in sets, without training; draw the golden pairs."""
    from unionsnn.data.sources.download import data_root
    from unionsnn.reports.figures.expressivity import draw_golden_pairs, make_folder
    from unionsnn.reports.progress import data_progress
    from unionsnn.reports.views import expressivity as report

    chosen = report.parse_choices(choices)
    if plot is not None:
        try:
            make_folder(plot)
        except DataError as error:
            raise RequestError(*error.faults) from None
    kind = "none" if options.quiet or quiet else "auto"
    with data_progress(kind) as progress:
        result = report.measure(
            sets or _DEFAULT_SETS,
            chosen,
            root=data_root(),
            **where,
            seed=seed or 0,
            threads=threads,
            progress=progress,
        )
        if plot is not None:
            draw_golden_pairs(plot)
    return result


def _refuse_for_trained(sets: Sequence[str], **given: object) -> None:
    """Refuse what has no effect on trained networks."""
    faults = [
        f"--{name} has no effect on --trained; leave it out{_INSTEAD.get(name, '')}."
        for name, value in given.items()
        if value is not None
    ]
    if len(sets) > 1:
        faults.append(f"--trained takes one set, given were {', '.join(sets)}.")
    if faults:
        raise RequestError(*faults, code="expressivity.options")


def _trained(
    options: Options,
    name: str,
    overrides: Sequence[str],
    config_dir: str | None,
    sample: float | None,
    where: dict[str, Any],
    *,
    quiet: bool,
) -> dict[str, Any]:
    """Train and test a network on each pair of a set; return the record."""
    from unionsnn.data.sources.download import data_root
    from unionsnn.expressivity.graph_sets import SETS, load_set
    from unionsnn.expressivity.trained_pairs import (
        compare_pairs,
        pairs_of,
        sample_of,
        trained_config,
    )
    from unionsnn.reports.progress import data_progress

    kind = "none" if options.quiet or quiet else "auto"
    with data_progress(kind) as progress:
        pairs = pairs_of(load_set(name, root=data_root(), **where))
        # A file of that name is not the set.
        stem = Path(name).stem
        title = Path(name).name if name != stem and stem in SETS else stem
        config = trained_config(overrides, title, pairs, config_dir=config_dir)
        wanted = None if sample is None else sample_of(pairs, sample)
        return compare_pairs(config, pairs, wanted, progress)
