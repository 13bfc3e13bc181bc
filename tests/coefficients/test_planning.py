"""Estimates of time: the right order of magnitude, cheap, and acted upon by the transform."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from unionsnn import CoefficientSpec, StructuralCoefficients
from unionsnn.base.errors import RequestError
from unionsnn.base.words import about
from unionsnn.coefficients.passes import work_of_size
from unionsnn.coefficients.planning import expected_seconds
from unionsnn.data import transforms


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
    seconds = expected_seconds(spec, edges, nodes)
    assert seconds == expected_seconds(spec, edges, nodes)
    assert 0.5 < seconds / (expected / 1e9) < 2


def test_a_small_graph_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    from unionsnn.coefficients import planning

    monkeypatch.setattr(planning, "SimpleGraph", None)
    pair = np.array([[0, 1], [1, 0]])
    assert expected_seconds(CoefficientSpec(radius=(1, 2, 3)), pair, 2) < 1e-5


def dense(monkeypatch: pytest.MonkeyPatch, seconds: float) -> Data:
    """A small graph whose default radii are said to take a time, a second at radius 1."""

    def estimate(spec: CoefficientSpec, *_: Any, **__: Any) -> float:
        return seconds if max(spec.radius) > 1 else 1.0

    monkeypatch.setattr(transforms, "expected_seconds", estimate)
    return Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)


def test_default_radii_that_take_long_are_refused_with_what_to_type(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = dense(monkeypatch, 40_000.0)
    with pytest.raises(RequestError, match="about 11 hours") as refused:
        StructuralCoefficients()(data)
    assert refused.value.codes == ["transform.work"]
    for typed in ("StructuralCoefficients(radius=1), about 1 s", "radius=(1, 2, 3)", "plug_in"):
        assert typed in str(refused.value)
    assert StructuralCoefficients(radius=1)(data.clone()).edge_coefficient.shape == (4, 4)
    assert not capsys.readouterr().err
    rows = StructuralCoefficients(radius=(1, 2, 3))(data.clone()).edge_coefficient
    assert "coefficients, about 11 hours" in capsys.readouterr().err
    monkeypatch.undo()
    assert torch.equal(rows, StructuralCoefficients()(data.clone()).edge_coefficient)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.1, "1 s"), (59, "59 s"), (100, "2 minutes"), (5300, "88 minutes"), (40_000, "11 hours")],
)
def test_times_in_words(seconds: float, words: str) -> None:
    assert about(seconds) == f"about {words}"
