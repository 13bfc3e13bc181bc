"""The top-level command group: global options, signals, exit status."""

from __future__ import annotations

import io
import logging
import os
import shlex
import signal
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NoReturn

import click

from unionsnn.base.errors import MemoryRanOutError, RequestError, UnionsnnError
from unionsnn.base.extras import missing_extra
from unionsnn.base.files import UNUSABLE_FOLDER_ERRNOS
from unionsnn.base.processes import (
    LEFT_BEHIND,
    STOP_SIGNALS,
    Terminated,
    end_on,
    torchrun_process,
)
from unionsnn.base.secrets import masked
from unionsnn.base.version import __version__
from unionsnn.base.words import inside_section
from unionsnn.cli.coefficients import cache, case_study, coefficients, precompute
from unionsnn.cli.common import (
    OVERRIDE,
    Listed,
    Options,
    config_dir_option,
    dry_run_option,
    echo_json,
    examples,
    json_option,
    trust_option,
)
from unionsnn.cli.compare import compare
from unionsnn.cli.data import clean, datasets
from unionsnn.cli.expressivity import expressivity
from unionsnn.cli.library import config as config_command
from unionsnn.cli.library import models
from unionsnn.cli.predict import export, predict
from unionsnn.cli.reports import report, reproduce
from unionsnn.cli.sweep import sweep
from unionsnn.reports.formatting import printable

INTERRUPTED = 130
TERMINATED = 143

KEPT = "Finished work is kept; rerun the command to resume."


def main() -> NoReturn:
    """Run the command line; exits 0 done, 1 failed, 2 invalid request, 130 Ctrl-C, 143 SIGTERM.

    SIGUSR1 and SIGUSR2, which batch systems send before a time limit, count as SIGTERM.
    """
    for each in STOP_SIGNALS:
        end_on(each, TERMINATED)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal without "±" must not lose a result that took hours.
            stream.reconfigure(errors="replace")
    warnings.formatwarning = _as_line
    try:
        status = command_line.main(prog_name="unionsnn", standalone_mode=False)
        sys.exit(status if isinstance(status, int) else 0)
    except click.ClickException as error:
        advice = None
        if isinstance(error, click.NoSuchOption) and (advice := _what_to_type(error)):
            # Not the option that is spelled most like it.
            error.possibilities = None  # type: ignore[misc]
        shown = io.StringIO()
        error.show(shown)
        click.echo(printable(masked(shown.getvalue())), nl=False, err=True)
        if advice:
            click.echo(printable(masked(advice)), err=True)
        sys.exit(RequestError.exit_status)
    except (KeyboardInterrupt, click.Abort):
        # A second Ctrl-C while Python ends would print a traceback.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        click.echo(f"Interrupted. {_kept()}", err=True)
        _exit_at_once(INTERRUPTED)
    except Terminated:
        click.echo(f"Terminated. {_kept()}", err=True)
        _exit_at_once(TERMINATED)


_PACKAGE = Path(__file__).parents[1]
_as_usual = warnings.formatwarning


def _as_line(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    line: str | None = None,
) -> str:
    """Format a warning of this package as a line; others keep their place in the source."""
    if category is UserWarning and Path(filename).is_relative_to(_PACKAGE):
        return f"warning: {printable(masked(str(message)))}\n"
    return _as_usual(message, category, filename, lineno, line)


def _kept() -> str:
    """Return `KEPT`, unless --no-cache was typed; who has typed force is told to leave it."""
    if "--no-cache" in sys.argv[1:]:
        return "Nothing is kept with --no-cache; without it the command goes on where it stopped."
    forced = [word for word in sys.argv[1:] if word.startswith("force=")]
    return KEPT.replace("the command", f"the command without {forced[-1]}") if forced else KEPT


def _exit_at_once(status: int) -> NoReturn:
    """End the process, even in the middle of compiled code on another thread."""
    if any(thread.name.startswith(LEFT_BEHIND) for thread in threading.enumerate()):
        # At a regular exit libraries free memory that the thread is using.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


def _what_to_type(error: click.NoSuchOption) -> str | None:
    """Return what to type in place of an option that does not exist; None if that is not known."""
    option, context = error.option_name, error.ctx
    if option in ("-m", "--multirun"):
        return (
            "unionsnn train runs one experiment. To compare several, type unionsnn compare "
            "model=gin model=gat -- data=mutag; to search, unionsnn sweep STUDY "
            "'optimizer.lr=choice(0.1,0.01)'."
        )
    if context and context.parent and any(option in each.opts for each in command_line.params):
        return f"{option} goes before the command: type unionsnn {option} {context.info_name} ..."
    if context is None or context.parent is None:
        return None
    taken = {name for each in context.command.params for name in (*each.opts, *each.secondary_opts)}
    settings, with_equals = _settings(sys.argv[1:], taken)
    if not settings:
        return None
    typed = " ".join(shlex.quote(each) for each in settings)
    sweeps = (
        " In the command of a W&B sweep, write ${args_no_hyphens} in place of ${args}."
        if with_equals
        else ""
    )
    return f"Settings have no hyphens in front: type {typed}.{sweeps}"


