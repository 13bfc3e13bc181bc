"""The group of all commands: options before the command, signals, exit status."""

from __future__ import annotations

import io
import json
import logging
import signal
import sys
from typing import Any, NoReturn

import click

from unionsnn.base.processes import started_by_torchrun
from unionsnn.base.version import __version__
from unionsnn.cli.coefficients import cache, case_study, coefficients, precompute
from unionsnn.cli.common import OVERRIDE, REQUEST_WAS_WRONG, composed, failures, refuse
from unionsnn.cli.compare import compare
from unionsnn.cli.data import clean, datasets
from unionsnn.cli.expressivity import expressivity
from unionsnn.cli.predict import export, predict
from unionsnn.cli.reports import report, reproduce
from unionsnn.cli.sweep import sweep

INTERRUPTED = 130
TERMINATED = 143

_KEPT = "What is finished is kept; the same command goes on (without force=true)."


def main() -> NoReturn:
    """Run the command line; returns 0 done, 1 failed, 2 wrong request, 130 Ctrl-C, 143 SIGTERM."""
    signal.signal(signal.SIGTERM, _terminate)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal without "±" must not lose a result that took hours.
            stream.reconfigure(errors="replace")
    try:
        status = command_line.main(standalone_mode=False)
        sys.exit(status if isinstance(status, int) else 0)
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except click.ClickException as error:
        error.show()
        if isinstance(error, click.NoSuchOption) and error.option_name in ("-m", "--multirun"):
            click.echo(
                "unionsnn runs one experiment a command; for several, type one command after "
                "another, each with its own overrides.",
                err=True,
            )
        elif isinstance(error, click.NoSuchOption) and error.ctx and error.ctx.parent:
            _say_where_it_belongs(error.option_name, error.ctx)
        sys.exit(REQUEST_WAS_WRONG)
    except (KeyboardInterrupt, click.Abort):
        click.echo(f"Interrupted. {_KEPT}", err=True)
        sys.exit(INTERRUPTED)


def _say_where_it_belongs(option: str, context: click.Context) -> None:
    general = {name for each in command_line.params for name in each.opts}
    if option in general:
        words = f"unionsnn {option} {context.info_name}"
        click.echo(f"{option} stands before the command: type {words} ...", err=True)


def _terminate(signum: int, frame: Any) -> NoReturn:
    click.echo(f"Terminated. {_KEPT}", err=True)
    sys.exit(TERMINATED)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="unionsnn")
@click.option("-v", "--verbose", is_flag=True, help="Say more; errors come with a traceback.")
@click.option("-q", "--quiet", is_flag=True, help="Only results and errors.")
@click.pass_context
def command_line(ctx: click.Context, verbose: bool, quiet: bool) -> None:
    """Graph neural networks that see union subgraphs."""
    launch = started_by_torchrun()
    if launch and ctx.invoked_subcommand != "train":
        refuse(
            [
                f"torchrun starts {launch.processes} times what is to run once: type unionsnn "
                f"{ctx.invoked_subcommand} ... without it."
            ]
        )
    ctx.obj = {"verbose": verbose, "quiet": quiet}
    level = logging.DEBUG if verbose else logging.ERROR if quiet else logging.INFO
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    logging.getLogger("unionsnn").setLevel(level)


@command_line.command()
@click.argument("overrides", nargs=-1, type=OVERRIDE)
@click.option("--config-dir", type=click.Path(), help="A folder of your own configuration.")
@click.option("--dry-run", is_flag=True, help="Show what would be done, with an estimate of time.")
@click.option("--json", "as_json", is_flag=True, help="Print the record as JSON.")
@click.pass_obj
def train(
    options: dict[str, bool],
    overrides: tuple[str, ...],
    config_dir: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Train one experiment under its protocol.

    OVERRIDES are written key=value, such as data=mutag model=gin seed=1. Without any, UnionSNN is
    trained on generated graphs, which needs no download.
    """
    config = composed(overrides, config_dir, options)
    if as_json:
        config["trainer"]["progress"] = "none"
    _run(config, options, dry_run=dry_run, as_json=as_json)


def _run(config: dict[str, Any], options: dict[str, bool], *, dry_run: bool, as_json: bool) -> None:
    from unionsnn.reports import tables
    from unionsnn.reports.progress import data_progress
    from unionsnn.runs.dry_run import describe
    from unionsnn.runs.experiment import run_experiment
    from unionsnn.runs.failures import failed_now
    from unionsnn.runs.records import RunFolder

    launch = started_by_torchrun()
    if dry_run and launch and launch.number > 0:
        return
    folder = RunFolder.of(config)
    with failures(options):
        before = {} if config["force"] or dry_run or as_json else folder.finished()
    with failures(options), data_progress(config["trainer"]["progress"]) as progress:
        record = describe(config, progress) if dry_run else run_experiment(config, progress)
    if not record:
        # One of the processes that torchrun started, and not the first.
        return
    if as_json:
        click.echo(json.dumps(record, indent=1))
    elif dry_run:
        tables.print_dry_run(record)
    else:
        tables.print_results(record)
        tables.print_folder(folder.path, record, before)
    if not dry_run and failed_now(record, config):
        sys.exit(1)


@command_line.command()
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def info(as_json: bool) -> None:
    """Versions, devices, folders and the size of the cache."""
    from unionsnn.reports.tables import print_info
    from unionsnn.runs.information import information

    content = information()
    if as_json:
        click.echo(json.dumps(content, indent=1))
    else:
        print_info(content)


@command_line.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a shell, to be sourced in its start-up file."""
    from click.shell_completion import get_completion_class

    maker = get_completion_class(shell)
    assert maker is not None
    click.echo(maker(command_line, {}, "unionsnn", "_UNIONSNN_COMPLETE").source())


_COMMANDS = (
    compare,
    sweep,
    reproduce,
    report,
    precompute,
    coefficients,
    predict,
    export,
    expressivity,
    case_study,
    cache,
    datasets,
    clean,
)
for command in _COMMANDS:
    command_line.add_command(command)
