"""The public function and the spec."""

import itertools
import json
import subprocess
import sys

import numba
import numpy as np
import pytest
from numba.core.caching import FunctionCache

from unionsnn.base.errors import RequestError
from unionsnn.coefficients import (
    BASIC_QUANTITIES,
    CoefficientSpec,
    space,
    spec,
    structural_coefficients,
)
from unionsnn.coefficients.kernels import jit, radius_one, routes, spectra

TRIANGLE = np.array([[0, 1, 1, 2, 0, 2, 3], [1, 0, 2, 1, 2, 0, 3]])


def test_one_column_is_a_vector_and_loops_are_zero():
    values = structural_coefficients(TRIANGLE, 5)
    assert values.dtype == np.float64
    np.testing.assert_allclose(values, [4, 4, 4, 4, 4, 4, 0])


def test_columns_come_in_the_order_asked_for():
    values = structural_coefficients(TRIANGLE, 5, quantities=["edges", "a", "nodes"], radius=[1])
    np.testing.assert_allclose(values[0], [3, 4, 3])
    np.testing.assert_allclose(values[-1], 0)


@pytest.mark.parametrize("edge_index", [np.empty((2, 0), np.int64), [[2, 2], [2, 2]]])
def test_no_edges_to_speak_of(edge_index):
    num_edges = np.shape(edge_index)[1]
    assert structural_coefficients(edge_index, 3).shape == (num_edges,)
    values = structural_coefficients(edge_index, 3, quantities=BASIC_QUANTITIES)
    assert values.shape == (num_edges, 4)
    assert not values.any()
    assert CoefficientSpec().compute(edge_index, 3).shape == (num_edges, 1)


def test_empty_graph():
    assert structural_coefficients(np.empty((2, 0), int), 0).shape == (0,)


def test_symmetrize_keeps_the_rows_of_the_input():
    half = TRIANGLE[:, [0, 2, 4]]
    assert structural_coefficients(half, 3, symmetrize=True).tolist() == pytest.approx([4, 4, 4])
    with pytest.raises(RequestError, match="symmetrize=True") as raised:
        structural_coefficients(half, 3)
    assert raised.value.codes == ["graph.not_symmetric"]


@pytest.mark.parametrize("threads", [1, 2])
def test_progress_counts_up_to_all_edges(threads):
    rng = np.random.default_rng(0)
    edges = rng.integers(2000, size=(2, 20000))
    seen = []
    structural_coefficients(
        edges, 2000, symmetrize=True, threads=threads, progress=lambda *args: seen.append(args)
    )
    done, totals = zip(*seen, strict=True)
    assert len(seen) > 1
    assert list(done) == sorted(done)
    assert done[-1] == totals[0]
    assert len(set(totals)) == 1


@pytest.mark.parametrize("threads", [1, 2])
def test_an_exception_in_progress_ends_the_computation(threads):
    edges = np.random.default_rng(0).integers(2000, size=(2, 20000))

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        structural_coefficients(edges, 2000, symmetrize=True, threads=threads, progress=stop)


@pytest.mark.parametrize(
    ("options", "named", "code"),
    [
        ({"substructure": "unoin"}, ("union, overlap, union_minus", "'union'?"), "unknown"),
        ({"descriptor": "xyz"}, ("xyz", ", ".join(space.DESCRIPTORS)), "unknown"),
        ({"encoding": "singular_values"}, ("'singular_value_sum'?",), "unknown"),
        ({"quantities": "atree"}, ("a, a_tree, nodes, edges", "'a_tree'?"), "unknown"),
        ({"quantities": ()}, ("quantities", "a, a_tree, nodes, edges"), "empty"),
        ({"quantities": ("a", "a")}, ("quantities", " a "), "repeated"),
        ({"radius": [2, 2]}, ("radius", " 2 "), "repeated"),
        ({"radius": 0}, ("0",), "radius"),
        ({"radius": -1}, ("-1",), "radius"),
        ({"radius": 1.0}, ("1.0",), "radius"),
        ({"radius": "1"}, ("'1'",), "radius"),
        ({"radius": True}, ("True",), "radius"),
        ({"radius": []}, ("radius", "1, 2, 3, ..."), "empty"),
    ],
)
def test_choices_are_checked(options, named, code):
    with pytest.raises(RequestError) as raised:
        structural_coefficients(TRIANGLE, 5, **options)
    assert raised.value.codes == [f"coefficient.{code}"]
    assert all(part in str(raised.value) for part in named)


def test_all_faults_are_named_at_once():
    with pytest.raises(RequestError) as raised:
        CoefficientSpec(substructure="x", encoding="y", radius=-9)
    kinds = "unknown", "radius", "unknown"
    assert raised.value.codes == [f"coefficient.{kind}" for kind in kinds]


def test_spec_is_canonical():
    given = CoefficientSpec(radius=[np.int64(1)], quantities=["edges", "a_tree", "a"])
    assert given == CoefficientSpec(radius=1, quantities=("a", "a_tree", "edges"))
    assert given.columns == ("a_r1", "a_tree_r1", "edges_r1")
    assert given.key == CoefficientSpec(quantities=("a_tree", "edges", "a")).key
    assert hash(given) == hash(CoefficientSpec(quantities=("a_tree", "edges", "a")))


def test_key_depends_on_the_choices_and_on_the_engine(monkeypatch):
    plain = CoefficientSpec().key
    assert plain != CoefficientSpec(quantities=("a", "nodes")).key
    monkeypatch.setattr(spec, "ENGINE_VERSION", spec.ENGINE_VERSION + 1)
    assert plain != CoefficientSpec().key