def _settings(words: Sequence[str], taken: Collection[str]) -> tuple[list[str], bool]:
    """Return the settings among words that were typed as options: --model gin is model=gin.

    Args:
        words: The words after the command.
        taken: The command's own options.

    Returns:
        The settings, and whether one was typed as --key=value.
    """
    from unionsnn.config.compose import completions

    known = {word.partition("=")[0] for word in completions("")}
    settings, with_equals = [], False
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        option, equals, value = word.partition("=")
        key = option.lstrip("-").replace("-", "_")
        if not option.startswith("--") or option in taken or not key:
            continue
        if key not in known:
            # As in --lr 0.01 and --batch-size 32.
            key = inside_section(key, known) or key
        if not equals:
            if key not in known:
                continue
            value = "true"
            if waiting and not waiting[0].startswith("--") and "=" not in waiting[0]:
                value = waiting.pop(0)
        with_equals |= bool(equals)
        settings.append(f"{key}={value}")
    return settings, with_equals


SECTIONS = {
    "Train and compare": ("train", "compare", "sweep", "reproduce", "report"),
    "Use a trained network": ("predict", "export"),
    "Analyse graphs": ("coefficients", "expressivity", "case-study"),
    "Data": ("datasets", "precompute", "cache", "clean"),
    "What there is": ("models", "config", "info", "completion"),
}
"""The commands, by what one wants to do."""


class CommandLine(Listed):
    """The top-level group, where an error becomes lines on stderr and an exit status."""

    sections = SECTIONS

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; print each fault of an error with its code and end with its status."""
        try:
            return super().invoke(ctx)
        except (click.exceptions.Exit, click.Abort, click.ClickException, BrokenPipeError):
            # click gives these a status itself.
            raise
        except Exception as error:
            if ctx.params["verbose"] and not isinstance(error, RequestError):
                click.echo(masked("".join(traceback.format_exception(error))), err=True)
            known = _known(error)
            for fault in known.faults:
                click.echo(f"error: {printable(fault)} [{fault.code}]", err=True)
            ctx.exit(known.exit_status)


def _known(error: Exception) -> UnionsnnError:
    """Convert an error to one of this package's, with advice where there is some."""
    if isinstance(error, UnionsnnError):
        return error
    if isinstance(error, OSError) and error.errno in UNUSABLE_FOLDER_ERRNOS:
        return UnionsnnError(
            f"{error.filename or 'A file'} cannot be used ({error.strerror}). Free disk space, "
            "or name another folder: paths.data=FOLDER, paths.output=FOLDER for runs.",
            code="file.unusable",
        )
    if isinstance(error, ModuleNotFoundError) and (absent := missing_extra(error)):
        return absent
    if isinstance(error, MemoryError):
        return MemoryRanOutError(f"Memory ran out. {error}")
    if isinstance(error, OSError | FloatingPointError):
        return UnionsnnError(str(error))
    return UnionsnnError(
        f"{type(error).__name__}: {' '.join(str(error).split())[:500]}. This is a fault of "
        f"unionsnn's own, or of a class of yours; {_traceback(error)}",
        code="unexpected",
    )


def _traceback(error: Exception) -> str:
    """Write the traceback of an unexpected error to a file, and say where."""
    text = masked("".join(traceback.format_exception(error)))
    try:
        descriptor, path = tempfile.mkstemp(prefix="unionsnn-error-", suffix=".txt")
        with open(descriptor, "w", encoding="utf-8", errors="replace") as file:
            file.write(f"unionsnn {__version__}, Python {sys.version}\n{text}")
    except OSError:
        return "type unionsnn --verbose ... to see its traceback."
    return f"its traceback is in {path}."


class _Stderr(logging.StreamHandler[Any]):
    """Log to the standard error of the moment, which a live display has redirected."""

    @property
    def stream(self) -> Any:
        """The stream."""
        return sys.stderr

    @stream.setter
    def stream(self, value: Any) -> None:
        """Ignore what the handler was made with."""


class _Masked(logging.Formatter):
    """Log without passwords, also those in the tracebacks of an error that is logged."""

    def format(self, record: logging.LogRecord) -> str:
        return masked(super().format(record))


