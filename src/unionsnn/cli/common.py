"""What the commands share: overrides, and messages with their exit status."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import click
from click.shell_completion import CompletionItem

REQUEST_WAS_WRONG = 2


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


def refuse(faults: Sequence[str]) -> NoReturn:
    """Say what is wrong with a request and end with its status."""
    for fault in faults:
        click.echo(f"error: {fault}", err=True)
    sys.exit(REQUEST_WAS_WRONG)


def fail(message: object) -> NoReturn:
    """Say why the work failed and end with its status."""
    click.echo(f"error: {message}", err=True)
    sys.exit(1)


@contextmanager
def refusals() -> Iterator[None]:
    """Turn what is found wrong before any work into a refusal, a line each."""
    from unionsnn.base.errors import DataError

    try:
        yield
    except DataError as error:
        refuse(str(error).split("\n"))


@contextmanager
def failures(options: Mapping[str, bool]) -> Iterator[None]:
    """Turn what a request or its data can be wrong about into one message and a status."""
    from unionsnn.base.errors import DataError, RequestError
    from unionsnn.base.files import NO_PLACE

    try:
        yield
    except (click.exceptions.Exit, click.Abort):
        raise
    except RequestError as error:
        refuse(error.faults)
    except (DataError, RuntimeError, OSError, FloatingPointError, MemoryError) as error:
        if options["verbose"]:
            raise
        if isinstance(error, OSError) and error.errno in NO_PLACE:
            fail(
                f"{error.filename or 'A file'} cannot be used ({error.strerror}). Free the place, "
                "or name another folder: paths.data=FOLDER, paths.output=FOLDER for runs."
            )
        if isinstance(error, MemoryError):
            fail(f"Memory ran out. {error}")
        fail(error)


def composed(
    overrides: Sequence[str], config_dir: str | None, options: Mapping[str, bool]
) -> dict[str, Any]:
    """Compose a configuration, or refuse it."""
    from unionsnn.config.compose import compose_config

    with failures(options):
        config = compose_config(overrides, config_dir)
    if options["quiet"]:
        config["trainer"]["progress"] = "none"
    return config
