"""The command that compares configurations."""

from __future__ import annotations

from pathlib import Path

import click

from unionsnn.cli.common import (
    CommonAfterDashes,
    Options,
    common_option,
    config_dir_option,
    dry_run_option,
    echo_json,
    examples,
    json_option,
    out_option,
    trust_option,
)


@click.command(
    cls=CommonAfterDashes,
    epilog=examples(
        "unionsnn compare model=gin model=union_gin -- data=mutag",
        "unionsnn compare model=gin runs/mutag/unionsnn/holdout-1a2b3c4d",
    ),
)
@click.argument("configurations", nargs=-1, metavar="A B ... [-- COMMON ...]")
@common_option
@config_dir_option
@dry_run_option("Show what would be done, with a time estimate.")
@trust_option("Run your own classes in a dry run, too.")
@json_option("Print the comparison as JSON.")
@out_option("Table to write: .md, .csv or .tex.")
@click.pass_obj
def compare(
    options: Options,
    configurations: tuple[str, ...],
    common: tuple[str, ...],
    config_dir: str | None,
    dry_run: bool,
    trust: bool,
    as_json: bool,
    out: Path | None,
) -> None:
    """Compare configurations on the same folds and seeds.

    A, B, ... are quoted overrides, such as "model=gin gate=paper", or folders of finished runs.
    Overrides after -- apply to all: unionsnn compare model=gin model=union_gin -- data=mutag
    protocol=cross_validation. Unfinished runs are trained; then each is compared with A,
    repetition by repetition.
    """
    from unionsnn.base.display import display
    from unionsnn.config.compose import compose_config
    from unionsnn.reports.table import EXTENSIONS, check_output, show
    from unionsnn.reports.views.comparison import comparison_report, comparison_tables
    from unionsnn.reports.views.results import print_dry_run
    from unionsnn.runs.comparison import read_candidates, refuse_incomparable, run_comparison
    from unionsnn.runs.dry_run import describe

    if out is not None:
        check_output("--out", out, EXTENSIONS)
    candidates = read_candidates(configurations, common, config_dir)
    refuse_incomparable(candidates, common)
    paths = [word for word in common if word.startswith("paths.")]
    config = next((c.config for c in candidates if c.config), None) or compose_config(paths)
    if as_json or options.quiet:
        candidates = [each.silent() for each in candidates]
        config = config.replace({"trainer.progress": "none"})
    with display(config.trainer.progress) as progress:
        if dry_run:
            plans = [
                describe(c.config, progress, trust=trust)
                for c in candidates
                if c.config is not None
            ]
        else:
            result = run_comparison(candidates, config.paths.output, progress)
    if out is not None and not dry_run:
        comparison_report(result).write(out)
    if as_json:
        echo_json(plans if dry_run else {**result.to_json(), "path": str(result.path)})
    elif dry_run:
        for plan in plans:
            print_dry_run(plan)
    else:
        show(comparison_tables(result), more="--json or --out FILE")
