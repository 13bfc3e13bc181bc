"""Formatting of messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

ALIKE = 0.6
"""Least similarity of two words, as difflib measures it, of which one is suggested for another."""


def nearest(word: str, allowed: Iterable[str]) -> str:
    """Return a suggestion of the closest allowed word, to end a message; empty if none is close."""
    allowed = list(allowed)
    if inner := inside_section(word, allowed):
        return f" Did you mean {inner!r}?"
    end = word.rpartition(".")[2]
    # The same section in front makes any two keys alike.
    candidates = [each for each in allowed if _alike(end, each.rpartition(".")[2])]
    near = difflib.get_close_matches(word, candidates, n=1, cutoff=ALIKE)
    begun = [each for each in candidates if len(word) > 1 and each.startswith(word)]
    if not near and len(begun) == 1:
        near = begun
    return f" Did you mean {near[0]!r}?" if near else ""


def inside_section(word: str, keys: Iterable[str]) -> str | None:
    """Return the only dotted key that ends with a word without a dot, as optimizer.lr with lr."""
    found = [each for each in keys if each.endswith(f".{word}") and "." not in word]
    return found[0] if len(found) == 1 else None


def _alike(word: str, other: str) -> bool:
    return other.startswith(word) or difflib.SequenceMatcher(None, word, other).ratio() >= ALIKE


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


def duration_text(seconds: float, digits: int = 1) -> str:
    """Format a duration with its units, such as 7.5 s, 12 min 40 s and 1 h 30 min.

    Args:
        seconds: The duration.
        digits: Digits after the point, below a minute.
    """
    if round(seconds, digits) < 60:
        return f"{seconds:.{digits}f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours:,} h {minutes} min"
