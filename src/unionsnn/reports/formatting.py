"""Formatting of metrics, intervals, differences, counts, durations, sizes and shares."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unionsnn.training.statistics import Summary

_PERCENT = ("accuracy",)

# What moves a terminal's cursor, colours it, or turns the direction of a line.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """Replace control characters, which names in data and records may hold, by their codes."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def is_percent(key: str) -> bool:
    """Return whether a metric is printed in percent."""
    return key.endswith(_PERCENT)


def metric_text(key: str, value: float | None) -> str:
    """Format a metric as papers do: accuracy in percent, others with four digits."""
    if value is None:
        return "–"
    return f"{100 * value:.2f} %" if is_percent(key) else f"{value:.4f}"


def spread_text(key: str, mean: float, std: float | None) -> str:
    """Format a mean with its standard deviation and one unit."""
    if std is None:
        return metric_text(key, mean)
    return f"{metric_text(key, mean).partition(' ')[0]} ± {metric_text(key, std)}"


def difference_text(key: str, value: float) -> str:
    """Format a difference, in percentage points if the metric is in percent."""
    return f"{100 * value:+.2f} points" if is_percent(key) else f"{value:+.4f}"


def interval_text(
    key: str,
    bounds: Sequence[float] | None,
    form: Callable[[str, float], str] = metric_text,
) -> str:
    """Format both bounds of an interval with one unit."""
    if bounds is None:
        return "–"
    low, high = (form(key, bound) for bound in bounds)
    return f"{low.partition(' ')[0]} to {high}"


def count_text(value: Any) -> str:
    """Format a count; text is returned unchanged."""
    return f"{value:,}" if isinstance(value, int) else str(value)


def counted(number: int, what: str) -> str:
    """Format a number of things, with the plural if needed."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def share_text(share: float) -> str:
    """Format a share; only exact 0 and 1 are written as 0 and 100 %."""
    text = f"{100 * share:.1f} %"
    if (share > 0 and text == "0.0 %") or (share < 1 and text == "100.0 %"):
        text = f"{100 * share:.4f} %"
    return text


def duration_text(duration: float) -> str:
    """Format a duration."""
    if duration < 60:
        return f"{duration:.1f} s"
    minutes, rest = divmod(round(duration), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d} h" if hours else f"{minutes}:{rest:02d} min"


def short_duration_text(duration: float) -> str:
    """Format a duration, in milliseconds if below a second."""
    return f"{1000 * duration:.1f} ms" if duration < 1 else duration_text(duration)


def age_text(duration: float) -> str:
    """Format an age in the largest suitable unit."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if duration >= size:
            return f"{duration / size:.0f} {unit}"
    return f"{duration:.0f} s"


def result_columns(result: Summary | None) -> dict[str, Any]:
    """Make columns of a result with full precision, for CSV; empty ones without a result."""
    keys = ("mean", "std", "interval", "method")
    return with_bounds({key: getattr(result, key, None) for key in keys})


def with_bounds(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """Split each interval into two columns, for CSV."""
    columns: dict[str, Any] = {}
    for key, value in numbers.items():
        if key.endswith("interval"):
            low, high = value or (None, None)
            columns |= {f"{key}_low": low, f"{key}_high": high}
        else:
            columns[key] = value
    return columns
