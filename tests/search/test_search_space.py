"""The search space: every form of it, and what is refused."""

from __future__ import annotations

import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from unionsnn.base.errors import RequestError
from unionsnn.search.space import num_values, overrides, parse_space, rounded, values

FORMS = {
    "choice(0.1, 0.01)": CategoricalDistribution([0.1, 0.01]),
    "choice(true, false)": CategoricalDistribution([True, False]),
    "choice(gin, gcn)": CategoricalDistribution(["gin", "gcn"]),
    "choice([1], [1, 2])": CategoricalDistribution(["[1]", "[1,2]"]),
    "range(1, 6, 2)": IntDistribution(1, 5, step=2),
    "range(5, 0, -2)": IntDistribution(1, 5, step=2),
    "range(0.0, 1.0, 0.3)": FloatDistribution(0.0, 0.9, step=0.3),
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
    assert overrides({"k": value}) == [words]


def test_all_faults_of_a_space_are_told_at_once() -> None:
    with pytest.raises(RequestError) as caught:
        parse_space({"a": "0.1", "b": "choice(", "c": "tag(log, range(1, 5))", "d": "range(5, 5)"})
    assert [fault.partition(" ")[0] for fault in caught.value.faults] == [
        "space.a",
        "space.b",
        "space.c",
        "space.d",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("range(0.0, 1.0, 0.3)", [0.0, 0.3, 0.6, 0.9]),
        ("range(0.1, 0.8, 0.1)", [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]),
        ("range(0.0, 0.9, 0.3)", [0.0, 0.3, 0.6]),
        ("range(1, 0, -0.25)", [0.25, 0.5, 0.75, 1.0]),
        ("range(0, 4)", [0, 1, 2, 3]),
    ],
)
def test_a_range_has_the_values_of_its_decimals_without_stop(
    text: str, expected: list[float]
) -> None:
    (parameter,) = parse_space({"a": text})
    d = parameter.distribution
    assert list(values(d)) == expected
    assert num_values(d) == len(expected)
    if isinstance(d, FloatDistribution):
        assert d.step is not None
        assert [rounded(d, d.low + i * d.step) for i in range(len(expected))] == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("choice(0.1, 0.1)", "0.1 twice, which is one value"),
        ("choice(1, 1.0)", "1 and 1.0, which is one value"),
        ("choice(true, 1)", "True and 1, which is one value"),
        ("choice(gin, gcn, gin)", "gin twice"),
        ("tag(logarithmic, interval(1, 2))", "tagged logarithmic"),
        ("tag(log, foo, interval(1, 2))", "tagged foo, log; an interval alone has a tag"),
        ("tag(log, choice(1, 2))", "an interval alone has a tag, which is log"),
        ("range(0.0, 1.0, -0.1)", "the range is empty"),
    ],
)
def test_what_would_be_tried_otherwise_than_it_reads_is_refused(text: str, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        parse_space({"a": text})


def test_a_key_is_in_the_space_once() -> None:
    with pytest.raises(RequestError, match=r"space names a\.b 2 times"):
        parse_space({"a.b": "choice(1, 2)", "+a.b": "choice(3, 4)"})


@pytest.mark.parametrize(
    ("text", "examples"),
    [
        ("range(1, 33)", list(range(1, 33))),
        ("range(1, 34)", [1, 33]),
        ("int(interval(2, 5))", [2, 3, 4, 5]),
        ("tag(log, int(interval(1, 3)))", [1, 2, 3]),
        ("interval(0.0, 1.0)", [0.0, 1.0]),
        ("choice(3, 1)", [3, 1]),
    ],
)
def test_of_few_whole_numbers_each_is_an_example(text: str, examples: list[float]) -> None:
    (parameter,) = parse_space({"a": text})
    assert list(parameter.examples()) == examples
