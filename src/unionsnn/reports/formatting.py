"""Formatting of metrics, intervals, differences, counts, durations, sizes and shares."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from unionsnn.base.words import duration_text

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


CUT = "cut to the range of the metric, which holds the true mean: the coverage stays the same"
"""How an interval keeps inside the range of its metric, in words."""


def possible(
    key: str, bounds: Sequence[float] | None, *, difference: bool = False
) -> tuple[float, float] | None:
    """Cut an interval of a metric's mean to the values that the metric can have.

    A t interval is symmetric and does not know that a share lies between 0 and 100 %. The true mean
    does, so the part outside never covers it: the cut interval covers as often and is shorter. The
    interval of a difference is cut to those of two such values. Records keep the uncut one.

    Args:
        key: The metric.
        bounds: The interval; None for none.
        difference: Whether it is of a difference of two means.
    """
    from unionsnn.config.schema import METRICS

    if bounds is None:
        return None
    kind = METRICS.get(key.rpartition("_")[2])
    if kind is None:
        # What else is logged, such as a learning rate.
        return bounds[0], bounds[1]
    least, most = kind.low, kind.high
    if difference:
        least, most = least - most, most - least
    low, high = bounds
    return min(max(low, least), most), max(min(high, most), least)


def is_cut(key: str, bounds: Sequence[float] | None) -> bool:
    """Return whether an interval reaches beyond the values that the metric can have."""
    return bounds is not None and possible(key, bounds) != tuple(bounds)


def interval_text(key: str, bounds: Sequence[float] | None, *, difference: bool = False) -> str:
    """Format both bounds of an interval, cut to the metric's range, with one unit."""
    cut = possible(key, bounds, difference=difference)
    if cut is None:
        return "–"
    form = difference_text if difference else metric_text
    low, high = (form(key, bound) for bound in cut)
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


COMPILING = "up to about a minute, once in each process"
"""What torch.compile takes, for the plan of a training."""


def short_duration_text(duration: float) -> str:
    """Format a duration, in milliseconds if below a second."""
    return f"{1000 * duration:.1f} ms" if duration < 1 else duration_text(duration)


def age_text(duration: float) -> str:
    """Format an age in the largest suitable unit."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if duration >= size:
            return f"{duration / size:.0f} {unit}"
    return f"{duration:.0f} s"


def result_columns(metric: str, result: Summary | None) -> dict[str, Any]:
    """Make columns of a result with full precision, for CSV; empty ones without a result."""
    low, high = possible(metric, result.interval if result else None) or (None, None)
    return {
        "mean": getattr(result, "mean", None),
        "std": getattr(result, "std", None),
        "interval_low": low,
        "interval_high": high,
        "method": getattr(result, "method", None),
    }
