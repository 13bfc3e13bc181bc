"""Checks of arguments, with messages that say what is allowed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

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
        RequestError: if it is below `least`, or no number.
    """
    if not hasattr(given, "__float__"):
        raise RequestError(
            f"{name} is {given!r}; it must be a number of at least {least}.", code="argument.size"
        )
    if not given >= least:
        raise RequestError(f"{name} is {given}; it must be at least {least}.", code="argument.size")


def plain(value: Any, name: str) -> Any:
    """Return an argument in types that files hold and that are read without running code.

    Args:
        value: None, a boolean, a number, also numpy's or torch's, a text, or sequences and mappings
            of these.
        name: The argument, for the message.

    Raises:
        RequestError: it is anything else.
    """
    if value is None or type(value) in (bool, int, float, str):
        return value
    # Numbers of numpy or torch, of which nothing is imported here.
    if hasattr(value, "ndim") and hasattr(value, "tolist"):
        return plain(value.tolist(), name)
    if isinstance(value, Mapping):
        return {str(key): plain(each, f"{name}.{key}") for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each, f"{name}[{i}]") for i, each in enumerate(value)]
    raise RequestError(
        f"{name} is a {type(value).__name__}, which cannot be written down.",
        code="checkpoint.arguments",
    )
