"""Warnings of this package among all that a test has caught."""

from __future__ import annotations

import warnings
from collections.abc import Iterable


def user_warnings(caught: Iterable[warnings.WarningMessage]) -> list[str]:
    """Return the messages of user warnings: others deprecate things inside of their own code."""
    return [str(each.message) for each in caught if issubclass(each.category, UserWarning)]
