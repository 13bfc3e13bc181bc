"""What must hold for every graph and every choice."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from space_reference import LOCAL_CHOICES, SUBSTRUCTURES, WHOLE_CHOICES
from structure_reference import random_graph
from unionsnn.base.errors import RequestError
from unionsnn.coefficients import CoefficientSpec, structural_coefficients
from unionsnn.coefficients.engine import check_count
from unionsnn.coefficients.kernels import any_radius

seeds = st.integers(0, 2**32 - 1).map(np.random.default_rng)
local = st.builds(
    lambda kind, choice: {
        "substructure": kind,
        "descriptor": choice[0],
        "encoding": choice[1],
        "radius": (1, 2, 3),
    },
    st.sampled_from(SUBSTRUCTURES),
    st.sampled_from(LOCAL_CHOICES),
)
whole = st.sampled_from([{"descriptor": name} for name, _ in WHOLE_CHOICES])
choices = local | whole
few = settings(max_examples=40, deadline=None)


def columns(edge_index, num_nodes, options, **more):
    quantities = ("a", "nodes", "edges")
    return structural_coefficients(
        edge_index, num_nodes, quantities=quantities, **options, **{"threads": 1, **more}
    )


@few
@given(seeds, choices)
def test_relabelling_the_nodes_changes_nothing(rng, options):
    edge_index, n = random_graph(rng)
    values = columns(rng.permutation(n)[edge_index], n, options)
    right = columns(edge_index, n, options)
    np.testing.assert_allclose(values, right, rtol=1e-12, atol=1e-12)


@few
@given(seeds, st.integers(2, 30))
def test_on_trees_choices_coincide(rng, n):
    # Of the eigenvalues of a tree's distances, whose sum is 0, one is positive (Graham and Pollak
    # 1971). Without cycles there is nothing that union-minus takes away.
    tree = nx.random_labeled_tree(n, seed=int(rng.integers(2**31)))
    edge_index = np.array(tree.to_directed().edges).T
    a = columns(edge_index, n, {})[:, 0]
    largest = columns(edge_index, n, {"encoding": "largest_eigenvalue"})[:, 0]
    np.testing.assert_allclose(a, 2 * largest, rtol=1e-12)
    minus = columns(edge_index, n, {"substructure": "union_minus"})[:, 0]
    np.testing.assert_allclose(a, minus, rtol=1e-12)


@few
@given(seeds, choices)
def test_rows_follow_the_order_of_the_edges(rng, options):
    edge_index, n = random_graph(rng)
    order = rng.permutation(edge_index.shape[1])
    values = columns(edge_index, n, options)
    assert (columns(edge_index[:, order], n, options) == values[order]).all()


@few
@given(seeds, choices)
def test_both_directions_have_the_same_bits(rng, options):
    edge_index, n = random_graph(rng)
    assert (columns(edge_index[::-1], n, options) == columns(edge_index, n, options)).all()


@few
@given(seeds, choices)
def test_a_disjoint_union_is_its_parts(rng, options):
    (first, n), (second, m) = random_graph(rng), random_graph(rng)
    joined = columns(np.concatenate([first, second + n], axis=1), n + m, options)
    parts = [columns(first, n, options), columns(second, m, options)]
    assert (joined == np.concatenate(parts)).all()


@few
@given(seeds, choices, st.integers(1, 3), st.integers(1, 7))
def test_threads_and_blocks_change_no_bit(rng, options, threads, block_size):
    edge_index, n = random_graph(rng)
    values = columns(edge_index, n, options, threads=threads, block_size=block_size)
    assert (values == columns(edge_index, n, options)).all()


def test_progress_of_several_radii_counts_each_edge_once_a_radius():
    edges = np.random.default_rng(0).integers(500, size=(2, 700))
    for options in ({}, {"descriptor": "curvature"}):
        seen = []
        structural_coefficients(
            edges,
            500,
            symmetrize=True,
            radius=[1, 2, 3],
            block_size=40 if options else None,
            progress=lambda *args, seen=seen: seen.append(args),
            **options,
        )
        done, totals = zip(*seen, strict=True)
        assert list(done) == sorted(done)
        assert done[-1] == totals[0]
        assert len(set(totals)) == 1
        assert len(done) > 1


class Kept:
    """Finished edges in memory."""

    def __init__(self):
        self.runs = []

    def read(self, part):
        return [(b, e, values) for p, b, e, values in self.runs if p == part]

    def add(self, begin, end, values, part):
        self.runs.append((part, begin, end, values.copy()))


@pytest.mark.parametrize("descriptor", ["path", "edge_betweenness"])
def test_an_interrupted_computation_goes_on(descriptor):
    edges = np.random.default_rng(1).integers(300, size=(2, 400))
    spec = CoefficientSpec(descriptor=descriptor, radius=(2, 3))
    right = spec.compute(edges, 300, symmetrize=True)
    kept = Kept()

    def stop(done, total):
        if done > total // 2:
            raise KeyboardInterrupt

    options = {"symmetrize": True, "block_size": 16, "blocks": kept}
    with pytest.raises(KeyboardInterrupt):
        spec.compute(edges, 300, progress=stop, **options)
    before = sum(end - begin for _, begin, end, _ in kept.runs)
    seen = []
    values = spec.compute(edges, 300, progress=lambda *args: seen.append(args), **options)
    assert (values == right).all()
    assert 0 < before <= seen[0][0]
    assert sum(end - begin for _, begin, end, _ in kept.runs) == seen[-1][1]
    assert (spec.compute(edges, 300, **options) == right).all()


def test_an_exception_on_a_thread_ends_the_computation(monkeypatch):
    def fail(*args):
        raise RuntimeError("in a chunk")

    monkeypatch.setattr(any_radius, "chunk_kernel", lambda *choice, **sizes: fail)
    edges = np.random.default_rng(1).integers(300, size=(2, 400))
    with pytest.raises(RuntimeError, match="in a chunk"):
        structural_coefficients(edges, 300, symmetrize=True, radius=2, threads=2, block_size=9)


@pytest.mark.parametrize("option", ["threads", "block_size"])
@pytest.mark.parametrize("given", [0, -3, 1.5, 2.0, "2", True])
def test_threads_and_block_size_are_checked(option, given):
    with pytest.raises(RequestError, match=f"^{option} .* got {given!r}") as raised:
        structural_coefficients([[0, 1], [1, 0]], 2, **{option: given})
    assert raised.value.codes == ["coefficient.count"]


def test_counts_of_numpy_are_counts():
    assert check_count("threads", None, "all") is None
    assert check_count("threads", np.int64(9), "all") == 9
