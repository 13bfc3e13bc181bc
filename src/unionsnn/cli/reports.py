"""The commands that reproduce the paper's tables and report what is on disk."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from unionsnn.base.errors import RequestError
from unionsnn.cli.common import (
    CommonAfterDashes,
    Completed,
    Options,
    common_option,
    config_dir_option,
    dry_run_option,
    examples,
    json_option,
    out_option,
    show_report,
    trust_option,
)

if TYPE_CHECKING:
    from unionsnn.reports.reproduction import Run


def _tables() -> Iterable[str]:
    from unionsnn.reports.paper import paper_tables

    return paper_tables()


def _names(ctx: click.Context, param: click.Parameter, value: str | None) -> list[str]:
    return [name.strip() for name in (value or "").split(",") if name.strip()]


@click.command(
    cls=CommonAfterDashes,
    epilog=examples(
        "unionsnn reproduce table3 --datasets mutag --models gin,unionsnn",
        "unionsnn reproduce table3 --dry-run",
    ),
)
@click.argument("table", type=Completed("text", _tables), metavar="TABLE")
@click.option("--datasets", callback=_names, help="Only these data sets: mutag,proteins.")
@click.option("--models", callback=_names, help="Only these rows: gin,union_gin,unionsnn.")
@click.option("--grid", is_flag=True, help="Select from the paper's grid inside each repetition.")
@click.option("--available-only", is_flag=True, help="Ignore rows that cannot be run.")
@common_option
@config_dir_option
@dry_run_option("Show what is done and what is left, with a time estimate.")
@trust_option("Run your own classes in a dry run, too.")
@json_option("Print the cells as JSON.")
@out_option("Table to write: .md, .csv or .tex.")
@click.pass_obj
def reproduce(
    options: Options,
    table: str,
    datasets: list[str],
    models: list[str],
    grid: bool,
    available_only: bool,
    common: tuple[str, ...],
    config_dir: str | None,
    dry_run: bool,
    trust: bool,
    as_json: bool,
    out: Path | None,
) -> None:
    """Train the runs behind a table of the paper, and print both side by side.

    TABLE is table3 to table12. Each cell is an ordinary experiment in its ordinary run folder, with
    the setting of its table (conf/experiment). Finished cells are read; rerun the command to resume
    after an interruption. Tables 11 and 12 are costs, which are timed again each time. Overrides
    after -- apply to all cells:
    unionsnn reproduce table3 --datasets mutag -- protocol=cross_validation.
    """
    from unionsnn.base.display import display
    from unionsnn.base.imports import loading
    from unionsnn.reports.paper import paper_table
    from unionsnn.reports.reproduction import estimates, plan_table, run_cells
    from unionsnn.reports.table import EXTENSIONS, check_output, show
    from unionsnn.reports.views.reproduction import plan_report, reproduction_report

    if out is not None:
        check_output("--out", out, EXTENSIONS)
    quiet = as_json or options.quiet
    cells = plan_table(
        table,
        datasets=datasets,
        models=models,
        common=common,
        config_dir=config_dir,
        grid=grid,
    )
    if quiet:
        cells = [cell.silent() for cell in cells]
    kind = next((c.config.trainer.progress for c in cells if c.config), "none")
    cost = paper_table(table).cost
    trained = paper_table(table).experiment is not None
    if dry_run and not trained and not as_json:
        click.echo(f"Times the coefficients of {len(cells)} whole data sets; trains nothing.")
        return
    # A grid takes long, so its estimate is printed first.
    if dry_run or (grid and not quiet):
        with display(kind) as progress:
            seconds = estimates(cells, progress, trust=trust or not dry_run) if trained else {}
        show_report(plan_report(cells, seconds), None, as_json=as_json)
        if dry_run:
            return
    elif not quiet and cost is None:
        show(plan_report(cells).tables)
    with display(kind) as progress:
        from unionsnn.runs.experiment import run_experiment

        run: Run = run_experiment
        if cost is not None:
            with loading("torch"):
                from unionsnn.runs import costs
            preprocessing = cost.measure == "preprocessing"
            run = costs.timed_preprocessing if preprocessing else costs.timed_training
        outcomes = list(run_cells(cells, run, progress))
    show_report(reproduction_report(outcomes), out, as_json=as_json)
    if any(o.failed or (o.absent and not available_only) for o in outcomes):
        sys.exit(1)


@click.command(
    epilog=examples(
        "unionsnn report runs",
        "unionsnn report runs --out results.html",
    ),
)
@click.argument("folders", nargs=-1, metavar="DIR...", type=click.Path(path_type=Path))
@click.option("--claims", is_flag=True, help="Print whether the paper's claims hold.")
@json_option("Print full numbers as JSON.")
@out_option("File to write: .md, .csv, .tex, or .html for a page with figures.")
def report(
    folders: tuple[Path, ...],
    claims: bool,
    as_json: bool,
    out: Path | None,
) -> None:
    """Collect the records in folders into a table for each data set.

    With --claims, list the paper's claims instead as holds, fails or not run, judged by the paper's
    own tables and, with folders, by the records in them.
    """
    from unionsnn.reports.claims import claims_report, from_records
    from unionsnn.reports.collection import collect
    from unionsnn.reports.table import EXTENSIONS, check_output, write_text
    from unionsnn.reports.views.records import records_report

    if not folders and not claims:
        raise RequestError(
            "no folder given; type unionsnn report runs, or unionsnn report --claims.",
            code="report.no_folder",
        )
    wrong = [
        f"{folder} is not a folder; name one with runs in it, such as runs."
        for folder in folders
        if not folder.is_dir()
    ]
    if wrong:
        raise RequestError(*wrong, code="report.not_a_folder")
    if out is not None:
        check_output("--out", out, (*EXTENSIONS, ".html"))
    records, faults = collect(folders)
    for fault in faults:
        click.echo(f"skipped {fault}", err=True)
    made = claims_report(from_records(records)) if claims else records_report(records)
    if out is not None and out.suffix.lower() == ".html":
        from unionsnn.reports.views.page import page

        write_text(out, page(records, faults, made.tables[0] if claims else None, out.parent))
        out = None
    show_report(made, out, as_json=as_json)
    sys.exit(1 if faults else 0)