@click.group(
    cls=CommandLine,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples(
        "unionsnn train data=mutag model=gin",
        "unionsnn compare model=gin model=union_gin -- data=mutag",
        "unionsnn COMMAND --help",
    )
    + "\n\nExit status: 0 done, 1 failed, 2 invalid request, 130 Ctrl-C, 143 SIGTERM. An error "
    "ends with its code, such as [data.unknown]; the documentation lists them on its page Errors.",
)
@click.version_option(__version__, prog_name="unionsnn")
@click.option("-v", "--verbose", is_flag=True, help="Log more, and show tracebacks.")
@click.option("-q", "--quiet", is_flag=True, help="Print only results and errors.")
@click.pass_context
def command_line(ctx: click.Context, verbose: bool, quiet: bool) -> None:
    """Graph neural networks that see union subgraphs."""
    torchrun = torchrun_process()
    if torchrun and ctx.invoked_subcommand != "train":
        raise RequestError(
            f"{ctx.invoked_subcommand} runs as one process, but torchrun started "
            f"{torchrun.world_size}: type unionsnn {ctx.invoked_subcommand} ... without torchrun.",
            code="torchrun.one_process",
        )
    ctx.obj = Options(verbose, quiet)
    level = logging.DEBUG if verbose else logging.ERROR if quiet else logging.INFO
    handler = _Stderr()
    handler.setFormatter(_Masked("%(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("unionsnn").setLevel(level)


@command_line.command(
    epilog=examples(
        "unionsnn train data=mutag model=gin",
        "unionsnn train data=mutag model=union_gin protocol=cross_validation seed=1",
        "unionsnn train data=folder data.path=my_graphs --dry-run",
    ),
)
@click.argument("overrides", nargs=-1, type=OVERRIDE)
@config_dir_option
@dry_run_option("Show what would be done, with a time estimate.")
@trust_option("Run your own classes in a dry run, too.")
@json_option("Print the record as JSON.")
@click.pass_obj
def train(
    options: Options,
    overrides: tuple[str, ...],
    config_dir: str | None,
    dry_run: bool,
    trust: bool,
    as_json: bool,
) -> None:
    """Train one experiment under its protocol.

    OVERRIDES have the form key=value, such as data=mutag model=gin seed=1. The default is UnionSNN
    on generated graphs, which needs no download.
    """
    from unionsnn.config.compose import compose_config
    from unionsnn.config.overrides import refuse_repeats

    refuse_repeats(overrides)
    config = compose_config(overrides, config_dir)
    torchrun = torchrun_process()
    if options.quiet or as_json or (torchrun and torchrun.rank > 0):
        config = config.replace({"trainer.progress": "none"})
    from unionsnn.base.display import display
    from unionsnn.reports.views import results
    from unionsnn.reports.views.debugging import print_debug
    from unionsnn.runs.dry_run import describe
    from unionsnn.runs.experiment import run_experiment
    from unionsnn.runs.failures import failed_now
    from unionsnn.runs.run_folder import RunFolder
    from unionsnn.tracking.wandb import SWEEP_VARIABLE

    if dry_run and torchrun and torchrun.rank > 0:
        return
    if (sweep_id := os.environ.get(SWEEP_VARIABLE)) and not dry_run:
        from unionsnn.runs.validation import run_for_agent

        with display(config.trainer.progress) as progress:
            measured = run_for_agent(config, sweep_id, progress)
        if as_json:
            echo_json(measured.to_json())
        else:
            values = ", ".join(f"{key} {value:.6g}" for key, value in measured.metrics.items())
            click.echo(
                f"run of the W&B sweep {sweep_id}: {values} (validation, mean of "
                f"{len(measured.repetitions)}; the test part is not read)"
            )
        return
    folder = RunFolder.of(config)
    before = {} if config.force or dry_run or as_json else folder.finished()
    if dry_run:
        with display(config.trainer.progress) as progress:
            plan = describe(config, progress, trust=trust)
        if as_json:
            echo_json(plan)
        else:
            results.print_dry_run(plan)
        return
    with display(config.trainer.progress) as progress:
        record = run_experiment(config, progress)
    if record is None:
        # A process started by torchrun, other than the first.
        return
    if as_json:
        echo_json(record.to_json())
    else:
        results.print_results(record)
        for line in results.folder_lines(folder.path, record, before):
            click.echo(line)
        print_debug(folder.path, record)
    if failed_now(record, config):
        sys.exit(1)


@command_line.command()
@json_option()
def info(as_json: bool) -> None:
    """Print versions, devices, folders and the size of the cache."""
    from unionsnn.reports.table import show
    from unionsnn.reports.views.results import info_table
    from unionsnn.runs.information import information

    content = information()
    if as_json:
        echo_json(content)
    else:
        show([info_table(content)])


@command_line.command(
    epilog=examples(
        "unionsnn completion bash >> ~/.bashrc",
    ),
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for a shell; source it in the shell's start-up file."""
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
    models,
    config_command,
)
for command in _COMMANDS:
    command_line.add_command(command)
