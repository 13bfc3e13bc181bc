"""What the commands share: the options before the command, overrides, and words after ``--``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from click.decorators import FC
from click.shell_completion import CompletionItem

from unionsnn.config.schema import Config


class Completed(click.types.StringParamType):
    """Any text; a shell offers some words for it.

    Args:
        name: What the text is.
        words: Called for the words, so that what knows them is imported by a shell's question only.
    """

    def __init__(self, name: str, words: Callable[[], Iterable[str]]) -> None:
        self.name = name
        self.words = words

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Offer the words that begin as what is typed."""
        return [CompletionItem(word) for word in self.words() if word.startswith(incomplete)]


def _override_words() -> Iterable[str]:
    from unionsnn.config.compose import completions

    return completions("")


OVERRIDE = Completed("override", _override_words)
"""A Hydra override: group=option, or key=value."""

FILE = click.Path(path_type=Path)

config_dir_option = click.option(
    "--config-dir", type=click.Path(), help="A folder of your own configuration."
)
common_option = click.option(
    "--with", "common", multiple=True, metavar="KEY=VALUE", help="The same as KEY=VALUE after --."
)


def dry_run_option(text: str) -> Callable[[FC], FC]:
    """Add ``--dry-run``, with what it shows."""
    return click.option("--dry-run", is_flag=True, help=text)


def json_option(text: str = "Print as JSON.") -> Callable[[FC], FC]:
    """Add ``--json``, with what it prints."""
    return click.option("--json", "as_json", is_flag=True, help=text)


def out_option(text: str, *, required: bool = False) -> Callable[[FC], FC]:
    """Add ``--out``, with the file names that it takes."""
    return click.option("--out", type=FILE, required=required, help=text)


class CommonAfterDashes(click.Command):
    """A command that reads what follows ``--`` as values of ``--with``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put ``--with`` before each word after ``--``; refuse an option there."""
        if "--" in args:
            at = args.index("--")
            known = {name for each in self.get_params(ctx) for name in each.opts}
            for word in args[at + 1 :]:
                if word.partition("=")[0] in known:
                    raise click.UsageError(
                        f"{word} stands after --, where only KEY=VALUE may be; type "
                        f"unionsnn {ctx.info_name} {word} ...",
                        ctx,
                    )
            args = args[:at] + [w for word in args[at + 1 :] for w in ("--with", word)]
        return super().parse_args(ctx, args)


@dataclass(frozen=True)
class Options:
    """The options before the command, which hold for every command.

    Args:
        verbose: Whether more is said, and failures come with a traceback.
        quiet: Whether only results and errors are printed.
    """

    verbose: bool
    quiet: bool

    def progress(self, *, as_json: bool) -> str:
        """Kind of progress of a command that has no configuration to name one."""
        return "none" if self.quiet or as_json else "auto"


def composed(overrides: Sequence[str], config_dir: str | None = None, *, quiet: bool) -> Config:
    """Compose a configuration; without progress if it is to be quiet."""
    from unionsnn.config.compose import compose_config

    config = compose_config(overrides, config_dir)
    return config.replace({"trainer.progress": "none"}) if quiet else config


def echo_json(content: object) -> None:
    """Print what ``--json`` asks for."""
    click.echo(json.dumps(content, indent=1))
