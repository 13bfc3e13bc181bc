"""Formatting of messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(word: str, allowed: Iterable[str]) -> str:
    """Return a suggestion of the closest allowed word, to end a message; empty if none is close."""
    near = difflib.get_close_matches(word, list(allowed), n=1, cutoff=0.5)
    return f" Did you mean {near[0]!r}?" if near else ""


def is_number(text: str) -> bool:
    """Return whether a text is a number; not 1_0, which Python reads as 10."""
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def format_bytes(number: int) -> str:
    """Format a size with a suitable unit."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= size:
            return f"{number / size:,.1f} {unit}"
    return f"{number} bytes"


def about(seconds: float) -> str:
    """Return a time that is only estimated, such as about 7 minutes."""
    for unit, length in (("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 1.5 * length:
            return f"about {seconds / length:,.0f} {unit}"
    return f"about {max(seconds, 1.0):.0f} s"
