"""Codes of the faults that a command printed."""

from __future__ import annotations

import re


def printed_codes(stderr: str) -> list[str]:
    """Code at the end of each fault."""
    return re.findall(r"^error: (?:.|\n)*? \[([a-z0-9_.]+)\]$", stderr, re.MULTILINE)
