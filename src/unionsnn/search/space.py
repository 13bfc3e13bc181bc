"""The search space: Hydra's sweep syntax, as Optuna's distributions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import optuna
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import (
    ChoiceSweep,
    IntervalSweep,
    Override,
    RangeSweep,
    Sweep,
    Transformer,
)
from hydra.errors import HydraException
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from unionsnn.training.config import RequestError

Value = str | int | float | bool | None

_SYNTAX = "choice(a, b), range(1, 5), interval(0.1, 0.5) or tag(log, interval(1e-4, 1e-1))"


@dataclass(frozen=True)
class Parameter:
    """A key of the configuration and the values that a study tries for it.

    Args:
        key: The key, such as optimizer.lr.
        text: Its values as the study file writes them.
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

    def values(self) -> list[Value] | None:
        """All values, if they can be counted."""
        d = self.distribution
        if isinstance(d, CategoricalDistribution):
            return list(d.choices)
        if isinstance(d, IntDistribution) and not d.log:
            return list(range(d.low, d.high + 1, d.step))
        if isinstance(d, FloatDistribution) and d.step is not None:
            count = round((d.high - d.low) / d.step) + 1
            return [d.low + i * d.step for i in range(count)]
        return None

    def examples(self) -> list[Value]:
        """Values to be checked before a study: all choices, or both ends."""
        d = self.distribution
        if isinstance(d, CategoricalDistribution):
            return list(d.choices)
        assert isinstance(d, IntDistribution | FloatDistribution)
        return [d.low, d.high]

    def override(self, value: Value) -> str:
        """Write a value as an override of `unionsnn train`."""
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
    found, faults = [], []
    for key, text in texts.items():
        try:
            override = parser.parse_override(f"{key}={text}")
            found.append(Parameter(key, str(text), _distribution(override)))
        except (HydraException, ValueError) as error:
            why = f" ({error})" if isinstance(error, ValueError) else ""
            faults.append(f"space.{key} is {text!r}{why}; it must be {_SYNTAX}.")
    if faults:
        raise RequestError(faults)
    return found


def _distribution(override: Override) -> BaseDistribution:
    sweep = override.value()
    if not isinstance(sweep, Sweep):
        raise ValueError("one value only")
    log = "log" in sweep.tags
    if isinstance(sweep, ChoiceSweep):
        numbers = [x for x in sweep.list if isinstance(x, bool | int | float)]
        if len(numbers) == len(sweep.list):
            return CategoricalDistribution(numbers)
        words = override.sweep_iterator(transformer=Transformer.encode)
        return CategoricalDistribution([str(word) for word in words])
    if isinstance(sweep, IntervalSweep):
        low, high = sweep.start, sweep.end
        assert low is not None
        assert high is not None
        if isinstance(low, int) and isinstance(high, int):
            return IntDistribution(low, high, log=log)
        return FloatDistribution(low, high, log=log)
    assert isinstance(sweep, RangeSweep)
    values = list(sweep.range())
    if not values:
        raise ValueError("the range is empty")
    if log:
        raise ValueError("a range has no logarithmic scale")
    step = abs(sweep.step)
    low, high = min(values), max(values)
    if all(isinstance(value, int) for value in values):
        return IntDistribution(low, high, step=int(step))
    return FloatDistribution(low, high, step=step)


def cells(space: Sequence[Parameter]) -> list[dict[str, Value]]:
    """All combinations of a grid, the last key running fastest.

    Raises:
        RequestError: if a parameter has more values than can be counted.
    """
    counted = [parameter.values() for parameter in space]
    faults = [
        f"space.{p.key} is {p.text}; a grid needs choice(...) or range(...) for each key, or "
        "choose another sampler, such as tpe."
        for p, values in zip(space, counted, strict=True)
        if values is None
    ]
    if faults:
        raise RequestError(faults)
    keys = [parameter.key for parameter in space]
    combinations = itertools.product(*(values or [] for values in counted))
    return [dict(zip(keys, values, strict=True)) for values in combinations]


def size(space: Sequence[Parameter]) -> float:
    """Number of combinations; infinite if they cannot be counted."""
    counted = [parameter.values() for parameter in space]
    return math.prod(math.inf if values is None else len(values) for values in counted)
