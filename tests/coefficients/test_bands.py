"""Large matrices: by bands in half of their memory, and LAPACK's routines in place."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from unionsnn.coefficients import SimpleGraph, passes
from unionsnn.coefficients.engine import compute_values
from unionsnn.coefficients.kernels import bands, lapack


def distances(order: int, seed: int) -> np.ndarray:
    """A symmetric matrix of small whole numbers with a zero diagonal."""
    matrix = np.random.default_rng(seed).integers(0, 4, (order, order)).astype(float)
    return np.triu(matrix, 1) + np.triu(matrix, 1).T


@pytest.mark.parametrize("order", [1, 2, 31, 32, 33, 34, 65, 255, 256, 257, 289, 600])
@pytest.mark.parametrize("empty", [False, True])
def test_the_sum_is_that_of_numpy(order: int, empty: bool) -> None:
    matrix = distances(order, order)
    if empty:
        matrix[order // 3 :] = 0.0
        matrix[:, order // 3 :] = 0.0
    blocks = bands.new_blocks(order)
    for number, block in enumerate(blocks):
        first = number * bands.BLOCK
        block[:] = matrix[first:, first : first + block.shape[1]]
    right = np.abs(np.linalg.eigvalsh(matrix)).sum()
    assert bands.absolute_eigenvalue_sum(blocks) == pytest.approx(right, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("order", [1, 7, 90, 1000])
def test_decompositions_in_place_are_those_of_numpy(order: int) -> None:
    matrix = distances(order, order)
    vectors = matrix.copy("F")
    tracemalloc.start()
    values = lapack.eigh_in_place(vectors)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # The triangle of reflections, and some columns.
    assert peak < 4 * order**2 + 4096 * (order + 10)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(matrix), atol=1e-11)
    np.testing.assert_allclose(vectors * values @ vectors.T, matrix, atol=1e-11)
    band = np.zeros((4, order), order="F")
    for k in range(4):
        band[k, : order - k] = np.diagonal(matrix, k)
    within = np.triu(np.tril(matrix, 3), -3)
    found = lapack.band_eigenvalues(band)
    np.testing.assert_allclose(np.sort(found), np.linalg.eigvalsh(within), atol=1e-11)


@pytest.mark.parametrize("twins", [False, True])
def test_an_edge_alone_has_the_value_of_its_chunk(twins: bool) -> None:
    nodes, rng = 400, np.random.default_rng(5)
    adjacency = np.triu(rng.random((nodes, nodes)) < (0.004 if twins else 0.05), 1)
    adjacency[0, 1:250] = adjacency[1, 200:400] = True
    graph = SimpleGraph.from_edge_index(np.stack(np.nonzero(adjacency | adjacency.T)), nodes)
    edge_pass = passes.RadiusOne(graph, ("a",))
    (alone,) = edge_pass._alone(0).values(edge_pass.new_workspace())
    rows, sizes, _ = passes.radius_one.quotient_of_edge(graph.csr, 0, edge_pass.new_workspace())
    assert len(rows) > 64
    assert (sizes > 1).any() == twins
    assert alone == pytest.approx(compute_values(edge_pass)[0, 0], rel=1e-9)
    assert edge_pass._alone(0).memory > 4 * len(rows) ** 2