def test_spec_survives_json():
    given = CoefficientSpec(quantities=("a", "nodes"))
    assert CoefficientSpec.from_dict(json.loads(json.dumps(given.to_dict()))) == given
    with pytest.raises(RequestError, match="'radius'") as raised:
        CoefficientSpec.from_dict({"radus": 1})
    assert raised.value.codes == ["coefficient.unknown"]


def test_smallest_spec_for_columns():
    given = CoefficientSpec.from_columns(["nodes_r1", "a_r1", "a_r1"])
    assert given == CoefficientSpec(quantities=("a", "nodes"))
    assert CoefficientSpec.from_columns(["a_tree_r1"]).columns == ("a_tree_r1",)


def test_the_tree_value_stands_at_radius_one_of_several():
    rng = np.random.default_rng(0)
    edges = np.array([e for e in itertools.combinations(range(12), 2) if rng.random() < 0.3]).T
    edges = np.concatenate([edges, edges[::-1]], axis=1)
    quantities = ("edges", "a_tree", "a")
    several = structural_coefficients(edges, 12, radius=(3, 1, 2), quantities=quantities)
    assert several.shape == (edges.shape[1], 7)
    alone = structural_coefficients(edges, 12, quantities=quantities)
    np.testing.assert_array_equal(several[:, :3], alone)
    for at, radius in ((3, 2), (5, 3)):
        rest = structural_coefficients(edges, 12, radius=radius, quantities=("edges", "a"))
        np.testing.assert_array_equal(several[:, at : at + 2], rest)
    tree = structural_coefficients(edges, 12, radius=(1, 2), quantities=("a_tree",))
    np.testing.assert_array_equal(tree, alone[:, 1])


@pytest.mark.parametrize(
    ("columns", "named", "code"),
    [
        ((), "a_r1", "columns"),
        (["a"], "a_r1, a_tree_r1, nodes_r1, edges_r1", "unknown"),
        (["node_r1"], "'nodes_r1'?", "unknown"),
        (["a_r0"], "got 0", "radius"),
        (["a_tree_r2"], "'a_tree'", "a_tree"),
        (["a_r1", "a_tree_r2"], "a_tree_r2", "a_tree"),
    ],
)
def test_columns_are_checked(columns, named, code):
    with pytest.raises(RequestError) as raised:
        CoefficientSpec.from_columns(columns)
    assert raised.value.codes == [f"coefficient.{code}"]
    assert named in str(raised.value)


def test_compute_is_always_two_dimensional():
    given = CoefficientSpec(quantities=("nodes", "a"))
    values = given.compute(TRIANGLE, 5, threads=2)
    np.testing.assert_allclose(values[0], [4, 3])
    assert values.shape == (7, 2)


def test_a_failed_iteration_names_the_edge(monkeypatch):
    def fail(*args):
        args[-1][:] = np.nan

    monkeypatch.setattr(radius_one, "compute_chunk", fail)
    with pytest.raises(RuntimeError, match="edge 0 - 1 is not finite: the eigenvalue it"):
        structural_coefficients(TRIANGLE, 5)


@pytest.mark.parametrize("order", [1, 2, 3, 5, 16, 40])
def test_own_solver_against_lapack(order):
    rng = np.random.default_rng(order)
    for density in (0.1, 0.5, 1.0):
        matrix = rng.integers(-3, 4, (order, order)) * (rng.random((order, order)) < density)
        matrix = (matrix + matrix.T).astype(float)
        right = np.maximum(np.linalg.eigvalsh(matrix), 0).sum()
        work = np.empty((2, order))
        got = spectra.positive_eigenvalue_sum(matrix.copy(), order, work[0], work[1])
        assert got == pytest.approx(right, rel=1e-12, abs=1e-12)


def test_machine_code_on_disk_is_tied_to_all_sources():
    # Without this numba would keep code that was inlined from a file that has changed since.
    cache_file = spectra.diagonalize._cache._cache_file
    assert cache_file._source_stamp == jit.SOURCE_STAMP


def unwritable(monkeypatch):
    """Leave numba no folder for machine code but one that it is told."""
    kind = FunctionCache._impl_class
    monkeypatch.setattr(kind, "_locator_classes", kind._locator_classes[:1])
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")


def test_machine_code_is_kept_in_the_data_root_where_numba_finds_no_folder(monkeypatch, tmp_path):
    unwritable(monkeypatch)
    monkeypatch.setenv("UNIONSNN_DATA", str(tmp_path / "data"))
    compiled = jit.kernel(routes.direct_cost.py_func)
    assert compiled._cache.cache_path.startswith(str(tmp_path / "data" / "kernels"))
    assert numba.config.CACHE_DIR == ""


def test_without_a_folder_machine_code_is_kept_in_memory(monkeypatch):
    unwritable(monkeypatch)
    monkeypatch.delenv("UNIONSNN_DATA", raising=False)
    monkeypatch.setattr(jit, "_in_memory", [])
    compiled = jit.kernel(routes.direct_cost.py_func)
    assert jit._in_memory == ["direct_cost"]
    assert compiled(4) == routes.direct_cost(4)


def test_a_variant_calls_the_functions_it_is_given():
    doubled = jit.variant(routes.hub_cost, "test", float=spectra.diagonalize)
    assert doubled.__name__ == "hub_cost_test"
    assert doubled.py_func.__globals__["float"] is spectra.diagonalize


def test_no_torch_below_and_no_kernel_that_is_not_needed():
    code = (
        "import sys, unionsnn.coefficients as c, unionsnn.coefficients.kernels.radius_one as r;"
        "c.structural_coefficients([[0, 1], [1, 0]], 2, threads=1);"
        "extra = r.compute_large.signatures or r.compute_trees.signatures;"
        "sys.exit(bool(extra or 'torch' in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
