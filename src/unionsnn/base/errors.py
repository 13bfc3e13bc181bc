"""Errors that are told to the user."""

from __future__ import annotations

from collections.abc import Sequence


class RequestError(ValueError):
    """A request that cannot be carried out as it stands; lists every fault.

    Args:
        faults: One sentence each: what was given, what is allowed, what to type.
    """

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = list(faults)

    def __reduce__(self) -> tuple[type[RequestError], tuple[list[str]]]:
        """Come whole from another process."""
        return RequestError, (self.faults,)


class DataError(RuntimeError):
    """A mistake in data or in a request for data, told to the user in full.

    The message says what was given, what is allowed and what to type.
    """


class DamagedFileError(DataError):
    """A file that this package wrote no longer holds what was written; it can be rebuilt."""
