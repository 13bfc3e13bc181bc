"""Tables of numbers in text files: parsed at once where they are right, by line where not."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unionsnn.base.errors import DataError

_HUGE = 2.0**62
_USUAL = b"0123456789+-.eE,\n"
_EMPTY_FIELDS = (b",,", b",\n", b"\n,", b"\n\n")

Values = NDArray[Any]
Fault = Callable[[str, int], DataError]
"""Makes the error of a message and a row counted from 0."""


def parse_table(content: bytes, dtype: np.dtype[Any], columns: int | None, fault: Fault) -> Values:
    """Parse lines of numbers with commas between them.

    Line ends of every system, a byte-order mark, white space at ends and beside commas, and blank
    lines at the end are allowed.

    Args:
        content: The file.
        dtype: int64 or float64.
        columns: How many numbers a line must have; None for as many as the first one has.
        fault: Names the file and the line.

    Shapes:
        -> [lines, columns]; [0, columns or 1] for an empty file.

    Raises:
        DataError: What `fault` makes of the first wrong line.
    """
    text = _clean(content)
    if not text:
        return np.empty((0, columns or 1), dtype)
    table = _parse_fast(text, dtype)
    if table is None:
        table = _parse_slow(text, dtype, fault)
    if columns is not None and table.shape[1] != columns:
        raise fault(f"{table.shape[1]} value(s) where {columns} belong", 0)
    return table


def _clean(content: bytes) -> bytes:
    """Leave one line feed between lines, and no white space at ends or beside commas."""
    text = content.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    # The usual writing first: a regular expression over a million lines is slow.
    text = text.rstrip().replace(b", ", b",").replace(b" \n", b"\n")
    if b" " in text or b"\t" in text:
        text = re.sub(rb"[ \t]*([,\n])[ \t]*", rb"\1", text).strip(b" \t")
    return text


def _parse_fast(text: bytes, dtype: np.dtype[Any]) -> Values | None:
    """Parse a well-formed table of numbers at once; None where anything is odd."""
    framed = b"," + text + b","
    # numpy splits "5-6" into two numbers: that each field has one is known if none is empty.
    if text.translate(None, _USUAL) or any(empty in framed for empty in _EMPTY_FIELDS):
        return None
    characters = np.frombuffer(text, np.uint8)
    ends = np.append(np.flatnonzero(characters == ord("\n")), len(text))
    commas = np.searchsorted(np.flatnonzero(characters == ord(",")), ends)
    columns = int(commas[0]) + 1
    if (np.diff(commas) != columns - 1).any():
        return None
    with warnings.catch_warnings():
        # numpy only warns where it stops in the middle of a text.
        warnings.simplefilter("error", DeprecationWarning)
        try:
            values = np.fromstring(text.replace(b",", b" "), dtype, sep=" ")
        except (ValueError, DeprecationWarning):
            return None
    # Whole numbers that do not fit come back as the largest one: let the slow way look at them.
    if len(values) != len(ends) * columns or (np.abs(values) >= _HUGE).any():
        return None
    return values.reshape(len(ends), columns)


def _parse_slow(text: bytes, dtype: np.dtype[Any], fault: Fault) -> Values:
    """Parse line by line, to find the line that is wrong."""
    kind, number = ("a whole number", int) if dtype == np.int64 else ("a number", float)
    table: list[list[float]] = []
    for row, line in enumerate(text.split(b"\n")):
        try:
            if b"_" in line:
                raise ValueError("Python would read 1_0 as 10")
            values = [number(item) for item in line.split(b",")]
            np.array(values, dtype)
        except (ValueError, OverflowError):
            shown = line.decode(errors="replace")[:60]
            raise fault(
                f"{shown!r} is not {kind} (or several, with commas between them)", row
            ) from None
        if table and len(values) != len(table[0]):
            raise fault(f"{len(values)} value(s), but {len(table[0])} in the lines above", row)
        table.append(values)
    return np.array(table, dtype)
