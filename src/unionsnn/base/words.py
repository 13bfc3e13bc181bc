"""Words of messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(word: str, allowed: Iterable[str]) -> str:
    """Say which allowed word is closest, as the end of a message; empty if none is."""
    near = difflib.get_close_matches(word, list(allowed), n=1, cutoff=0.5)
    return f" Did you mean {near[0]!r}?" if near else ""
