"""The search space: Hydra's sweep syntax, as Optuna's distributions."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import (
    ChoiceSweep,
    IntervalSweep,
    Override,
    RangeSweep,
    Transformer,
)
from hydra.errors import HydraException
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from unionsnn.base.errors import RequestError

Value = str | int | float | bool | None

_SYNTAX = "choice(a, b), range(1, 5), interval(0.1, 0.5) or tag(log, interval(1e-4, 1e-1))"

_FEW = 32
"""Largest number of integers that are all checked before a study."""


def bare(key: str) -> str:
    """Return the key of an override without the prefix +, ++ or ~."""
    return key.lstrip("+~")


def num_values(distribution: BaseDistribution) -> float:
    """Return the number of values of a parameter; infinite for an interval."""
    d = distribution
    if isinstance(d, CategoricalDistribution):
        return len(d.choices)
    if isinstance(d, IntDistribution):
        return (d.high - d.low) // d.step + 1
    assert isinstance(d, FloatDistribution)
    return math.inf if d.step is None else round((d.high - d.low) / d.step) + 1


def values(distribution: BaseDistribution) -> Sequence[Value]:
    """All values of a distribution that has finitely many, without errors of rounding."""
    d = distribution
    if isinstance(d, CategoricalDistribution):
        return d.choices
    if isinstance(d, IntDistribution):
        return range(d.low, d.high + 1, d.step)
    assert isinstance(d, FloatDistribution)
    low, step = Decimal(str(d.low)), Decimal(str(d.step))
    return [float(low + i * step) for i in range(int(num_values(d)))]


def rounded(distribution: BaseDistribution, value: Any) -> Any:
    """Return a drawn value without rounding errors: 0.3 instead of 0.1 + 0.1 + 0.1."""
    d = distribution
    if not isinstance(d, FloatDistribution) or d.step is None:
        return value
    steps = round((value - d.low) / d.step)
    return float(Decimal(str(d.low)) + steps * Decimal(str(d.step)))


@dataclass(frozen=True)
class Parameter:
    """A key of the configuration and the values that a study tries for it.

    Args:
        key: The key, such as optimizer.lr.
        text: Its values as written in the study file.
        distribution: The same for Optuna.
    """

    key: str
    text: str
    distribution: BaseDistribution

    @property
    def countable(self) -> bool:
        """Whether there are finitely many values, to be tried one by one."""
        d = self.distribution
        return num_values(d) < math.inf and not getattr(d, "log", False)

    def examples(self) -> Sequence[Value]:
        """Return values to check before a study: all choices or few integers, or both ends."""
        d = self.distribution
        if isinstance(d, CategoricalDistribution) or (
            isinstance(d, IntDistribution) and num_values(d) <= _FEW
        ):
            return values(d)
        assert isinstance(d, IntDistribution | FloatDistribution)
        return [d.low, d.high]


def overrides(point: Mapping[str, Value]) -> list[str]:
    """Write a point of the space as overrides of `unionsnn train`."""
    words = []
    for key, value in point.items():
        if value is None or isinstance(value, bool):
            words.append(f"{key}={'null' if value is None else str(value).lower()}")
        else:
            # Text is kept as an override writes it.
            words.append(f"{key}={value if isinstance(value, str) else repr(value)}")
    return words


def parse_space(texts: Mapping[str, Any]) -> list[Parameter]:
    """Read a search space.

    Args:
        texts: Values in Hydra's override syntax, by key. `choice(...)`; `range(start, stop, step)`,
            without stop as in Python; `interval(low, high)`, and `int(interval(low, high))` for
            whole numbers; `tag(log, interval(...))` for a logarithmic scale.

    Raises:
        RequestError: with every entry that is none of these.
    """
    parser = OverridesParser.create()
    space, faults = [], []
    for key, text in texts.items():
        try:
            override = parser.parse_override(f"{key}={text}")
            space.append(Parameter(key, str(text), _distribution(override)))
        except (HydraException, ValueError) as error:
            why = f" ({error})" if isinstance(error, ValueError) else ""
            faults.append(f"space.{key} is {text!r}{why}; it must be {_SYNTAX}.")
    for key, count in Counter(bare(key) for key in texts).items():
        if count > 1:
            faults.append(f"space names {key} {count} times; leave out all but one.")
    if faults:
        raise RequestError(*faults, code="study.space")
    return space


def _distribution(override: Override) -> BaseDistribution:
    sweep = override.value()
    if not isinstance(sweep, ChoiceSweep | IntervalSweep | RangeSweep):
        raise ValueError("no list of values" if override.is_sweep_override() else "one value only")
    if sweep.tags and not (sweep.tags == {"log"} and isinstance(sweep, IntervalSweep)):
        raise ValueError(
            f"tagged {', '.join(sorted(sweep.tags))}; an interval alone has a tag, which is log"
        )
    if isinstance(sweep, ChoiceSweep):
        choices: list[Any] = list(sweep.list)
        if not all(isinstance(value, bool | int | float) for value in choices):
            encoded = override.sweep_iterator(transformer=Transformer.encode)
            choices = [str(word) for word in encoded]
        # To Optuna true is 1.
        pairs = [(a, b) for a, b in itertools.combinations(choices, 2) if a == b]
        twice = {f"{a} and {b}" if repr(a) != repr(b) else f"{a} twice" for a, b in pairs}
        if twice:
            raise ValueError(f"it names {', '.join(sorted(twice))}, which is one value")
        return CategoricalDistribution(choices)
    if isinstance(sweep, IntervalSweep):
        low, high, log = sweep.start, sweep.end, "log" in sweep.tags
        assert low is not None
        assert high is not None
        if isinstance(low, int) and isinstance(high, int):
            return IntDistribution(low, high, log=log)
        return FloatDistribution(low, high, log=log)
    start, stop, step = (Decimal(str(n)) for n in (sweep.start, sweep.stop, sweep.step))
    if not all(number.is_finite() for number in (start, stop, step)):
        raise ValueError("a range has finite ends")
    count = math.ceil((stop - start) / step) if step else 0
    if count < 1:
        raise ValueError("the range is empty")
    first, last = sorted((start, start + (count - 1) * step))
    if isinstance(sweep.start, int) and isinstance(sweep.step, int):
        return IntDistribution(int(first), int(last), step=int(abs(step)))
    return FloatDistribution(float(first), float(last), step=float(abs(step)))
