"""Many graphs as one, computed and kept part by part."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from structure_reference import random_graph
from unionsnn.base import npz, union
from unionsnn.base.errors import TooLongError
from unionsnn.base.union import DisjointUnion
from unionsnn.coefficients import CoefficientSpec, entries
from unionsnn.coefficients.cache import CoefficientCache

SPEC = CoefficientSpec(radius=(1, 2), quantities=("a", "nodes"))


@pytest.fixture
def graphs() -> DisjointUnion:
    rng = np.random.default_rng(0)
    made = [random_graph(rng) for _ in range(9)]
    sizes = [num_nodes for _, num_nodes in made]
    counts = [edges.shape[1] for edges, _ in made]
    return DisjointUnion(
        np.concatenate([edges for edges, _ in made], axis=1),
        np.cumsum([0, *sizes]),
        np.cumsum([0, *counts]),
    )


@pytest.mark.parametrize("most", [1, 60, 10**6])
def test_parts_have_the_entry_and_values_of_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, graphs: DisjointUnion, most: int
) -> None:
    whole, cache = CoefficientCache(tmp_path / "whole"), CoefficientCache(tmp_path / "parts")
    edges = graphs.edges()
    expected = whole.get(edges, graphs.num_nodes, SPEC)
    monkeypatch.setattr(union, "PART_EDGES", most)
    # Files instead of memory.
    monkeypatch.setattr(npz, "_SCRATCH_SHARE", 0)
    for module in (npz, entries):
        monkeypatch.setattr(module, "MAPPED_BYTES", 0)
    told: list[tuple[int, int]] = []
    values = cache.get_union(graphs, SPEC, progress=lambda done, of: told.append((done, of)))
    np.testing.assert_array_equal(values, expected)
    path = cache.union_path(graphs, SPEC)
    assert path.name == whole.path(edges, graphs.num_nodes, SPEC).name
    assert cache.entries() == (path,)
    assert told == sorted(told)
    assert told[-1][0] == told[-1][1]
    np.testing.assert_array_equal(cache.get_union(graphs, SPEC), expected)


def test_an_interrupted_computation_goes_on_with_the_next_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, graphs: DisjointUnion
) -> None:
    monkeypatch.setattr(union, "PART_EDGES", 60)
    cache = CoefficientCache(tmp_path)
    computed: list[int] = []

    def compute(self, edges, nodes, **options):  # type: ignore[no-untyped-def]
        if len(computed) == 2:
            computed.append(0)
            raise KeyboardInterrupt
        computed.append(edges.shape[1])
        return np.ones((edges.shape[1], len(self.columns)))

    monkeypatch.setattr(CoefficientSpec, "compute", compute)
    with pytest.raises(KeyboardInterrupt):
        cache.get_union(graphs, SPEC)
    assert len(cache.entries()) == 2
    cache.get_union(graphs, SPEC)
    assert sum(computed) == graphs.num_edges


def test_the_time_of_all_parts_is_checked_before_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, graphs: DisjointUnion
) -> None:
    monkeypatch.setattr(union, "PART_EDGES", 60)
    monkeypatch.setattr(CoefficientSpec, "estimated_seconds", lambda *args, **options: 3000.0)
    cache = CoefficientCache(tmp_path)
    with pytest.raises(TooLongError, match="finished edges are kept"):
        cache.get_union(graphs, SPEC, max_hours=1)
    assert not cache.entries()
