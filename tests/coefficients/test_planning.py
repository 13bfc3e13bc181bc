"""Estimates of time: the right order of magnitude, cheap, told, and a limit to what is computed."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from unionsnn import CoefficientSpec, StructuralCoefficients
from unionsnn.base.display import display
from unionsnn.base.errors import RequestError, TooLongError
from unionsnn.base.words import about
from unionsnn.coefficients import CoefficientCache, SimpleGraph, structural_coefficients
from unionsnn.coefficients import spec as spec_module
from unionsnn.coefficients.distributed import structural_coefficients_distributed
from unionsnn.coefficients.engine import Computation
from unionsnn.coefficients.kernels.routes import DIRECT
from unionsnn.coefficients.passes import RadiusOne
from unionsnn.coefficients.planning import ball_sizes, check_time, work_of_size
from unionsnn.data import transforms
from unionsnn.data.named import TUDataModule

TRIANGLE = np.array([[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]])


def star_of_stars(arms: int, leaves: int) -> tuple[np.ndarray, int]:
    """A centre with arms that have leaves: the union subgraph of an edge is known."""
    hubs = np.arange(1, arms + 1)
    inner = np.stack([np.zeros(arms, np.int64), hubs])
    outer = np.stack([np.repeat(hubs, leaves), arms + 1 + np.arange(arms * leaves)])
    edges = np.concatenate([inner, outer], axis=1)
    return np.concatenate([edges, edges[::-1]], axis=1), 1 + arms + arms * leaves


@pytest.mark.parametrize("radii", [(2,), (1, 2), (2, 3)])
def test_beyond_radius_one_the_sizes_of_union_subgraphs_count(radii: tuple[int, ...]) -> None:
    arms, leaves = 60, 10
    edges, nodes = star_of_stars(arms, leaves)
    # At radius 2 an inner edge sees all, an outer one the hubs, the centre and its own leaves.
    size = {2: (nodes, 1 + arms + leaves), 3: (nodes, nodes)}
    many = np.array([arms, arms * leaves])
    expected = sum((many * work_of_size(np.array(size[r], float))).sum() for r in radii if r > 1)
    spec = CoefficientSpec(radius=radii, quantities=("a", "nodes"))
    seconds = spec.estimated_seconds(edges, nodes, threads=1)
    assert seconds == spec.estimated_seconds(edges, nodes, threads=1)
    assert 0.5 < seconds / (expected / 1e9) < 2
    assert spec.estimated_seconds(edges, nodes, threads=2) == seconds / 2


def test_balls_are_counted() -> None:
    edges, nodes = star_of_stars(5, 3)
    graph = SimpleGraph.from_edge_index(edges, nodes)
    sizes = ball_sizes(graph, np.arange(20), (1, 2, 4))
    assert sizes[:5].tolist() == [[9, 21, 21]] * 5
    assert sizes[5:].tolist() == [[5, 9, 21]] * 15


def test_a_small_graph_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spec_module, "SimpleGraph", None)
    pair = np.array([[0, 1], [1, 0]])
    assert CoefficientSpec(radius=(1, 2, 3)).estimated_seconds(pair, 2) < 1e-5


def test_what_is_known_is_not_planned() -> None:
    edges, nodes = star_of_stars(5, 3)
    edge_pass = RadiusOne(SimpleGraph.from_edge_index(edges, nodes), ("a",))
    all_edges = Computation(edge_pass).expected_cost
    some = Computation(edge_pass, [(0, 10, np.zeros((10, 1)))]).expected_cost
    assert 0 < some < all_edges
    assert Computation(edge_pass, [(0, 20, np.zeros((20, 1)))]).expected_cost == 0


def test_the_share_of_the_chunks_does_not_grow_with_nodes_that_have_few_neighbours() -> None:
    edges, nodes = star_of_stars(3000, 1)
    edge_pass = RadiusOne(SimpleGraph.from_edge_index(edges, nodes), ("a",))
    in_chunks, at_hubs = edge_pass.costs(np.full(6000, DIRECT, np.int32))
    # The lists of 3,000 nodes with two neighbours each take 0.2 ms.
    assert 3e5 > in_chunks.max() > 1e5
    assert not at_hubs.any()


class Client:
    """All that is asked of a Dask client before the estimate is checked."""

    status = "running"

    def nthreads(self) -> dict[str, int]:
        return {"worker": 2}


WRONG_HOURS = [
    ("x", "a number, such as 1.0"),
    (True, "a number, such as 1.0"),
    (-1, "greater than 0"),
    (0, "greater than 0"),
    (np.inf, "a finite number"),
    (np.nan, "a finite number"),
]


def test_data_modules_check_the_limit_when_they_are_made(tmp_path: Any) -> None:
    for wrong, words in WRONG_HOURS:
        with pytest.raises(RequestError, match=words) as refused:
            TUDataModule("MUTAG", root=tmp_path, max_hours=wrong)
        assert refused.value.codes == ["coefficient.max_hours"]


@pytest.mark.parametrize("place", ["function", "spec", "cache", "transform", "dask"])
def test_what_takes_too_long_is_refused_unless_allowed(
    place: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setattr(Computation, "expected_cost", 4e13)
    spec, two = CoefficientSpec(), {"threads": 2}
    data = Data(edge_index=torch.from_numpy(TRIANGLE), num_nodes=3)

    def compute(**given: Any) -> Any:
        if place == "function":
            return structural_coefficients(TRIANGLE, 3, **two, **given)
        if place == "spec":
            return spec.compute(TRIANGLE, 3, **two, **given)
        if place == "cache":
            return CoefficientCache(tmp_path).get(TRIANGLE, 3, spec, **two, **given)
        if place == "dask":
            return structural_coefficients_distributed(Client(), TRIANGLE, 3, spec, **given)
        return StructuralCoefficients(spec, **given)(data)

    with pytest.raises(TooLongError, match="allowed are 1 hour") as refused:
        compute()
    assert refused.value.codes == ["coefficient.too_long"]
    assert isinstance(refused.value, RequestError)
    for typed in ("coefficient.max_hours=", "--yes", "max_hours="):
        assert typed in str(refused.value)
    assert ("are kept in the cache" in str(refused.value)) is (place == "cache")
    if place in ("function", "spec", "cache", "dask"):
        assert "about 6 hours on 2 threads" in str(refused.value)
    with pytest.raises(TooLongError, match=r"allowed are 2\.5 hours"):
        compute(max_hours=2.5)
    for wrong, words in WRONG_HOURS:
        with pytest.raises(RequestError) as refused:
            compute(max_hours=wrong)
        assert refused.value.codes == ["coefficient.max_hours"]
        assert f"max_hours is {wrong!r}; it must be {words}, or None" in str(refused.value)
    if place != "dask":
        assert compute(max_hours=None) is not None
        assert compute(max_hours=12) is not None
    # What is in the cache takes no time.
    if place == "cache":
        assert compute() is not None


def test_an_estimate_over_a_minute_is_told(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.WARNING):
        check_time(59.0, 1, 1.0)
        assert not caplog.messages
        check_time(420.0, 1, 1.0)
        check_time(7200.0, 2, None)
    assert caplog.messages == [
        "The structural coefficients take about 7 minutes on one core.",
        "The structural coefficients take about 2 hours on 2 threads.",
    ]
    with display("plain"):
        check_time(420.0, 1, 1.0)
    assert "about 7 minutes on one core" in capsys.readouterr().err
    assert len(caplog.messages) == 2


def dense(monkeypatch: pytest.MonkeyPatch, seconds: float) -> Data:
    """A small graph whose default radii are said to take a time, a second at radius 1."""

    def estimate(spec: CoefficientSpec, *_: Any, **__: Any) -> float:
        return seconds if max(spec.radius) > 1 else 1.0

    monkeypatch.setattr(CoefficientSpec, "estimated_seconds", estimate)
    return Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)


def test_default_radii_that_take_long_are_refused_with_what_to_type(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = dense(monkeypatch, 80_000.0)
    monkeypatch.setattr(transforms, "threads_for", lambda cost: 2)
    for given in ({}, {"max_hours": 1}, {"max_hours": 11}):
        with pytest.raises(RequestError, match="about 11 hours on 2 threads") as refused:
            StructuralCoefficients(**given)(data)
        assert refused.value.codes == ["transform.work"]
        for typed in ("(radius=1), about 1 s on one core", "(max_hours=17)", "plug_in"):
            assert typed in str(refused.value)
    assert StructuralCoefficients(radius=1)(data.clone()).edge_coefficient.shape == (4, 4)
    assert not capsys.readouterr().err
    asked = [{"max_hours": 17}, {"max_hours": None}, {"radius": (1, 2, 3)}]
    rows = []
    for given in asked:
        rows.append(StructuralCoefficients(**given)(data.clone()).edge_coefficient)
        assert "coefficients, about 11 hours on 2 threads" in capsys.readouterr().err
    monkeypatch.undo()
    rows.append(StructuralCoefficients()(data.clone()).edge_coefficient)
    assert all(torch.equal(rows[0], each) for each in rows)


def test_the_bar_and_the_refusal_tell_the_same_time(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Computation, "expected_cost", 4e13)
    # Otherwise too small to be looked at.
    monkeypatch.setattr(spec_module, "_SHORT", 0.0)
    for module in (spec_module, transforms):
        monkeypatch.setattr(module, "threads_for", lambda cost: 2)
    data = Data(edge_index=torch.from_numpy(TRIANGLE), num_nodes=3)
    with pytest.raises(TooLongError, match="would take about 6 hours on 2 threads;"):
        StructuralCoefficients(radius=1)(data)
    assert "coefficients, about 6 hours on 2 threads" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.1, "1 s"), (59, "59 s"), (100, "2 minutes"), (5300, "88 minutes"), (40_000, "11 hours")],
)
def test_times_in_words(seconds: float, words: str) -> None:
    assert about(seconds) == f"about {words}"
