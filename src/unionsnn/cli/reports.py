"""The commands that reproduce the paper's tables and report what is on disk."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unionsnn.base.errors import RequestError
from unionsnn.cli.common import (
    CommonAfterDashes,
    Options,
    common_option,
    config_dir_option,
    dry_run_option,
    json_option,
    out_option,
)

if TYPE_CHECKING:
    from unionsnn.reports.formats import Sheet
    from unionsnn.reports.reproduction import Cell, Outcome


def _names(ctx: click.Context, param: click.Parameter, value: str | None) -> list[str]:
    return [name.strip() for name in (value or "").split(",") if name.strip()]


@click.command(cls=CommonAfterDashes)
@click.argument("table", metavar="TABLE")
@click.option("--datasets", callback=_names, help="Only these data sets: mutag,proteins")
@click.option("--models", callback=_names, help="Only these rows: gin,union_gin,unionsnn")
@click.option("--grid", is_flag=True, help="Select from the paper's grid inside each repetition.")
@click.option("--available-only", is_flag=True, help="Rows that cannot be had are no failure.")
@common_option
@config_dir_option
@dry_run_option("Show what is done and left, with an estimate.")
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
    as_json: bool,
    out: Path | None,
) -> None:
    """Run what is behind a table of the paper, and print it beside the paper's.

    TABLE is table3 to table12. Each cell is an ordinary experiment in its ordinary run folder, in
    the stated setting of its table (conf/experiment); what is finished is read, so the same command
    goes on after any interruption. Tables 11 and 12 are costs, which are timed anew each time. What
    follows -- holds for all cells:
    unionsnn reproduce table3 --datasets mutag -- protocol=cross_validation.
    """
    from unionsnn.reports.formats import print_sheets
    from unionsnn.reports.paper import COST_TABLES
    from unionsnn.reports.reproduction import plan_table
    from unionsnn.reports.views import reproduction_table

    _check_out(out, (".md", ".csv", ".tex"))
    quiet = as_json or options.quiet
    cells = plan_table(
        table,
        datasets=datasets,
        models=models,
        common=common,
        config_dir=config_dir,
        grid=grid,
    )
    for cell in cells:
        if cell.config is not None and quiet:
            cell.config["trainer"]["progress"] = "none"
    # A grid takes long: what it takes is said before it begins.
    if dry_run or (grid and not quiet):
        _plan(cells, as_json)
        if dry_run:
            sys.exit(0)
    elif not quiet and table not in COST_TABLES:
        print_sheets([reproduction_table.plan_sheet(cells)])
    sheets, rows, outcomes = _outcomes(table, cells)
    if out is not None:
        _write(out, sheets, rows)
    if as_json:
        click.echo(json.dumps(rows, indent=1))
    else:
        print_sheets(sheets)
    failed = any(o.failed or (o.absent and not available_only) for o in outcomes)
    sys.exit(1 if failed else 0)


def _check_out(out: Path | None, endings: Sequence[str]) -> None:
    from unionsnn.reports.formats import check_output

    if out is not None:
        check_output("--out", out, endings)


def _write(out: Path, sheets: Sequence[Sheet], rows: Sequence[dict[str, Any]]) -> None:
    from unionsnn.reports.formats import write_sheets

    write_sheets(out, sheets, rows)


def _progress_kind(cells: Sequence[Cell]) -> str:
    return next((str(c.config["trainer"]["progress"]) for c in cells if c.config), "none")


def _outcomes(
    table: str, cells: Sequence[Cell]
) -> tuple[list[Sheet], list[dict[str, Any]], list[Outcome]]:
    """Run all cells; tables, full numbers, and what came of each cell."""
    from unionsnn.reports.progress import data_progress
    from unionsnn.reports.reproduction import run_cells
    from unionsnn.reports.views import cost_table, reproduction_table
    from unionsnn.runs import costs, experiment

    timed = {"table11": costs.timed_preprocessing, "table12": costs.timed_training}
    run = timed.get(table, experiment.run_experiment)
    with data_progress(_progress_kind(cells)) as progress:
        outcomes = list(run_cells(cells, run, progress))
    if table in cost_table.REFERENCE:
        found = [cost_table.cost_of(outcome) for outcome in outcomes]
        return cost_table.cost_sheets(found), cost_table.cost_rows(found), outcomes
    return reproduction_table.sheets(outcomes), reproduction_table.rows(outcomes), outcomes


def _plan(cells: Sequence[Cell], as_json: bool) -> None:
    """Print what is done and what is left; a few steps of what is left are timed."""
    from unionsnn.reports.formats import print_sheets
    from unionsnn.reports.progress import data_progress
    from unionsnn.reports.reproduction import estimates
    from unionsnn.reports.views.reproduction_table import plan_rows, plan_sheet

    costs = cells[0].paper.table == "table11"
    with data_progress(_progress_kind(cells)) as progress:
        seconds = {} if costs else estimates(cells, progress)
    if as_json:
        click.echo(json.dumps(plan_rows(cells, seconds), indent=1))
    elif costs:
        click.echo(f"{len(cells)} coefficients of whole data sets are timed; nothing is trained.")
    else:
        print_sheets([plan_sheet(cells, seconds)])


@click.command()
@click.argument("folders", nargs=-1, metavar="DIR...", type=click.Path(path_type=Path))
@click.option("--claims", is_flag=True, help="The paper's claims: holds, fails or not run.")
@json_option("Print full numbers as JSON.")
@out_option("File to write: .md, .csv, .tex, or .html for a page with figures.")
def report(
    folders: tuple[Path, ...],
    claims: bool,
    as_json: bool,
    out: Path | None,
) -> None:
    """Collect the records below folders into a table for each data set.

    With --claims the paper's claims stand in their place, judged by its own tables, and by the
    records where folders are given.
    """
    from unionsnn.reports import claims as claims_module
    from unionsnn.reports.collection import collect
    from unionsnn.reports.formats import print_sheets
    from unionsnn.reports.views import records_table

    if not folders and not claims:
        raise RequestError(
            "report was given no folder; type unionsnn report runs, or --claims.",
            code="report.no_folder",
        )
    missing = [
        f"{folder} is not a folder; name one with runs in it, such as runs."
        for folder in folders
        if not folder.is_dir()
    ]
    if missing:
        raise RequestError(*missing, code="report.not_a_folder")
    _check_out(out, (".md", ".csv", ".tex", ".html"))
    found, faults = collect(folders)
    for fault in faults:
        click.echo(f"skipped {fault}", err=True)
    if claims:
        ours = claims_module.from_records(found)
        sheets = [claims_module.claims_sheet(ours)]
        rows: list[dict[str, Any]] = [*claims_module.claim_rows(ours)]
    else:
        sheets, rows = records_table.sheets(found), records_table.rows(found)
    if out is not None:
        if out.suffix.lower() == ".html":
            from unionsnn.reports.page import write_page

            write_page(out, found, faults, sheets[0] if claims else None)
        else:
            _write(out, sheets, rows)
    if as_json:
        click.echo(json.dumps(rows, indent=1))
    else:
        print_sheets(sheets)
    sys.exit(1 if faults else 0)
