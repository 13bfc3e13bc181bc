"""The search space: Hydra's sweep syntax, as Optuna's distributions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import optuna
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
from unionsnn.config.grid import cells_of

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


def value_at(distribution: BaseDistribution, index: int) -> Value:
    """Return the value at an index of a finite distribution, without rounding errors."""
    d = distribution
    value: Value
    if isinstance(d, CategoricalDistribution):
        value = d.choices[index]
    elif isinstance(d, IntDistribution):
        value = d.low + index * d.step
    else:
        assert isinstance(d, FloatDistribution)
        value = float(_decimal(d.low) + index * _decimal(d.step))
    return value


def rounded(distribution: BaseDistribution, value: Any) -> Any:
    """Return a drawn value without rounding errors: 0.3 instead of 0.1 + 0.1 + 0.1."""
    if isinstance(distribution, FloatDistribution) and distribution.step is not None:
        return value_at(distribution, round((value - distribution.low) / distribution.step))
    return value


def _decimal(number: float | None) -> Decimal:
    return Decimal(str(number))


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

    def suggest(self, trial: optuna.Trial) -> Value:
        """Let the study's sampler choose a value."""
        d = self.distribution
        value: Value
        if isinstance(d, CategoricalDistribution):
            value = trial.suggest_categorical(self.key, d.choices)
        elif isinstance(d, IntDistribution):
            value = trial.suggest_int(self.key, d.low, d.high, step=d.step, log=d.log)
        else:
            assert isinstance(d, FloatDistribution)
            value = trial.suggest_float(self.key, d.low, d.high, step=d.step, log=d.log)
        return value

    @property
    def countable(self) -> bool:
        """Whether there are finitely many values, to be tried one by one."""
        d = self.distribution
        return num_values(d) < math.inf and not getattr(d, "log", False)

    def values(self) -> list[Value] | None:
        """All values, if they are countable."""
        d = self.distribution
        if not self.countable:
            return None
        return [value_at(d, i) for i in range(int(num_values(d)))]

    def examples(self) -> list[Value]:
        """Return values to check before a study: all choices or few integers, or both ends."""
        d = self.distribution
        count = num_values(d)
        if isinstance(d, CategoricalDistribution) or (
            isinstance(d, IntDistribution) and count <= _FEW
        ):
            return [value_at(d, i) for i in range(int(count))]
        assert isinstance(d, IntDistribution | FloatDistribution)
        return [d.low, d.high]

    def override(self, value: Value) -> str:
        """Format a value as an override of `unionsnn train`."""
        plain = {None: "null", True: "true", False: "false"}
        if value is None or isinstance(value, bool):
            return f"{self.key}={plain[value]}"
        # Text is kept as an override writes it.
        return f"{self.key}={value if isinstance(value, str) else repr(value)}"


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
    distribution: BaseDistribution
    if isinstance(sweep, ChoiceSweep):
        distribution = _choice(override, sweep)
    elif isinstance(sweep, IntervalSweep):
        distribution = _interval(sweep)
    elif isinstance(sweep, RangeSweep):
        distribution = _range(sweep)
    else:
        raise ValueError("no list of values" if override.is_sweep_override() else "one value only")
    if sweep.tags and not (sweep.tags == {"log"} and isinstance(sweep, IntervalSweep)):
        raise ValueError(
            f"tagged {', '.join(sorted(sweep.tags))}; an interval alone has a tag, which is log"
        )
    return distribution


def _choice(override: Override, sweep: ChoiceSweep) -> CategoricalDistribution:
    values: list[Any] = list(sweep.list)
    if not all(isinstance(value, bool | int | float) for value in values):
        values = [str(w) for w in override.sweep_iterator(transformer=Transformer.encode)]
    twice = {
        f"{values[j]} and {value}" if repr(values[j]) != repr(value) else f"{value} twice"
        for i, value in enumerate(values)
        for j in range(i)
        # To Optuna true is 1.
        if values[j] == value
    }
    if twice:
        raise ValueError(f"it names {', '.join(sorted(twice))}, which is one value")
    return CategoricalDistribution(values)


def _interval(sweep: IntervalSweep) -> BaseDistribution:
    low, high, log = sweep.start, sweep.end, "log" in sweep.tags
    assert low is not None
    assert high is not None
    if isinstance(low, int) and isinstance(high, int):
        return IntDistribution(low, high, log=log)
    return FloatDistribution(low, high, log=log)


def _range(sweep: RangeSweep) -> BaseDistribution:
    start, stop, step = (_decimal(number) for number in (sweep.start, sweep.stop, sweep.step))
    if not all(number.is_finite() for number in (start, stop, step)):
        raise ValueError("a range has finite ends")
    count = math.ceil((stop - start) / step) if step else 0
    if count < 1:
        raise ValueError("the range is empty")
    low, high = sorted((start, start + (count - 1) * step))
    if isinstance(sweep.start, int) and isinstance(sweep.step, int):
        return IntDistribution(int(low), int(high), step=int(abs(step)))
    return FloatDistribution(float(low), float(high), step=float(abs(step)))


def grid_points(space: Sequence[Parameter]) -> list[dict[str, Value]]:
    """Return all combinations of a grid, with the last key varying fastest.

    Raises:
        RequestError: if a parameter is an interval.
    """
    counted = [parameter.values() for parameter in space]
    faults = [
        f"space.{p.key} is {p.text}; a grid needs choice(...) or range(...) for each key, or "
        "choose another sampler, such as tpe."
        for p, values in zip(space, counted, strict=True)
        if values is None
    ]
    if faults:
        raise RequestError(*faults, code="study.space")
    return cells_of({p.key: values or [] for p, values in zip(space, counted, strict=True)})


def size(space: Sequence[Parameter]) -> float:
    """Return the number of combinations; infinite with an interval."""
    return math.prod(num_values(parameter.distribution) for parameter in space)
