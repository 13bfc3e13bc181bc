"""Commands called in the process of the tests, and what they print."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Ended:
    """What came of a command."""

    status: object
    stdout: str
    stderr: str


Command = Callable[..., Ended]


def printed_codes(stderr: str) -> list[str]:
    """Code at the end of each fault."""
    return re.findall(r"^error: (?:.|\n)*? \[([a-z0-9_.]+)\]$", stderr, re.MULTILINE)
