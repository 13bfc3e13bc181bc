"""The own eigenvalue solvers against LAPACK."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unionsnn.coefficients.kernels import spectra


def positive_sum(matrix):
    work = np.empty((2, len(matrix)))
    return spectra.positive_eigenvalue_sum(matrix.copy(), len(matrix), work[0], work[1])


def few(matrix):
    """What Laguerre's iteration says: the sum, or -1."""
    n = len(matrix)
    work = np.empty((3, n))
    spectra.tridiagonalize(matrix.copy(), n, work[0], work[1])
    return spectra.few_positive_eigenvalues(work[0], work[1], n, work[2])


def assert_right(matrix):
    right = np.maximum(np.linalg.eigvalsh(matrix), 0).sum()
    assert positive_sum(matrix) == pytest.approx(right, rel=1e-12, abs=1e-12)


@settings(max_examples=300, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(2, 64),
    st.sampled_from([0.05, 0.3, 0.6, 0.95]),
    st.integers(1, 5),
)
def test_weighted_path_matrices(seed, n, density, sizes):
    rng = np.random.default_rng(seed)
    a = np.triu(rng.random((n, n)) < density, 1)
    a[0, 1:] = True
    a = (a | a.T).astype(int)
    path = np.where(a > 0, 1.0, np.where(a @ a > 0, 2.0, 3.0))
    roots = np.sqrt(rng.integers(1, sizes + 1, n))
    matrix = path * np.outer(roots, roots)
    np.fill_diagonal(matrix, rng.integers(1, 3, n) * (roots**2 - 1))
    assert_right(matrix)


@pytest.mark.parametrize("gap", [0.0, 1e-12, 1e-8, 1e-4, 1e-2])
@pytest.mark.parametrize("positive", [1, 2, 3])
def test_positive_eigenvalues_close_together(gap, positive):
    rng = np.random.default_rng(3)
    for _ in range(20):
        basis, _ = np.linalg.qr(rng.normal(size=(20, 20)))
        values = np.concatenate([5.0 + gap * np.arange(positive), -rng.random(20 - positive)])
        assert_right((basis * values) @ basis.T)


def test_eigenvalues_at_zero_and_no_positive_ones():
    rng = np.random.default_rng(4)
    basis, _ = np.linalg.qr(rng.normal(size=(12, 12)))
    assert_right((basis * ([3.0] + [0.0] * 10 + [-3.0])) @ basis.T)
    assert positive_sum(-np.eye(9)) == 0.0
    assert positive_sum(np.zeros((9, 9))) == 0.0


def test_trees_have_one_positive_eigenvalue_and_take_the_short_way():
    for seed in range(20):
        tree = nx.random_labeled_tree(20, seed=seed)
        lengths = dict(nx.all_pairs_shortest_path_length(tree))
        matrix = np.array([[float(lengths[i][j]) for j in range(20)] for i in range(20)])
        assert few(matrix) == pytest.approx(np.abs(np.linalg.eigvalsh(matrix)).sum() / 2)


def test_many_positive_eigenvalues_are_left_to_the_other_solver():
    assert few(np.eye(8)) == -1.0
    assert positive_sum(np.eye(8)) == 8.0
