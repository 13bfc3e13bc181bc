"""The search space: every form of it, and what is refused."""

from __future__ import annotations

import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from unionsnn.search.space import cells, parse_space
from unionsnn.training.config import RequestError

FORMS = {
    "choice(0.1, 0.01)": CategoricalDistribution([0.1, 0.01]),
    "choice(true, false)": CategoricalDistribution([True, False]),
    "choice(gin, gcn)": CategoricalDistribution(["gin", "gcn"]),
    "choice([1], [1, 2])": CategoricalDistribution(["[1]", "[1,2]"]),
    "range(1, 6, 2)": IntDistribution(1, 5, step=2),
    "int(interval(1, 8))": IntDistribution(1, 8),
    "interval(0.0, 0.5)": FloatDistribution(0.0, 0.5),
    "tag(log, interval(1e-4, 1e-1))": FloatDistribution(1e-4, 1e-1, log=True),
    "tag(log, int(interval(8, 256)))": IntDistribution(8, 256, log=True),
}


@pytest.mark.parametrize("text", FORMS)
def test_hydras_syntax_becomes_optunas_distribution(text: str) -> None:
    (parameter,) = parse_space({"model.x": text})
    assert parameter.distribution == FORMS[text]


@pytest.mark.parametrize(
    ("value", "words"),
    [(0.001, "k=0.001"), (1e-05, "k=1e-05"), (3, "k=3"), (True, "k=true"), (None, "k=null")],
)
def test_a_value_becomes_an_override(value: float | bool | None, words: str) -> None:
    (parameter,) = parse_space({"k": "choice(1, 2)"})
    assert parameter.override(value) == words


def test_all_faults_of_a_space_are_told_at_once() -> None:
    with pytest.raises(RequestError) as caught:
        parse_space({"a": "0.1", "b": "choice(", "c": "tag(log, range(1, 5))", "d": "range(5, 5)"})
    assert [fault.partition(" ")[0] for fault in caught.value.faults] == [
        "space.a",
        "space.b",
        "space.c",
        "space.d",
    ]


def test_a_grid_has_every_combination_once() -> None:
    found = cells(parse_space({"a": "choice(1, 2, 3)", "b": "range(0, 4, 2)", "c": "choice(x, y)"}))
    assert len(found) == 12
    assert len({tuple(cell.values()) for cell in found}) == 12


def test_a_grid_of_an_interval_is_refused() -> None:
    with pytest.raises(RequestError, match="a grid needs"):
        cells(parse_space({"a": "interval(0.1, 0.2)"}))
