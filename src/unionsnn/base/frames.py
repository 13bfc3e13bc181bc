"""Records as data frames of pandas, which is imported when one is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from unionsnn.base.errors import UnionsnnError


def frame(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Return a pandas DataFrame of rows, whose keys are its columns.

    Raises:
        UnionsnnError: pandas is not installed.
    """
    try:
        import pandas
    except ImportError as error:
        raise UnionsnnError(
            "to_frame() makes a data frame of pandas, which is not installed: type pip install "
            "pandas, or use to_json().",
            code="frame.pandas",
        ) from error
    return pandas.DataFrame(list(rows))
