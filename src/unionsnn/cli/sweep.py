"""The command that runs hyper-parameter studies."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import click

from unionsnn.cli.common import (
    OVERRIDE,
    Completed,
    Options,
    config_dir_option,
    dry_run_option,
    echo_json,
    examples,
    json_option,
    trust_option,
)


def _names() -> Iterable[str]:
    from unionsnn.search.study_file import shipped

    return shipped()


@click.command(
    epilog=examples(
        "unionsnn sweep tu_tpe data=mutag",
        "unionsnn sweep my_study.yaml --workers 4 --trials 40",
    ),
)
@click.argument("study", type=Completed("study", _names), metavar="NAME_OR_FILE")
@click.argument("overrides", nargs=-1, type=OVERRIDE)
@click.option("--workers", type=click.IntRange(1), default=1, help="Number of processes.")
@click.option("--storage", metavar="URL", help="sqlite:///FILE or postgresql+psycopg://...")
@click.option("--name", help="Name of the study. Default: file, data and model.")
@click.option("--trials", type=click.IntRange(1), help="Number of trials, instead of the file's.")
@click.option("--extend", is_flag=True, help="Continue although the study has changed.")
@click.option("--retry", is_flag=True, help="Try lost trials again.")
@click.option("--nested", is_flag=True, help="Select a point for each outer fold.")
@click.option("--trials-only", is_flag=True, help="Skip the final run; another command makes it.")
@config_dir_option
@dry_run_option("Show the space, the number of trials and a time estimate.")
@trust_option("Run your own classes in a dry run, too.")
@json_option("Print the study's record as JSON.")
@click.pass_obj
def sweep(
    options: Options,
    study: str,
    overrides: tuple[str, ...],
    workers: int,
    storage: str | None,
    name: str | None,
    trials: int | None,
    extend: bool,
    retry: bool,
    nested: bool,
    trials_only: bool,
    config_dir: str | None,
    dry_run: bool,
    trust: bool,
    as_json: bool,
) -> None:
    """Search hyper-parameters, then train and test the best configuration once.

    NAME_OR_FILE is a shipped study, such as tu_tpe, or a YAML file. OVERRIDES are those of train;
    an override of a key of the space replaces its values. Trials are selected by a validation
    metric and never tested. Rerun the command to resume a study, here or on another machine with
    the same storage.
    """
    from unionsnn.base.display import display
    from unionsnn.base.imports import loading
    from unionsnn.config.overrides import refuse_repeats
    from unionsnn.search.study import make_study

    refuse_repeats(overrides)
    request = make_study(
        study, overrides, name=name, trials=trials, storage=storage, config_dir=config_dir
    )
    kind = request.base.trainer.progress
    if as_json or options.quiet:
        kind = "none"
    from unionsnn.reports.table import show, write_text
    from unionsnn.reports.views.study import (
        Trials,
        final_lines,
        plan_table,
        study_page,
        trials_table,
    )
    from unionsnn.runs.failures import failed_now

    with display(kind), loading("torch and optuna"):
        from unionsnn.search.driver import RETRY, describe_study, run_study
    if dry_run:
        with display(kind) as progress:
            plan = describe_study(request, progress, trust=trust)
        if as_json:
            echo_json(plan)
        else:
            show([plan_table(plan)])
        return
    key, direction = request.file.objectives[0], request.directions[0]
    with display(kind) as progress:
        watch = None if progress is None else Trials(progress, key, direction)
        record = run_study(
            request,
            watch,
            progress,
            workers=workers,
            extend=extend,
            trials_only=trials_only,
            nested=nested,
            retry=retry,
        )
    from unionsnn.reports.figures.palette import COLORS, ORDERED
    from unionsnn.search.figures import plotly_script, study_figures

    page = request.folder / "report.html"
    figures = study_figures(request, COLORS, ORDERED)
    write_text(page, study_page(record, figures, plotly_script()))
    if as_json:
        echo_json(record.to_json())
    else:
        show([trials_table(record), *final_lines(record)])
        click.echo(f"report: {page}")
    lost = [trial for trial in record.trials if trial.state == "lost"]
    for trial in lost:
        click.echo(f"trial {trial.index} was lost: {trial.reason}", err=True)
    if lost:
        click.echo(f"{len(lost)} of {len(record.trials)} trials were lost. {RETRY}", err=True)
    if lost or (record.final and failed_now(record.final, request.base)):
        sys.exit(1)
