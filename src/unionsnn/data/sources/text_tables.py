"""Tables of numbers in text files: parsed at once, or line by line to locate a fault."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unionsnn.base.errors import DataError, MalformedDataError

_USUAL = b"0123456789+-.eE,\n"

Values = NDArray[Any]
Fault = Callable[[str, int], DataError]
"""Makes the error from a message and a row, starting at 0."""


@dataclass(frozen=True)
class ArchiveTables:
    """Tables of an archive by their short names, and errors that name the file and the line.

    Args:
        archive: The zip file.
        prefix: What stands before a short name in a file's name.
        suffix: What stands after it.
        contents: The files by their short names.
    """

    archive: Path
    prefix: str
    suffix: str
    contents: Mapping[str, bytes]

    def error(self, key: str, message: str, row: int | None = None) -> DataError:
        """Make the error of a file, and of a row counted from 0."""
        line = "" if row is None else f", line {row + 1}"
        file = f"{self.prefix}{key}{self.suffix}{line} (in {self.archive})"
        return MalformedDataError(f"{file}: {message}")

    def table(
        self,
        key: str,
        columns: int | None = None,
        *,
        one_for: tuple[int, str] | None = None,
        dtype: type[np.generic] = np.int64,
        missing: bool = False,
    ) -> Values:
        """Parse a file.

        Args:
            key: Its short name.
            columns: As in `parse_table`.
            one_for: How many lines it must have, and what each of them is for.
            dtype: int64 or float64.
            missing: As in `parse_table`.

        Raises:
            DataError: Names the file and its first wrong line.
        """
        table = parse_table(
            self.contents[key],
            np.dtype(dtype),
            columns,
            lambda message, row: self.error(key, message, row),
            missing=missing,
        )
        if one_for is not None and len(table) != one_for[0]:
            raise self.error(
                key,
                f"has {len(table)} lines, but {one_for[0]} are expected, one for each of the "
                f"{one_for[1]}: the set is damaged, download it again",
            )
        return table


def read_table(path: Path, columns: int | None = None) -> Values:
    """Parse a file of whole numbers; arguments and errors are those of `parse_table`."""
    return parse_table(
        path.read_bytes(),
        np.dtype(np.int64),
        columns,
        lambda message, row: MalformedDataError(f"{path}, line {row + 1}: {message}"),
    )


def parse_table(
    content: bytes,
    dtype: np.dtype[Any],
    columns: int | None,
    fault: Fault,
    *,
    missing: bool = False,
) -> Values:
    """Parse lines of comma-separated numbers.

    Line ends of any system, a byte-order mark, white space around numbers, and trailing blank lines
    are allowed.

    Args:
        content: The file.
        dtype: int64 or float64.
        columns: Number of values per line; None for as many as in the first.
        fault: Makes the error that names file and line.
        missing: Whether a real number may be missing, empty or ``nan``, which is read as NaN.

    Shapes:
        -> [lines, columns]; [0, columns or 1] for an empty file.

    Raises:
        DataError: The error made by `fault` for the first wrong line.
    """
    text = _clean(content)
    if not text:
        return np.empty((0, columns or 1), dtype)
    table = _parse_fast(text, dtype, missing)
    if table is None:
        table = _parse_slow(text, dtype, fault, missing)
    if columns is not None and table.shape[1] != columns:
        raise fault(f"{table.shape[1]} value(s) instead of {columns}", 0)
    return table


def _clean(content: bytes) -> bytes:
    """Normalise line ends, and remove white space around numbers."""
    text = content.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    # The common form first: a regular expression over a million lines is slow.
    text = text.rstrip().replace(b", ", b",").replace(b" \n", b"\n")
    if b" " in text or b"\t" in text:
        text = re.sub(rb"[ \t]*([,\n])[ \t]*", rb"\1", text).strip(b" \t")
    return text


def _parse_fast(text: bytes, dtype: np.dtype[Any], missing: bool) -> Values | None:
    """Parse a well-formed table of numbers at once; None if anything is unusual."""
    # Arrow also reads hexadecimal numbers.
    if text.translate(None, _USUAL):
        return None
    # Imported late: pyarrow is only needed to read raw files.
    import pyarrow
    from pyarrow import csv

    columns = [str(i) for i in range(text.partition(b"\n")[0].count(b",") + 1)]
    kind = pyarrow.int64() if dtype == np.int64 else pyarrow.float64()
    types = dict.fromkeys(columns, kind)
    try:
        table = csv.read_csv(
            pyarrow.BufferReader(text),
            read_options=csv.ReadOptions(column_names=columns, use_threads=False),
            parse_options=csv.ParseOptions(quote_char=False, ignore_empty_lines=False),
            convert_options=csv.ConvertOptions(
                column_types=types, null_values=[""] if missing else []
            ),
        )
    except pyarrow.ArrowInvalid:
        return None
    return np.stack([column.to_numpy() for column in table.columns], axis=1)


def _parse_slow(text: bytes, dtype: np.dtype[Any], fault: Fault, missing: bool) -> Values:
    """Parse line by line, to find the wrong line."""
    kind, number = ("a whole number", int) if dtype == np.int64 else ("a number", float)
    table: list[list[float]] = []
    for row, line in enumerate(text.split(b"\n")):
        try:
            if b"_" in line:
                raise ValueError("Python would read 1_0 as 10")
            items = line.split(b",")
            values = [number(b"nan" if missing and not item else item) for item in items]
            np.array(values, dtype)
        except (ValueError, OverflowError):
            shown = line.decode(errors="replace")[:60]
            raise fault(f"{shown!r} is not {kind} (or several, separated by commas)", row) from None
        if table and len(values) != len(table[0]):
            raise fault(f"{len(values)} value(s), but {len(table[0])} on the lines above", row)
        table.append(values)
    return np.array(table, dtype)
