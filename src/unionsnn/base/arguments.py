"""Checks of arguments, with messages that say what is allowed."""

from __future__ import annotations

from collections.abc import Iterable

from unionsnn.base.errors import RequestError
from unionsnn.base.words import nearest


def require_choice(name: str, given: str, allowed: Iterable[str]) -> None:
    """Refuse a word that is not allowed, suggesting the nearest one that is.

    Raises:
        RequestError: if it is not allowed.
    """
    choices = list(allowed)
    if given not in choices:
        raise RequestError(
            f"{name} is {given!r}; allowed are {', '.join(choices)}.{nearest(str(given), choices)}",
            code="argument.choice",
        )


def require_at_least(name: str, given: float, least: float) -> None:
    """Refuse a number that is too small.

    Raises:
        RequestError: if it is below `least`.
    """
    if given < least:
        raise RequestError(f"{name} is {given}; it must be at least {least}.", code="argument.size")
