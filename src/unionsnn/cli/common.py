"""Shared by the commands: global options, overrides, and arguments after ``--``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.decorators import FC
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from unionsnn.reports.table import Report


class Completed(click.types.StringParamType):
    """A text argument with shell completion.

    Args:
        name: Name of the argument.
        words: Returns the completions; called only when a shell asks, so that imports stay lazy.
    """

    def __init__(self, name: str, words: Callable[[], Iterable[str]]) -> None:
        self.name = name
        self.words = words

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the words that start with the typed text."""
        return [CompletionItem(word) for word in self.words() if word.startswith(incomplete)]


def _override_words() -> Iterable[str]:
    from unionsnn.config.compose import completions

    return completions("")


OVERRIDE = Completed("override", _override_words)
"""A Hydra override: group=option, or key=value."""

FILE = click.Path(path_type=Path)

config_dir_option = click.option(
    "--config-dir", type=click.Path(), help="Folder with your own configuration files."
)
common_option = click.option(
    "--with", "common", multiple=True, metavar="KEY=VALUE", help="The same as KEY=VALUE after --."
)


class Listed(click.Group):
    """A group that lists its commands with their whole first sentences, in sections.

    Args:
        sections: Names of the commands of each section; None for one section of all.
    """

    sections: Mapping[str, Sequence[str]] | None = None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands in their sections."""
        for title, names in (self.sections or {"Commands": self.list_commands(ctx)}).items():
            found = [(name, self.get_command(ctx, name)) for name in names]
            rows = [(name, each.get_short_help_str(limit=200)) for name, each in found if each]
            with formatter.section(title):
                formatter.write_dl(rows, col_max=14)


def examples(*lines: str) -> str:
    """Return the end of a command's help: lines to type."""
    return "\b\n" + "\n".join(["Examples:", *(f"  {line}" for line in lines)])


def dry_run_option(text: str) -> Callable[[FC], FC]:
    """Return the option ``--dry-run`` with a help text."""
    return click.option("--dry-run", is_flag=True, help=text)


def trust_option(text: str) -> Callable[[FC], FC]:
    """Return the option ``--trust`` with a help text."""
    return click.option("--trust", is_flag=True, help=text)


def device_option(text: str) -> Callable[[FC], FC]:
    """Return the option ``--device`` with a help text."""
    return click.option("--device", help=text)


yes_option = click.option(
    "--yes", is_flag=True, help="Compute coefficients that take over an hour without asking back."
)


def json_option(text: str = "Print as JSON.") -> Callable[[FC], FC]:
    """Return the option ``--json`` with a help text."""
    return click.option("--json", "as_json", is_flag=True, help=text)


def out_option(text: str, *, required: bool = False) -> Callable[[FC], FC]:
    """Return the option ``--out`` with a help text."""
    return click.option("--out", type=FILE, required=required, help=text)


def header_option(command: FC) -> FC:
    """Add the option ``--header/--no-header`` of edge lists."""
    return click.option(
        "--header/--no-header",
        default=None,
        help="Whether the first line of an edge list names its columns. Default: its words tell.",
    )(command)


class CommonAfterDashes(click.Command):
    """A command that reads the arguments after ``--`` as values of ``--with``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert ``--with`` before each argument after ``--``; refuse options there."""
        if "--" in args:
            at = args.index("--")
            known = {name for each in self.get_params(ctx) for name in each.opts}
            for word in args[at + 1 :]:
                if word.partition("=")[0] in known:
                    raise click.UsageError(
                        f"{word} stands after --, where only KEY=VALUE is allowed; type "
                        f"unionsnn {ctx.info_name} {word} ...",
                        ctx,
                    )
            args = args[:at] + [w for word in args[at + 1 :] for w in ("--with", word)]
        return super().parse_args(ctx, args)


@dataclass(frozen=True)
class Options:
    """The global options, given before the command.

    Args:
        verbose: Whether to log more and show tracebacks.
        quiet: Whether to print only results and errors.
    """

    verbose: bool
    quiet: bool

    def progress(self, *, as_json: bool) -> str:
        """Return the kind of progress display of a command without a configuration."""
        return "none" if self.quiet or as_json else "auto"


def show_report(report: Report, out: Path | None, *, as_json: bool, content: object = None) -> None:
    """Write a report if a file is named, and print it: its tables, or JSON.

    Args:
        report: The report.
        out: File to write.
        as_json: Whether JSON is printed.
        content: What is printed as JSON; the report's rows unless given.
    """
    from unionsnn.reports.table import show

    if out is not None:
        report.write(out)
    if as_json:
        echo_json(report.rows if content is None else content)
    else:
        show(report.tables, more="--json or --out FILE")


def echo_json(content: object) -> None:
    """Print an object as JSON, in which a number that is not finite is null."""
    try:
        text = json.dumps(content, indent=1, allow_nan=False)
    except ValueError:
        plain = json.loads(json.dumps(content), parse_constant=lambda name: None)
        text = json.dumps(plain, indent=1)
    click.echo(text)
